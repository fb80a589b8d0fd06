"""Phases: what tasks spent their time on, kind by kind, and whether the first task of each slot
reads longer than those after it, from the traces of trials.

That the first reads take longer, as all slots begin at once, is what M. Dugré, V. Hayot-Sasson, T.
Glatard, A performance comparison of Dask and Apache Spark for data-intensive neuroimaging pipelines
(2019) states of their pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hyperslab.apps.experiment.comparison import CellResult
from hyperslab.apps.experiment.directory import ExperimentDirectory
from hyperslab.apps.experiment.gantts import trace_of
from hyperslab.apps.experiment.intervals import Interval, ratio_interval
from hyperslab.report.summary import lanes
from hyperslab.trace import NO_TASK, Span, Trace

READS = ("open", "read")
ORDER = ("open", "read", "compute", "write")
"Kinds that come first in tables."


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
    own_read_nbytes: int = 0
    "Bytes that functions read themselves, while they computed."
    own_written_nbytes: int = 0
    "Bytes that functions wrote themselves, while they computed."


@dataclass(frozen=True, slots=True)
class CellPhases:
    """The phases of a cell's trials."""

    result: CellResult
    trials: Sequence[Phases]

    def mean(self, kind: str) -> float:
        """Mean time of a task in a kind of phase, over trials."""
        return fmean(trial.seconds.get(kind, 0.0) for trial in self.trials)

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """First and later reads of every trial that has both."""
        return [
            (trial.first_read_s, trial.later_read_s)
            for trial in self.trials
            if trial.first_read_s and trial.later_read_s
        ]


def phases_of(trace: Trace, replicate: int = 0) -> Phases:
    """The phases of a trace's tasks."""
    seconds: dict[str, float] = {}
    tasks: set[int] = set()
    first: list[float] = []
    later: list[float] = []
    moved = {"read": 0, "write": 0}
    for spans in lanes(trace).values():
        own = [span for span in spans if span.task != NO_TASK and not span.lost]
        for span in own:
            seconds[span.kind] = seconds.get(span.kind, 0.0) + _seconds(span)
        tasks |= {span.task for span in own}
        reads = _reads(own)
        first += reads[:1]
        later += reads[1:]
        for span in _within(own):
            moved[span.kind] += span.nbytes
    means = {kind: total / len(tasks) for kind, total in seconds.items()}
    bounds = (_mean(first), _mean(later))
    return Phases(means, *bounds, replicate, moved["read"], moved["write"])


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


def _reads(spans: Sequence[Span]) -> list[float]:
    """Time in which each task of a slot reads, in their order."""
    found: dict[tuple[int, int], float] = {}
    for span in spans:
        if span.kind in READS:
            key = (span.task, span.attempt)
            found[key] = found.get(key, 0.0) + _seconds(span)
    return list(found.values())


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return fmean(values)


def cell_phases(
    directory: ExperimentDirectory, results: Sequence[CellResult]
) -> Iterator[CellPhases]:
    """The phases of every cell that has traces."""
    for result in results:
        traces = [(trace_of(directory, one), one.replicate) for one in result.done]
        trials = [phases_of(trace, number) for trace, number in traces if trace is not None]
        if trials:
            yield CellPhases(result, trials)


def first_reads(cells: Sequence[CellPhases]) -> Interval | None:
    """Time of first reads over that of later ones, over all trials; None without any."""
    pairs = [pair for cell in cells for pair in cell.pairs]
    if not pairs:
        return None
    return ratio_interval([first for first, _ in pairs], [later for _, later in pairs])


def sentences(cells: Sequence[CellPhases]) -> Iterator[str]:
    """What first reads take on each engine and tier, as evidence."""
    alike: dict[str, list[CellPhases]] = {}
    for one in cells:
        alike.setdefault(_reader(one.result), []).append(one)
    for reader, own in alike.items():
        yield from _sentence(reader, own)


def _reader(result: CellResult) -> str:
    """Who reads from where, in words."""
    names = [name for name in ("engine", "tier") if name in result.cell.levels]
    return " from ".join(result.cell.shown(name) for name in names)


def _sentence(reader: str, cells: Sequence[CellPhases]) -> Iterator[str]:
    ratio = first_reads(cells)
    if ratio is None or ratio.low is None or ratio.high is None:
        return
    words = "whether they differ is open"
    if ratio.low > 1:
        words = "they take longer"
    elif ratio.high < 1:
        words = "they take less"
    trials = sum(len(cell.pairs) for cell in cells)
    head = f"{reader}: first" if reader else "First"
    yield (
        f"{head} reads of slots take {ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) times"
        f" as long as later ones, over {trials} trials: {words}."
    )


def kinds_of(cells: Sequence[CellPhases]) -> list[str]:
    """All kinds of phases, reading, computing and writing first."""
    found = dict.fromkeys(kind for cell in cells for trial in cell.trials for kind in trial.seconds)
    others = [kind for kind in found if kind not in ORDER]
    return [*(kind for kind in ORDER if kind in found), *sorted(others)]
