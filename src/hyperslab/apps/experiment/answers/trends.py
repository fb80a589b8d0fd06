"""Trends: what grows with workers and blocks, engine by engine, and whether engines trade overhead
for transfer.

Three things are asked that M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask
and Apache Spark for data-intensive neuroimaging pipelines (2019) states: by how much overhead and
transfer grow with each worker, whether makespans vary more with more blocks (`spreads`), and
whether overhead and transfer compensate each other (`compensation`).

What each worker costs is the slope of a least-squares line over the levels of workers within each
replicate, and the mean of these: trials of one replicate are no independent points. Where trials
ran on several machines, each slope is of one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hyperslab.apps.experiment.answers import compensation, spreads
from hyperslab.apps.experiment.answers.comparison import Block, CellResult
from hyperslab.apps.experiment.answers.compensation import Traded, trades_of
from hyperslab.apps.experiment.answers.lines import amount, lines_of
from hyperslab.apps.experiment.answers.spreads import Spread, spreads_of
from hyperslab.apps.experiment.statistics.intervals import Interval, mean_interval
from hyperslab.apps.experiment.statistics.regression import slope_of
from hyperslab.apps.experiment.statistics.shown import show_mean
from hyperslab.units import show_count

WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class Growth:
    """What each further worker costs on an engine, in seconds of all slots."""

    engine: str
    workers: Sequence[float]
    overhead_s: Mapping[Block, float]
    "Slope of the overhead in each block."
    transfer_s: Mapping[Block, float]

    @property
    def overhead(self) -> Interval:
        """Mean slope of the overhead."""
        return mean_interval(list(self.overhead_s.values()))

    @property
    def transfer(self) -> Interval:
        """Mean slope of the transfer."""
        return mean_interval(list(self.transfer_s.values()))


@dataclass(frozen=True, slots=True)
class Trends:
    """All of it."""

    growths: Sequence[Growth] = ()
    spreads: Sequence[Spread] = ()
    trades: Sequence[Traded] = ()
    "Overhead and transfer of every two engines, all else at the baseline."

    def growth(self, engine: str) -> Growth | None:
        """What each further worker costs on an engine; None where nobody knows."""
        for one in self.growths:
            if one.engine == engine:
                return one
        return None


def trends_of(results: Sequence[CellResult]) -> Trends:
    """The trends of an experiment's cells, of which the first is the baseline."""
    if not results:
        return Trends()
    return Trends(list(_growths(results)), list(spreads_of(results)), list(trades_of(results)))


def _growths(results: Sequence[CellResult]) -> Iterator[Growth]:
    for engine, line in lines_of(results, WORKERS).items():
        known = [result for result in line if result.done]
        overhead_s = slopes_by_block(known, WORKERS, "overhead")
        transfer_s = slopes_by_block(known, WORKERS, "transfer")
        if overhead_s and transfer_s:
            levels = sorted({float(one.cell.levels[WORKERS]) for one in known})
            yield Growth(engine, levels, overhead_s, transfer_s)


def slopes_by_block(line: Sequence[CellResult], factor: str, measure: str) -> Mapping[Block, float]:
    """Slope of overhead or transfer over the levels of a factor, in every block that has all of
    them.
    """
    values = [
        (float(result.cell.levels[factor]), result.by_block(lambda one: amount(one, measure)))
        for result in line
    ]
    if not values:
        return {}
    blocks = sorted(set.intersection(*(set(own) for _, own in values)))
    slopes = {block: slope_of([(level, own[block]) for level, own in values]) for block in blocks}
    return {block: slope for block, slope in slopes.items() if slope is not None}


# In sentences


def sentences(trends: Trends, margin: float) -> Iterator[str]:
    """What the trends say, as evidence."""
    for growth in trends.growths:
        name = growth.engine or "the engine"
        overhead = show_mean(list(growth.overhead_s.values()), " s")
        transfer = show_mean(list(growth.transfer_s.values()), " s")
        over = show_count(len(growth.overhead_s), "replicate")
        yield (
            f"Each further worker of {name} costs {overhead} of overhead and {transfer} of"
            f" transfer, of all slots, over {over} that have all numbers of workers."
        )
    yield from spreads.sentences(trends.spreads)
    yield from compensation.sentences(trends.trades, margin)


def told(trends: Trends) -> Mapping[str, object]:
    """The trends for programs."""
    return {
        "growth": [
            {
                "engine": one.engine,
                "workers": one.workers,
                "overhead_s": one.overhead._asdict(),
                "transfer_s": one.transfer._asdict(),
            }
            for one in trends.growths
        ],
        "spread": [
            {"engine": one.engine, "factor": one.factor, "deviations": one.deviations}
            for one in trends.spreads
        ],
        "compensation": [compensation.told(one) for one in trends.trades],
    }
