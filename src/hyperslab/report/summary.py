"""Summary: the numbers of a run, derived from its trace alone.

All times refer to the slots of the trace, used or not, from the moment the engine was ready to the
end of the run:

    read + compute + write + other + overhead + idle = slots x makespan without start-up

which holds exactly in nanoseconds, because every instant of a slot belongs to one of the six. Where
spans of a slot nest or overlap, the instant belongs to the span that began last. Overhead is
defined as in section II.E of Dugré, Hayot-Sasson and Glatard, A performance comparison of Dask and
Apache Spark for data-intensive neuroimaging pipelines (2019), but over slots instead of thread ids,
so that restarted workers and unused threads do not blur it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hyperslab.report.levels import barriers_ns, levels_of
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.trace import LOST, NO_TASK, Span, Trace, is_of_staging
from hyperslab.units import show_count, show_seconds

SUMMARY_VERSION = 1
NO_REPORT = (
    "no report of the run can be made; its outputs are not affected ('hyperslab verify' checks"
    " them),"
    " and its report.html, if there is one, was written before the damage"
)
"What a damaged record means that only reports are made of."
PHASE_OF_KIND = {"open": "read", "read": "read", "compute": "compute", "write": "write"}


@dataclass(frozen=True, slots=True)
class Summary:
    """Where the time of a run went. Seconds, bytes and shares of one; sums are over all slots and
    all attempts.
    """

    origin: str
    "measured or predicted."
    makespan_s: float
    "Time from the start of the run, engine start-up included, to its end."
    startup_s: float
    "Time from the start of the run to the moment the engine could run tasks."
    makespan_without_startup_s: float
    slots: int
    slots_used: int
    tasks: int
    attempts: int
    lost_attempts: int
    "Attempts that did not become their task's result."
    read_s: float
    "Time in spans of kind open or read."
    compute_s: float
    write_s: float
    other_s: float
    "Time in spans of every other kind."
    lost_s: float
    "The part of the four sums above that lost attempts took."
    busy_s: float
    "Time in any span: the sum of the four."
    overhead_s: float
    """Sum over slots that ran something: time from ready to the end of the last span, less busy
    time.
    """
    idle_s: float
    """Sum over slots: time from the end of the last span (from ready, if there was none) to the end
    of the run.
    """
    average_parallelism: float
    "Integral of the number of busy slots over time / makespan without start-up."
    utilisation: float
    "Busy time / (slots x makespan without start-up)."
    read_nbytes: int
    written_nbytes: int
    moved_nbytes: int
    "Bytes that tasks handed to each other, outside the files that they read and write."
    read_nbytes_per_s: float
    "Rate over the makespan without start-up, like the other two."
    written_nbytes_per_s: float
    total_nbytes_per_s: float
    "Read and written."
    cpu_s: float | None
    """CPU time inside spans, without attempts whose worker died; None if any other span does not
    know its own.
    """
    runq_s: float | None
    """Time in which spans were runnable but waited for a processor; None if any span does not know
    its own.
    """
    spans: int
    tracing_cost: float | None
    "Spans x measured CPU cost of one / CPU time of the run; None where the cost was not measured."
    busy_by_slot_s: dict[str, float]
    max_rss_nbytes: dict[str, int]
    "Largest resident set of each worker."
    staging: dict[str, Any] = field(default_factory=dict)
    "What went by way of fast tiers, see hyperslab.driver.staging; {} where nothing did."
    waited_s: float = 0.0
    "The part of `other_s` in which tasks waited for their turn to read, or for a copy."
    barrier_s: float = 0.0
    """Time of all slots between levels of commands that wait for one another: part of overhead, or
    of idle.
    """
    tasks_s: float | None = None
    """Time from ready to the end of the last task; None without any. What tasks wrote may be in
    memory until the run ends.
    """
    java_gc_s: float | None = None
    "Time in which tasks waited for Java to collect garbage; None where none ran in Java."
    warning: str = ""
    "What a trial has shown to be wrong, as that results depend on the blocks; '': nothing."
    odd_values: str = ""
    "About how many NaN and infinite values functions have made of others, and where; '': none."

    def __repr__(self) -> str:
        tasks = show_count(self.tasks, "task")
        slots = show_count(self.slots, "slot")
        return f"<hyperslab.Summary: {tasks} in {show_seconds(self.makespan_s)} on {slots}>"

    def save(self, path: Path) -> None:
        """Write as versioned JSON; the file appears whole or not at all."""
        save_record(path, {"version": SUMMARY_VERSION, **asdict(self)})

    @classmethod
    def load(cls, path: Path) -> Summary:
        """Read back what `save` wrote. Raises DamagedRecord, and ValueError for a summary of a
        newer version.
        """
        stored = load_record(path, NO_REPORT)
        version = stored.pop("version")
        if version > SUMMARY_VERSION:
            raise ValueError(
                f"{path} was written by a newer hyperslab (summary version {version}): upgrade"
                " hyperslab to read it"
            )
        return cls(**stored)


class Part(NamedTuple):
    """One of the six that the slots' time divides into."""

    label: str
    seconds: float
    noun: str


