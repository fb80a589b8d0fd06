"""Phases: what tasks spent their time on, kind by kind, and whether the first task of each slot
reads longer than those after it, from the traces of trials.

That the first reads take longer, as all slots begin at once, is what M. Dugré, V. Hayot-Sasson, T.
Glatard, A performance comparison of Dask and Apache Spark for data-intensive neuroimaging pipelines
(2019) states of their pipelines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple, Self

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.design.setting import READ_BEFORE
from hyperslab.apps.experiment.statistics.intervals import ratio_of
from hyperslab.apps.experiment.statistics.shown import is_apart, show_interval
from hyperslab.apps.experiment.statistics.significance import differs_p, holm, is_told
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.apps.experiment.trials.traces import trace_of
from hyperslab.report.levels import barriers_ns, levels_of
from hyperslab.report.summary import lanes, own_pieces, window
from hyperslab.trace import NO_TASK, Span, Trace

PHASES = "phases.json"
"File that holds the phases of a trial whose trace is not kept."
READS = ("open", "read")
TOUCHES = ("read",)
"Kind of what follows once a file is open."
TURNS = ("stagger", "readers_per_device")
"Factors by which slots wait before they read; 0: they do not."
ORDER = ("open", "read", "compute", "write")
"Kinds that come first in tables."


class Waits(NamedTuple):
    """Seconds of all slots in which they had nothing to do, until the last level begins: a slot
    that is left without a task of that one waits for nothing.
    """

    barrier_s: float
    "Time between the levels."
    elsewhere_s: float


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases of one trial."""

    seconds: Mapping[str, float]
    "Mean time of a task in each kind of phase."
    first_read_s: float | None
    "Mean time in which the first tasks of slots read; None without any."
    later_read_s: float | None
    "Mean time in which all other tasks read; None without any."
    replicate: int = 0
    "Replicate of the trial."
    first_touch_s: float | None = None
    "Mean time of reading alone, without opening and headers, of the first tasks of slots."
    later_touch_s: float | None = None
    "Mean time of reading alone of all other tasks."
    own_read_nbytes: int = 0
    "Bytes that functions read themselves, while they computed."
    own_written_nbytes: int = 0
    "Bytes that functions wrote themselves, while they computed."
    waits: Waits | None = None
    "Where slots had nothing to do; None where no task waits for all others."

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `asdict` made, also after a way through JSON text."""
        waits = record["waits"] and Waits(*record["waits"])
        return cls(**{**record, "waits": waits})


@dataclass(frozen=True, slots=True)
class CellPhases:
    """The phases of a cell's trials."""

    result: CellResult
    trials: Sequence[Phases]

    def mean(self, kind: str) -> float:
        """Mean time of a task in a kind of phase, over trials."""
        return fmean(trial.seconds.get(kind, 0.0) for trial in self.trials)

    @property
    def paired(self) -> list[Phases]:
        """Trials that have both first and later reads."""
        return [trial for trial in self.trials if trial.first_read_s and trial.later_read_s]


def phases_of(trace: Trace, replicate: int = 0) -> Phases:
    """The phases of a trace's tasks."""
    seconds: dict[str, float] = {}
    tasks: set[int] = set()
    first: dict[Sequence[str], list[float]] = {READS: [], TOUCHES: []}
    later: dict[Sequence[str], list[float]] = {READS: [], TOUCHES: []}
    moved = {"read": 0, "write": 0}
    by_slot = lanes(trace)
    for spans in by_slot.values():
        own = [span for span in spans if span.task != NO_TASK and not span.lost]
        for span in own:
            seconds[span.kind] = seconds.get(span.kind, 0.0) + _seconds(span)
        tasks |= {span.task for span in own}
        for kinds in (READS, TOUCHES):
            reads = _reads(own, kinds)
            first[kinds] += reads[:1]
            later[kinds] += reads[1:]
        for span in _within(own):
            moved[span.kind] += span.nbytes
    means = {kind: total / len(tasks) for kind, total in seconds.items()}
    return Phases(
        seconds=means,
        first_read_s=_mean(first[READS]),
        later_read_s=_mean(later[READS]),
        replicate=replicate,
        first_touch_s=_mean(first[TOUCHES]),
        later_touch_s=_mean(later[TOUCHES]),
        own_read_nbytes=moved["read"],
        own_written_nbytes=moved["write"],
        waits=_waits(trace, by_slot),
    )


def _waits(trace: Trace, by_slot: Mapping[str, Sequence[Span]]) -> Waits | None:
    levels = levels_of(trace)
    last = [span.start_ns for span in trace.spans if levels and span.task in levels[-1].tasks]
    if len(levels) < 2 or not last:
        return None
    ready_ns = window(trace).ready_ns
    begin_ns = min(last)
    free_ns = sum(_free_ns(spans, ready_ns, begin_ns) for spans in by_slot.values())
    barrier_ns = barriers_ns(by_slot, levels, ready_ns)
    return Waits(barrier_ns / 1e9, (free_ns - barrier_ns) / 1e9)


