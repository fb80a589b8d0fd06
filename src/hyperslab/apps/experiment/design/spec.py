"""Spec: what an experiment is asked to do, as a TOML file says it.

A file that cannot be used is refused with its name, the line and the field of every mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from hyperslab.apps.bids.calling import is_function
from hyperslab.apps.experiment.design.factors import FACTORS, Level
from hyperslab.apps.experiment.design.functions import digests_of
from hyperslab.apps.experiment.design.levels import AT, VARYING, left_out_of, levels_at, table_of
from hyperslab.apps.experiment.design.named import NamedTier, with_real
from hyperslab.apps.experiment.design.setting import BIDS, IDLE, Recipe, Setting
from hyperslab.blocks.gathering import similar
from hyperslab.errors import UsageError, suggest
from hyperslab.network.lab.spec import Backend
from hyperslab.plan.function import digest_of_bytes
from hyperslab.plan.mistakes import Field as Place
from hyperslab.plan.mistakes import Mistake, Table, mistakes_of, read_toml, sentences
from hyperslab.plan.positions import line_of
from hyperslab.plan.written import parse_size
from hyperslab.units import show_list
from hyperslab.workloads.synth import FORMATS, Format

SCALES = "scales"
"Table of a file whose tables override what the others say."
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Source(Table):
    """What trials read: files of the user's, a synthetic array, or a dataset of made heads."""

    path: str | list[str] | None = None
    "Files, as `hyperslab run` takes them; relative ones from the spec's folder on."
    together: Literal["independent", "concatenated", "mosaic"] = "independent"
    "How several files belong together."
    synth: Literal["bigbrain", "climate", "bids"] | None = None
    """Kind of a synthetic array, which is made before the first trial; or bids, a dataset of made
    heads, over whose participants trials run an app, and then its group level.
    """
    size: str = "64MiB"
    "Size of the synthetic array, or of all images."
    files: Count = 1
    "Number of files that it is cut into, or of participants."
    format: Format = FORMATS[0]
    seed: int = 0

    @model_validator(mode="after")
    def _one_of_both(self) -> Source:
        if (self.path is None) == (self.synth is None):
            raise ValueError("give one of path and synth")
        try:
            parse_size("size", self.size)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def paths(self) -> list[str]:
        """Files of the user's; none of a synthetic array."""
        if isinstance(self.path, str):
            return [self.path]
        return self.path or []


class Before(Table):
    """What happens before each trial, none of which is done unless it is asked for."""

    sync: bool = False
    "Whether dirty pages of the whole machine are written first."
    caches: Literal["keep", "inputs", "all"] = "keep"
    """Pages that leave the page cache: those of the inputs, for which nobody has to be root, or
    all, with names and inodes, by root or `sudo -n`.
    """
    settle_s: Seconds = 0.0
    "Seconds of rest."


class Starved(Table):
    """When a trial counts as starved, and how often such trials are repeated."""

    others: Share = 0.1
    "Share of all processors' time that other programs took."
    stolen: Share = 0.05
    "Share of all processors' time that a hypervisor gave to somebody else."
    repeats: Annotated[int, Field(ge=0)] = 1
    "Further attempts at a starved trial."


class Network(Table):
    """What makes the links of laboratories."""

    backend: Backend = "auto"
    "One that makes the links of all trials; auto: the first that can."
    tolerance: Share = 0.2
    "Share by which links may differ from what is asked for."


class VariedAt(Table):
    """Levels of a factor at chosen levels of others, all else at the baseline."""

    levels: list[Any]
    at: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]
    "Levels of other factors, crossed with each other."