def split(summary: Summary) -> list[Part]:
    """The slots' time as parts that add up to slots x makespan without start-up."""
    return [
        Part("read", summary.read_s, "reading"),
        Part("compute", summary.compute_s, "computing"),
        Part("write", summary.write_s, "writing"),
        Part("other", summary.other_s, "other phases"),
        Part("overhead", summary.overhead_s, "engine overhead"),
        Part("idle", summary.idle_s, "idle slots"),
    ]


@dataclass(frozen=True, slots=True)
class Window:
    """The moments between which a run is accounted, in nanoseconds of the trace's clock."""

    start_ns: int
    ready_ns: int
    end_ns: int


def window(trace: Trace) -> Window:
    """Start, ready and end of a run as the trace's meta tells, widened to hold every span; else as
    the spans do.
    """
    first = min((s.start_ns for s in trace.spans), default=None)
    last = max((s.end_ns for s in trace.spans), default=None)
    said = {key: trace.meta.get(key) for key in ("start_ns", "ready_ns", "end_ns")}
    readies = [ns for ns in (said["ready_ns"], first) if ns is not None]
    ready = int(min(readies, default=said["start_ns"] or 0))
    ends = [ns for ns in (said["end_ns"], last) if ns is not None]
    starts = [ns for ns in (said["start_ns"], ready) if ns is not None]
    return Window(int(min(starts)), ready, int(max([*ends, ready])))


def lanes(trace: Trace) -> dict[str, list[Span]]:
    """The spans of every slot by their start: first the slots that the trace lists, used or not,
    then any others.
    """
    return {slot: own for slot, own in all_lanes(trace).items() if not is_of_staging(slot)}


def all_lanes(trace: Trace) -> dict[str, list[Span]]:
    """The same, and behind the slots the threads that staged."""
    by_slot: dict[str, list[Span]] = {slot: [] for slot in trace.slots}
    for span in trace.spans:
        by_slot.setdefault(span.slot, []).append(span)
    for spans in by_slot.values():
        spans.sort(key=lambda s: (s.start_ns, -s.end_ns))
    return dict(sorted(by_slot.items(), key=lambda lane: is_of_staging(lane[0])))


def summarise(trace: Trace) -> Summary:
    """Derive the numbers of a run from its trace.

    Of `trace.meta` it reads start_ns, ready_ns and end_ns and, where there, moved_nbytes, the
    warning of its run, odd_values, span_cost_ns (CPU time of one span), cpu_ns (CPU time of the
    run) and max_rss (bytes by worker).
    """
    by_slot = lanes(trace)
    when = window(trace)
    meta = trace.meta
    run_s = (when.end_ns - when.ready_ns) / 1e9
    attempts = {(s.task, s.attempt) for s in trace.spans if s.task != NO_TASK}
    return Summary(
        origin=trace.origin,
        makespan_s=(when.end_ns - when.start_ns) / 1e9,
        startup_s=(when.ready_ns - when.start_ns) / 1e9,
        makespan_without_startup_s=run_s,
        slots=len(by_slot),
        slots_used=sum(1 for spans in by_slot.values() if spans),
        tasks=len({task for task, _ in attempts}),
        attempts=len(attempts),
        lost_attempts=len({(s.task, s.attempt) for s in trace.spans if s.lost}),
        **_times(by_slot, when),
        **_bytes(trace, run_s),
        **_costs(by_slot, trace),
        max_rss_nbytes={
            str(worker): int(nbytes) for worker, nbytes in meta.get("max_rss", {}).items()
        },
        staging=meta.get("staging", {}),
        barrier_s=barriers_ns(by_slot, levels_of(trace), when.ready_ns) / 1e9,
        tasks_s=_tasks_s(trace, when),
        java_gc_s=meta.get("java_gc_s"),
        warning=meta.get("run", {}).get("warning", ""),
        odd_values=meta.get("odd_values", ""),
        waited_s=sum(s.end_ns - s.start_ns for s in trace.spans if s.kind == "wait") / 1e9,
    )


