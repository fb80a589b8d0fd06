"""What a pipeline is asked for, looked at when it is said: names, functions, words of few choices.

Raises UsageError, so that a mistake shows at its own line, not when the run begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

from hyperslab import formats
from hyperslab.arrays.affines import why_placeless
from hyperslab.arrays.resampling import Resampling
from hyperslab.arrays.sets import SourceSet
from hyperslab.errors import UsageError, suggest
from hyperslab.plan.function import FunctionRef, refer
from hyperslab.plan.keywords import MAP_OPTIONS, PIPELINE_OPTIONS, taken_by
from hyperslab.plan.signature import named_parameters, require_accepts
from hyperslab.redaction import redact
from hyperslab.units import show_count

if TYPE_CHECKING:
    from hyperslab.blocks.gathering import Named

SELECTING = ("mask", "labels")
"""Names of inputs whose values tell voxels apart: what lies between two of them is none."""
ALIGNMENT = "hyperslab.plan.alignment"
"Place of what looks whether further inputs fit, which is imported where there are some."
SURROUNDED = "hyperslab.plan.surrounded"
"Place of what looks for coordinates, which is imported where a file may have some."
WORKLOADS = "hyperslab.workloads"
"Place of the built-ins, which are pipelines themselves, and imported when one is asked for."


def gathered(
    given: Mapping[str, Named | Sequence[Named] | SourceSet],
    storage_options: Mapping[str, Any] | None,
) -> dict[str, SourceSet]:
    """The arrays of every input by its name. The UsageError for one that is not there asks what was
    meant where its name is like an option of Pipeline.
    """
    from hyperslab.blocks.gathering import gather  # which workers do without

    inputs = {}
    for name, one in given.items():
        try:
            inputs[name] = gather(one, storage_options=storage_options)
        except UsageError as error:
            if said := _misplaced(name, one):
                said = f"{name}=: {said}; as a further input, {error.sentence}"
                error.retell(said, error.resuming)
            raise
    return inputs


def _misplaced(name: str, given: object) -> str:
    """Words for a keyword of Pipeline that names no array; '' where it is not known what was
    meant.
    """
    if not name:  # the source itself
        return ""
    if call := taken_by(name):
        return f"this option belongs to {call}"
    if meant := suggest(name, PIPELINE_OPTIONS):
        return f"Pipeline has no such option{meant}"
    if isinstance(given, int | float | bool):
        return f"parameters of a function belong to map(function, {name}=...)"
    return ""


def require_inputs_fit(pipeline: Any, others: Collection[str]) -> None:
    """Raise UsageError for a pipeline whose further inputs do not fit its source."""
    if others:
        import_module(ALIGNMENT).require_fitting_inputs(pipeline)


def is_built_in(function: Any) -> bool:
    """Whether a function is named as built-ins are: by a word alone."""
    return isinstance(function, str) and ":" not in function


def with_built_in(
    pipeline: Any, name: str, params: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> Any:
    """The pipeline with a built-in added, of which `own` are what it sets by itself."""
    for word, value in own.items():
        if value:
            raise UsageError(f"--{word}: the built-in '{name}' sets it itself; leave it out")
    given = {key: _hashable(value) for key, value in (params or {}).items()}
    return import_module(WORKLOADS).build(name, pipeline, given)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return value


def parameters(
    params: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The parameters of a function, of a mapping and of keywords; None where there are none."""
    if params is not None and not isinstance(params, Mapping):
        raise UsageError(
            f"params={params!r}: give parameters by name, as sigma=1 or params={{'sigma': 1}}"
        )
    for name in keywords:
        if name in (params or {}):
            raise UsageError(f"{name}= is also given in params; leave one out")
    return {**(params or {}), **keywords} or None


def mapped(
    function: Any,
    params: Mapping[str, Any] | None,
    inputs: Sequence[str],
    keywords: Collection[str] = (),
) -> FunctionRef:
    """The reference to a function that takes a block, these parameters and these inputs by name.

    `keywords` are those of the parameters that stood among the options of map().
    """
    ref = refer(function, params)
    found = ref.load()
    if hasattr(found, "lift") and hasattr(found, "merge"):
        raise UsageError(f"'{ref.name}' is a fold: use reduce() for it")
    _require_no_slips(found, keywords)
    require_accepts(ref, found, inputs, {"slab"})
    return ref


def _require_no_slips(function: Any, keywords: Collection[str]) -> None:
    """Raise UsageError for keywords that are no parameters of a function, nor like one, and perhaps
    options of map(), misspelt, or those of another call.
    """
    own = named_parameters(function)
    for name in set(keywords).difference(own):
        if place := taken_by(name):
            raise UsageError(
                f"{name}=: map() has no such option: it belongs to {place}; if it is a parameter of"
                f" the function, give it as params={{'{name}': ...}}"
            )
        meant = suggest(name, MAP_OPTIONS)
        if meant and not suggest(name, own):
            raise UsageError(
                f"{name}=: map() has no such option{meant}; if it is a parameter of the function,"
                f" give it as params={{'{name}': ...}}"
            )