class Spec(Table):
    """A whole experiment."""

    title: Annotated[str, Field(min_length=1)]
    question: str = ""
    "What the experiment is to decide."
    workload: Annotated[str, Field(min_length=1)]
    "Function, as `hyperslab run` takes it; of a dataset of heads, as `hyperslab bids --app` does."
    flags: list[str] = Field(default_factory=list)
    "Further arguments of the command, the same for all trials."
    source: Source
    baseline: dict[str, Any]
    "A level of every factor, which all others are compared with."
    vary: dict[str, list[Any]] = Field(default_factory=dict)
    "Levels of factors that are changed one at a time."
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    "Levels of factors that are crossed with each other, and with all that is varied."
    vary_at: dict[str, VariedAt] = Field(default_factory=dict)
    "Factors that are varied there alone, by their names."
    tiers: dict[str, NamedTier] = Field(default_factory=dict)
    "Tiers that levels of factors call by their names."
    replicates: Count = 3
    seed: int = 0
    "Seed of the order of trials."
    warm_up: Annotated[int, Field(ge=0)] = 0
    """Runs of the first trial of each engine that come before it and are not counted, once since
    the machine was started.
    """
    before: Before = Before()
    starved: Starved = Starved()
    network: Network = Network()
    trial_limit_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0
    "Seconds after which a trial is ended, and has failed."
    probe_s: Seconds = 12.0
    """Time of the probe of each tier that nobody has probed before, which the model of a cell rests
    on; 0: none is made.
    """
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.1
    "Relative difference below which two settings count as equivalent."

    @property
    def varied(self) -> Iterator[tuple[Place, str, list[Any]]]:
        """Every field that names further levels of a factor, with the factor and the levels."""
        for table in VARYING:
            for name, levels in getattr(self, table).items():
                yield (table, name), name, levels
        for name, one in self.vary_at.items():
            yield (AT, name, "levels"), name, one.levels

    @property
    def is_timed(self) -> bool:
        """Whether times tell anything: an idle cluster is watched for as long as was asked for."""
        return self.workload != IDLE


@dataclass(frozen=True, slots=True)
class Loaded:
    """A spec with where it comes from."""

    spec: Spec
    name: str
    "Name of a shipped spec, or the file's without its suffix."
    scale: str
    "The scale that was chosen; '' of a spec without."
    folder: Path
    "Folder from which relative paths count."
    digests: Mapping[str, str]
    "SHA-256 of the files of factors and of functions, by their names."
    left_out: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    """Levels that the scale does not have and the spec does, by factor, of those that are names;
    none of a factor that this scale does not vary at all.
    """
    own_replicates: int | None = None
    "Replicates that the spec asks for, where more of them are run; None where it is as many."
    text: str = ""
    "What its file says."
    label: str = ""
    "Name of the file in errors."

    def with_replicates(self, replicates: int) -> Loaded:
        """The same experiment with more replicates. Raises UsageError for fewer."""
        asked = self.spec.replicates
        if replicates < asked:
            raise UsageError(
                f"--replicates {replicates}: {self.name} asks for {asked}; give as many, or more"
            )
        spec = self.spec.model_copy(update={"replicates": replicates})
        return replace(self, spec=spec, own_replicates=self.own_replicates or asked)

    def identity(self) -> dict[str, Any]:
        """All that makes it this experiment, as JSON has it."""
        asked = self.spec.model_dump()
        if self.spec.network == Network():  # which specs without laboratories do not have
            del asked["network"]
        if not self.spec.warm_up:  # which earlier specs do not have
            del asked["warm_up"]
        if not self.spec.vary_at:
            del asked["vary_at"]
        asked["replicates"] = self.own_replicates or self.spec.replicates
        return {"scale": self.scale, "files": dict(self.digests), **asked}

    def workload(self, setting: Setting | None = None) -> str:
        """The function as `hyperslab run` is given it, from any folder."""
        named = self.spec.workload
        if setting is not None and setting.workload:
            named = setting.workload
        return self.located(named)

    def located(self, function: str) -> str:
        """A function by a name that means the same from any folder."""
        path, colon, word = function.rpartition(":")
        if not path.endswith(".py"):
            return function
        return f"{self.folder / path}{colon}{word}"

    def sentences(self, mistakes: Sequence[Mistake]) -> Iterator[str]:
        """Each mistake with file, line and field."""
        return _sentences(mistakes, self.text, self.label, self.scale)

    def without_levels(self) -> Iterator[Place]:
        """Factors that the file varies without any level, if the scale has not taken these away."""
        document = tomllib.loads(self.text)
        own = document.get(SCALES, {}).get(self.scale, {})
        for table in VARYING:
            emptied = table_of(own, table)
            for name, levels in table_of(document, table).items():
                if levels == [] and name not in emptied:
                    yield (table, name)

    def place_of(self, workload: str) -> Place:
        """The field that names a workload."""
        if self.spec.baseline.get("workload") == workload:
            return ("baseline", "workload")
        for place, name, levels in self.spec.varied:
            if name == "workload" and workload in levels:
                return place
        return ("workload",)

    def setting(self, levels: Mapping[str, Level]) -> Setting:
        """How trials with these levels are run."""
        source = self.spec.source
        recipe = None
        if source.synth is not None:
            recipe = Recipe(source.synth, source.size, source.files, source.format, source.seed)
        setting = Setting((*self._together(), *self.spec.flags), recipe)
        for name, level in levels.items():
            setting = FACTORS[name].applied(setting, level)
        return setting

    def _together(self) -> tuple[str, ...]:
        """The flag that says how several files belong together, which a dataset says itself."""
        if self.spec.source.synth == BIDS:
            return ()
        return ("--sources", self.spec.source.together)


