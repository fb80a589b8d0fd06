"""Claim on whole files that Spark hands over, beside pools of processes that read them.

Spark takes seconds around its tasks whatever they do. In memory it takes no more than that and the
tasks, so that its time there is what a pool has to run for many times over before a ratio tells
anything of files.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.apps.experiment.answers.comparison import WITHOUT_START
from hyperslab.apps.experiment.claims.block_limit import WHOLE_FILES
from hyperslab.apps.experiment.claims.claim import (
    UNTOLD,
    Evidence,
    Judged,
    Pair,
    expecting_without_start,
)
from hyperslab.apps.experiment.claims.shortness import LONG
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.units import show_list, show_seconds

POOLS = ("processes", "gnu-parallel")
"Pools of processes: ours, and that of the paper."
LONG_BY_RATE = (
    "Pools run for long on emulated tiers alone, whose rates are asked for, and everybody who reads"
    " the same bytes there waits as long."
)
MEMORY = "dram"
"Fastest tier."


def judge(evidence: Evidence) -> Judged:
    """Judge that whole files take longer, on tiers on which pools run for long."""
    pairs = [
        Pair("engine", WHOLE_FILES, pool, {"tier": tier})
        for tier in evidence.levels("tier")
        for pool in POOLS
    ]
    around_s = _run_s(evidence, engine=WHOLE_FILES, tier=MEMORY)
    are_long = [
        _run_s(evidence, engine=pair.reference, **pair.others) >= LONG * around_s for pair in pairs
    ]
    long = [pair for pair, is_long in zip(pairs, are_long, strict=True) if is_long]
    short = [pair for pair, is_long in zip(pairs, are_long, strict=True) if not is_long]
    if not short:
        return _of_long(evidence, long)
    if long:
        found = _of_long(evidence, long)
        return found.beside([f"Not judged: {_tiers(short)}. {_why(around_s)}"])
    found = expecting_without_start(evidence, {"slower"}, pairs)
    if found.outcome == "not tested":
        return found
    return found.instead("not tested", f"Too short. {_why(around_s)}")


def _of_long(evidence: Evidence, long: Sequence[Pair]) -> Judged:
    """What comes of pools that run for long. Where these all do so on emulated tiers, it follows
    from the rates of those, for which whole files have to wait as well.
    """
    found = expecting_without_start(evidence, {"slower"}, long)
    cells = [evidence.cell(engine=pair.reference, **pair.others) for pair in long]
    are_made = all(one is not None and one.cell.emulated for one in cells)
    if found.outcome in UNTOLD or not are_made:
        return found
    return found.instead("by construction", LONG_BY_RATE)


def _run_s(evidence: Evidence, **levels: Level) -> float:
    """Mean time of a cell without the start of its engine; 0 where it is not known."""
    cell = evidence.cell(**levels)
    return 0.0 if cell is None else cell.mean(WITHOUT_START)


def _tiers(pairs: Sequence[Pair]) -> str:
    names = [f"{pair.reference} on {pair.others['tier']}" for pair in pairs]
    return show_list(names)


def _why(around_s: float) -> str:
    return (
        f"On {MEMORY} Spark takes {show_seconds(around_s)} without its start, which is for what it"
        f" does around tasks: pools have to run for {LONG} times as long to tell."
    )
