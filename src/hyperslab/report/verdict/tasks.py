"""Rules about tasks: too small, too few, too unequal, lost; and about slots that had none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hyperslab.report.summary import Summary
from hyperslab.report.verdict import remedies
from hyperslab.report.verdict.agreement import FEWER, THREADS
from hyperslab.report.verdict.evidence import Attempt, Cover, Evidence, merged
from hyperslab.report.verdict.finding import NOTABLE, Finding
from hyperslab.units import show_count, show_seconds, show_share

SMALL = 10.0
"Times its own overhead: a task that is longer than this loses less than a tenth to it."
STRAGGLING = 3.0
"""Times the median length, as in the speculation rule of MapReduce-like engines (Spark's multiplier
is 3 today).
"""
FEW = 0.1
"Share of the tasks: if more of them are long, length varies and nothing straggles."
FEWEST = 4
"Tasks that a median needs to mean something."
WAVES = 4
"Tasks per slot, below which the last wave can leave slots idle for a fifth of the run."
LONG_START = 0.3
"Share of the makespan: three tenths spent on starting are worth a thought."
NOTICED_S = 1.0
"A start-up, or an end, that is shorter than this on a machine of its own is nobody's concern."
NAMED = 3
"Stragglers that are named."


class Stragglers(NamedTuple):
    """The few long attempts that others waited for."""

    attempts: list[Attempt]
    usual_ns: float
    "Median length."
    waited: int
    "Slots' time that was waiting for them, nanoseconds."

    @property
    def excess(self) -> float:
        """Nanoseconds beyond the usual length; also in the queue for a processor, where the others
        waited for it.
        """
        return sum(a.end_ns - a.start_ns - self.usual_ns for a in self.attempts)


def overhead(evidence: Evidence, summary: Summary) -> list[Finding]:
    """Time between phases that tiny tasks cost."""
    share = evidence.share(evidence.gaps)
    lengths = evidence.lengths()
    if share < NOTABLE or not lengths:
        return []
    usual = np.median(lengths)
    each = evidence.gaps / len(evidence.attempts)
    if evidence.crowd is not None and usual > each:
        # a slot that gives way to other processes takes long to come back: that is no cost of the
        # engine
        return []
    if len(evidence.attempts) <= len(evidence.slots):
        return []  # nothing is between tasks where no slot has had two
    if usual > SMALL * each or len(lengths) < FEWEST:
        return [_between_tasks(evidence, share, usual)]
    return [
        Finding(
            "engine-overhead",
            f"Handing out tasks took {show_share(share)} of the slots' time: the tasks were too"
            " short for this engine.",
            f"{show_count(summary.tasks, 'task')} with a median length of"
            f" {show_seconds(usual / 1e9)} cost {show_seconds(each / 1e9)} each to hand out.",
            _less_handing_out(evidence, SMALL * 2 * each / max(usual, 1)),
            share,
        )
    ]


def _less_handing_out(evidence: Evidence, wanted: float) -> str:
    """What makes the engine cost less, as far as blocks, slots and other engines allow."""
    times = remedies.larger(evidence, wanted)
    lighter = ""
    if evidence.is_heavy:
        lighter = "--engine processes, which costs less per task"
    if times > 1:
        larger = f"Use blocks about {times:,} times larger (--block-shape, --blocks or --partition"
        larger += " bytes=...)"
        return ", or ".join(part for part in (larger, lighter) if part) + "."
    if lighter:
        return f"Use {lighter}."
    if evidence.is_in_caller:
        return ""
    return _one_process(evidence)


def _one_process(evidence: Evidence) -> str:
    """Engines that hand out tasks in the driver's own process."""
    able = (("threads", THREADS), ("serial", FEWER))
    names = [name for name, pull in able if pull not in evidence.ruled_out]
    if not names:
        return ""
    return f"Use --engine {' or '.join(names)}: there is too little work for processes to share."


def _between_tasks(evidence: Evidence, share: float, usual: float) -> Finding:
    return Finding(
        "between-tasks",
        f"Between tasks the slots had nothing to do for {show_share(share)} of their time.",
        f"{show_count(len(evidence.attempts), 'attempt')} with a median length of"
        f" {show_seconds(usual / 1e9)}.",
        "Look at the gaps in the chart: between stages and rounds of retries the engine waits for"
        " the last task, and a function's code outside its phases (loading it, converting what it"
        " returns) counts here, too.",
        share,
    )


