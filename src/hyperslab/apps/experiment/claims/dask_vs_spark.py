"""Claims of M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask and Apache
Spark for data-intensive neuroimaging pipelines (2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from hyperslab.apps.experiment.answer import show_interval
from hyperslab.apps.experiment.claims.claim import (
    COMPUTING,
    NOT_RUN,
    Claim,
    Contrast,
    Evidence,
    Judged,
    Outcome,
    expecting,
    judged_contrasts,
    show_mean,
    untestable,
)
from hyperslab.apps.experiment.comparison import (
    MEASURE,
    WITHOUT_START,
    CellResult,
    Comparison,
    Verdict,
)
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.intervals import ratio_interval
from hyperslab.apps.experiment.model import PROCESSORS, SLOTS
from hyperslab.apps.experiment.phases import CellPhases
from hyperslab.apps.experiment.regression import sign_probability
from hyperslab.apps.experiment.significance import differs_p, equivalent_p, is_told
from hyperslab.apps.experiment.trends import amount
from hyperslab.engines.facts import facts_of
from hyperslab.plan.written import parse_size
from hyperslab.units import show_bytes, show_list

INCREMENTATION = "dask-vs-spark/incrementation"
HISTOGRAM = "dask-vs-spark/histogram"
READS = "dask-vs-spark/staggered-reads"
THREADS = "dask-vs-spark/threads"
BLOCK_LIMIT = "dask-vs-spark/block-limit"
WHOLE_FILES = "spark-binary-files"
LIMIT_NBYTES = 2**31
"What Java's arrays hold, and Spark's limit therefore."
LEAST = "spark"
MOST = "dask-futures"
"Engines of least and of most overhead for each worker, in the paper."
DASK = "dask-futures"
"Engine of Dask whose tasks are like Spark's: one for each block."
LIMIT_REASONS = ("OutOfMemoryError", "array size", "2147483647", "Integer.MAX_VALUE")
"Words of Java for what does not fit in an array."
BY_CHANCE = 0.05
"Probability from which on so many engines may have come out one way by chance."


def _engines_beside(
    evidence: Evidence, names: Sequence[Level], **levels: Level
) -> Iterator[Comparison]:
    """Engines beside the first of them, with their start and without: the paper's pipelines ran so
    long that starts hardly counted.
    """
    for measure in (MEASURE, WITHOUT_START):
        for engine in names[1:]:
            yield from evidence.beside("engine", engine, names[0], measure, **levels)


def _spark_and_dask(evidence: Evidence, tier: str) -> list[Comparison]:
    return list(_engines_beside(evidence, (DASK, LEAST), tier=tier))


def _saturated(evidence: Evidence) -> Judged:
    return _where_storage_binds(
        evidence, (DASK, LEAST), expecting({"equivalent"}, _spark_and_dask(evidence, "saturated"))
    )


def _where_storage_binds(evidence: Evidence, engines: Sequence[Level], found: Judged) -> Judged:
    """What was found, of engines that storage holds up on the saturated tier; else nothing."""
    free = list(_unbound(evidence, engines))
    if found.outcome == "not tested" or not free:
        return found
    why = f"Storage does not bind: {'; '.join(free)}. The claim is about engines that wait for it."
    return Judged("not tested", [why, *found.evidence])


def _unbound(evidence: Evidence, engines: Sequence[Level]) -> Iterator[str]:
    """What binds engines on the saturated tier, of those that storage does not bind."""
    for one in evidence.answer.expected:
        levels = dict(one.result.cell.levels)
        engine = levels["engine"]
        asked = {**evidence.baseline, "tier": "saturated", "engine": engine}
        is_free = one.model.bound.binding in (SLOTS, PROCESSORS)
        if is_free and engine in engines and levels == asked:
            yield f"{one.model.bound.binding} bind {engine}"


def _idle(evidence: Evidence) -> Judged:
    return expecting({"slower", "faster"}, _spark_and_dask(evidence, "idle"))


def _narrowing(evidence: Evidence) -> Judged:
    """Spark over Dask on the idle tier, over the same on the saturated one."""
    gaps = [_gap(evidence, tier) for tier in ("idle", "saturated")]
    both = sorted(gaps[0].keys() & gaps[1].keys())
    if not both:
        return Judged("not tested", [NOT_RUN])
    idle, saturated = ([gap[one] for one in both] for gap in gaps)
    far, near = (ratio_interval(gap, [1.0] * len(gap)) for gap in (idle, saturated))
    told = (
        f"Without the start of engines, Spark takes {show_interval(far)} as long as Dask on the"
        f" idle tier, {show_interval(near)} on the saturated one: a gap"
        f" {show_interval(ratio_interval(idle, saturated))} as wide."
    )
    pairs = zip(idle, saturated, strict=True)
    return judged_contrasts(
        [Contrast(told, [abs(math.log(a)) - abs(math.log(b)) for a, b in pairs])]
    )


def _gap(evidence: Evidence, tier: str) -> dict[int, float]:
    """Time of Spark over that of Dask without their starts, by replicate."""
    spark = evidence.cell(tier=tier, engine=LEAST)
    dask = evidence.cell(tier=tier, engine=DASK)
    if spark is None or dask is None:
        return {}
    own = spark.by_replicate(WITHOUT_START)
    other = dask.by_replicate(WITHOUT_START)
    return {one: own[one] / other[one] for one in own.keys() & other.keys()}


def _engines(evidence: Evidence) -> Judged:
    """All engines beside the first of the paper's, at the baseline of all else."""
    names = evidence.levels("engine")[1:]
    return expecting({"equivalent"}, list(_engines_beside(evidence, names)))


