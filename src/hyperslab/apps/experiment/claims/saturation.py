"""Saturation: what engines cost each other where all of them wait for one tier, and where none
does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean

from hyperslab.apps.experiment.answers import phases
from hyperslab.apps.experiment.answers.asleep import sleep_s
from hyperslab.apps.experiment.answers.comparison import WITHOUT_START, CellResult
from hyperslab.apps.experiment.answers.compensation import (
    Traded,
    numbers,
    signs_of,
    traded,
    why_open,
)
from hyperslab.apps.experiment.answers.expectation import Expected
from hyperslab.apps.experiment.answers.phases import CellPhases, tells_first_reads
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    Contrast,
    Evidence,
    Judged,
    Outcome,
    Pair,
    Ratios,
    by_signs,
    expecting_without_start,
    judged_contrasts,
    ratios_of,
)
from hyperslab.apps.experiment.claims.shortness import unless_short
from hyperslab.apps.experiment.claims.sleeping import unless_asleep
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.statistics.intervals import ratio_interval, ratio_of
from hyperslab.apps.experiment.statistics.shown import show_interval
from hyperslab.apps.experiment.statistics.significance import (
    beyond_p,
    differs_p,
    equivalent_p,
    holm,
    is_told,
)
from hyperslab.units import show_seconds, show_share

SPARK = "spark"
LONG_BY_SLEEP = (
    "They sleep for so long that what engines do around them is a tenth of it at most: that engines"
    " take as long as each other is by construction, and shorter tasks tell them apart."
)
DASK = "dask-futures"
"Engine of Dask whose tasks are like Spark's: one for each block."


def engines_beside(names: Sequence[Level], **levels: Level) -> list[Pair]:
    """Engines beside the first of them."""
    return [Pair("engine", engine, names[0], levels) for engine in names[1:]]


def saturated(evidence: Evidence) -> Judged:
    pairs = engines_beside((DASK, SPARK), tier="saturated")
    found = expecting_without_start(evidence, {"equivalent"}, pairs)
    return where_storage_binds(evidence, (DASK, SPARK), found)


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
    return found.instead("not tested", why)


def _unbound(evidence: Evidence, engines: Sequence[Level]) -> Iterator[str]:
    """What binds engines on the saturated tier, of those that storage is not shown to bind for most
    of their time: without a model nobody knows.
    """
    expected = {one.result.cell.key: one for one in evidence.answer.expected}
    for engine in engines:
        result = evidence.cell(tier="saturated", engine=engine)
        if result is None or not result.done:
            continue
        found = expected.get(result.cell.key)
        if found is None:
            yield f"there is no model of {engine}"
        elif not found.storage_binds:
            yield f"{found.model.bound.binding} bind {engine}"
        elif not found.waits_for_storage:
            share = show_share(found.explained)
            yield f"{found.model.bound.binding} is busy for {share} of the time of {engine} alone"


def idle(evidence: Evidence) -> Judged:
    """Judge by the longest tasks that there are, which wait for nothing. Where sleep alone makes
    them long, engines are alike by that, and it is no sign of what storage does.
    """
    longest = max(evidence.levels("delay"), key=float)
    pairs = engines_beside((DASK, SPARK), tier="idle", delay=longest)
    found = expecting_without_start(evidence, {"slower", "faster"}, pairs)
    slept = [one for one in evidence.asked.values() if one.done]
    return unless_short(evidence, unless_asleep(evidence, found, LONG_BY_SLEEP, slept))


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
        f" idle tier, {show_interval(here)} on the saturated one{_of_tasks(evidence)}."
    )
    judged = narrowed(told, list(map(math.log, far)), list(map(math.log, near)))
    return where_storage_binds(evidence, (DASK, SPARK), judged)


def _of_tasks(evidence: Evidence) -> str:
    """Sleep of the tasks of the baseline, in words, as gaps depend on it."""
    slept_s = sleep_s(evidence.baseline)
    return f", by tasks that sleep for {show_seconds(slept_s)} each" if slept_s else ""


def narrowed(told: str, far: Sequence[float], near: Sequence[float]) -> Judged:
    """What is shown of two gaps, as logarithms by block. Which of both is ahead is taken from the
    mean of the first gap, where that is told: absolute gaps of single blocks would be the greater
    the more these vary, and so narrower where they vary less.
    """
    if not is_told(differs_p(far)):
        why = "A gap on the idle tier is not shown, and none that is not there can be narrower."
        return Judged("open", [told, why])
    side = math.copysign(1.0, fmean(far))
    pairs = list(zip(far, near, strict=True))
    on_its_side = [side * (gap - other) for gap, other in pairs]
    on_the_other = [side * (gap + other) for gap, other in pairs]
    outcome = _between_both([on_its_side, on_the_other])
    shown = show_interval(ratio_of(on_its_side))
    more = f"The ratio on the idle tier is {shown} that on the other one, by the engine behind."
    return Judged(outcome, [told, more])


def _between_both(differences: Sequence[Sequence[float]]) -> Outcome:
    """Whether all of these are greater than 0 in the mean, by the weakest of their tests; refuted
    where one is less, allowing for their number.
    """
    found = [differs_p(one) for one in differences]
    are_greater = [fmean(one) > 0 for one in differences]
    if all(are_greater) and all(map(is_told, found)):
        return "reproduced"
    adjusted = holm(found)
    less = [p for p, is_greater in zip(adjusted, are_greater, strict=True) if not is_greater]
    return "refuted" if any(map(is_told, less)) else "open"


def _gap(evidence: Evidence, tier: str) -> Ratios:
    """Time of Spark over that of Dask without their starts, by block."""
    return ratios_of(evidence, "engine", SPARK, DASK, WITHOUT_START, tier=tier)


def _is_at(result: CellResult, **levels: Level) -> bool:
    return all(result.cell.levels[name] == level for name, level in levels.items())


def first_reads(evidence: Evidence) -> Judged:
    """Look at slots that all begin at once, on a device that they share, engine by engine."""
    by_engine: dict[str, list[CellPhases]] = {}
    for one in evidence.answer.phases:
        if _is_at(one.result, tier="saturated") and tells_first_reads(one.result):
            by_engine.setdefault(one.result.cell.shown("engine"), []).append(one)
    found = [
        _first_beside_later(engine, ratios)
        for engine, cells in by_engine.items()
        if (ratios := phases.first_reads(cells))
    ]
    if not found:
        return Judged("not tested", ["No trial has left the times of its reads."])
    return where_storage_binds(evidence, evidence.levels("engine"), judged_contrasts(found))


def _first_beside_later(engine: str, ratios: Sequence[float]) -> Contrast:
    shown = show_interval(ratio_of(ratios))
    told = f"{engine}: first reads of slots take {shown} as long as later ones."
    return Contrast(told, ratios)


def compensation(evidence: Evidence) -> Judged:
    """Overhead and transfer together, of every two of the paper's engines on the saturated tier: as
    much on both where one makes up for the other.
    """
    engines = evidence.levels("engine")[1:]
    cells = [evidence.cell(tier="saturated", engine=engine) for engine in engines]
    known = [cell for cell in cells if cell is not None]
    found = [one for pair in combinations(known, 2) for one in traded(pair[1], pair[0])]
    if not found:
        return Judged("not tested", [NOT_RUN])
    signs = signs_of(found, evidence.margin)
    told = [_said(*one) for one in zip(found, signs, why_open(found), strict=True)]
    return where_storage_binds(evidence, engines, by_signs(signs, told))


def _said(one: Traded, sign: bool | None, why: str) -> str:
    told = f"{numbers(one)}."
    if sign is None:
        return f"{told} {why}"
    return told


def turns(evidence: Evidence) -> Judged:
    found = expecting_without_start(evidence, {"equivalent"}, _turns(evidence, "saturated"))
    return where_storage_binds(evidence, evidence.levels("engine")[:1], found)


def idle_turns(evidence: Evidence) -> Judged:
    return expecting_without_start(evidence, {"slower"}, _turns(evidence, "idle"))


def _turns(evidence: Evidence, tier: str) -> list[Pair]:
    """Reads that are put off beside those that are not."""
    return [
        Pair(factor, level, 0, {"tier": tier})
        for factor in ("stagger", "readers_per_device")
        for level in evidence.levels(factor)[1:]
    ]


def bandwidth_law(evidence: Evidence) -> Judged:
    """Look at the time of each engine on the saturated tier, beside that for which its medium is
    busy with all bytes at the rate that it has.
    """
    expected = {one.result.cell.key: one for one in evidence.answer.expected}
    cells = [evidence.cell(tier="saturated", engine=name) for name in evidence.levels("engine")]
    known = [expected[one.cell.key] for one in cells if one and one.cell.key in expected]
    found = [_beyond_bandwidth(one) for one in known if one.storage_binds]
    if not found:
        return Judged("not tested", ["No model says that storage binds on the saturated tier."])
    margin = math.log(1 + evidence.margin)
    alike = holm([equivalent_p(logarithms, margin) for _, logarithms in found])
    apart = holm([beyond_p(logarithms, margin) for _, logarithms in found])
    signs = [_sign(*by_chance) for by_chance in zip(alike, apart, strict=True)]
    return by_signs(signs, [told for told, _ in found])


def _sign(alike: float | None, apart: float | None) -> bool | None:
    if is_told(apart):
        return False
    return True if is_told(alike) else None


def _beyond_bandwidth(one: Expected) -> tuple[str, list[float]]:
    """Logarithms of the times of an engine over what its bytes take, with a sentence on them."""
    times = list(one.result.by_replicate(WITHOUT_START).values())
    logarithms = [math.log(seconds / one.busy_s) for seconds in times]
    name = one.result.cell.shown("engine")
    if not logarithms:
        return f"{name}: no time without its start is known.", []
    shown = show_interval(ratio_of(logarithms))
    return f"{name}: {shown} as long as {show_seconds(one.busy_s)} (nF / B).", logarithms
