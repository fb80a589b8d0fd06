"""Claims of V. Hayot-Sasson, S. T. Brown, T. Glatard, Performance benefits of Intel Optane DC
persistent memory for the parallel processing of large neuroimaging data (2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean

from hyperslab.apps.experiment.answers.comparison import WITHOUT_START, Block, Verdict, paired
from hyperslab.apps.experiment.answers.phases import CellPhases
from hyperslab.apps.experiment.claims import not_tried, whole_files, write_back
from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Evidence,
    Judged,
    Outcome,
    Values,
    advised,
    contrast,
    expecting,
    judged_contrasts,
    rising,
    untestable,
)
from hyperslab.apps.experiment.claims.law import judge_law
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.trials.record import Attempt

INCREMENTATION = "storage-tiers/incrementation"
WRITE_BACK = "storage-tiers/write-back"
INTERMEDIATES = "storage-tiers/intermediates"
REGIONS = "storage-tiers/regions"
PARTICIPANTS = "storage-tiers/bids"
TIERS = ("dram", "optane", "ssd", "isilon")
"Tiers of the paper, fastest first."
WAITING = "Busy time that is not spent on a processor, as a share"
READ_ONCE = (
    "Inputs are read once here, and outputs written once: staging can save waiting, no bytes, so"
    " that it does not pay is by construction."
)


def _order(evidence: Evidence) -> Judged:
    """Every tier beside the next faster one."""
    grid = product(evidence.levels("engine"), evidence.levels("workers"))
    found = [
        one
        for engine, workers in grid
        for faster, slower in pairwise(TIERS)
        for one in evidence.beside(
            "tier", slower, faster, WITHOUT_START, engine=engine, workers=workers
        )
    ]
    return expecting({"slower"}, found)


def _participants(evidence: Evidence) -> Judged:
    """The slowest tier beside the fastest, of a BIDS App."""
    found = [
        one
        for workers in evidence.levels("workers")
        for one in evidence.beside("tier", TIERS[-1], TIERS[0], WITHOUT_START, workers=workers)
    ]
    return expecting({"slower"}, found)


def _more_processes(evidence: Evidence) -> Judged:
    """A process for every hardware thread beside few of them, on every tier."""
    found = [
        one
        for tier in evidence.levels("tier")
        for one in evidence.beside("workers", "1x", "0.25x", WITHOUT_START, tier=tier)
    ]
    ends = [(one.reference.shown("workers"), one.cell.shown("workers")) for one in found]
    told = [f"Here that is from {few} to {many}." for few, many in dict.fromkeys(ends)]
    return expecting({"faster"}, found).beside(told)


def _processes_on(tier: str, expected: set[Verdict], published: str) -> Claim:
    words = "pay" if expected == {"faster"} else "do not pay"

    def judge(evidence: Evidence) -> Judged:
        found = [
            one
            for engine in evidence.levels("engine")
            for one in evidence.beside(
                "workers", "1x", "0.25x", WITHOUT_START, tier=tier, engine=engine
            )
        ]
        return expecting(expected, found)

    return Claim(
        f"More processes {words} on {tier}.",
        INCREMENTATION,
        judge,
        published,
        is_asked_for=tier != TIERS[0],
        tiers=(tier,),
    )


def _parallelism(evidence: Evidence) -> Judged:
    """Look at a process for every hardware thread: a single one cannot be busier than another."""
    return _on_ends(evidence, "Average number of busy slots", _busy_slots, workers="1x")


def _waiting(evidence: Evidence) -> Judged:
    return _on_ends(evidence, WAITING, _waits, show=_show_waits)


def _programs_waiting(evidence: Evidence) -> Judged:
    """Look at a process for every hardware thread, as the paper's numbers do."""
    return _on_ends(evidence, WAITING, _waits, show=_show_waits, workers="1x")


def _more_processor_time(evidence: Evidence) -> Judged:
    return _with_more_processes(evidence, "Processor time", _processor_s, TIERS[:1])


def _more_waiting(tier: str, published: str) -> Claim:
    """A claim on one tier alone: memory is real, others are emulated."""

    def judge(evidence: Evidence) -> Judged:
        return _with_more_processes(evidence, "Busy time off the processor", _waits_s, (tier,))

    return Claim(
        f"With more processes they spend more time on input and output on {tier}.",
        PARTICIPANTS,
        judge,
        published,
        is_asked_for=tier != TIERS[0],
        tiers=(tier,),
    )