def _compiled_histograms(evidence: Evidence) -> Judged:
    names = evidence.levels("engine")[1:]
    return expecting({"equivalent"}, list(_engines_beside(evidence, names, workload="histogram")))


def _python_histograms(evidence: Evidence) -> Judged:
    """Spark, whose slots are processes, beside engines whose slots are threads."""
    found = [
        one
        for engine in evidence.levels("engine")[1:]
        if engine != LEAST
        for measure in (MEASURE, WITHOUT_START)
        for one in evidence.beside("engine", LEAST, engine, measure)
    ]
    return expecting({"faster"}, found)


def _workers(evidence: Evidence) -> Judged:
    """Most workers beside the next fewer."""
    return expecting({"equivalent", "slower"}, _most_workers(evidence))


def _most_workers(evidence: Evidence, **others: Level) -> list[Comparison]:
    levels = sorted(evidence.levels("workers"), key=float)
    if len(levels) < 2:
        return []
    return list(_by_engine(evidence, "workers", levels[-1], levels[-2], **others))


def _saturated_workers(evidence: Evidence) -> Judged:
    found = expecting({"equivalent", "slower"}, _most_workers(evidence, tier="saturated"))
    return _where_storage_binds(evidence, evidence.levels("engine"), found)


def _by_engine(
    evidence: Evidence, factor: str, level: Level, reference: Level, **others: Level
) -> Iterator[Comparison]:
    """A level beside another one on every engine, with the start of engines and without."""
    for engine in evidence.levels("engine"):
        for measure in (MEASURE, WITHOUT_START):
            yield from evidence.beside(factor, level, reference, measure, engine=engine, **others)


def _cuts(evidence: Evidence) -> Judged:
    """Fewer and more blocks than the baseline's, without the start of engines."""
    base = evidence.baseline["files"]
    levels = sorted(evidence.levels("files"), key=float)
    found = [
        one
        for level in dict.fromkeys((levels[0], levels[-1]))
        for engine in evidence.levels("engine")
        for one in evidence.beside("files", level, base, WITHOUT_START, engine=engine)
    ]
    judged = expecting({"slower"}, found)
    delay_s = float(evidence.baseline["delay"])
    if not delay_s or judged.outcome == "not tested":
        return judged
    outcome: Outcome = "in part" if judged.outcome == "reproduced" else judged.outcome
    why = (
        f"Every block sleeps for {delay_s:g} s, here as in the paper: {levels[-1]} blocks sleep"
        f" {float(levels[-1]) / float(base):g} times as long in all as {base}. That more of them"
        " take longer is not the cost of the partition alone."
    )
    return Judged(outcome, [why, *judged.evidence])


