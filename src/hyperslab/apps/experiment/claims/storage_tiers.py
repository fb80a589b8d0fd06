"""Claims of V. Hayot-Sasson, S. T. Brown, T. Glatard, Performance benefits of Intel Optane DC
persistent memory for the parallel processing of large neuroimaging data (2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product

from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Evidence,
    Judged,
    Values,
    expecting,
    rising,
    untestable,
)
from hyperslab.apps.experiment.comparison import Verdict
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.record import Attempt

INCREMENTATION = "storage-tiers/incrementation"
WRITE_BACK = "storage-tiers/write-back"
INTERMEDIATES = "storage-tiers/intermediates"
REGIONS = "storage-tiers/regions"
TIERS = ("dram", "optane", "ssd", "isilon")
"Tiers of the paper, fastest first."
FAR = 1.25
"Ratio of a makespan to what is expected from which on that is off."


def _order(evidence: Evidence) -> Judged:
    """Every tier beside the next faster one."""
    grid = product(evidence.levels("engine"), evidence.levels("workers"))
    found = [
        one
        for engine, workers in grid
        for faster, slower in pairwise(TIERS)
        for one in evidence.beside("tier", slower, faster, engine=engine, workers=workers)
    ]
    return expecting({"slower"}, found)


def _processes_on(tier: str, expected: set[Verdict]) -> Claim:
    words = "pay" if expected == {"faster"} else "do not pay"

    def judge(evidence: Evidence) -> Judged:
        found = [
            one
            for engine in evidence.levels("engine")
            for one in evidence.beside("workers", "1x", "0.25x", tier=tier, engine=engine)
        ]
        return expecting(expected, found)

    return Claim(f"More processes {words} on {tier}.", INCREMENTATION, judge)


def _whole_files(evidence: Evidence) -> Judged:
    found = [
        one
        for tier in evidence.levels("tier")
        for one in evidence.beside("engine", "spark-binary-files", "processes", tier=tier)
    ]
    return expecting({"slower"}, found)


def _law(evidence: Evidence) -> Judged:
    laws = [(one.result.cell.name, one.model.law.ratio) for one in evidence.answer.expected]
    known = [(name, ratio) for name, ratio in laws if ratio is not None]
    if not known:
        return Judged("not tested", ["No cell has all figures that equation 1 needs."])
    least = min(known, key=lambda one: one[1])
    most = max(known, key=lambda one: one[1])
    told = (
        f"Makespans are {least[1]:.2f} ({least[0]}) to {most[1]:.2f} times ({most[0]}) what"
        f" equation 1 expects, in {len(known)} cells."
    )
    is_off = (least[1] < 1 / FAR, most[1] > FAR)
    if all(is_off):
        return Judged("reproduced", [told])
    return Judged("in part" if any(is_off) else "refuted", [told])


def _parallelism(evidence: Evidence) -> Judged:
    return _on_ends(evidence, "Average number of busy slots", _busy_slots)


def _waiting(evidence: Evidence) -> Judged:
    return _on_ends(evidence, "Busy time that is not spent on a processor, as a share", _waits)


def _busy_slots(attempt: Attempt) -> float | None:
    return attempt.numbers.get("average_parallelism")


def _waits(attempt: Attempt) -> float | None:
    busy_s = attempt.numbers.get("busy_s")
    cpu_s = attempt.numbers.get("cpu_s")
    if not busy_s or cpu_s is None:
        return None
    return max(0.0, 1 - cpu_s / busy_s)


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
    **levels: Level,
) -> Judged:
    """Judge that a number of trials is greater on the second of two tiers, by default the slowest
    one beside the fastest.
    """
    ends: list[Values] = []
    for tier in tiers:
        cell = evidence.cell(tier=tier, **levels)
        if cell is not None:
            told = {attempt.replicate: number(attempt) for attempt in cell.done}
            ends.append((tier, {n: value for n, value in told.items() if value is not None}))
    return rising(what, *_both(ends))


def _opening(evidence: Evidence) -> Judged:
    ends: list[Values] = []
    for tier in (TIERS[0], TIERS[-1]):
        cell = evidence.cell(tier=tier)
        for one in evidence.answer.phases:
            if cell is not None and one.result.cell.key == cell.cell.key:
                times = [trial.seconds.get("open", 0.0) for trial in one.trials]
                ends.append((tier, dict(enumerate(times))))
    return rising("Seconds in which a file is opened and its header read", *_both(ends))


def _both(ends: Sequence[Values]) -> tuple[Values | None, Values | None]:
    if len(ends) < 2:
        return None, None
    return ends[0], ends[1]


def _write_back(evidence: Evidence, delay: float) -> Judged:
    found = [
        one
        for size in evidence.levels("size")
        for one in evidence.beside("tier", "back", "through", size=size, delay=delay)
    ]
    return expecting({"faster"}, found)


def _busy_write_back(evidence: Evidence) -> Judged:
    return _write_back(evidence, max(float(level) for level in evidence.levels("delay")))


def _idle_write_back(evidence: Evidence) -> Judged:
    return _write_back(evidence, 0)


def _intermediates(evidence: Evidence) -> Judged:
    return expecting({"faster"}, list(evidence.beside("intermediates", "fast", "shared")))


def _staging(evidence: Evidence) -> Judged:
    found = [
        one
        for factor in ("stage_in", "stage_out")
        for one in evidence.beside(factor, "fast", "none")
    ]
    return expecting({"faster"}, found)


def _regions(evidence: Evidence) -> Judged:
    found = [
        one
        for region in evidence.levels("region")
        for tier in evidence.levels("tier")[1:]
        for one in evidence.beside("tier", tier, "dram", region=region)
    ]
    return expecting({"slower"}, found)


TITLE = "Storage tiers"
PAPER = (
    "V. Hayot-Sasson, S. T. Brown, T. Glatard, *Performance benefits of Intel Optane DC persistent"
    " memory for the parallel processing of large neuroimaging data*, 2020"
)
CLAIMS = (
    Claim(
        "Memory is faster than persistent memory, that than a local disk, and that than a network"
        " file system.",
        INCREMENTATION,
        _order,
    ),
    Claim(
        "Equation 1 (bytes at the rates of one stream) is off in both directions.",
        INCREMENTATION,
        _law,
    ),
    _processes_on("dram", {"faster"}),
    _processes_on("isilon", {"equivalent", "slower"}),
    Claim(
        "Whole files by Spark's binaryFiles take longer than a pool of processes.",
        INCREMENTATION,
        _whole_files,
    ),
    Claim("More slots are busy at a time on a slow tier.", INCREMENTATION, _parallelism),
    Claim("On a slow tier, tasks wait for storage.", INCREMENTATION, _waiting),
    Claim("Opening files takes longest on a network file system.", INCREMENTATION, _opening),
    Claim(
        "Write-back pays where there is something to compute meanwhile.",
        WRITE_BACK,
        _busy_write_back,
    ),
    Claim("Write-back pays where there is nothing else to do.", WRITE_BACK, _idle_write_back),
    Claim("Intermediate results belong on a fast tier.", INTERMEDIATES, _intermediates),
    Claim("Staging inputs and outputs on a fast tier pays.", INTERMEDIATES, _staging),
    Claim("Regions of interest are extracted faster from memory.", REGIONS, _regions),
    Claim(
        "Java collects garbage for longer on persistent memory than on a network file system.",
        INCREMENTATION,
        _garbage,
    ),
    Claim(
        "Persistent memory as the machine's memory (Memory mode) is faster than as a disk.",
        "",
        untestable("It needs such a machine: a program cannot emulate it."),
    ),
)