def _with_more_processes(
    evidence: Evidence,
    what: str,
    number: Callable[[Attempt], float | None],
    tiers: Sequence[str],
) -> Judged:
    """Judge that seconds of all tasks are more with a process for every hardware thread."""
    found = []
    for tier in tiers:
        few, many = (evidence.cell(tier=tier, workers=level) for level in ("0.25x", "1x"))
        if few is None or many is None or few.cell.workers == many.cell.workers:
            continue
        pairs = [(own, other) for other, own in paired(few, many, number).values()]
        if pairs:
            many_s, few_s = (_show_s(fmean(own)) for own in zip(*pairs, strict=True))
            numbers = [one.cell.shown("workers") for one in (few, many)]
            head = f"{what} on {tier}: {few_s} at {numbers[0]}, {many_s} at {numbers[1]}"
            found.append(contrast(head, pairs))
    return judged_contrasts(found)


def _show_s(seconds: float) -> str:
    if seconds < 0:
        return f"none (tasks used {-seconds:.3g} s more than they were busy)"
    return f"{seconds:.3g} s"


def _processor_s(attempt: Attempt) -> float | None:
    return attempt.numbers.get("cpu_s")


def _waits_s(attempt: Attempt) -> float | None:
    busy_s = attempt.numbers.get("busy_s")
    cpu_s = attempt.numbers.get("cpu_s")
    if busy_s is None or cpu_s is None:
        return None
    return busy_s - cpu_s


def _show_waits(share: float) -> str:
    if share < 0:
        return f"none (tasks used {1 - share:.3g} processors)"
    return f"{share:.3g}"


def _busy_slots(attempt: Attempt) -> float | None:
    return attempt.numbers.get("average_parallelism")


def _waits(attempt: Attempt) -> float | None:
    waits_s = _waits_s(attempt)
    busy_s = attempt.numbers.get("busy_s")
    if not busy_s or waits_s is None:
        return None
    return waits_s / busy_s


def _garbage(evidence: Evidence) -> Judged:
    what = "Seconds in which tasks of Spark's binaryFiles waited for Java to collect garbage"
    tiers = ("isilon", "optane")
    return _on_ends(evidence, what, _collects, tiers, engine="spark-binary-files")


def _collects(attempt: Attempt) -> float | None:
    return attempt.numbers.get("java_gc_s")


def _on_ends(
    evidence: Evidence,
    what: str,
    number: Callable[[Attempt], float | None],
    tiers: Sequence[str] = (TIERS[0], TIERS[-1]),
    show: Callable[[float], str] = "{:.3g}".format,
    **levels: Level,
) -> Judged:
    """Judge that a number of trials is greater on the second of two tiers, by default the slowest
    one beside the fastest.
    """
    ends: list[Values] = []
    for tier in tiers:
        cell = evidence.cell(tier=tier, **levels)
        if cell is not None:
            ends.append((tier, cell.by_block(number)))
    return rising(what, *_both(ends), show)


def _opening(evidence: Evidence) -> Judged:
    ends: list[Values] = []
    for tier in (TIERS[0], TIERS[-1]):
        cell = evidence.cell(tier=tier)
        if cell is not None:
            own = [one for one in evidence.answer.phases if one.result.cell.key == cell.cell.key]
            ends += [(tier, _opening_s(one)) for one in own]
    return rising("Seconds in which a file is opened and its header read", *_both(ends))


def _opening_s(phases: CellPhases) -> dict[Block, float]:
    """Mean time in which a task of each trial opens its files."""
    opened = {trial.replicate: trial.seconds.get("open", 0.0) for trial in phases.trials}
    return phases.result.by_block(lambda attempt: opened.get(attempt.replicate))


def _both(ends: Sequence[Values]) -> tuple[Values | None, Values | None]:
    if len(ends) < 2:
        return None, None
    return ends[0], ends[1]


def _write_back(name: str, fits: bool, is_busy: bool) -> Claim:
    def judge(evidence: Evidence) -> Judged:
        return write_back.judge(evidence, fits, is_busy)

    published = "no such pair on one medium; advice of its discussion"
    return Claim(name, WRITE_BACK, judge, published, is_asked_for=True)


def _intermediates(evidence: Evidence) -> Judged:
    return expecting({"faster"}, list(evidence.beside("intermediates", "fast", "shared")))