def _is_at(result: CellResult, **levels: Level) -> bool:
    return all(result.cell.levels[name] == level for name, level in levels.items())


def _first_reads(evidence: Evidence) -> Judged:
    """Look at slots that all begin at once, on a device that they share, engine by engine."""
    found = [
        _first_beside_later(one)
        for one in evidence.answer.phases
        if _is_at(one.result, tier="saturated", readers_per_device=0, stagger=0) and one.pairs
    ]
    if not found:
        return Judged("not tested", ["No trial has left the times of its reads."])
    return judged_contrasts(found)


def _first_beside_later(one: CellPhases) -> Contrast:
    ratio = ratio_interval([first for first, _ in one.pairs], [later for _, later in one.pairs])
    engine = one.result.cell.shown("engine")
    told = f"{engine}: first reads of slots take {show_interval(ratio)} as long as later ones."
    return Contrast(told, [math.log(first / later) for first, later in one.pairs])


def _compensation(evidence: Evidence) -> Judged:
    """Overhead and transfer together, of every two of the paper's engines on the saturated tier: as
    much on both where one makes up for the other.
    """
    engines = evidence.levels("engine")[1:]
    found: list[Judged] = []
    for one, other in combinations(engines, 2):
        found += _compensating(evidence, str(one), str(other))
    if not found:
        return Judged("not tested", [NOT_RUN])
    outcomes = {one.outcome for one in found}
    outcome = outcomes.pop() if len(outcomes) == 1 else "in part"
    told = [text for one in found for text in one.evidence]
    return _where_storage_binds(evidence, engines, Judged(outcome, told))


def _compensating(evidence: Evidence, one: str, other: str) -> Iterator[Judged]:
    costs = [_costs(evidence, engine) for engine in (one, other)]
    both = sorted(costs[0].keys() & costs[1].keys())
    if not both:
        return
    own, others = ([cost[n] for n in both] for cost in costs)
    overheads = [b[0] - a[0] for a, b in zip(own, others, strict=True)]
    transfers = [b[1] - a[1] for a, b in zip(own, others, strict=True)]
    sums = [math.log(sum(b) / sum(a)) for a, b in zip(own, others, strict=True)]
    ratio = ratio_interval([sum(b) for b in others], [sum(a) for a in own])
    told = (
        f"{other} beside {one}, seconds of all slots: overhead {show_mean(overheads)} more,"
        f" transfer {show_mean(transfers)} more; both together {show_interval(ratio)} as long."
    )
    if not is_told(differs_p(overheads)):
        yield Judged("open", [f"{told} That overheads differ is not shown."])
    elif is_told(equivalent_p(sums, math.log(1 + evidence.margin))):
        yield Judged("reproduced", [told])
    else:
        yield Judged("refuted" if is_told(differs_p(sums)) else "open", [told])


def _costs(evidence: Evidence, engine: str) -> dict[int, tuple[float, float]]:
    """Overhead and transfer of the trials of an engine on the saturated tier, by replicate."""
    cell = evidence.cell(tier="saturated", engine=engine)
    found: dict[int, tuple[float, float]] = {}
    for one in cell.done if cell is not None else ():
        overhead = amount(one, "overhead")
        transfer = amount(one, "transfer")
        if overhead is not None and transfer is not None:
            found[one.replicate] = (overhead, transfer)
    return found


def _growing(evidence: Evidence) -> Judged:
    found = [
        Contrast(
            f"Overhead of all slots, s for each further worker, {engine}:"
            f" {show_mean(list(slopes.values()))}.",
            list(slopes.values()),
        )
        for engine in evidence.levels("engine")[1:]
        if (slopes := _slopes(evidence, engine))
    ]
    return judged_contrasts(found)


def _growing_order(evidence: Evidence) -> Judged:
    """Growth on the engines between beside that on Spark, and that on Futures beside theirs."""
    engines = [engine for engine in evidence.levels("engine")[1:] if engine not in (LEAST, MOST)]
    pairs = [(MOST, LEAST), *((one, LEAST) for one in engines), *((MOST, one) for one in engines)]
    found = []
    for more, less in pairs:
        own = _slopes(evidence, more)
        other = _slopes(evidence, less)
        differences = [own[one] - other[one] for one in sorted(own.keys() & other.keys())]
        if differences:
            told = f"{more} beside {less}, s more for each worker: {show_mean(differences)}."
            found.append(Contrast(told, differences))
    return judged_contrasts(found)


