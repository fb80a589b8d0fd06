"""Claims of M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask and Apache
Spark for data-intensive neuroimaging pipelines (2019).
"""

from __future__ import annotations

from hyperslab.apps.experiment.answer import show_interval
from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Evidence,
    Judged,
    expecting,
    judged_ratio,
    untestable,
)
from hyperslab.apps.experiment.comparison import Comparison, Verdict
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.phases import first_reads
from hyperslab.apps.experiment.regression import sign_probability
from hyperslab.apps.experiment.trends import show_slope

INCREMENTATION = "dask-vs-spark/incrementation"
HISTOGRAM = "dask-vs-spark/histogram"
READS = "dask-vs-spark/staggered-reads"
LEAST = "spark"
MOST = "dask-futures"
"Engines of least and of most overhead for each worker, in the paper."
BY_CHANCE = 0.05
"Probability from which on so many engines may have come out one way by chance."


def _engines_on(evidence: Evidence, tier: str, expected: set[Verdict]) -> Judged:
    first, *others = evidence.levels("engine")
    found = [
        one for engine in others for one in evidence.beside("engine", engine, first, tier=tier)
    ]
    return expecting(expected, found)


def _saturated(evidence: Evidence) -> Judged:
    return _engines_on(evidence, "saturated", {"equivalent"})


def _idle(evidence: Evidence) -> Judged:
    return _engines_on(evidence, "idle", {"slower", "faster"})


def _engines(evidence: Evidence) -> Judged:
    """All engines beside the first of the paper's, at the baseline of all else."""
    names = evidence.levels("engine")[1:]
    found = [one for engine in names[1:] for one in evidence.beside("engine", engine, names[0])]
    return expecting({"equivalent"}, found)


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


def _first_reads(evidence: Evidence) -> Judged:
    ratio = first_reads(evidence.answer.phases)
    if ratio is None:
        return Judged("not tested", ["No trial has left the times of its reads."])
    told = f"First reads of slots take {show_interval(ratio)} as long as later ones."
    return judged_ratio(ratio, told)


def _compensation(evidence: Evidence) -> Judged:
    slope = evidence.answer.trends.compensation
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


def _lock(workload: str, expected: set[Verdict]) -> Claim:
    words = "does not speed up" if "faster" not in expected else "speeds up"
    name = "pure Python" if workload == "histogram-python" else "compiled code"

    def judge(evidence: Evidence) -> Judged:
        threads = [int(level) for level in evidence.levels("threads")]
        found = evidence.beside("threads", max(threads), min(threads), workload=workload)
        return expecting(expected, list(found))

    text = f"A second thread in a worker {words} {name} (the interpreter's lock)."
    return Claim(text, HISTOGRAM, judge)


def _turns(evidence: Evidence) -> Judged:
    found = [
        one
        for factor in ("stagger", "readers_per_device")
        for level in evidence.levels(factor)[1:]
        for one in evidence.beside(factor, level, 0, tier="saturated")
    ]
    return expecting({"equivalent"}, found)


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
    Claim("The first reads take longer than later ones.", INCREMENTATION, _first_reads),
    Claim(
        "What an engine loses in overhead it gains in transfer, and the other way round.",
        INCREMENTATION,
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
    _lock("histogram-python", {"equivalent", "slower"}),
    _lock("histogram", {"faster"}),
    Claim("Where bandwidth is saturated, putting transfers off costs nothing.", READS, _turns),
    Claim(
        "Spark cannot take blocks of more than 2 GiB.",
        "",
        untestable(
            "The blocks of these scales are smaller. hyperslab's engine on Spark sends descriptions"
            " of blocks to Java, not the blocks, so that this limit is not met."
        ),
    ),
    Claim(
        "In a BIDS App, overhead lies at the barrier between participants and groups.",
        "",
        untestable("There is no such pipeline among the shipped specs."),
    ),
)