def _staging(evidence: Evidence) -> Judged:
    found = [
        one
        for factor in ("stage_in", "stage_out")
        for one in evidence.beside(factor, "fast", "none")
    ]
    judged = expecting({"faster"}, found)
    if judged.outcome in ("refuted", "refuted in part"):
        return judged.instead("by construction", READ_ONCE)
    return judged


def _regions(evidence: Evidence) -> Judged:
    found = [
        one
        for region in evidence.levels("region")
        for tier in evidence.levels("tier")[1:]
        for one in evidence.beside("tier", tier, "dram", WITHOUT_START, region=region)
    ]
    return expecting({"slower"}, found)


def advice(found: Sequence[tuple[Claim, Judged]]) -> list[str]:
    """What follows for whoever chooses a tier, with the evidence."""
    return list(advised(ADVICE, found))


SLOW = "More processes do not pay on isilon."
WHOLE = "Whole files by Spark's binaryFiles take longer than a pool of processes."
HIDDEN = "Write-back pays for more than fits, with something to compute meanwhile."
KEPT = "Intermediate results belong on a fast tier."
STAGED = "Staging inputs and outputs on a fast tier pays."
PROGRAMS = "More processes pay for a BIDS App, also on a slow tier."
"Claims that advice rests on."
TITLE = "Storage tiers"
PAPER = (
    "V. Hayot-Sasson, S. T. Brown, T. Glatard, *Performance benefits of Intel Optane DC persistent"
    " memory for the parallel processing of large neuroimaging data*, 2020"
)
LAW = "0.15 (DRAM, 96 processes) to 2.8 (Memory mode, Spark, 96 processes) (Fig. 1, 3, 5 to 8)"
CLAIMS = (
    Claim(
        "Memory is faster than persistent memory, that than a local disk, and that than a network"
        " file system.",
        INCREMENTATION,
        _order,
        "25 processes: optane/dram 16.1, ssd/optane 2.02, isilon/ssd 4.93 (Fig. 1a)",
        is_asked_for=True,
    ),
    Claim(
        "Equation 1 (bytes at the rates of one stream) is off in both directions.",
        INCREMENTATION,
        judge_law,
        LAW,
    ),
    _processes_on("dram", {"faster"}, "96 over 25 processes: 0.75 (Fig. 1a, 3a)"),
    _processes_on("isilon", {"equivalent", "slower"}, "96 over 25 processes: 1.11 (Fig. 1a, 3a)"),
    Claim(
        WHOLE,
        INCREMENTATION,
        whole_files.judge,
        "25 processes, Spark over GNU Parallel: optane 1.16, isilon 1.14 (Fig. 5a, 6a)",
    ),
    Claim(
        "More slots are busy at a time on a slow tier.",
        INCREMENTATION,
        _parallelism,
        "averages of 14 to 88 processes (in its text)",
        is_asked_for=True,
    ),
    Claim(
        "On a slow tier, tasks wait for storage.",
        INCREMENTATION,
        _waiting,
        "no number for increments (Fig. 10 is of the BIDS App)",
        is_asked_for=True,
    ),
    Claim(
        "Opening files takes longest on a network file system.",
        INCREMENTATION,
        _opening,
        "isilon/dram over 5000 (Fig. 1b)",
        is_asked_for=True,
    ),
    _write_back("Write-back pays for what fits, with something to compute meanwhile.", True, True),
    _write_back("Write-back pays for what fits, with nothing else to do.", True, False),
    _write_back(HIDDEN, False, True),
    _write_back("Write-back pays for more than fits, with nothing else to do.", False, False),
    Claim(
        KEPT,
        INTERMEDIATES,
        _intermediates,
        "no number; advice of its discussion",
        is_asked_for=True,
    ),
    Claim(
        STAGED,
        INTERMEDIATES,
        _staging,
        "no number; advice of its discussion",
    ),
    Claim(
        "Regions of interest are extracted faster from memory.",
        REGIONS,
        _regions,
        "no number; an outlook",
        is_asked_for=True,
    ),
    Claim(
        "Java collects garbage for longer on persistent memory than on a network file system.",
        INCREMENTATION,
        _garbage,
        "no number (in its text on Spark)",
        needs=("optane",),
    ),
    Claim(
        "A BIDS App takes longer from a network file system than from memory.",
        PARTICIPANTS,
        _participants,
        "isilon/memory 1.80 with 25 processes, 3.22 with 96 (Fig. 9)",
        is_asked_for=True,
    ),
    Claim(
        PROGRAMS,
        PARTICIPANTS,
        _more_processes,
        "96 over 25 processes: 0.43 in memory, 0.44 on persistent memory, 0.46 on a disk, 0.76 on"
        " isilon (Fig. 9)",
    ),
    Claim(
        "On a slow tier, programs of a BIDS App wait for storage.",
        PARTICIPANTS,
        _programs_waiting,
        "seconds of input and output with 96 processes: 21,746 in memory, 258,438 on isilon"
        " (Fig. 10)",
        is_asked_for=True,
    ),
    Claim(
        "With more processes, programs of a BIDS App take more processor time.",
        PARTICIPANTS,
        _more_processor_time,
        "1.45 times in memory with 96 processes over 25 (Fig. 10)",
        tiers=TIERS[:1],
    ),
    _more_waiting(TIERS[0], "2.68 times with 96 processes over 25 (Fig. 10)"),
    _more_waiting(TIERS[-1], "4.36 times with 96 processes over 25 (Fig. 10)"),
    Claim(
        "Persistent memory as the machine's memory (Memory mode) is faster than as a disk.",
        "",
        untestable("It needs such a machine: a program cannot emulate it."),
        "20 µm image, 25 processes: 176.9 s against 823.9 s (Fig. 5a)",
    ),
    *not_tried.OF_TIERS,
)
ERRATA = (
    (
        "The formulas that are printed for processor time and for input and output are not those"
        " that were used: user and system time, and what is left of the real time."
    ),
    (
        "GB/s were multiplied by 1024 and called MB/s, although a GB of dd is 10^9 bytes: DRAM"
        " that is read at 5.18 GB/s stands as 5304.3 MB/s."
    ),
    (
        "Data are counted in MiB (125 x 614, 1000 x 617) and divided by rates in MB/s, so that what"
        " equation 1 expects is off by about 5 % and 2.4 %."
    ),
    (
        "For the image of 40 µm the expected time of writing to the local SSD is that of memory,"
        " without a word on it: write-back absorbs what is written."
    ),
    (
        "Equation 1 is printed as a lower bound, and takes the rate of a single stream: 30 cells"
        " took 0.15 to 2.8 times as long."
    ),
    "What is called the entire CoRR dataset are 685 of its participants.",
    "Spark 2.4.3 is printed; the logs are of 2.4.4.",
    "Every task wrote its log to the device under test, which the paper blames for gaps on Isilon.",
)
ADVICE: Mapping[str, Mapping[Outcome, str]] = {
    SLOW: {
        "by construction": "On a slow tier whose bandwidth is used up further processes bring"
        " nothing: move fewer bytes, or to a faster tier.",
        "reproduced": "On a slow tier whose bandwidth is used up further processes bring nothing:"
        " move fewer bytes, or to a faster tier.",
    },
    WHOLE: {
        "reproduced": "Let tasks read their blocks, and do not have Spark hand over whole files.",
        "in part": "Rather let tasks read their blocks than have Spark hand over whole files.",
        "mixed": "Try whole files by Spark on your tier: how much they cost depends on it.",
        "refuted": "Whole files by Spark do as well as a pool of processes.",
    },
    HIDDEN: {
        "by construction": "Write back where tasks compute while outputs are written: it saves no"
        " more than the time for which the medium is written, and no more than all else takes.",
        "reproduced": "Write back where tasks compute while outputs are written.",
        "refuted": "Write-back need not be asked for.",
    },
    KEPT: {
        "by construction": "Keep intermediate results on the fastest tier that has room for them.",
        "reproduced": "Keep intermediate results on the fastest tier that has room for them.",
        "refuted": "Intermediate results may stay where outputs are.",
    },
    STAGED: {
        "reproduced": "Stage inputs and outputs.",
    },
    PROGRAMS: {
        "reproduced": "Give a BIDS App a process for every hardware thread, also on a slow tier.",
        "in part": "Rather give a BIDS App a process for every hardware thread.",
        "mixed": "On a slow tier try how many processes a BIDS App is fastest with.",
        "refuted": "A few processes do for a BIDS App.",
    },
}
"Sentences on claims, by what came of them."