def _tasks_s(trace: Trace, when: Window) -> float | None:
    ends = [span.end_ns for span in trace.spans if span.task != NO_TASK and not span.lost]
    if not ends:
        return None
    return (max(ends) - when.ready_ns) / 1e9


def _times(by_slot: dict[str, list[Span]], when: Window) -> dict[str, Any]:
    """Every instant of every slot, given to one phase, to overhead or to idle."""
    phases: Counter[str] = Counter()
    busy: dict[str, int] = {}
    lost = overhead = idle = 0
    for slot, spans in by_slot.items():
        own = [(span, end - start) for span, start, end in own_pieces(spans)]
        for span, ns in own:
            phases[PHASE_OF_KIND.get(span.kind, "other")] += ns
        lost += sum(ns for span, ns in own if span.lost)
        busy[slot] = sum(ns for _, ns in own)
        last = max((s.end_ns for s in spans), default=when.ready_ns)
        overhead += last - when.ready_ns - busy[slot]
        idle += when.end_ns - last
    total = sum(busy.values())
    run = when.end_ns - when.ready_ns
    seconds = {f"{phase}_s": phases[phase] / 1e9 for phase in ("read", "compute", "write", "other")}
    seconds |= {
        "lost_s": lost / 1e9,
        "busy_s": total / 1e9,
        "overhead_s": overhead / 1e9,
        "idle_s": idle / 1e9,
    }
    return seconds | {
        "average_parallelism": _ratio(total, run),
        "utilisation": _ratio(total, run * len(by_slot)),
        "busy_by_slot_s": {slot: ns / 1e9 for slot, ns in busy.items()},
    }


def own_pieces(spans: Sequence[Span]) -> Iterator[tuple[Span, int, int]]:
    """The time that spans of a slot (by their start) cover, in pieces that do not overlap.

    Yields (span, start_ns, end_ns); where spans overlap, the time belongs to the one that began
    last.
    """
    running: list[Span] = []
    now = -(2**63)
    for span in [*spans, None]:
        until = 2**63
        if span is not None:
            until = span.start_ns
        while running and now < until:
            reach = min(running[-1].end_ns, until)
            if reach > now:
                yield running[-1], now, reach
                now = reach
            if running[-1].end_ns <= now:
                running.pop()
        if span is not None:
            now = max(now, until)
            running.append(span)


def _bytes(trace: Trace, run_s: float) -> dict[str, Any]:
    read = sum(s.nbytes for s in trace.spans if PHASE_OF_KIND.get(s.kind) == "read")
    written = sum(s.nbytes for s in trace.spans if PHASE_OF_KIND.get(s.kind) == "write")
    return {
        "read_nbytes": read,
        "written_nbytes": written,
        "moved_nbytes": int(trace.meta.get("moved_nbytes", 0)),
        "read_nbytes_per_s": _ratio(read, run_s),
        "written_nbytes_per_s": _ratio(written, run_s),
        "total_nbytes_per_s": _ratio(read + written, run_s),
    }


def _costs(by_slot: dict[str, list[Span]], trace: Trace) -> dict[str, Any]:
    """Processor time, time spent waiting for a processor, and what tracing added."""
    outermost = [s for spans in by_slot.values() for s in _outermost(spans) if s.kind != LOST]
    cpu_ns = _known_sum(s.cpu_ns for s in outermost)
    runq_ns = _known_sum(s.runq_ns for s in outermost)
    each_ns = trace.meta.get("span_cost_ns")
    total_ns = trace.meta.get("cpu_ns", cpu_ns)
    tracing_cost = None
    if each_ns is not None and total_ns:
        tracing_cost = len(trace.spans) * each_ns / total_ns
    return {
        "cpu_s": _seconds(cpu_ns),
        "runq_s": _seconds(runq_ns),
        "spans": len(trace.spans),
        "tracing_cost": tracing_cost,
    }


def _seconds(ns: int | None) -> float | None:
    if ns is None:
        return None
    return ns / 1e9


def _outermost(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans that lie in no other: a span's own counters already hold those of the spans inside
    it.
    """
    reach = -(2**63)
    for span in spans:
        if span.end_ns > reach:
            yield span
            reach = span.end_ns


def _known_sum(values: Iterator[int]) -> int | None:
    """The sum, or None if any value is unknown (negative): a sum that misses a part is not the
    sum.
    """
    listed = list(values)
    if any(value < 0 for value in listed):
        return None
    return sum(listed)


def _ratio(part: float, whole: float) -> float:
    """part / whole; 0 for an empty run, in which nothing happened in no time."""
    if whole:
        return part / whole
    return 0.0
