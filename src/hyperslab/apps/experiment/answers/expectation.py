"""Expectations: what the model says of every cell, by the means of its trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.phases import CellPhases
from hyperslab.apps.experiment.design.cells import Key
from hyperslab.apps.experiment.design.setting import READ_BEFORE
from hyperslab.apps.experiment.model.bounds import (
    PROCESSORS,
    SLOTS,
    Expectation,
    Model,
    Place,
    Use,
    model_of,
)
from hyperslab.apps.experiment.model.places import Known
from hyperslab.apps.experiment.statistics.intervals import Interval, ratio_interval
from hyperslab.apps.experiment.trials.record import Attempt, Session
from hyperslab.units import show_count, show_list

NEEDED = (
    "makespan_s",
    "read_nbytes",
    "written_nbytes",
    "slots",
    "tasks",
    "startup_s",
    "compute_s",
    "overhead_s",
)
"Fields of the summary without which there is no model."
EXPLAINED = 0.8
"Share of the time without the start of the engine for which a medium is busy that is waited for."


class Surroundings(NamedTuple):
    """Where a cell's trials run."""

    source: str
    "Path that they read from."
    target: str
    "Path that they write to."
    processors: int = 0
    "Number of processors that they are pinned to; 0: they may use all."
    program: str = ""
    "Program that they are, beside hyperslab; '': `hyperslab run`."
    between: str = ""
    "Path of intermediate results that lie elsewhere than both; '': none do."


@dataclass(frozen=True, slots=True)
class Expected:
    """A cell beside its model."""

    result: CellResult
    model: Model
    source: str
    "Path that it reads from."
    target: str
    "Path that it writes to."

    @property
    def storage_binds(self) -> bool:
        """Whether a medium is busy longest, and neither slots nor processors are."""
        return self.model.bound.binding not in (SLOTS, PROCESSORS)

    @property
    def busy_s(self) -> float:
        """Time for which what binds is busy."""
        binding = self.model.bound.binding
        (busy_s,) = (one.seconds for one in self.model.resources if one.name == binding)
        return busy_s

    @property
    def explained(self) -> float:
        """Share of the makespan without the start of the engine for which what binds is busy."""
        bound = self.model.bound
        startup_s = bound.terms[0].seconds or 0.0
        run_s = bound.measured_s - startup_s
        if run_s <= 0:
            return 0.0
        return self.busy_s / run_s

    def ratios(self, expected: Expectation) -> Interval | None:
        """Measured / expected by one of both models, with the 95 % interval that the trials and the
        rates have together, which vary by themselves; without bounds where one of both is not
        known. None without an expectation.
        """
        by_rates = expected.ratios
        if by_rates is None:
            return None
        values = list(self.result.by_replicate().values())
        if by_rates.low is None or by_rates.high is None or len(values) < 2:
            return Interval(by_rates.mean, None, None)
        by_trials = ratio_interval(values, [1.0] * len(values))
        below = _together(by_trials, by_rates.mean / by_rates.low)
        above = _together(by_trials, by_rates.high / by_rates.mean)
        return Interval(by_rates.mean, by_rates.mean / below, by_rates.mean * above)

    @property
    def waits_for_storage(self) -> bool:
        """Whether storage binds, and explains most of the time: what is busy longest may be so for
        little of a run that waits for its engine.
        """
        return self.storage_binds and self.explained >= EXPLAINED


def _together(by_trials: Interval, by_rates: float) -> float:
    """Factor by which a ratio may be off on one side, by its trials and by its rates."""
    assert by_trials.high is not None
    return math.exp(math.hypot(math.log(by_trials.high / by_trials.mean), math.log(by_rates)))


def expected_of(
    results: Sequence[CellResult],
    places: Mapping[str, Known],
    surroundings: Mapping[Key, Surroundings],
    sessions: Sequence[Session],
    phases: Sequence[CellPhases] = (),
) -> list[Expected]:
    """The model of every cell that has a trial with all numbers, by the surroundings of each cell,
    which are listed by its key. Of intermediate results that lie elsewhere the phases of its
    trials say how many bytes they have; without these there is no model.
    """
    by_key = {one.result.cell.key: one for one in phases}
    found = []
    for result in results:
        around = surroundings[result.cell.key]
        use = use_of(result.done, sessions, around.processors)
        if use is None:
            continue
        use = replace(use, reads_within=around.program not in READ_BEFORE)
        source, target = around.source, around.target
        between = None
        if around.between:
            own = by_key.get(result.cell.key)
            if own is None:
                continue
            use = _apart(use, own)
            between = _place(around.between, places)
        model = model_of(use, _place(source, places), _place(target, places), between)
        found.append(Expected(result, model, source, target))
    return found


