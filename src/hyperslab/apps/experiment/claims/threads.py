"""Claims on threads of a worker, which share the interpreter's lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hyperslab.apps.experiment.answers.comparison import WITHOUT_START, Comparison, Verdict
from hyperslab.apps.experiment.claims.claim import (
    COMPUTING,
    Evidence,
    Judge,
    Judged,
    Pair,
    expecting,
    expecting_each,
    expecting_without_start,
)
from hyperslab.apps.experiment.claims.growth import LEAST
from hyperslab.apps.experiment.claims.shortness import faster_by_computing, unless_short
from hyperslab.engines.facts import facts_of

PURE_PYTHON = "histogram-python"


def python_histograms(evidence: Evidence) -> Judged:
    """Spark, whose slots are processes, beside engines whose slots are threads. Short runs tell
    that it is faster, if it is so by computing alone.
    """
    pairs = [
        Pair("engine", LEAST, engine, {})
        for engine in evidence.levels("engine")[1:]
        if engine != LEAST
    ]
    slots = (
        f"Workers have {evidence.baseline['threads']} threads each, which share the interpreter's"
        " lock; slots of Spark are as many processes."
    )
    found = expecting_without_start(evidence, {"faster"}, pairs)
    if found.outcome == "reproduced" and (why := faster_by_computing(evidence, LEAST)):
        return found.beside([slots, why])
    return unless_short(evidence, found).beside(after=[slots])


def locked(evidence: Evidence) -> Judged:
    """Look at pure Python: runs take no less with a second thread, and their tasks take longer."""
    wanted: Mapping[str, set[Verdict]] = {
        COMPUTING: {"slower"},
        WITHOUT_START: {"equivalent", "slower"},
    }
    found = [
        (verdicts, one)
        for measure, verdicts in wanted.items()
        for one in _second_thread(evidence, PURE_PYTHON, measure)
    ]
    return expecting_each(found)


def speeds_up(function: str) -> Judge:
    """Look at a function for which a second thread is faster."""

    def judge(evidence: Evidence) -> Judged:
        return expecting({"faster"}, list(_second_thread(evidence, function, WITHOUT_START)))

    return judge


def _second_thread(evidence: Evidence, function: str, measure: str) -> Iterator[Comparison]:
    """Most threads of a worker beside fewest, on engines whose slots are threads."""
    threads = sorted(int(level) for level in evidence.levels("threads"))
    for engine in evidence.levels("engine"):
        if not facts_of(str(engine)).process_per_slot:
            yield from evidence.beside(
                "threads", threads[-1], threads[0], measure, workload=function, engine=engine
            )
