"""Evidence: what a trace tells of where the slots' time went, finer than the summary.

Every instant of every slot, from the moment the engine was ready to the end of the run, is in
one of

    phases by class   open, read, write (`tiny` where they move hardly any bytes), compute, other:
                      time on a processor, time in its queue, and the rest, in which the thread
                      waited for something else
    lost              attempts that could not record their phases
    gaps              between phases, while tasks were there to run: what the engine costs
    leading, closing  before the first and after the last phase of all slots: nobody was busy
    waits             slots without a task while others finished theirs
    unfed             slots without a task while tasks began elsewhere

so that the shares which rules claim cannot add up to more than one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hyperslab.report.summary import Window, lanes, own_pieces, window
from hyperslab.report.verdict.agreement import Pull
from hyperslab.trace import LOST, Span, Trace

TINY_NBYTES = 64 * 1024
"""A phase that moves less waits for the way there and back, not for bandwidth: disks and networks
take 1 ms for this.
"""
WAIT_GAPS = 10.0
"""A slot that has nothing for this many times the usual gap between its tasks was not waiting for
the engine's routine.
"""
BUSY = 0.85
"Share of the processors' time above which there is little to spare for one more thread."
RESERVED = 2
"Tasks per slot that an engine may have handed out before the queue ran dry."

Interval = tuple[int, int]


@dataclass(slots=True)
class Counters:
    """Nanoseconds of a class of phases: as the clock, the processor and the run queue have it."""

    wall: int = 0
    cpu: int = 0
    runq: int = 0
    spans: int = 0
    nbytes: int = 0
    is_known: bool = True
    "False when some span could not tell its time on the processor or in the queue."

    def add(self, span: Span, wall: int, cpu: int, runq: int) -> None:
        self.wall += wall
        self.spans += 1
        self.nbytes += span.nbytes
        if span.cpu_ns < 0 or span.runq_ns < 0:
            self.is_known = False
        self.cpu += cpu
        self.runq += runq

    def include(self, other: Counters) -> None:
        """Add those of another class."""
        self.wall += other.wall
        self.cpu += other.cpu
        self.runq += other.runq
        self.spans += other.spans
        self.nbytes += other.nbytes
        self.is_known &= other.is_known

    @property
    def waited(self) -> int:
        """Neither on a processor nor in its queue; where the queue is unknown this may hold time in
        it.
        """
        return max(0, self.wall - self.cpu - self.runq)


class Attempt(NamedTuple):
    """One attempt at a task, as one piece of work."""

    task: int
    slot: str
    start_ns: int
    end_ns: int
    length_ns: int
    "Time in its phases, without the time it waited for a processor."
    is_lost: bool


@dataclass(slots=True)
class Evidence:
    """What rules look at. Nanoseconds, unless a name says otherwise."""

    when: Window
    total: int
    "Slots x makespan without start-up."
    slots: list[str]
    meta: Mapping[str, Any]
    classes: dict[str, Counters] = field(default_factory=lambda: defaultdict(Counters))
    computing: dict[str, Counters] = field(default_factory=lambda: defaultdict(Counters))
    "Compute phases by worker."
    compute_spans: dict[str, list[tuple[str, Interval]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    "The same, with their slots."
    lost: int = 0
    gaps: int = 0
    leading: int = 0
    closing: int = 0
    waits: list[Interval] = field(default_factory=list)
    unfed: dict[str, int] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    transfers: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    "Read and write phases that moved something."
    ruled_out: frozenset[Pull] = frozenset()
    "Directions that no advice may take, because of another cause."

    @property
    def run(self) -> Mapping[str, Any]:
        """How the run was asked for (engine, workers, threads, cpus, memory_nbytes ...), and what
        its engine says of itself; empty in old traces.
        """
        return self.meta.get("run") or {}

    @property
    def load(self) -> Mapping[str, Any]:
        """What the machine was doing, see hyperslab.machine.pressure.between; empty where nobody
        looked.
        """
        return self.meta.get("load") or {}

    @property
    def crowd(self) -> float | None:
        """Share of the processors' time that other processes took, where it left none over on the
        slots' host.
        """
        others = self.load.get("others_share")
        busy = self.load.get("busy_share")
        if others is None or busy is None or not self.is_local or busy <= BUSY:
            return None
        return float(others)

    @property
    def left_over(self) -> float:
        """Share of the processors' time that a crowd of other processes left, 1 where there was
        none.
        """
        return 1.0 - (self.crowd or 0.0)

    @property
    def is_local(self) -> bool:
        """True when the load was measured on a host where slots are."""
        return any(slot.partition("/")[0] == self.load.get("host") for slot in self.slots)

    @property
    def is_in_caller(self) -> bool:
        """True when tasks ran in the caller's process."""
        return bool(self.run.get("in_caller"))

    @property
    def has_process_per_slot(self) -> bool:
        """True when the slots of a worker were processes."""
        return bool(self.run.get("process_per_slot"))

    @property
    def is_heavy(self) -> bool:
        """True when another engine hands out tasks at a lower cost."""
        return "engine" in self.run and not self.run.get("is_light")

    @property
    def everything(self) -> Counters:
        """All phases together."""
        total = Counters()
        for counters in self.classes.values():
            total.include(counters)
        return total

    @property
    def waited_slots(self) -> int:
        return sum(end - start for start, end in self.waits)

    def share(self, nanoseconds: float) -> float:
        """Share of the slots' time."""
        if self.total:
            return min(1.0, max(0.0, nanoseconds / self.total))
        return 0.0

    def label(self, task: int) -> str:
        """Name of a task, as the journal knows it."""
        labels = self.meta.get("labels") or ()
        if 0 <= task < len(labels):
            return str(labels[task])
        return f"task {task}"

    def lengths(self) -> list[int]:
        """Lengths of the attempts that counted."""
        return [a.length_ns for a in self.attempts if not a.is_lost]