def scales_of(text: str) -> list[str]:
    """The scales of a spec, in the order of the file. The text is TOML."""
    scales = tomllib.loads(text).get(SCALES, {})
    return list(scales) if isinstance(scales, dict) else []


def load_spec(
    text: str,
    label: str,
    name: str,
    folder: Path,
    scale: str | None,
    factors: Sequence[Path] = (),
    tiers: Sequence[str] = (),
) -> Loaded:
    """A spec of a file's text; `label` is what errors call the file. The first scale of the file
    is taken where none is named. `tiers` are real ones, as NAME=DIR.

    Factors have to be registered. Raises UsageError.
    """
    document = read_toml(text, label)
    chosen = _chosen(document, label, scale)
    scales = document.pop(SCALES, {})
    merged = _at_scale(document, scales.get(chosen, {}))
    mistakes: list[Mistake] = []
    spec = None
    try:
        spec = Spec.model_validate(merged)
    except ValidationError as error:
        mistakes = mistakes_of(error, Spec)
    mistakes += _wrong_levels(merged)
    if spec is None or mistakes:
        raise UsageError("\n".join(_sentences(mistakes, text, label, chosen)))
    spec = spec.model_copy(update={"tiers": with_real(spec.tiers, tiers)})
    every = [_at_scale(document, own) for own in ({}, *scales.values())]
    left_out = dict(left_out_of(every, merged))
    loaded = Loaded(spec, name, chosen, folder, {}, left_out, text=text, label=label)
    _require_settings(loaded)
    return replace(loaded, digests=_digests(loaded, factors))


def _chosen(document: Mapping[str, Any], label: str, scale: str | None) -> str:
    scales = document.get(SCALES, {})
    if not isinstance(scales, dict) or not all(isinstance(one, dict) for one in scales.values()):
        raise UsageError(f"{label}: {SCALES} has a table for each scale, such as [scales.smoke]")
    if scale is None:
        return next(iter(scales), "")
    if scale not in scales:
        known = show_list(list(scales)) or "none"
        raise UsageError(f"--scale {scale}: {label} has {known}{suggest(scale, scales)}")
    return scale


def _merged(base: Any, over: Any) -> Any:
    """A document with what another one says instead, table by table."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        merged[key] = _merged(base[key], value) if key in base else value
    merged.pop(SCALES, None)
    return merged


def _at_scale(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A document with what a scale says instead, without factors that it has left no levels."""
    document: dict[str, Any] = _merged(base, own)
    cleaned = dict(document)
    for table in VARYING:
        if isinstance(levels := document.get(table), dict):
            cleaned[table] = {name: some for name, some in levels.items() if some != []}
    if emptied := [name for name, levels in levels_at(document).items() if not levels]:
        cleaned[AT] = {name: one for name, one in document[AT].items() if name not in emptied}
    return cleaned


def _wrong_levels(document: Mapping[str, Any]) -> Iterator[Mistake]:
    """Factors that are not known or have no baseline, and levels that are none of theirs."""
    baseline = document.get("baseline")
    if not isinstance(baseline, dict):
        return
    for name, level in baseline.items():
        yield from _wrong(("baseline", name), name, [level])
    for table in VARYING:
        levels = document.get(table, {})
        if not isinstance(levels, dict):
            continue
        for name, some in levels.items():
            if isinstance(some, list):
                yield from _wrong((table, name), name, some)
            if name in FACTORS and name not in baseline:
                yield Mistake((table, name), "has no level in [baseline]")
    for name in document.get("vary", {}):
        if name in document.get("grid", {}):
            yield Mistake(("vary", name), "is in [grid], too: give it in one of them")
    for name, one in table_of(document, AT).items():
        if isinstance(one, dict):
            yield from _wrong_at(name, one, baseline)


