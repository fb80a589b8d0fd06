"""The numbers of a summary in words: label, value with unit, one line of definition; for the
terminal and the page.
"""

from __future__ import annotations

from typing import NamedTuple

from hyperslab.report.summary import Summary, split
from hyperslab.report.verdict.finding import SHORT_S
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share


class Measure(NamedTuple):
    """One number of a run, ready to be shown."""

    label: str
    value: str
    definition: str


def measures(summary: Summary) -> list[Measure]:
    """Every number of the summary in reading order; what the machine could not tell says
    `unknown`.
    """
    return [*_makespan(summary), *_shares(summary), *_throughput(summary), *_resources(summary)]


def headline(summary: Summary) -> str:
    """How much was done, how long it took, and how fast that was, in a clause."""
    done = show_count(summary.tasks, "task")
    if summary.origin == "predicted":
        done += " predicted"
    slots = show_count(summary.slots, "slot")
    text = f"{done} in {show_seconds(summary.makespan_s)} on {slots}"
    if summary.total_nbytes_per_s:
        text += f", {show_rate(summary.total_nbytes_per_s)}"
    return text


BRIEF = (
    "makespan",
    "start-up",
    "lost attempts",
    "read",
    "compute",
    "write",
    "other",
    "waiting",
    "overhead",
    "idle",
    "barrier",
    "average parallelism",
    "throughput",
    "bytes moved",
    "cost of tracing",
    "peak memory",
)
"Labels of the measures that a terminal shows."
RATES = ("throughput",)
"Labels of those that say nothing of a run that is too short to be judged."


def numbers(summary: Summary) -> list[str]:
    """The measures that matter most, as lines of text for the terminal; the page has them all."""
    rows = [row for row in measures(summary) if row.label in BRIEF]
    if summary.makespan_without_startup_s < SHORT_S:
        rows = [row._replace(value=_brief(row)) for row in rows]
    width = max(len(row.label) for row in rows)
    return [f"  {row.label:<{width}}  {row.value}" for row in rows]


def _brief(row: Measure) -> str:
    """The value of a measure of a run that was too short for rates."""
    if row.label in RATES:
        return f"too short to tell: that takes {show_seconds(SHORT_S)} or more"
    return row.value


def _slot_time_s(summary: Summary) -> float:
    return summary.slots * summary.makespan_without_startup_s


def _makespan(s: Summary) -> list[Measure]:
    lost = f"attempts that did not become a result; they took {show_seconds(s.lost_s)}"
    return [
        Measure(
            "makespan",
            show_seconds(s.makespan_s),
            "from start to end, the engine's start included, its stop not",
        ),
        Measure("start-up", show_seconds(s.startup_s), "until the engine could run tasks"),
        Measure(
            "without start-up", show_seconds(s.makespan_without_startup_s), "makespan less start-up"
        ),
        Measure("tasks", f"{s.tasks:,}", "pieces of work of which at least one attempt was traced"),
        Measure("attempts", f"{s.attempts:,}", "runs of a task, retries included"),
        Measure("lost attempts", f"{s.lost_attempts:,}", lost),
    ]


def _shares(s: Summary) -> list[Measure]:
    defined = {
        "read": "in open and read phases, over all slots and attempts",
        "compute": "in compute phases",
        "write": "in write phases",
        "other": "in phases of any other kind",
        "overhead": "per slot, ready to the end of its last phase, less its busy time",
        "idle": "per slot, end of its last phase to the end of the run; whole if never used",
    }
    total = _slot_time_s(s)
    parts = [part for part in split(s) if part.label != "other" or part.seconds]
    rows = [Measure(p.label, _of(p.seconds, total), defined[p.label]) for p in parts]
    if s.waited_s:
        waited = "the part of other in which tasks waited for their turn to read, or for a copy"
        rows.append(Measure("waiting", _of(s.waited_s, total), waited))
    if s.barrier_s:
        waited = "slots without a task until the slowest of a level has ended and the next begins"
        rows.append(Measure("barrier", _of(s.barrier_s, total), f"{waited}; part of both above"))
    if s.java_gc_s is not None:
        collected = "in which tasks waited for Java to collect garbage; part of other times"
        rows.append(Measure("Java's garbage", _of(s.java_gc_s, total), collected))
    return rows


def _of(seconds: float, total: float) -> str:
    if total:
        return f"{show_seconds(seconds)} ({show_share(seconds / total)})"
    return show_seconds(seconds)


def _throughput(s: Summary) -> list[Measure]:
    used = (
        f"busy time / (slots x makespan without start-up); {s.slots_used:,} of {s.slots:,} slots"
        " ran something"
    )
    return [
        Measure(
            "average parallelism",
            f"{s.average_parallelism:.2f}",
            "mean number of slots busy at a time",
        ),
        Measure("utilisation", show_share(s.utilisation), used),
        Measure("bytes read", show_bytes(s.read_nbytes), "by all attempts"),
        Measure("bytes written", show_bytes(s.written_nbytes), "by all attempts"),
        Measure(
            "bytes moved",
            f"{show_bytes(s.moved_nbytes)} between tasks",
            "outside the files read and written",
        ),
        Measure(
            "read throughput",
            show_rate(s.read_nbytes_per_s),
            "bytes read / makespan without start-up",
        ),
        Measure(
            "write throughput",
            show_rate(s.written_nbytes_per_s),
            "bytes written / makespan without start-up",
        ),
        Measure(
            "throughput",
            show_rate(s.total_nbytes_per_s),
            "bytes read and written / makespan without start-up",
        ),
    ]


def _resources(s: Summary) -> list[Measure]:
    cost = "unknown"
    if s.tracing_cost is not None:
        cost = show_share(s.tracing_cost)
    peak = max(s.max_rss_nbytes.items(), key=lambda item: item[1], default=None)
    rows = [
        Measure("CPU time", _known(s.cpu_s), "of the phases, on all processors"),
        Measure("run-queue wait", _known(s.runq_s), "runnable, but waiting for a processor"),
        Measure(
            "cost of tracing",
            cost,
            f"{show_count(s.spans, 'span')} x CPU cost of one / CPU time of the run",
        ),
    ]
    if peak is None:
        return rows
    of = (
        f"largest resident set of {show_count(len(s.max_rss_nbytes), 'worker')}, that of worker"
        f" {peak[0]}"
    )
    return [*rows, Measure("peak memory", show_bytes(peak[1]), of)]


def _known(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return show_seconds(seconds)
