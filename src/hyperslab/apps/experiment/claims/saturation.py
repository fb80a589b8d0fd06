"""Saturation: what engines cost each other where all of them wait for one tier, and where none
does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from hyperslab.apps.experiment.answer import show_interval
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    Contrast,
    Evidence,
    Judged,
    expecting,
    judged_contrasts,
    outcome_of,
    show_mean,
    sign_of,
)
from hyperslab.apps.experiment.comparison import (
    MEASURE,
    WITHOUT_START,
    CellResult,
    Comparison,
)
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.intervals import ratio_interval
from hyperslab.apps.experiment.model import PROCESSORS, SLOTS
from hyperslab.apps.experiment.phases import CellPhases
from hyperslab.apps.experiment.significance import (
    beyond_p,
    differs_p,
    equivalent_p,
    is_told,
)
from hyperslab.apps.experiment.trends import amount

SPARK = "spark"
DASK = "dask-futures"
"Engine of Dask whose tasks are like Spark's: one for each block."


def engines_beside(
    evidence: Evidence, names: Sequence[Level], **levels: Level
) -> Iterator[Comparison]:
    """Engines beside the first of them, with their start and without: the paper's pipelines ran so
    long that starts hardly counted.
    """
    for measure in (MEASURE, WITHOUT_START):
        for engine in names[1:]:
            yield from evidence.beside("engine", engine, names[0], measure, **levels)


def _spark_and_dask(evidence: Evidence, tier: str) -> list[Comparison]:
    return list(engines_beside(evidence, (DASK, SPARK), tier=tier))


def saturated(evidence: Evidence) -> Judged:
    return where_storage_binds(
        evidence, (DASK, SPARK), expecting({"equivalent"}, _spark_and_dask(evidence, "saturated"))
    )


def where_storage_binds(evidence: Evidence, engines: Sequence[Level], found: Judged) -> Judged:
    """What was found, of engines that storage is shown to hold up on the saturated tier; else
    nothing.
    """
    free = list(_unbound(evidence, engines))
    if found.outcome == "not tested" or not free:
        return found
    why = (
        f"That storage binds is not shown: {'; '.join(free)}. The claim is about engines that wait"
        " for it."
    )
    return Judged("not tested", [why, *found.evidence])


def _unbound(evidence: Evidence, engines: Sequence[Level]) -> Iterator[str]:
    """What binds engines on the saturated tier, of those that storage is not shown to bind: without
    a model nobody knows.
    """
    bounds = {one.result.cell.key: one.model.bound for one in evidence.answer.expected}
    for engine in engines:
        result = evidence.cell(tier="saturated", engine=engine)
        if result is None or not result.done:
            continue
        bound = bounds.get(result.cell.key)
        if bound is None:
            yield f"there is no model of {engine}"
        elif bound.binding in (SLOTS, PROCESSORS):
            yield f"{bound.binding} bind {engine}"


def idle(evidence: Evidence) -> Judged:
    return expecting({"slower", "faster"}, _spark_and_dask(evidence, "idle"))


def narrowing(evidence: Evidence) -> Judged:
    """Spark over Dask on the idle tier, beside the same on the saturated one."""
    gaps = [_gap(evidence, tier) for tier in ("idle", "saturated")]
    both = sorted(gaps[0].keys() & gaps[1].keys())
    if not both:
        return Judged("not tested", [NOT_RUN])
    far, near = ([gap[one] for one in both] for gap in gaps)
    here, there = (ratio_interval(gap, [1.0] * len(gap)) for gap in (near, far))
    told = (
        f"Without the start of engines, Spark takes {show_interval(there)} as long as Dask on the"
        f" idle tier, {show_interval(here)} on the saturated one."
    )
    pairs = zip(far, near, strict=True)
    narrower = [abs(math.log(idle_gap)) - abs(math.log(gap)) for idle_gap, gap in pairs]
    judged = judged_contrasts([Contrast(told, narrower)])
    return where_storage_binds(evidence, (DASK, SPARK), judged)


def _gap(evidence: Evidence, tier: str) -> dict[int, float]:
    """Time of Spark over that of Dask without their starts, by replicate."""
    spark = evidence.cell(tier=tier, engine=SPARK)
    dask = evidence.cell(tier=tier, engine=DASK)
    if spark is None or dask is None:
        return {}
    own = spark.by_replicate(WITHOUT_START)
    other = dask.by_replicate(WITHOUT_START)
    return {one: own[one] / other[one] for one in own.keys() & other.keys()}


def _is_at(result: CellResult, **levels: Level) -> bool:
    return all(result.cell.levels[name] == level for name, level in levels.items())


def first_reads(evidence: Evidence) -> Judged:
    """Look at slots that all begin at once, on a device that they share, engine by engine."""
    found = [
        _first_beside_later(one)
        for one in evidence.answer.phases
        if _is_at(one.result, tier="saturated", readers_per_device=0, stagger=0) and one.pairs
    ]
    if not found:
        return Judged("not tested", ["No trial has left the times of its reads."])
    return where_storage_binds(evidence, evidence.levels("engine"), judged_contrasts(found))


def _first_beside_later(one: CellPhases) -> Contrast:
    ratio = ratio_interval([first for first, _ in one.pairs], [later for _, later in one.pairs])
    engine = one.result.cell.shown("engine")
    told = f"{engine}: first reads of slots take {show_interval(ratio)} as long as later ones."
    return Contrast(told, [math.log(first / later) for first, later in one.pairs])


def compensation(evidence: Evidence) -> Judged:
    """Overhead and transfer together, of every two of the paper's engines on the saturated tier: as
    much on both where one makes up for the other.
    """
    engines = evidence.levels("engine")[1:]
    found: list[Judged] = []
    for one, other in combinations(engines, 2):
        found += _compensating(evidence, str(one), str(other))
    if not found:
        return Judged("not tested", [NOT_RUN])
    outcome = outcome_of([sign_of(one) for one in found])
    told = [text for one in found for text in one.evidence]
    return where_storage_binds(evidence, engines, Judged(outcome, told))


def _compensating(evidence: Evidence, one: str, other: str) -> Iterator[Judged]:
    costs = [_costs(evidence, engine) for engine in (one, other)]
    both = sorted(costs[0].keys() & costs[1].keys())
    if not both:
        return
    own, others = ([cost[n] for n in both] for cost in costs)
    overheads = [b[0] - a[0] for a, b in zip(own, others, strict=True)]
    transfers = [b[1] - a[1] for a, b in zip(own, others, strict=True)]
    sums = [math.log(sum(b) / sum(a)) for a, b in zip(own, others, strict=True)]
    margin = math.log(1 + evidence.margin)
    ratio = ratio_interval([sum(b) for b in others], [sum(a) for a in own])
    told = (
        f"{other} beside {one}, seconds of all slots: overhead {show_mean(overheads)} more,"
        f" transfer {show_mean(transfers)} more; both together {show_interval(ratio)} as long."
    )
    if not is_told(differs_p(overheads)):
        yield Judged("open", [f"{told} That overheads differ is not shown."])
    elif is_told(equivalent_p(sums, margin)):
        yield Judged("reproduced", [told])
    else:
        yield Judged("refuted" if is_told(beyond_p(sums, margin)) else "open", [told])


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


def turns(evidence: Evidence) -> Judged:
    found = [
        one
        for factor in ("stagger", "readers_per_device")
        for level in evidence.levels(factor)[1:]
        for one in evidence.beside(factor, level, 0, tier="saturated")
    ]
    engines = evidence.levels("engine")[:1]
    return where_storage_binds(evidence, engines, expecting({"equivalent"}, found))
