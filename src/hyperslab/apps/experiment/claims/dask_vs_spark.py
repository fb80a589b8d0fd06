"""Claims of M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask and Apache
Spark for data-intensive neuroimaging pipelines (2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.apps.experiment.answer import show_interval
from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Evidence,
    Judged,
    expecting,
    judged_ratio,
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
from hyperslab.apps.experiment.phases import first_reads
from hyperslab.apps.experiment.regression import sign_probability
from hyperslab.apps.experiment.trends import compensation_of, show_slope
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


def _saturated(evidence: Evidence) -> Judged:
    engines = evidence.levels("engine")
    return expecting({"equivalent"}, list(_engines_beside(evidence, engines, tier="saturated")))


def _idle(evidence: Evidence) -> Judged:
    engines = evidence.levels("engine")
    return expecting({"slower", "faster"}, list(_engines_beside(evidence, engines, tier="idle")))


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
    """Twice as many workers as processors beside as many."""
    levels = sorted(evidence.levels("workers"), key=float)
    return expecting({"equivalent", "slower"}, _by_engine(evidence, "workers", levels[-1]))


def _by_engine(evidence: Evidence, factor: str, level: Level) -> list[Comparison]:
    base = evidence.baseline[factor]
    return [
        one
        for engine in evidence.levels("engine")
        for one in evidence.beside(factor, level, base, engine=engine)
    ]


def _cuts(evidence: Evidence) -> Judged:
    """Fewer and more blocks than the baseline's."""
    levels = sorted(evidence.levels("files"), key=float)
    found = [
        one
        for level in (levels[0], levels[-1])
        if level != evidence.baseline["files"]
        for one in _by_engine(evidence, "files", level)
    ]
    return expecting({"slower"}, found)


def _is_at(result: CellResult, **levels: Level) -> bool:
    return all(result.cell.levels[name] == level for name, level in levels.items())


def _first_reads(evidence: Evidence) -> Judged:
    """Look at slots that all begin at once, on a device that they share."""
    cells = [
        one
        for one in evidence.answer.phases
        if _is_at(one.result, tier="saturated", readers_per_device=0, stagger=0)
    ]
    ratio = first_reads(cells)
    if ratio is None:
        return Judged("not tested", ["No trial has left the times of its reads."])
    told = f"First reads of slots take {show_interval(ratio)} as long as later ones."
    return judged_ratio(ratio, told)


def _compensation(evidence: Evidence) -> Judged:
    saturated = [one for one in evidence.answer.results if _is_at(one, tier="saturated")]
    slope = compensation_of(saturated)
    if slope is None or slope.low is None or slope.high is None:
        return Judged("open", ["Too few trials of several engines tell."])
    told = (
        f"For each second of overhead that an engine has more, its transfer changes by"
        f" {show_slope(slope)}; -1 s would make up for all of it."
    )
    if slope.high >= 0:
        return Judged("refuted" if slope.low > -1 else "open", [told])
    if slope.low <= -1 <= slope.high:
        return Judged("reproduced", [told])
    return Judged("in part", [told])


def _growth(evidence: Evidence) -> Judged:
    control = str(evidence.baseline["engine"])
    growths = [one for one in evidence.answer.trends.growths if one.engine != control]
    if len(growths) < 2:
        return Judged("not tested", ["Fewer than two of the paper's engines have been run."])
    ordered = sorted(growths, key=lambda one: one.overhead.value)
    told = ", ".join(f"{one.engine} {show_slope(one.overhead)}" for one in ordered)
    evidence_ = [f"Overhead of all slots for each further worker: {told}."]
    least = ordered[0].overhead
    most = ordered[-1].overhead
    if least.high is None or most.low is None or least.high >= most.low:
        return Judged("open", evidence_)
    is_ordered = (ordered[0].engine, ordered[-1].engine) == (LEAST, MOST)
    return Judged("reproduced" if is_ordered else "refuted", evidence_)


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
    if chance > BY_CHANCE:
        return Judged("open", [told])
    return Judged("reproduced", [told])


def _lock(workload: str, name: str, expected: set[Verdict]) -> Claim:
    """What a second thread brings to a function, on engines whose slots are threads."""
    words = "does not speed up"
    if "faster" in expected:
        words = "speeds up"

    def judge(evidence: Evidence) -> Judged:
        threads = [int(level) for level in evidence.levels("threads")]
        found = [
            one
            for engine in evidence.levels("engine")
            if not facts_of(str(engine)).process_per_slot
            for one in evidence.beside(
                "threads", max(threads), min(threads), workload=workload, engine=engine
            )
        ]
        return expecting(expected, found)

    return Claim(f"A second thread in a worker {words} {name}.", THREADS, judge)


def _turns(evidence: Evidence) -> Judged:
    found = [
        one
        for factor in ("stagger", "readers_per_device")
        for level in evidence.levels(factor)[1:]
        for one in evidence.beside(factor, level, 0, tier="saturated")
    ]
    return expecting({"equivalent"}, found)


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
    return Judged("reproduced", told)


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
CLAIMS = (
    Claim(
        "Engines take as long as each other where all wait for a shared file system.",
        READS,
        _saturated,
    ),
    Claim("They do not where storage is idle.", READS, _idle),
    Claim("Dask's interfaces and Spark take as long as each other.", INCREMENTATION, _engines),
    Claim(
        "With more workers than the machine feeds, makespans stop falling, or rise.",
        INCREMENTATION,
        _workers,
    ),
    Claim(
        "Where all begin to read from a shared file system at once, the first reads take longer"
        " than later ones.",
        READS,
        _first_reads,
    ),
    Claim(
        "Where bandwidth is saturated, what an engine loses in overhead it gains in transfer, and"
        " the other way round.",
        READS,
        _compensation,
    ),
    Claim(
        "Overhead grows with the workers, least on Spark and most on Dask Futures.",
        INCREMENTATION,
        _growth,
    ),
    Claim("Makespans vary more with more blocks.", INCREMENTATION, _variance),
    Claim(
        "There is a best number of blocks: fewer and more of them take longer.",
        INCREMENTATION,
        _cuts,
    ),
    Claim(
        "Of histograms in pure Python, by workers of several threads, Spark is faster than Dask.",
        HISTOGRAM,
        _python_histograms,
    ),
    Claim(
        "Histograms in compiled code take as long on Dask's interfaces as on Spark.",
        HISTOGRAM,
        _compiled_histograms,
    ),
    _lock(
        "histogram-python", "pure Python: it holds the interpreter's lock", {"equivalent", "slower"}
    ),
    _lock("hyperslab.apps.experiment.lock:compiled", "NumPy", {"faster"}),
    _lock("hyperslab.apps.experiment.lock:sleep", "a function that sleeps", {"faster"}),
    _lock("hyperslab.apps.experiment.lock:program", "a program on the command line", {"faster"}),
    Claim("Where bandwidth is saturated, putting transfers off costs nothing.", READS, _turns),
    Claim(
        "Spark cannot hand over blocks of more than 2 GiB.",
        BLOCK_LIMIT,
        _block_limit,
    ),
    Claim(
        "In a BIDS App, overhead lies at the barrier between participants and groups.",
        "",
        untestable("There is no such pipeline among the shipped specs."),
    ),
)