def _apart(use: Use, phases: CellPhases) -> Use:
    """A use whose intermediate results are told from what comes from inputs and goes to outputs."""
    read = fmean(one.own_read_nbytes for one in phases.trials)
    written = fmean(one.own_written_nbytes for one in phases.trials)
    return replace(
        use,
        read_nbytes=max(0.0, use.read_nbytes - read),
        written_nbytes=max(0.0, use.written_nbytes - written),
        between_read_nbytes=read,
        between_written_nbytes=written,
    )


def _place(path: str, places: Mapping[str, Known]) -> Place:
    if path in places:
        return places[path].place()
    return Place(path)


def use_of(
    attempts: Sequence[Attempt], sessions: Sequence[Session], processors: int = 0
) -> Use | None:
    """What trials of a cell have done, as means; None without one that has all numbers.
    `processors` is the number that they were pinned to, 0: all of the machine's.
    """
    told = [one for one in attempts if all(one.numbers.get(name) is not None for name in NEEDED)]
    if not told:
        return None
    means: dict[str, Any] = {name: mean([one.numbers[name] for one in told]) for name in NEEDED}
    means |= {name: mean([one.numbers.get(name) for one in told]) for name in ("runq_s", "cpu_s")}
    looked = ("source_nbytes", "cached_share", "free_dirty_nbytes")
    means |= {name: mean([one.storage.get(name) for one in told]) for name in looked}
    found = [processors or _processors(one, sessions) for one in told]
    whole = {name: round(means[name]) for name in ("slots", "tasks")}
    return Use(**{**means, **whole}, processors=mean(found))


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of values; None where one of them is not known."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known) / len(known)


def _processors(attempt: Attempt, sessions: Sequence[Session]) -> float | None:
    for session in sessions:
        if session.number == attempt.session:
            processors: float | None = session.machine.get("processors")
            return processors
    return None


def sentences(found: Sequence[Expected]) -> Iterator[str]:
    """How far the models are off, and what binds, as evidence."""
    law = [one.model.law.ratio for one in found]
    known = [ratio for ratio in law if ratio is not None]
    if known:
        cells = show_count(len(known), "cell")
        yield (
            f"Makespans are {_range(known)} what equation 1 expects (bytes at the rates of one"
            f" stream), in {cells}."
        )
    if len(known) < len(law):
        yield f"Of {show_count(len(law) - len(known), 'cell')} equation 1 lacks a figure."
    yield from _bound(found)


def _bound(found: Sequence[Expected]) -> Iterator[str]:
    bounds = [one.model.bound for one in found]
    ratios = [bound.ratio for bound in bounds if bound.ratio is not None]
    if not ratios:
        return
    counts: dict[str, int] = {}
    for bound in bounds:
        counts[bound.binding] = counts.get(bound.binding, 0) + 1
    ordered = sorted(counts.items(), key=lambda one: -one[1])
    binding = show_list([f"{name} in {count}" for name, count in ordered])
    yield (
        f"They are {_range(ratios)} the refined bound; what binds: {binding}. Its computing and its"
        " overhead are those of the same trials, so that it says what storage and slots leave to"
        " be gained, and foretells no makespan."
    )
    below = [one.result.cell.name for one in found if _is_passed(one.model.bound)]
    if below:
        yield (
            f"{show_list(below[:3])}{_more(below)} took less than the bound: something that it"
            " takes for granted is not so there, be it a rate of the probe, where bytes went or"
            " what is done at a time; which of them is not known."
        )


def _range(ratios: Sequence[float]) -> str:
    """The least and the greatest ratio, or the only one."""
    least = f"{min(ratios):.2f}"
    most = f"{max(ratios):.2f}"
    if least == most:
        return f"{least} times"
    return f"{least} to {most} times"


def _is_passed(bound: Expectation) -> bool:
    """Whether a trial took less than the bound, also with rates that are as high as may be."""
    if bound.ratios is None:
        return False
    greatest = bound.ratios.high or bound.ratios.mean
    return greatest < 1.0


def _more(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return ""
    return f" and {len(names) - 3} more"