def folded(fold: Any, params: Mapping[str, Any] | None, inputs: Sequence[str]) -> FunctionRef:
    """The reference to what is to be a fold, whose lift takes these parameters and inputs."""
    ref = refer(fold, params)
    found = ref.load()
    if hasattr(found, "lift"):
        automatic = {"slab"}
        if found.prior:
            automatic.add("prior")
        require_accepts(ref, found.lift, inputs, automatic)
    return ref


def require_choice(flag: str, given: str, choices: Sequence[str]) -> None:
    """Raise UsageError for a word that is none of the choices."""
    if given not in choices:
        raise UsageError(f"{flag} {given}: choose one of {', '.join(choices)}")


def resampling_of(
    given: Resampling | Mapping[str, Resampling] | None, others: Collection[str]
) -> dict[str, Resampling]:
    """How each of the further inputs is resampled, where it is: by a word alone all are, but masks
    and labels are never interpolated by it. Raises UsageError for other words.
    """
    if given is None:
        return {}
    by_name: Mapping[str, Resampling] = {}
    if isinstance(given, str):
        by_name = {name: _for_all(given, name) for name in others}
    else:
        by_name = given
    for name, how in by_name.items():
        if name not in others:
            raise UsageError(f"--resample {name}={how}: there is no further input of this name")
        if how not in get_args(Resampling):
            raise UsageError(f"--resample {how}: choose one of {', '.join(get_args(Resampling))}")
    return dict(by_name)


def _for_all(how: Resampling, name: str) -> Resampling:
    """How an input is resampled by a word that is for all."""
    if how == "linear" and name in SELECTING:
        return "nearest"
    return how


def require_writable(format: str, keep: str | None) -> None:
    """Raise UsageError for a format that is not written, and for another division into files."""
    if format:
        require_choice("--format", format, list(formats.written()))
    if keep is not None:
        require_choice("--keep", keep, ("blocks", "volume"))


def require_of_write(keywords: Collection[str]) -> None:
    """Raise TypeError for options that write() was given, and another call takes."""
    for name in keywords:
        if place := taken_by(name):
            raise TypeError(f"write() has no option '{name}': it belongs to {place}")


def notes_of(
    inputs: Mapping[str, SourceSet], resample: Mapping[str, Resampling]
) -> tuple[str, ...]:
    """What the user of inputs has to know of them, a sentence each."""
    sets = inputs.values()
    return (*unreadable(sets), *unplaced(sets), *_assumed(inputs, resample))


def unreadable(inputs: Iterable[SourceSet]) -> Iterator[str]:
    """Notes of files that could not be understood when they were opened, one for each input."""
    for one in inputs:
        broken = [source.broken for source in one.sources if source.broken]
        if broken:
            files = show_count(len(one.sources), "file")
            yield (
                f"{len(broken):,} of {files} cannot be read, and what needs them will fail; the"
                f" first: {broken[0]}"
            )


def unplaced(inputs: Iterable[SourceSet]) -> Iterator[str]:
    """Notes of files whose affine gives no place, one for each input."""
    for one in inputs:
        found = _placeless(one)
        if not found:
            continue
        url, why = found[0]
        others = ""
        if len(found) > 1:
            others = f" (and {show_count(len(found) - 1, 'other file')} with such an affine)"
        yield (
            f"the affine of {redact(url)}{others} {why}: neither such files nor what"
            " is made of them have a place in space"
        )


def _assumed(inputs: Mapping[str, SourceSet], resample: Mapping[str, Resampling]) -> Iterator[str]:
    """Notes of images that are resampled from, or to, a place that their file does not say."""
    from hyperslab.formats.nifti.space import is_assumed

    first, *others = inputs
    for name in others:
        pair = (inputs[name].sources[0], inputs[first].sources[0])
        lacking = [one.label for one in pair if is_assumed(one.header.attributes)]
        if name in resample and len(lacking) == 1:
            yield (
                f"{lacking[0]} does not say where it lies (sform and qform code 0): '{name}' is"
                " resampled as if its middle were at 0 mm"
            )


def surrounded(pipeline: Any, end: Any) -> tuple[Any, tuple[str, ...]]:
    """A pipeline with what lies around its sources, such as coordinates, where these have variables
    and the files that it writes can hold some; and what of this is left out, in words.
    """
    _, written = formats.written_as(end.format)
    if end.is_alone or not written.holds_several:
        return pipeline, ()
    facts = formats.facts_of(pipeline.source.sources[0].format)
    if not (facts.groups or facts.says_of_groups):
        return pipeline, ()
    found: tuple[Any, tuple[str, ...]] = import_module(SURROUNDED).surrounded(pipeline)
    return found


def _placeless(inputs: SourceSet) -> list[tuple[str, str]]:
    """URLs of the files whose affine gives no place, each with the reason."""
    reasons: dict[bytes, str] = {}  # most files of a study have one affine
    found = []
    for source in inputs.sources:
        affine = source.header.base_affine
        if affine is None:
            continue
        key = affine.tobytes()
        if key not in reasons:
            reasons[key] = why_placeless(affine)
        if reasons[key]:
            found.append((source.url, reasons[key]))
    return found