def collect(trace: Trace) -> Evidence:
    """Look at every span once, and at the gaps between them."""
    by_slot = lanes(trace)
    when = window(trace)
    evidence = Evidence(
        when, len(by_slot) * (when.end_ns - when.ready_ns), list(by_slot), trace.meta
    )
    lengths: dict[tuple[int, int, str], list[Any]] = {}
    for slot, spans in by_slot.items():
        worker = slot.rpartition("/")[0]
        for span, wall, cpu, runq in exclusive(spans):
            _classify(evidence, worker, span, (wall, cpu, runq))
            _lengthen(lengths, span, wall - runq)
    evidence.attempts = sorted(
        (Attempt(key[0], key[2], *entry) for key, entry in lengths.items()), key=_by_start
    )
    _find_gaps(
        evidence,
        {slot: merged((s.start_ns, s.end_ns) for s in spans) for slot, spans in by_slot.items()},
    )
    return evidence


def exclusive(spans: Sequence[Span]) -> Iterator[tuple[Span, int, int, int]]:
    """(span, wall, cpu, runq) of a slot's spans, by their start, each without what belongs to spans
    inside it.
    """
    wall: Counter[int] = Counter()
    cpu = {id(span): max(0, span.cpu_ns) for span in spans}
    runq = {id(span): max(0, span.runq_ns) for span in spans}
    for span, start, end in own_pieces(spans):
        wall[id(span)] += end - start
    around: list[Span] = []
    for span in spans:
        while around and around[-1].end_ns < span.end_ns:
            around.pop()
        if around:  # a span's own counters hold those of the spans inside it
            cpu[id(around[-1])] -= max(0, span.cpu_ns)
            runq[id(around[-1])] -= max(0, span.runq_ns)
        around.append(span)
    for key, span in {id(span): span for span in spans}.items():
        # Clocks are read one after the other, and between them a thread may be put aside: the parts
        # fill the whole.
        ran = min(max(0, cpu[key]), wall[key])
        yield span, wall[key], ran, min(max(0, runq[key]), wall[key] - ran)