def stragglers(evidence: Evidence) -> Stragglers | None:
    """Attempts far longer than the median, if they are few and others waited for them."""
    lengths = evidence.lengths()
    if len(lengths) < FEWEST:
        return None
    usual = np.median(lengths)
    long = [
        a for a in evidence.attempts if not a.is_lost and a.length_ns > STRAGGLING * max(usual, 1)
    ]
    # Only those that somebody waited for: a long task among the first ones does no harm.
    waits = Cover(merged(evidence.waits))
    long = [a for a in long if waits.of((a.start_ns, a.end_ns)) > 0]
    if not long or len(long) > max(1, FEW * len(lengths)):
        return None
    cover = Cover(merged((a.start_ns, a.end_ns) for a in long))
    return Stragglers(long, usual, sum(cover.of(gap) for gap in evidence.waits))


def straggling(evidence: Evidence) -> list[Finding]:
    """A few long tasks at the end, while the other slots have none left."""
    found = stragglers(evidence)
    if found is None or evidence.share(found.waited) < NOTABLE / 2:
        return []
    share = evidence.share(found.waited + found.excess)
    if share < NOTABLE:
        return []
    longest = sorted(found.attempts, key=lambda a: -a.length_ns)
    named = "; ".join(
        f"{evidence.label(a.task)} on {a.slot} took {show_seconds(a.length_ns / 1e9)}"
        for a in longest[:NAMED]
    )
    more = f"; and {len(longest) - NAMED} more" if len(longest) > NAMED else ""
    what = "One task" if len(longest) == 1 else f"{len(longest)} tasks"
    them = "it" if len(longest) == 1 else "them"
    advice = f"Look at what is special about {them}."
    if remedies.more_blocks(evidence, WAVES * len(evidence.slots), found.usual_ns / 1e9):
        advice = (
            f"Look at what is special about {them}, or cut smaller blocks, so that other slots"
            " share the work."
        )
    if slow := _slow_slot(evidence, longest, found.usual_ns):
        advice = f"All tasks of {slow} were slow: look at that host or slot before the data."
    return [
        Finding(
            "stragglers",
            f"{what} held up the end of the run: that, and the slots that waited, took"
            f" {show_share(share)} of the slots' time.",
            f"{named}{more}; the median is {show_seconds(found.usual_ns / 1e9)}.",
            advice,
            share,
        )
    ]


def _slow_slot(evidence: Evidence, long: list[Attempt], usual: float) -> str:
    """The slot that all stragglers ran on, if its other tasks are slow as well."""
    slots = {a.slot for a in long}
    others = [a.length_ns for a in evidence.attempts if a.slot in slots and a not in long]
    return (
        slots.pop()
        if len(slots) == 1 and len(others) >= FEWEST and np.median(others) > 2 * usual
        else ""
    )


def few(evidence: Evidence) -> list[Finding]:
    """Slots that had nothing to do while others worked on the last tasks."""
    found = stragglers(evidence)
    waited = evidence.waited_slots - (found.waited if found else 0)
    share = evidence.share(waited)
    slots = len(evidence.slots)
    tasks = len({a.task for a in evidence.attempts})
    if share < NOTABLE or not tasks:
        return []
    if tasks < slots:
        sentence = f"There were too few tasks: {show_count(tasks, 'task')} for {slots} slots"
    else:
        sentence = f"The last tasks left slots idle: {show_count(tasks, 'task')} for {slots} slots"
    return [
        Finding(
            "too-few-partitions",
            f"{sentence}, which waited for {show_share(share)} of their time without one.",
            f"{show_count(len({a.slot for a in evidence.attempts}), 'slot')} of {slots} ran"
            f" a task; {tasks / slots:.1f} tasks per slot.",
            _more_tasks(evidence, tasks, slots),
            share,
        )
    ]


