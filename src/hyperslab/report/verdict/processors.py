"""Rules about processors: work that is bound by them, locks, functions that wait, and machines that
are too busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hyperslab.report.verdict import remedies
from hyperslab.report.verdict.agreement import AS_MANY, MORE, NOTHING, PLAIN
from hyperslab.report.verdict.evidence import Counters, Evidence, merged
from hyperslab.report.verdict.finding import NOTABLE, STARVED, Finding, listed
from hyperslab.report.verdict.tasks import stragglers, straggling
from hyperslab.units import show_count, show_share

BLOCKED = 0.25
"""Share of the time of compute phases, the queue for a processor aside: pure Python on 2 threads of
one process waits for 0.5 of it on a quiet machine, on busy ones for 0.33 to 0.46; NumPy for up to
0.23, single threads for up to 0.05.
"""
BLOCKED_AT_ALL = 0.1
"Share of all their time: where nearly all of it is queueing, the rest is too little to judge by."
ONE_PROCESSOR = 0.5
"""A lock is handed from one running thread to the next; where less than this of a processor is
used, threads sleep.
"""
MEMORY_STALLED = 0.1
"Share of the time from which on what threads wait for may well be memory."
BOUND = 0.25
"""Share of the slots' time on a processor or in its queue, for the processors to be what a run
needs.
"""
QUEUED = 0.15
"""Share of the time of all phases: two runs beside each other on as many processors as one of them
has slots reach 0.5.
"""
FELT = 0.03
"Share of the time of all phases below which a crowd on the other processors did no harm."
OTHERS = 0.25
"""Share of the processors' time, on a machine that is busy all over: enough to slow a run by a
quarter.
"""
INFLATED = 2.0
"Times that gzip streams are read from which on that is told."
HELD_BACK = 0.1
"Share of the time: a quota or hypervisor that takes this much is felt."


class Lock(NamedTuple):
    """Compute phases that wait for one another inside worker processes."""

    workers: int
    threads: int
    "The most slots of one of them."
    compute: Counters
    "Counters of the compute phases of these workers."
    blocked: float
    "Share of the time of their compute phases, the queue for a processor aside."


def held_back(load: Mapping[str, object]) -> float:
    """The share of time that no thread could run, by a quota or the hypervisor: it looks like
    waiting for a lock.
    """
    group = load.get("group")
    shares = [
        load.get("stolen_share"),
        group.get("throttled_share") if isinstance(group, Mapping) else None,
    ]
    return sum(float(share) for share in shares if isinstance(share, (int, float)))


def memory_stalled(evidence: Evidence) -> float:
    """The share of time that tasks of this machine waited for memory; 0 where the kernel does not
    tell.
    """
    return float((evidence.load.get("stalled_shares") or {}).get("memory_some") or 0.0)


def lock(evidence: Evidence) -> Lock | None:
    """The workers whose threads wait for one another, if that can be seen and is so."""
    if evidence.has_process_per_slot:
        return None
    total = Counters()
    workers = 0
    most = 1
    together = 0
    for worker, counters in evidence.computing.items():
        spans = evidence.compute_spans[worker]
        slots = len({slot for slot, _ in spans})
        if slots > 1:
            workers += 1
            most = max(most, slots)
            total.include(counters)
            together += sum(end - start for start, end in merged(interval for _, interval in spans))
    if not workers or not total.is_known or not total.wall:
        return None
    other = held_back(evidence.load) + memory_stalled(evidence)
    blocked = total.waited / max(1, total.wall - total.runq) - other
    uses = (total.cpu + total.runq) / together
    is_held = (
        blocked > BLOCKED and total.waited / total.wall > BLOCKED_AT_ALL and uses > ONE_PROCESSOR
    )
    return Lock(workers, most, total, blocked) if is_held else None


def gil(evidence: Evidence) -> list[Finding]:
    """Threads of one process that keep one another from computing."""
    found = lock(evidence)
    if found is None:
        return []
    share = evidence.share(found.compute.wall - found.compute.runq)
    if share < NOTABLE:
        return []
    compute = found.compute
    cpu = show_share(compute.cpu / compute.wall)
    queued = show_share(compute.runq / compute.wall)
    return [
        Finding(
            "gil",
            "Python's global interpreter lock limited this run: the function lets only one thread"
            f" of a process compute at a time, and up to {found.threads} shared one.",
            f"Of the time of compute phases threads ran for {cpu}, queued for a processor for"
            f" {queued}, and for the other {show_share(compute.waited / compute.wall)} waited for"
            " one another.",
            f"Use processes instead of threads ({_as_processes(evidence)}), or a function that"
            " releases the lock (NumPy, Numba, a compiled extension).",
            share,
        )
    ]


def _as_processes(evidence: Evidence) -> str:
    """How as many slots become processes."""
    if not remedies.takes_slots(evidence):
        return "a cluster whose workers have one thread each"
    flags = f"--workers {len(evidence.slots)} --threads 1"
    if AS_MANY in evidence.ruled_out:
        flags = "--threads 1"
    if evidence.is_in_caller:
        return f"--engine processes {flags}"
    return flags


def waiting_function(evidence: Evidence) -> list[Finding]:
    """Compute phases that wait for something that is neither a processor, nor memory, nor the
    lock.
    """
    computing = evidence.classes["compute"]
    if (
        not computing.is_known
        or lock(evidence) is not None
        or memory_stalled(evidence) > MEMORY_STALLED
    ):
        return []
    share = evidence.share(computing.waited - held_back(evidence.load) * computing.wall)
    if share < NOTABLE:
        return []
    return [
        Finding(
            "waiting-function",
            "The function itself waited.",
            f"For {show_share(share)} of the slots' time, compute phases neither ran nor waited"
            " for a processor.",
            "What it waits for cannot be seen from here: files or network that it uses itself,"
            " sleeping, a lock, a program that it started."
            f"{_overlapping(evidence)}",
            share,
        )
    ]


def _overlapping(evidence: Evidence) -> str:
    if not remedies.can_use_more(evidence):
        return ""
    return f" If it must wait, {remedies.more_slots(evidence)} would overlap the waits."


def inflating(evidence: Evidence) -> list[Finding]:
    """Processor time that went into inflating the same gzip streams again."""
    times = _times_inflated(evidence)
    share = evidence.share(_inflated_again(evidence))
    if times < INFLATED or share < NOTABLE:
        return []
    return [
        Finding(
            "inflating",
            f"Reading the same gzip stream again limited this run: {show_share(share)} of the"
            " slots' time went into inflating what other tasks had inflated, too.",
            f"The tasks read the streams {times:.1f} times, because their blocks have values all"
            " over them, as blocks of a series have that keep its time axis whole.",
            f"{_entered(evidence)}{_fewer_blocks(evidence)}.",
            share,
        )
    ]


def _entered(evidence: Evidence) -> str:
    """How the input is read in parts, without a stream to be inflated from its start."""
    if PLAIN in evidence.ruled_out:
        return "Convert the input once, to compressed chunks (--chunks), and run over those"
    return "Convert the input once, to .nii, and run over that"


def _fewer_blocks(evidence: Evidence) -> str:
    if remedies.larger(evidence, 2) > 1:
        return ", or ask for fewer and larger blocks"
    return ""


def _times_inflated(evidence: Evidence) -> float:
    return float(evidence.run.get("times_inflated") or 1.0)


def _inflated_again(evidence: Evidence) -> int:
    """Processor time of reads beyond those that a single pass over the streams takes, ns."""
    return int(evidence.classes["read"].cpu * (1 - 1 / _times_inflated(evidence)))


def bound(evidence: Evidence) -> list[Finding]:
    """Slots that computed, which is what they are for."""
    everything = evidence.everything
    locked = lock(evidence)
    wanted = everything.cpu + (everything.runq if everything.is_known else 0)
    if locked is not None:
        wanted -= locked.compute.cpu + locked.compute.runq
    if straggling(evidence) and (long := stragglers(evidence)):
        wanted -= int(long.excess)
    wanted -= _inflated_again(evidence)
    share = evidence.share(wanted)
    if share < BOUND:
        return []
    queued = ""
    if everything.runq:
        waited = show_share(evidence.share(everything.runq))
        queued = f"; {waited} of the slots' time was spent waiting for a processor, and counts, too"
    what = max(
        ("compute", "read", "write", "open", "tiny", "other"),
        key=lambda name: evidence.classes[name].cpu,
    )
    most = show_share(evidence.classes[what].cpu / everything.cpu) if everything.cpu else "0 %"
    noun = {
        "compute": "the function",
        "other": "merging",
        "tiny": "small transfers",
        "open": "opening files",
    }
    return [
        Finding(
            "compute-bound",
            f"The processors limited this run: {show_share(share)} of the slots' time was processor"
            " work.",
            f"{most} of the CPU time went into"
            f" {noun.get(what, 'copying and decoding in ' + what + ' phases')}{queued}.",
            _more_processors(evidence, what),
            share,
        )
    ]


def _more_processors(evidence: Evidence, what: str) -> str:
    cpus = evidence.run.get("cpus")
    slots = len(evidence.slots)
    if isinstance(cpus, int) and not evidence.run.get("connect"):
        able = min(cpus, remedies.tasks(evidence))
        if MORE in evidence.ruled_out:
            able = slots
        threads = max(1, int(evidence.run.get("threads") or 1))
        if slots < able and able // threads > slots // threads:
            ran = show_count(slots, "slot")
            flags = f"{remedies.other_engine(evidence)}--workers {able // threads}"
            return f"Use {flags}: only {ran} ran on {cpus} processors."
    if what == "read" and evidence.run.get("inflates"):
        return "Convert the inputs to files without compression, such as .nii, to read them faster."
    if NOTHING in evidence.ruled_out:
        return "A faster function, or faster processors, would shorten this part."
    return "Nothing is wrong: only more processors, or a faster function, would speed it up."


def starved(evidence: Evidence) -> list[Finding]:
    """A machine that had not enough processors for what was to run on it."""
    everything = evidence.everything
    load = evidence.load if evidence.is_local else {}
    queued = everything.runq / everything.wall if everything.is_known and everything.wall else None
    others = load.get("others_share")
    busy = load.get("busy_share")
    crowded = (evidence.crowd or 0.0) > OTHERS
    felt = (queued or 0.0) > QUEUED or (crowded and (queued is None or queued > FELT))
    if not felt and held_back(load) <= HELD_BACK:
        return []
    said = []
    if queued is not None:
        said.append(f"phases queued for a processor for {show_share(queued)} of their time")
    if others is not None and busy is not None:
        said.append(
            f"the processors were {show_share(busy)} busy, {show_share(others)} with other"
            " processes"
        )
    if held_back(load) > HELD_BACK:
        said.append(
            f"a quota or hypervisor held processes back for {show_share(held_back(load))} of the"
            " time"
        )
    sentence, advice = _who_starves(evidence, crowded or bool(others and others > OTHERS))
    lost = held_back(load)
    if queued is None:
        lost += evidence.crowd or 0.0
    else:
        lost += evidence.share(everything.runq)
    return [Finding(STARVED, sentence, listed(said), advice, min(1.0, lost))]


def _who_starves(evidence: Evidence, by_others: bool) -> tuple[str, str]:
    cpus = evidence.run.get("cpus")
    slots = len(evidence.slots)
    less = "so it took longer than it need have"
    if not by_others and isinstance(cpus, int) and slots > cpus and not evidence.run.get("connect"):
        sentence = (
            f"The machine was short of processors: {slots} slots shared {cpus} of them, {less}."
        )
        return sentence, f"Use no more slots than processors (--workers x --threads = {cpus})."
    sentence = f"The machine was short of processors during this run, {less}."
    fewer = f", or with {remedies.fewer_slots(evidence)}"
    if not remedies.can_use_fewer(evidence):
        fewer = ""
    return sentence, f"Run again when it is quiet{fewer}."