def _slopes(evidence: Evidence, engine: Level) -> Mapping[int, float]:
    """Overhead for each further worker, from fewest to most of them, by replicate."""
    levels = sorted(evidence.levels("workers"), key=float)
    ends = [evidence.cell(engine=engine, workers=level) for level in (levels[0], levels[-1])]
    if len(levels) < 2 or ends[0] is None or ends[1] is None:
        return {}
    few, many = (
        {one.replicate: amount(one, "overhead") for one in end.done} for end in ends if end
    )
    more = float(levels[-1]) - float(levels[0])
    return {
        one: (late - early) / more
        for one in sorted(few.keys() & many.keys())
        if (late := many[one]) is not None and (early := few[one]) is not None
    }


def _variance(evidence: Evidence) -> Judged:
    spreads = evidence.answer.trends.spreads
    if not spreads:
        return Judged("not tested", ["Too few replicates of several numbers of blocks."])
    growing = sum(one.grows for one in spreads)
    chance = sign_probability(growing, len(spreads))
    told = (
        f"Makespans vary more between replicates with more blocks on {growing} of"
        f" {len(spreads)} engines (so many by chance: {chance:.2g})."
    )
    if chance <= BY_CHANCE:
        return Judged("reproduced", [told])
    if sign_probability(len(spreads) - growing, len(spreads)) <= BY_CHANCE:
        return Judged("refuted", [told])
    return Judged("open", [told])


def _lock(workload: str, name: str, expected: set[Verdict], measure: str = WITHOUT_START) -> Claim:
    """What a second thread brings to a function, on engines whose slots are threads."""
    words = "speeds up"
    if measure == COMPUTING:
        words = "does not speed up"

    def judge(evidence: Evidence) -> Judged:
        threads = [int(level) for level in evidence.levels("threads")]
        most = max(threads)
        least = min(threads)
        found = [
            one
            for engine in evidence.levels("engine")
            if not facts_of(str(engine)).process_per_slot
            for one in evidence.beside(
                "threads", most, least, measure, workload=workload, engine=engine
            )
        ]
        return expecting(expected, found)

    return Claim(f"A second thread in a worker {words} {name}.", THREADS, judge, LOCK)


def _turns(evidence: Evidence) -> Judged:
    found = [
        one
        for factor in ("stagger", "readers_per_device")
        for level in evidence.levels(factor)[1:]
        for one in evidence.beside(factor, level, 0, tier="saturated")
    ]
    engines = evidence.levels("engine")[:1]
    return _where_storage_binds(evidence, engines, expecting({"equivalent"}, found))


def _block_limit(evidence: Evidence) -> Judged:
    """Whole files beyond the limit fail, and smaller ones do not."""
    cells = [one for one in evidence.answer.results if one.attempts]
    whole = [one for one in cells if one.cell.levels["engine"] == WHOLE_FILES]
    beyond = [one for one in whole if _block_nbytes(one) >= LIMIT_NBYTES]
    within = [one for one in whole if _block_nbytes(one) < LIMIT_NBYTES]
    if not beyond or not within:
        return Judged("not tested", ["Blocks on both sides of 2 GiB have not been run."])
    told = [_how_it_went(one) for one in cells]
    if not all(one.done for one in within):
        return Judged("open", told)
    if any(one.done for one in beyond):
        return Judged("refuted", told)
    if not all(_is_too_large(one) for one in beyond):
        return Judged("open", [*told, "No reason names the limit of Java's arrays."])
    return Judged("reproduced", told)


def _is_too_large(result: CellResult) -> bool:
    """Whether every failure of a cell is that of an array that cannot be so large."""
    reasons = [one.reason for one in result.attempts]
    return all(any(word in reason for word in LIMIT_REASONS) for reason in reasons)


def _block_nbytes(result: CellResult) -> float:
    levels = result.cell.levels
    return parse_size("size", str(levels["size"])) / int(levels["files"])


