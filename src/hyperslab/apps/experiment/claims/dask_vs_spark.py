"""Claims of M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask and Apache
Spark for data-intensive neuroimaging pipelines (2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hyperslab.apps.experiment.answers.break_even import BY_LENGTH
from hyperslab.apps.experiment.answers.comparison import (
    WITHOUT_START,
    CellResult,
    Comparison,
)
from hyperslab.apps.experiment.answers.phases import CellPhases, Waits
from hyperslab.apps.experiment.answers.spreads import growing, is_shown
from hyperslab.apps.experiment.answers.spreads import sentence as spread_sentence
from hyperslab.apps.experiment.claims import block_limit, growth, not_tried
from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Contrast,
    Evidence,
    Judged,
    Outcome,
    Pair,
    advised,
    expecting_all,
    expecting_without_start,
    judged_contrasts,
)
from hyperslab.apps.experiment.claims.growth import LEAST
from hyperslab.apps.experiment.claims.saturation import (
    bandwidth_law,
    compensation,
    first_reads,
    idle,
    idle_turns,
    narrowing,
    saturated,
    turns,
    where_storage_binds,
)
from hyperslab.apps.experiment.claims.shortness import unless_short
from hyperslab.apps.experiment.claims.sleeping import unequal_sleep, unless_asleep
from hyperslab.apps.experiment.claims.threads import locked, python_histograms, speeds_up
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.statistics.shown import show_mean

INCREMENTATION = "dask-vs-spark/incrementation"
HISTOGRAM = "dask-vs-spark/histogram"
READS = "dask-vs-spark/staggered-reads"
THREADS = "dask-vs-spark/threads"
BLOCK_LIMIT = "dask-vs-spark/block-limit"
PARTICIPANTS = "dask-vs-spark/bids"
ALIKE_ASLEEP = "How long engines take beside each other is by construction: they sleep as long."
MORE_OR_FEWER = "What further workers and fewer blocks save of sleeping is by construction."


def _alike(evidence: Evidence, **levels: Level) -> Judged:
    """Spark beside each interface of Dask at every number of workers, all else at the baseline or
    as named.
    """
    pairs = [
        Pair("engine", LEAST, engine, {"workers": workers, **levels})
        for workers in evidence.levels("workers")
        for engine in evidence.levels("engine")[1:]
        if engine != LEAST
    ]
    return expecting_without_start(evidence, {"equivalent"}, pairs)


def _increments(evidence: Evidence) -> Judged:
    """Engines take as long or not by what tasks do, and not by sleep, nor in short runs."""
    found = _alike(evidence)
    if found.outcome != "not tested":
        found = found.beside(_lengths(evidence))
    return unless_short(evidence, unless_asleep(evidence, found, ALIKE_ASLEEP))


def _lengths(evidence: Evidence) -> list[str]:
    """What the answer says of the length of tasks from which on engines are alike."""
    return [text for text in evidence.answer.decision if text.startswith(BY_LENGTH)]


def _slightly_longer(evidence: Evidence) -> Judged:
    """Spark takes slightly longer or not by what tasks do, and not by sleep, nor in short runs."""
    found = unless_asleep(evidence, growth.difference(evidence), ALIKE_ASLEEP)
    return unless_short(evidence, found)


def _programs(evidence: Evidence) -> Judged:
    return unless_short(evidence, _alike(evidence))


def _compiled_histograms(evidence: Evidence) -> Judged:
    return unless_short(evidence, _alike(evidence, workload="histogram"))


def _workers(evidence: Evidence) -> Judged:
    """Most workers beside the next fewer."""
    found = expecting_without_start(evidence, {"equivalent", "slower"}, _most_workers(evidence))
    return unless_asleep(evidence, found, MORE_OR_FEWER)


def _most_workers(evidence: Evidence, **others: Level) -> list[Pair]:
    """Most workers beside the next fewer, on every engine."""
    levels = sorted(evidence.levels("workers"), key=float)
    if len(levels) < 2:
        return []
    return [
        Pair("workers", levels[-1], levels[-2], {"engine": engine, **others})
        for engine in evidence.levels("engine")
    ]


def _saturated_workers(evidence: Evidence) -> Judged:
    pairs = _most_workers(evidence, tier="saturated")
    found = expecting_without_start(evidence, {"equivalent", "slower"}, pairs)
    return where_storage_binds(evidence, evidence.levels("engine"), found)


def _cuts(evidence: Evidence) -> Judged:
    """Fewer and more blocks than the baseline's, without the start of engines: both have to take
    longer on an engine.
    """
    found = {engine: _fewer_and_more(evidence, engine) for engine in evidence.levels("engine")}
    whole = {engine: both for engine, both in found.items() if len(both) > 1}
    judged = expecting_all({"slower"}, whole)
    sleeping = list(unequal_sleep(evidence))
    if not sleeping or judged.outcome == "not tested":
        return judged
    why = "That more of them take longer is not the cost of the partition alone."
    if judged.outcome == "reproduced":
        judged = replace(judged, outcome="open", signs=[None] * len(judged.signs))
    return unless_asleep(evidence, judged.beside([*sleeping, why]), MORE_OR_FEWER)


def _fewer_and_more(evidence: Evidence, engine: Level) -> list[Comparison]:
    base = evidence.baseline["files"]
    levels = sorted(evidence.levels("files"), key=float)
    return [
        one
        for level in dict.fromkeys((levels[0], levels[-1]))
        for one in evidence.beside("files", level, base, WITHOUT_START, engine=engine)
    ]


def _barrier(evidence: Evidence) -> Judged:
    """Time of slots at the barrier beside all other time until the group level begins in which they
    had nothing to do.
    """
    known = {one.result.cell.key: one for one in evidence.answer.phases}
    cells = [evidence.cell(engine=engine) for engine in evidence.levels("engine")]
    found = [
        _at_barrier(cell, waits)
        for cell in cells
        if cell is not None and (waits := _waits_of(known.get(cell.cell.key)))
    ]
    return judged_contrasts(found)


def _waits_of(phases: CellPhases | None) -> list[Waits]:
    """Where slots waited in each trial of a cell, by replicate."""
    if phases is None:
        return []
    trials = sorted(phases.trials, key=lambda one: one.replicate)
    return [one.waits for one in trials if one.waits is not None]


def _at_barrier(cell: CellResult, waits: Sequence[Waits]) -> Contrast:
    at_barrier = show_mean([one.barrier_s for one in waits])
    elsewhere = show_mean([one.elsewhere_s for one in waits])
    more = [one.barrier_s - one.elsewhere_s for one in waits]
    told = (
        f"Slots of {cell.cell.shown('engine')} without anything to do until the group begins, s:"
        f" {at_barrier} at the barrier, {elsewhere} elsewhere, a difference of {show_mean(more)}."
    )
    return Contrast(told, more)


def _variance(evidence: Evidence) -> Judged:
    """Look on how many engines makespans vary more, in proportion to their length. What blocks
    sleep does not vary: that makespans vary less with more of them is by construction.
    """
    spreads = evidence.answer.trends.spreads
    count, of = growing(spreads)
    if not of:
        return Judged("not tested", ["Too few replicates of several numbers of blocks."])
    told = [spread_sentence("blocks", spreads)]
    sleeping = list(unequal_sleep(evidence))
    if sleeping:
        why = "What sleeps does not vary: that makespans vary less with more blocks follows."
        told += [*sleeping, why]
    if is_shown(count, of):
        return Judged("reproduced", told)
    if is_shown(of - count, of):
        return Judged("by construction" if sleeping else "refuted", told)
    return Judged("open", told)


def advice(found: Sequence[tuple[Claim, Judged]]) -> list[str]:
    """What follows for whoever chooses an engine, with the evidence."""
    return list(advised(ADVICE, found))


ALIKE = "Dask's interfaces and Spark take as long as each other."
BINDS = "Where bandwidth is saturated, n files of F bytes take nF / B, whatever the engine."
LOCKED = (
    "A second thread in a worker does not speed up pure Python, whose tasks take longer: they wait"
    " for the interpreter's lock."
)
COMPILED = "A second thread in a worker speeds up NumPy."
HANDED = "Spark cannot hand over blocks of more than 2 GiB."
BEST = "There is a best number of blocks: fewer and more of them take longer."
"Claims that advice rests on."
TITLE = "Dask against Spark"
PAPER = (
    "M. Dugré, V. Hayot-Sasson, T. Glatard, *A performance comparison of Dask and Apache Spark for"
    " data-intensive neuroimaging pipelines*, 2019"
)
BASELINE = (
    "1416 s on Bag, 1334 s on Delayed, 1332 s on Futures, 1404 s on Spark (Fig. 3a; recomputed)"
)
WORKERS = "from 4 to 8 workers 1250 to 1416 s on Bag, 1302 to 1404 s on Spark (Fig. 3a; recomputed)"
SLOPES = (
    "beside Spark's 2337 s of all slots a worker 1.13 times as much on Bag, 1.39 times on Delayed,"
    " 1.53 times on Futures (Fig. 3b; its overhead includes the start of engines)"
)
FILES = (
    "30, 125 and 750 blocks: 1417, 1416 and 1719 s on Bag; -, 1404 and 1645 s on Spark (Fig. 4a;"
    " recomputed)"
)
IDLE = "no such experiment; its discussion explains equal makespans by saturation"
IN_TURN = (
    "An emulated tier serves requests one after the other: of reads that begin at once the first is"
    " done before the others, and a later read always finds those of the other slots before it."
    " That first reads take less follows; a file system of several servers may do otherwise."
)
LOCK = "no such experiment; its discussion explains Fig. 8b by the lock"
CLAIMS = (
    Claim(
        "Spark and Dask take as long as each other where both wait for a shared file system.",
        READS,
        saturated,
        BASELINE,
        is_asked_for=True,
    ),
    Claim(
        "Spark and Dask do not take as long as each other where storage is idle.",
        READS,
        idle,
        IDLE,
        tiers=("idle",),
    ),
    Claim(
        "The gap between Spark and Dask is narrower on a saturated tier.",
        READS,
        narrowing,
        IDLE,
        is_asked_for=True,
    ),
    Claim(
        ALIKE,
        INCREMENTATION,
        _increments,
        BASELINE,
    ),
    Claim(
        "Spark takes slightly longer than Dask, in the mean over numbers of workers.",
        INCREMENTATION,
        _slightly_longer,
        "83.61 s of about 1400 s, the start of Spark included (in its text)",
    ),
    Claim(
        "Spark takes longer to start than Dask.",
        INCREMENTATION,
        growth.start,
        "the first task begins after 17 s on Spark, after 0.1 to 0.5 s on Dask (recomputed)",
    ),
    Claim(
        "With more workers than the machine feeds, makespans stop falling, or rise.",
        INCREMENTATION,
        _workers,
        WORKERS,
    ),
    Claim(
        "On a saturated tier, makespans stop falling with more workers, or rise.",
        READS,
        _saturated_workers,
        WORKERS,
        is_asked_for=True,
    ),
    Claim(
        "Where all begin to read from a shared file system at once, the first reads take longer"
        " than later ones.",
        READS,
        first_reads,
        "seen on Gantt charts, no number (Fig. 7)",
        by_emulation=IN_TURN,
    ),
    Claim(
        "Where bandwidth is saturated, what an engine loses in overhead it gains in transfer, and"
        " the other way round.",
        READS,
        compensation,
        "no number (Fig. 3b)",
        is_asked_for=True,
    ),
    Claim(
        BINDS,
        READS,
        bandwidth_law,
        "no number (in its discussion)",
        is_asked_for=True,
    ),
    Claim("Overhead grows with the workers.", INCREMENTATION, growth.overhead, SLOPES),
    Claim(
        "Transfer grows with the workers.",
        INCREMENTATION,
        growth.transfer,
        "beside Spark's 7147 s of all slots a worker 0.96 times as much on Bag, 0.82 times on"
        " Delayed, 0.78 times on Futures (recomputed)",
    ),
    Claim(
        "Overhead grows least on Spark and most on Dask Futures.",
        INCREMENTATION,
        growth.order,
        SLOPES,
    ),
    Claim(
        "Makespans vary more with more blocks.", INCREMENTATION, _variance, "no number (Fig. 4a)"
    ),
    Claim(
        BEST,
        INCREMENTATION,
        _cuts,
        FILES,
    ),
    Claim(
        "Of histograms in pure Python, by workers of several threads, Spark is faster than Dask.",
        HISTOGRAM,
        python_histograms,
        "with 8 workers 1780 s on Bag, 1913 s on Delayed, 743 s on Spark (Fig. 8a; recomputed)",
    ),
    Claim(
        "Histograms in compiled code take as long on Dask's interfaces as on Spark.",
        HISTOGRAM,
        _compiled_histograms,
        "737.7 s on Bag, 632.9 s on Delayed, 738.9 s on Spark (Fig. 11a, 13; recomputed)",
    ),
    Claim(
        LOCKED,
        THREADS,
        locked,
        LOCK,
    ),
    Claim(COMPILED, THREADS, speeds_up("hyperslab.apps.experiment.lock:compiled"), LOCK),
    Claim(
        "A second thread in a worker speeds up a function that sleeps.",
        THREADS,
        speeds_up("hyperslab.apps.experiment.lock:sleep"),
        LOCK,
    ),
    Claim(
        "A second thread in a worker speeds up a program on the command line.",
        THREADS,
        speeds_up("hyperslab.apps.experiment.lock:program"),
        LOCK,
    ),
    Claim(
        "Where bandwidth is saturated, putting transfers off costs nothing.",
        READS,
        turns,
        "no such experiment; its discussion has it that n files of F bytes take nF / B",
        is_asked_for=True,
    ),
    Claim(
        "Where storage is idle, putting transfers off costs time (not in the paper).",
        READS,
        idle_turns,
        "no such experiment",
        tiers=("idle",),
    ),
    Claim(
        HANDED,
        BLOCK_LIMIT,
        block_limit.judge,
        "30 blocks of 2.7 GB did not run on Spark (Fig. 4a)",
        is_of_times=False,
    ),
    Claim(
        "In a BIDS App, overhead lies at the barrier between participants and groups.",
        PARTICIPANTS,
        _barrier,
        "seen on Gantt charts, no number (Fig. 15)",
    ),
    Claim(
        "A BIDS App takes as long on Dask's interfaces as on Spark.",
        PARTICIPANTS,
        _programs,
        "428.9 s on Bag, 445.1 s on Delayed, 430.4 s on Futures, 425.4 s on Spark (Gantt pages;"
        " recomputed)",
    ),
    Claim(
        "Overhead of a BIDS App grows with the workers.",
        PARTICIPANTS,
        growth.overhead,
        "beside Spark's 224 s a worker 0.82 times as much on Bag, 0.77 times on Delayed, 0.59 times"
        " on Futures (in its text; its overhead includes the start of engines)",
    ),
    *not_tried.OF_ENGINES,
)
ERRATA = (
    (
        "The sentence on slopes is about overhead alone, and its unit is seconds for each worker,"
        " not for each task."
    ),
    (
        "Pipelines on 1, 2 and 4 nodes were run twice, by the authors' records; three repetitions"
        " are printed."
    ),
    (
        "1,397 participants of 29 sites are printed; the records hold 1654 tasks of participants,"
        " by site and label, and 35 of groups."
    ),
    "NumPy's histogram has 65,535 bins for 65,536 values: the last two share one.",
    (
        "Table I lists levels, and no grid: one factor at a time was changed, in 11 cells for each"
        " engine of the incrementation, and 10 of Spark, on which 30 blocks failed."
    ),
)
ADVICE: Mapping[str, Mapping[Outcome, str]] = {
    ALIKE: {
        "reproduced": "Where tasks are so long that engines are alike, as told here, take the"
        " engine that you know; with shorter tasks it decides.",
        "by construction": "Where tasks are so long that engines are alike, as told here, take the"
        " engine that you know; with shorter tasks it decides.",
        "in part": "Where tasks are so long that engines are alike, as told here, take the engine"
        " that you know, as far as these comparisons tell.",
        "mixed": "Try your own pipeline on both: which engine counts depends on the interface.",
        "refuted in part": "Try your own pipeline on several engines before you choose one.",
        "refuted": "Choose the engine by such a measurement: they differ by more than the margin.",
    },
    BINDS: {
        "by construction": "Where the bandwidth of storage is used up, move fewer bytes or get more"
        " of it: no engine is faster than that.",
        "reproduced": "Where the bandwidth of storage is used up, move fewer bytes or get more of"
        " it: no engine is faster than that.",
    },
    LOCKED: {
        "reproduced": "For functions in pure Python take workers of one thread: a second one in the"
        " same worker brings nothing.",
        "in part": "For functions in pure Python rather take workers of one thread.",
    },
    COMPILED: {
        "reproduced": "For compiled code workers may have several threads.",
        "in part": "For compiled code workers may have several threads, as far as this tells.",
        "refuted": "Do not count on threads of a worker for compiled code either: measure it.",
    },
    BEST: {
        "reproduced": "Cut data into a few blocks for each slot: fewer leave slots without work,"
        " more cost overhead.",
        "refuted": "Fewer and more blocks do not both cost: see here which way does not, and go"
        " that way.",
    },
    HANDED: {
        "reproduced": "Keep files below 2 GiB where Spark hands them over whole, or let tasks read"
        " blocks themselves (`--engine spark`).",
    },
}
"Sentences on claims, by what came of them."