def _classify(evidence: Evidence, worker: str, span: Span, own: tuple[int, int, int]) -> None:
    if span.kind == LOST:
        evidence.lost += own[0]
        return
    moves = span.kind in ("read", "write")
    name = "other"
    if span.kind in ("open", "read", "write", "compute"):
        name = span.kind
    if moves and span.nbytes <= TINY_NBYTES:
        name = "tiny"
    evidence.classes[name].add(span, *own)
    if moves and span.nbytes > TINY_NBYTES and span.end_ns > span.start_ns:
        evidence.transfers[span.kind].append(span)
    if span.kind == "compute":
        evidence.computing[worker].add(span, *own)
        evidence.compute_spans[worker].append((span.slot, (span.start_ns, span.end_ns)))


def _lengthen(lengths: dict[tuple[int, int, str], list[Any]], span: Span, length: int) -> None:
    entry = lengths.setdefault(
        (span.task, span.attempt, span.slot), [span.start_ns, span.end_ns, 0, False]
    )
    entry[0] = min(entry[0], span.start_ns)
    entry[1] = max(entry[1], span.end_ns)
    entry[2] += length
    entry[3] = entry[3] or span.lost


def _by_start(attempt: Attempt) -> int:
    return attempt.start_ns


def merged(intervals: Any) -> list[Interval]:
    """The union of intervals as intervals that neither overlap nor touch."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


class Cover:
    """How much of an interval a union of intervals covers."""

    def __init__(self, union: Sequence[Interval]) -> None:
        self._starts = np.array([start for start, _ in union], np.int64)
        self._ends = np.array([end for _, end in union], np.int64)
        self._before = np.concatenate([[0], np.cumsum(self._ends - self._starts)])

    def until(self, moment: int) -> int:
        """Covered before this moment."""
        index = int(np.searchsorted(self._starts, moment))
        beyond = 0
        if index:
            beyond = max(0, int(self._ends[index - 1]) - moment)
        return int(self._before[index]) - beyond

    def of(self, interval: Interval) -> int:
        return self.until(interval[1]) - self.until(interval[0])


def _find_gaps(evidence: Evidence, busy: Mapping[str, Sequence[Interval]]) -> None:
    """Divide the time outside phases into what the engine took and what slots waited for one
    another.
    """
    when = evidence.when
    union = merged(interval for intervals in busy.values() for interval in intervals)
    first = when.end_ns
    last = when.end_ns
    if union:
        first = union[0][0]
        last = union[-1][1]
    evidence.leading = len(busy) * (first - when.ready_ns)
    evidence.closing = len(busy) * (when.end_ns - last)
    starts = [a.start_ns for a in evidence.attempts]
    usual = _usual_gap(busy)
    cover = Cover(union)
    for slot, intervals in busy.items():
        edges = [first, *(moment for interval in intervals for moment in interval), last]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            if end > start:
                kind = _kind_of_gap((start, end), cover.of((start, end)), starts, usual, len(busy))
                if kind == "wait":
                    evidence.waits.append((start, end))
                elif kind == "unfed" and end == last:
                    evidence.unfed[slot] = end - start
                else:
                    evidence.gaps += end - start


def _usual_gap(busy: Mapping[str, Sequence[Interval]]) -> float:
    gaps = [b[0] - a[1] for intervals in busy.values() for a, b in pairwise(intervals)]
    if gaps:
        return float(np.median(gaps))
    return 0.0


def _kind_of_gap(
    gap: Interval, covered: int, starts: Sequence[int], usual: float, slots: int
) -> str:
    """Whose a slot's gap is: the engine's, or, only while others are busy, one of waiting for them
    or for tasks.
    """
    length = gap[1] - gap[0]
    if length <= WAIT_GAPS * usual or covered < length / 2:
        return "engine"
    begun = bisect_left(starts, gap[1]) - bisect_right(starts, gap[0])
    if begun <= RESERVED * slots:
        return "wait"
    return "unfed"