def _how_it_went(result: CellResult) -> str:
    engine = result.cell.levels["engine"]
    head = f"{engine}, blocks of {show_bytes(round(_block_nbytes(result)))}"
    if result.done:
        return f"{head}: done."
    reasons = dict.fromkeys(attempt.reason for attempt in result.attempts)
    return f"{head}: failed ({show_list(list(reasons))})."


TITLE = "Dask against Spark"
PAPER = (
    "M. Dugré, V. Hayot-Sasson, T. Glatard, *A performance comparison of Dask and Apache Spark for"
    " data-intensive neuroimaging pipelines*, 2019"
)
BASELINE = "1416 s on Bag, 1334 s on Delayed, 1332 s on Futures, 1404 s on Spark (Fig. 3a; recomputed)"
WORKERS = "from 4 to 8 workers 1250 to 1416 s on Bag, 1302 to 1404 s on Spark (Fig. 3a; recomputed)"
SLOPES = "2337 s on Spark, 2650 s on Bag, 3251 s on Delayed, 3570 s on Futures a worker (Fig. 3b)"
FILES = (
    "30, 125 and 750 blocks: 1417, 1416 and 1719 s on Bag; -, 1404 and 1645 s on Spark (Fig. 4a; recomputed)"
)
LOCK = "no such experiment; its discussion explains Fig. 8b by the lock"
CLAIMS = (
    Claim(
        "Spark and Dask take as long as each other where both wait for a shared file system.",
        READS,
        _saturated,
        BASELINE,
    ),
    Claim("They do not where storage is idle.", READS, _idle),
    Claim("The gap between Spark and Dask is narrower on a saturated tier.", READS, _narrowing),
    Claim(
        "Dask's interfaces and Spark take as long as each other.",
        INCREMENTATION,
        _engines,
        BASELINE,
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
    ),
    Claim(
        "Where all begin to read from a shared file system at once, the first reads take longer"
        " than later ones.",
        READS,
        _first_reads,
        "seen on Gantt charts, no number (Fig. 7)",
    ),
    Claim(
        "Where bandwidth is saturated, what an engine loses in overhead it gains in transfer, and"
        " the other way round.",
        READS,
        _compensation,
        "no number (Fig. 3b)",
    ),
    Claim("Overhead grows with the workers.", INCREMENTATION, _growing, SLOPES),
    Claim(
        "It grows least on Spark and most on Dask Futures.",
        INCREMENTATION,
        _growing_order,
        SLOPES,
    ),
    Claim("Makespans vary more with more blocks.", INCREMENTATION, _variance),
    Claim(
        "There is a best number of blocks: fewer and more of them take longer.",
        INCREMENTATION,
        _cuts,
        FILES,
    ),
    Claim(
        "Of histograms in pure Python, by workers of several threads, Spark is faster than Dask.",
        HISTOGRAM,
        _python_histograms,
        "with 8 workers 1780 s on Bag, 1913 s on Delayed, 743 s on Spark (Fig. 8a; recomputed)",
    ),
    Claim(
        "Histograms in compiled code take as long on Dask's interfaces as on Spark.",
        HISTOGRAM,
        _compiled_histograms,
        "737.7 s on Bag, 632.9 s on Delayed, 738.9 s on Spark (Fig. 11a, 13; recomputed)",
    ),
    _lock(
        "histogram-python",
        "pure Python, whose tasks take longer: they wait for the interpreter's lock",
        {"slower"},
        COMPUTING,
    ),
    _lock("hyperslab.apps.experiment.lock:compiled", "NumPy", {"faster"}),
    _lock("hyperslab.apps.experiment.lock:sleep", "a function that sleeps", {"faster"}),
    _lock("hyperslab.apps.experiment.lock:program", "a program on the command line", {"faster"}),
    Claim("Where bandwidth is saturated, putting transfers off costs nothing.", READS, _turns),
    Claim(
        "Spark cannot hand over blocks of more than 2 GiB.",
        BLOCK_LIMIT,
        _block_limit,
        "30 blocks of 2.7 GB did not run on Spark (Fig. 4a)",
    ),
    Claim(
        "In a BIDS App, overhead lies at the barrier between participants and groups.",
        "",
        untestable("There is no such pipeline among the shipped specs."),
    ),
)
