"""Claims on what grows with the workers of Dask and Spark, and on what one engine takes more than
another whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Literal

from hyperslab.apps.experiment.answers.comparison import (
    MEASURE,
    WITHOUT_START,
    Block,
    CellResult,
    measured,
    paired,
)
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    Contrast,
    Evidence,
    Judged,
    contrast,
    judged_contrasts,
)
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.statistics.intervals import ratio_of
from hyperslab.apps.experiment.statistics.shown import show_interval, show_mean
from hyperslab.units import show_share

LEAST = "spark"
MOST = "dask-futures"
"Engines of least and of most overhead for each worker, in the paper."
Kind = Literal["overhead", "transfer"]


def overhead(evidence: Evidence) -> Judged:
    """Judge that overhead grows with the workers, engine by engine."""
    return _growing(evidence, "overhead")


def transfer(evidence: Evidence) -> Judged:
    """Judge that transfer does."""
    return _growing(evidence, "transfer")


def _growing(evidence: Evidence, kind: Kind) -> Judged:
    found = [
        Contrast(
            f"{kind.capitalize()} of all slots, s for each further worker, {engine}:"
            f" {show_mean(slopes)}.",
            slopes,
        )
        for engine in evidence.levels("engine")[1:]
        if (slopes := list(_slopes(evidence, engine, kind).values()))
    ]
    return judged_contrasts(found)


def order(evidence: Evidence) -> Judged:
    """Growth on the engines between beside that on Spark, and that on Futures beside theirs."""
    engines = [engine for engine in evidence.levels("engine")[1:] if engine not in (LEAST, MOST)]
    pairs = [(MOST, LEAST), *((one, LEAST) for one in engines), *((MOST, one) for one in engines)]
    found = []
    for more, less in pairs:
        own = _slopes(evidence, more, "overhead")
        other = _slopes(evidence, less, "overhead")
        differences = [own[one] - other[one] for one in sorted(own.keys() & other.keys())]
        if differences:
            told = f"{more} beside {less}, s more for each worker: {show_mean(differences)}."
            found.append(Contrast(told, differences))
    return judged_contrasts(found)


def _slopes(evidence: Evidence, engine: Level, kind: Kind) -> Mapping[Block, float]:
    """Overhead or transfer for each further worker, by block, as the answer has it."""
    growth = evidence.answer.trends.growth(str(engine))
    if growth is None:
        return {}
    if kind == "transfer":
        return growth.transfer_s
    return growth.overhead_s


def difference(evidence: Evidence) -> Judged:
    """Look at Spark over Dask's interfaces without their starts, in the mean over all numbers of
    workers, replicate by replicate: it takes longer, and by less than the margin.
    """
    found = _of_all_workers(evidence, WITHOUT_START)
    if found is None:
        return Judged("not tested", [NOT_RUN])
    if not found:
        return Judged("not tested", ["No replicate has all cells that tell."])
    shown = show_interval(ratio_of(found))
    told = f"Without the start of engines, Spark takes {shown} as long as Dask's interfaces"
    most = math.log(1 + evidence.margin)
    longer = Contrast(f"{told}: longer.", found)
    slightly = Contrast(
        f"{told}: by less than {show_share(evidence.margin)}.", [most - one for one in found]
    )
    judged = judged_contrasts([longer, slightly])
    whole = _of_all_workers(evidence, MEASURE)
    if not whole:
        return judged
    shown = show_interval(ratio_of(whole))
    with_start = f"With the start of engines, which does not count here, it takes {shown} as long."
    return judged.beside(after=[with_start])


def _of_all_workers(evidence: Evidence, measure: str) -> list[float] | None:
    """Logarithms of the times of Spark over those of Dask's interfaces, in the mean over interfaces
    and numbers of workers, by block; None where no such cells were run.
    """
    found = [
        ratios
        for workers in evidence.levels("workers")
        for dask in evidence.levels("engine")[1:]
        if dask != LEAST and (ratios := _over(evidence, dask, workers, measure))
    ]
    if not found:
        return None
    blocks = set.intersection(*(set(ratios) for ratios in found))
    return [fmean(ratios[block] for ratios in found) for block in sorted(blocks)]


def _over(evidence: Evidence, dask: Level, workers: Level, measure: str) -> dict[Block, float]:
    """Logarithms of the times of Spark over those of an interface of Dask."""
    here = evidence.cell(engine=LEAST, workers=workers)
    there = evidence.cell(engine=dask, workers=workers)
    if here is None or there is None:
        return {}
    both = paired(here, there, measured(measure))
    return {block: math.log(own / other) for block, (own, other) in both.items()}


def start(evidence: Evidence) -> Judged:
    """Look at the time until Spark can run tasks, beside that of each of Dask's interfaces."""
    spark = evidence.cell(engine=LEAST)
    others = [evidence.cell(engine=name) for name in evidence.levels("engine")[1:] if name != LEAST]
    if spark is None:
        return Judged("not tested", [NOT_RUN])
    known = [one for one in others if one is not None]
    return judged_contrasts([one for cell in known for one in _starts(spark, cell)])


def _starts(spark: CellResult, dask: CellResult) -> Iterator[Contrast]:
    pairs = list(paired(spark, dask, measured("startup_s")).values())
    if not pairs:
        return
    own = show_mean([value for value, _ in pairs], " s")
    other = show_mean([value for _, value in pairs], " s")
    name = dask.cell.shown("engine")
    yield contrast(f"Start of Spark: {own}; of {name}: {other}", pairs)