def _wrong_at(name: str, one: Mapping[str, Any], baseline: Mapping[str, Any]) -> Iterator[Mistake]:
    """What is wrong with a factor that is varied at chosen levels of others."""
    named: list[tuple[Place, str, Any]] = [((AT, name, "levels"), name, one.get("levels"))]
    others = table_of(one, "at")
    named += [((AT, name, "at", other), other, levels) for other, levels in others.items()]
    for place, factor, levels in named:
        yield from _wrong(place, factor, levels if isinstance(levels, list) else [])
        if factor in FACTORS and factor not in baseline:
            yield Mistake(place, "has no level in [baseline]")
    if name in others:
        yield Mistake((AT, name, "at", name), "is what is varied: give levels of other factors")


def _wrong(path: Place, name: str, levels: Sequence[Any]) -> Iterator[Mistake]:
    if name not in FACTORS:
        yield Mistake(path, f"there is no such factor{suggest(name, FACTORS)}")
        return
    for level in levels:
        if problem := FACTORS[name].problem_of(level):
            yield Mistake(path, problem)


def _require_settings(loaded: Loaded) -> None:
    """Raise UsageError for levels that cannot be had with this source, or together."""
    for place, levels in _each_level(loaded.spec):
        try:
            loaded.setting(levels)
        except ValueError as error:
            mistake = Mistake(place, str(error))
            raise UsageError("\n".join(loaded.sentences([mistake]))) from error


def _each_level(spec: Spec) -> Iterator[tuple[Place, Mapping[str, Level]]]:
    """Every level where it stands, with the baseline: of this one factor after the other."""
    before: dict[str, Level] = {}
    for name, level in spec.baseline.items():
        before[name] = level
        yield ("baseline", name), dict(before)
    for place, name, levels in spec.varied:
        for level in levels:
            yield place, before | {name: level}


def _sentences(mistakes: Sequence[Mistake], text: str, label: str, scale: str) -> Iterator[str]:
    """Each mistake with file, line and field."""
    return sentences(mistakes, label, lambda path: _line(text, path, scale))


def _line(text: str, path: Sequence[str | int], scale: str) -> int:
    """Line of a field: that of its scale, where this says it."""
    document = tomllib.loads(text)
    own = document.get(SCALES, {}).get(scale, {})
    for key in path[:2]:
        if not isinstance(own, dict) or key not in own:
            return line_of(text, path)
        own = own[key]
    return line_of(text, (SCALES, scale, *path))


def _digests(loaded: Loaded, factors: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of the files that an experiment rests on. Raises UsageError for one that is not
    there.
    """
    try:
        files = {file.name: digest_of_bytes(file.read_bytes()) for file in factors}
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    for function in _functions(loaded.spec):
        for name, digest in _digests_of(function, loaded).items():
            is_taken = files.get(name, digest) != digest
            files[f"{function}, {name}" if is_taken else name] = digest
    return files


def _digests_of(function: str, loaded: Loaded) -> dict[str, str]:
    """SHA-256 of the files of a function. Raises UsageError with the place that names it."""
    try:
        return digests_of(loaded.located(function), loaded.folder)
    except UsageError as error:
        told = str(error)
    except OSError as error:
        told = f"{error.filename}: {error.strerror}{similar(str(error.filename))}"
    mistake = Mistake(loaded.place_of(function), told)
    raise UsageError("\n".join(loaded.sentences([mistake])))


def _functions(spec: Spec) -> list[str]:
    """Functions of the user's that trials run, as the spec names them."""
    named = [spec.workload]
    named += [level for _, name, levels in spec.varied if name == "workload" for level in levels]
    if "workload" in spec.baseline:
        named.append(spec.baseline["workload"])
    if spec.source.synth == BIDS:  # whose app may also be a program
        return [text for text in named if is_function(text)]
    return [text for text in named if ":" in text]