def _free_ns(spans: Sequence[Span], begin_ns: int, end_ns: int) -> int:
    """Time between two moments in which a slot has no task."""
    pieces = [min(end, end_ns) - max(start, begin_ns) for _, start, end in own_pieces(spans)]
    return end_ns - begin_ns - sum(piece for piece in pieces if piece > 0)


def _within(spans: Sequence[Span]) -> Iterator[Span]:
    """What a slot read and wrote while it computed; spans are in the order of their start."""
    until_ns = 0
    for span in spans:
        if span.kind == "compute":
            until_ns = max(until_ns, span.end_ns)
        elif span.kind in ("read", "write") and span.end_ns <= until_ns:
            yield span


def _seconds(span: Span) -> float:
    return (span.end_ns - span.start_ns) / 1e9


def _reads(spans: Sequence[Span], kinds: Sequence[str]) -> list[float]:
    """Time that each task of a slot spends on these kinds, in their order."""
    found: dict[tuple[int, int], float] = {}
    for span in spans:
        if span.kind in kinds:
            key = (span.task, span.attempt)
            found[key] = found.get(key, 0.0) + _seconds(span)
    return list(found.values())


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return fmean(values)


def recorded_phases(directory: ExperimentDirectory, attempt: Attempt) -> Phases | None:
    """The phases of a trial, from its trace or as they were kept; None where neither is there."""
    trace = trace_of(directory, attempt)
    if trace is not None:
        return phases_of(trace, attempt.replicate)
    path = directory.trial(attempt.number, attempt.attempt) / PHASES
    if not path.is_file():
        return None
    return Phases.from_json(json.loads(path.read_bytes()))


def cell_phases(
    directory: ExperimentDirectory, results: Sequence[CellResult]
) -> Iterator[CellPhases]:
    """The phases of every cell that has traces."""
    for result in results:
        known = [recorded_phases(directory, one) for one in result.done]
        trials = [phases for phases in known if phases is not None]
        if trials:
            yield CellPhases(result, trials)


def first_reads(cells: Sequence[CellPhases]) -> list[float]:
    """Logarithms of the times of first reads over those of later ones, one for each replicate: the
    mean of its cells, which are no independent values.
    """
    found: dict[int, list[float]] = {}
    for cell in cells:
        for trial in cell.paired:
            assert trial.first_read_s
            assert trial.later_read_s
            ratio = math.log(trial.first_read_s / trial.later_read_s)
            found.setdefault(trial.replicate, []).append(ratio)
    return [fmean(own) for _, own in sorted(found.items())]


def reads_itself(result: CellResult) -> bool:
    """Whether tasks read, and nobody else before them, so that their phases say how long."""
    return result.cell.levels.get("engine") not in READ_BEFORE


def tells_first_reads(result: CellResult) -> bool:
    """Whether a cell tells what first reads take: its tasks read themselves, and when they like, so
    that none waits for its turn or for a limit.
    """
    is_late = any(result.cell.levels.get(name) for name in TURNS)
    return reads_itself(result) and not is_late


def sentences(cells: Sequence[CellPhases]) -> Iterator[str]:
    """What first reads take on each engine and tier, as evidence, of slots that begin at once."""
    alike: dict[str, list[CellPhases]] = {}
    for one in cells:
        if tells_first_reads(one.result):
            alike.setdefault(_reader(one.result), []).append(one)
    found = {reader: first_reads(own) for reader, own in alike.items()}
    several = {reader: ratios for reader, ratios in found.items() if len(ratios) > 1}
    by_chance = holm([differs_p(ratios) for ratios in several.values()])
    for (reader, ratios), p in zip(several.items(), by_chance, strict=True):
        yield _sentence(reader, ratios, is_told(p))


def _reader(result: CellResult) -> str:
    """Who reads from where, in words."""
    names = [name for name in ("engine", "tier", "input_tier") if name in result.cell.levels]
    return " from ".join(result.cell.shown(name) for name in names)


def _sentence(reader: str, ratios: Sequence[float], is_sure: bool) -> str:
    words = "whether they differ is open"
    if is_sure:
        words = "they take longer" if fmean(ratios) > 0 else "they take less"
    elif is_apart(ratio_of(ratios)):
        words = "whether they differ is open, as among so many it may be chance"
    head = f"{reader}: first" if reader else "First"
    shown = show_interval(ratio_of(ratios))
    return (
        f"{head} reads of slots take {shown} as long as later ones, over {len(ratios)} replicates:"
        f" {words}."
    )


def has_one_file(result: CellResult) -> bool:
    """Whether tasks share one file, so that the first read of a slot is its first touch of it."""
    return result.cell.levels.get("files") == 1


def kinds_of(cells: Sequence[CellPhases]) -> list[str]:
    """All kinds of phases, reading, computing and writing first."""
    found = dict.fromkeys(kind for cell in cells for trial in cell.trials for kind in trial.seconds)
    others = [kind for kind in found if kind not in ORDER]
    return [*(kind for kind in ORDER if kind in found), *sorted(others)]