def _more_tasks(evidence: Evidence, tasks: int, slots: int) -> str:
    """How every slot gets work, as far as the array and the plan allow."""
    usual_s = np.median(evidence.lengths() or [0]) / 1e9
    blocks = remedies.more_blocks(evidence, max(WAVES * slots, 2 * tasks), usual_s)
    if blocks:
        each = ""
        if int(evidence.run.get("arrays") or 1) > 1:
            each = " of each array"
        return f"Cut about {blocks:,} blocks{each} (--blocks {blocks})."
    threads = max(1, int(evidence.run.get("threads") or 1))
    needed = -(-tasks // threads)
    has_idle = needed * threads < slots and remedies.can_use_fewer(evidence)
    if has_idle and remedies.takes_slots(evidence):
        return f"Use --workers {needed}: there is no more work to share."
    return ""


def unfed(evidence: Evidence) -> list[Finding]:
    """Slots without a task while tasks began elsewhere."""
    share = evidence.share(sum(evidence.unfed.values()))
    if share < NOTABLE:
        return []
    named = ", ".join(list(evidence.unfed)[:NAMED]) + (
        " ..." if len(evidence.unfed) > NAMED else ""
    )
    return [
        Finding(
            "unfed-slots",
            f"{show_count(len(evidence.unfed), 'slot')} got no tasks for {show_share(share)} of the"
            " slots' time, although tasks began elsewhere.",
            f"{named}.",
            "Their worker may have died or started late, or the engine keeps tasks near their data:"
            " look at its log.",
            share,
        )
    ]


def starting(evidence: Evidence, summary: Summary, queued_s: float) -> list[Finding]:
    """The time until the first task ran, as a share of the makespan, without that in a queue."""
    slots = len(evidence.slots)
    ready_s = max(0.0, summary.startup_s - queued_s)
    seconds = ready_s
    if slots and evidence.attempts:
        seconds += evidence.leading / slots / 1e9
    share = min(1.0, seconds / summary.makespan_s) if summary.makespan_s else 0.0
    if share < LONG_START or seconds * evidence.left_over < NOTICED_S:
        return []
    return [
        Finding(
            "start-up",
            f"Starting took {show_seconds(seconds)}, {show_share(share)} of the makespan, before"
            " the first task ran.",
            f"{show_seconds(ready_s)} until the engine was ready.",
            _quicker_start(evidence),
            share,
        )
    ]


def _quicker_start(evidence: Evidence) -> str:
    same = "It takes the same time however much data there is"
    if remedies.are_workers_jobs(evidence):
        return (
            "Its workers are jobs of a batch system, whose time in the queue is part of it: ask for"
            " fewer of them (--workers), or for less time and memory of each, or connect to a"
            " cluster that runs already."
        )
    if evidence.is_heavy:
        light = "processes or threads"
        if THREADS in evidence.ruled_out:
            light = "processes"
        return f"{same}: for short runs use --engine {light}{_or_connect(evidence)}."
    return f"{same}."


def _or_connect(evidence: Evidence) -> str:
    """The advice to connect, where that is to workers which have started, and not done yet."""
    if evidence.run.get("starts_at_once_there") and not evidence.run.get("connect"):
        return ", or --connect"
    return ""


def closing(evidence: Evidence) -> list[Finding]:
    """The time after the last task."""
    share = evidence.share(evidence.closing)
    slots = max(1, len(evidence.slots))
    seconds = evidence.closing / slots / 1e9
    if share < NOTABLE or seconds * evidence.left_over < NOTICED_S or not evidence.attempts:
        return []
    return [
        Finding(
            "closing",
            f"After the last task the run took another {show_seconds(seconds)}.",
            f"{show_share(share)} of the slots' time: results are merged, and outputs forced to"
            " storage.",
            _quicker_end(evidence),
            share,
        )
    ]


def _quicker_end(evidence: Evidence) -> str:
    named = evidence.meta.get("naming") or {}
    slots = max(1, len(evidence.slots))
    if named.get("files", 0) > 1 and named["seconds"] > evidence.closing / slots / 1e9 / 2:
        return _fewer_files(named["files"], named["seconds"])
    if remedies.larger(evidence, 2) > 1:
        return "Use fewer and larger blocks, or faster storage for the outputs."
    return "Put the outputs on faster storage."


def _fewer_files(files: int, seconds: float) -> str:
    each = show_seconds(seconds / files)
    return (
        f"Most of it went into syncing and naming {show_count(files, 'file')}, {each} each: write"
        " fewer and larger files, or write to a local disk."
    )


def losing(evidence: Evidence, summary: Summary) -> list[Finding]:
    """Attempts that failed, or whose results did not count."""
    took = evidence.lost + sum(a.length_ns for a in evidence.attempts if a.is_lost)
    share = summary.lost_s / (evidence.total / 1e9) if evidence.total else 0.0
    if not took or share < NOTABLE:
        return []
    return [
        Finding(
            "lost-attempts",
            f"{show_count(summary.lost_attempts, 'attempt')} of {summary.attempts:,} failed and"
            f" took {show_share(share)} of the slots' time.",
            f"{show_seconds(summary.lost_s)} over all slots.",
            "Fix these failures first: the run lists the reasons.",
            min(1.0, share),
        )
    ]
