"""Surrounded: what lies around the sources of a run and goes into the files that it writes, such
as coordinates; without what lies along axes that a function drops, adds or resizes, and without
attributes of what it no longer measures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from hyperslab import formats
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.quantities import is_of_values
from hyperslab.arrays.sets import SourceSet, Whole
from hyperslab.blocks.surroundings import (
    MOST_FILES,
    SHOWN,
    Reader,
    Surroundings,
    around_of,
    has_variables,
    left_of,
    listed,
    own_name,
    with_surroundings,
)
from hyperslab.errors import HyperslabError
from hyperslab.formats.conventions.uncut import says_place
from hyperslab.formats.place import DATASET
from hyperslab.plan.becoming import Becoming, Made, become
from hyperslab.plan.pipeline import PRIMARY, Pipeline, Write
from hyperslab.units import show_count

MOST_NBYTES = 64 * 1024**2
"Variables of all arrays of a run together that go with them: a worker gets the whole of them."
_NONE = Surroundings({}, {})


def surrounded(pipeline: Pipeline) -> tuple[Pipeline, tuple[str, ...]]:
    """The same pipeline, whose files get what lies around its sources, and what is to be said of
    the rest, a sentence each. Raises UsageError for axes that cannot be.
    """
    sources = pipeline.source
    pipeline = pipeline.settled()
    assert isinstance(pipeline.end, Write)
    encodings = _encodings(pipeline, pipeline.end)
    if len(sources.sources) > MOST_FILES:
        named = pipeline.altered(end=replace(pipeline.end, encodings=encodings))
        return named, (
            f"coordinates and file attributes of more than {MOST_FILES} files are left out",
        )
    _, facts = formats.written_as(pipeline.end.format)
    reader = Reader()
    wholes = []
    left = []
    nbytes = 0
    for index, whole in enumerate(sources.wholes):
        encoding = encodings[index] if encodings else pipeline.end.encoding
        around = _around(sources, whole, reader)
        nbytes += sum(one.values.nbytes for one in around.companions.values())
        if nbytes > MOST_NBYTES:
            around = _too_much(around)
        before = tuple(around.companions.values())
        names = _names(pipeline, whole.header, encoding)
        around = _beside(around, names, has_groups=bool(encodings))
        made = with_surroundings(whole, around, facts)
        wholes.append(replace(made, header=made.header.naming_what_is_left_of(before)))
        left.append(left_of(sources, whole, around, facts))
    after = pipeline.altered(
        inputs={**pipeline.inputs, PRIMARY: replace(sources, wholes=tuple(wholes))},
        end=replace(pipeline.end, encodings=encodings),
    )
    for index, becoming in enumerate(become(after)):
        left[index] += _along_others(wholes[index].header, becoming)
        left[index] += _of_others(wholes[index].header, becoming)
    return after, _said(sources, left)


def _encodings(pipeline: Pipeline, end: Write) -> tuple[Encoding, ...]:
    """Encodings by which the only array that is made of each has its name; () where several are
    made, or where a name is asked for.
    """
    if end.encoding.name or end.encodings or _several(pipeline):
        return end.encodings
    names = [_name(pipeline.source, whole) for whole in pipeline.source.wholes]
    each = {name: replace(end.encoding, name=name) for name in names}
    return tuple(each[name] for name in names)


def _several(pipeline: Pipeline) -> list[str]:
    """Names of the arrays that are made of each; [] for one without a name."""
    return [promise.name for promise in pipeline.returns if promise.name]


def _name(sources: SourceSet, whole: Whole) -> str:
    """The name of an array in its files, where these hold variables."""
    if not has_variables(sources.first(whole)):
        return ""
    return own_name(sources, whole)


def _names(pipeline: Pipeline, header: Header, encoding: Encoding) -> list[str]:
    """Names of the arrays in the new files, within their group: of several those that the function
    gives them, but for names of axes.
    """
    own = encoding.name.rpartition("/")[2]
    several = _several(pipeline)
    if not several:
        return [own or DATASET]
    return [name for name in (own, *several) if name and name not in header.dims]


def _around(sources: SourceSet, whole: Whole, reader: Reader) -> Surroundings:
    """The surroundings of an array, without variables that it does not name; of files that cannot
    be read none, as the run itself is what fails by these.
    """
    if any(sources.sources[one.source].broken for one in whole.members):
        return _NONE
    try:
        around = around_of(sources, whole, reader)
    except (HyperslabError, OSError) as error:
        return replace(_NONE, left=(f"coordinates and file attributes ({error})",))
    kept = around.companions
    if whole.header.is_placed:  # its coordinates in space are made of the new array's affine
        kept = {name: one for name, one in kept.items() if not says_place(name, one.attributes)}
    return replace(around, companions=kept, others=())


def _too_much(around: Surroundings) -> Surroundings:
    """The surroundings of an array without variables, before which those of others come."""
    most = f"coordinates (those of all arrays have more than {MOST_NBYTES // 1024**2} MiB)"
    return replace(around, companions={}, left=(*around.left, most))


def _beside(around: Surroundings, names: Collection[str], has_groups: bool) -> Surroundings:
    """The surroundings of new arrays of these names, without variables of the same names; and
    without attributes of groups where the arrays are in none.
    """
    taken = [name for name in around.companions if name in names]
    left = list(around.left)
    if taken:
        left.append(f"variables {listed(taken)} (new arrays have these names)")
    groups = around.groups
    if not has_groups and any(groups.values()):
        left.append("attributes of groups")
    if not has_groups:
        groups = {}
    kept = {name: one for name, one in around.companions.items() if name not in taken}
    return replace(around, companions=kept, groups=groups, left=tuple(left))


def _along_others(header: Header, becoming: Becoming) -> list[str]:
    """Variables of an array that what is made of it does not get, in words."""
    said = []
    for made in becoming.outputs:
        kept = {one.name for one in made.header_of().companions}
        lost = [one.name for one in header.companions if one.name not in kept]
        if lost:
            owner = f" of {made.name}" if made.name else ""
            said.append(f"variables {listed(lost)} (along axes that change){owner}")
    return said


def _of_others(header: Header, becoming: Becoming) -> list[str]:
    """Attributes of an array that would not be true of what is made of it, in words."""
    of_lost: dict[tuple[str, ...], list[str]] = {}
    for made in becoming.outputs:
        lost = tuple(_untrue(header, made))
        of_lost.setdefault(lost, []).append(made.name)
    said = []
    for lost, names in of_lost.items():
        owner = f" of {listed(names)}" if any(names) else ""
        if lost:
            said.append(f"attributes {listed(lost)} (they describe other values){owner}")
    return said


def _untrue(header: Header, made: Made) -> Iterator[str]:
    for name in header.attributes:
        if is_of_values(name) and name not in made.header.attributes:
            yield name


def _said(sources: SourceSet, left: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """A sentence for every array of which something is left out, the first of them."""
    said = []
    for whole, texts in zip(sources.wholes, left, strict=True):
        if texts:
            label = sources.first(whole).label
            said.append(f"left out of results of {label}: {'; '.join(texts)}")
    if len(said) > SHOWN:
        said = [*said[:SHOWN], f"the same of {show_count(len(said) - SHOWN, 'more array')}"]
    return tuple(said)
