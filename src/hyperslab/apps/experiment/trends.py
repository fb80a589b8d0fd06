"""Trends: what grows with workers and blocks, engine by engine, and whether engines trade overhead
for transfer.

Transfer is the time of all slots in reading and writing, overhead that between their tasks, as the
summary of a run defines both. Three things are asked that M. Dugré, V. Hayot-Sasson, T. Glatard, A
performance comparison of Dask and Apache Spark for data-intensive neuroimaging pipelines (2019)
states:

- by how much both grow with each worker;
- whether makespans vary more between replicates with more blocks: by the sign of the slope of the
  logarithm of the standard deviation over that of the blocks, engine by engine;
- whether overhead and transfer compensate each other: the slope of transfer over overhead among
  engines, within each replicate of the same levels, and its mean over replicates. -1: what one
  takes longer in one, it takes less in the other; 0: they have nothing to do with each other.

Where trials ran on several machines, each of these is looked at within one machine, and put
together then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import variance

from hyperslab.apps.experiment.comparison import MEASURE, Block, CellResult, measured
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.intervals import mean_interval
from hyperslab.apps.experiment.record import Attempt
from hyperslab.apps.experiment.regression import (
    Point,
    Slope,
    sign_probability,
    slope_of,
    slope_within,
)

ENGINE = "engine"
WORKERS = "workers"
BLOCKS = ("files", "blocks")
"Factors that are numbers of blocks."
MEASURES = ("overhead", "transfer")


@dataclass(frozen=True, slots=True)
class Growth:
    """What each further worker costs on an engine, in seconds of all slots."""

    engine: str
    workers: Sequence[float]
    overhead: Slope
    transfer: Slope


@dataclass(frozen=True, slots=True)
class Spread:
    """How makespans and overheads vary between replicates, by blocks, on an engine."""

    engine: str
    factor: str
    deviations: Sequence[tuple[float, float, float]]
    "Blocks, standard deviations of makespan and of overhead, seconds."

    @property
    def grows(self) -> bool:
        """Whether makespans vary more with more blocks."""
        return self._slope(1) > 0

    @property
    def overhead_grows(self) -> bool:
        """Whether overheads vary more with more blocks."""
        return self._slope(2) > 0

    def _slope(self, column: int) -> float:
        told = [row for row in self.deviations if row[column] > 0]
        slope = slope_of([(math.log(row[0]), math.log(row[column])) for row in told])
        if slope is None:
            return 0.0
        return slope.value


@dataclass(frozen=True, slots=True)
class Trends:
    """All of it."""

    growths: Sequence[Growth]
    spreads: Sequence[Spread]
    compensation: Slope | None
    "Slope of transfer over overhead among engines; None without two of them."


def trends_of(results: Sequence[CellResult]) -> Trends:
    """The trends of an experiment's cells, of which the first is the baseline."""
    if not results:
        return Trends([], [], None)
    growths = list(_growths(results))
    return Trends(growths, list(_spreads(results)), compensation_of(results))


def compensation_of(results: Sequence[CellResult]) -> Slope | None:
    """Slope of transfer over overhead among engines, as the mean of that of each replicate: cells
    of one engine are no independent points. None without two engines.
    """
    by_block: dict[Block, list[Point]] = {}
    for block, point in _pairs(results):
        by_block.setdefault(block, []).append(point)
    slopes = [slope for points in by_block.values() if (slope := slope_within(points))]
    if not slopes:
        return None
    interval = mean_interval([slope.value for slope in slopes])
    return Slope(*interval, sum(slope.points for slope in slopes))


def amount(attempt: Attempt, measure: str) -> float | None:
    """Overhead or transfer of a trial, seconds of all slots."""
    names: tuple[str, ...] = ("overhead_s",)
    if measure == "transfer":
        names = ("read_s", "write_s")
    values = [attempt.numbers.get(name) for name in names]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return sum(known)


def _lines(results: Sequence[CellResult], factor: str) -> dict[str, list[CellResult]]:
    """Cells in which a factor that is a number varies and all else is the baseline's, by engine."""
    baseline = results[0].cell.levels
    if not _is_number(baseline.get(factor)):
        return {}
    found: dict[str, list[CellResult]] = {}
    for result in results:
        changed = set(result.cell.changed) - {ENGINE, factor}
        if not changed and _is_number(result.cell.levels[factor]):
            engine = str(result.cell.levels.get(ENGINE, ""))
            found.setdefault(engine, []).append(result)
    return found


def _is_number(level: Level | None) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def _growths(results: Sequence[CellResult]) -> Iterator[Growth]:
    for engine, line in _lines(results, WORKERS).items():
        slopes = [slope_within(_points(line, WORKERS, measure)) for measure in MEASURES]
        overhead, transfer = slopes
        if overhead is not None and transfer is not None:
            levels = sorted({float(one.cell.levels[WORKERS]) for one in line})
            yield Growth(engine, levels, overhead, transfer)


def _points(line: Sequence[CellResult], factor: str, measure: str) -> list[Point]:
    """A number of trials over the levels of a factor, in blocks of one machine."""
    return [
        Point(machine, float(result.cell.levels[factor]), value)
        for result in line
        for (_, machine), value in result.by_block(lambda one: amount(one, measure)).items()
    ]


def _spreads(results: Sequence[CellResult]) -> Iterator[Spread]:
    for factor in BLOCKS:
        for engine, line in _lines(results, factor).items():
            rows = [row for result in line if (row := _deviations(result, factor)) is not None]
            if len(rows) > 1:
                yield Spread(engine, factor, sorted(rows))


def _deviations(result: CellResult, factor: str) -> tuple[float, float, float] | None:
    makespan = deviation(result.by_block(measured(MEASURE)))
    overhead = deviation(result.by_block(lambda one: amount(one, "overhead")))
    if makespan is None or overhead is None:
        return None
    return float(result.cell.levels[factor]), makespan, overhead


def deviation(values: Mapping[Block, float]) -> float | None:
    """Standard deviation between replicates on one machine, of all machines together; None without
    two replicates on one.
    """
    by_machine: dict[int, list[float]] = {}
    for (_, machine), value in values.items():
        by_machine.setdefault(machine, []).append(value)
    several = [own for own in by_machine.values() if len(own) > 1]
    freedom = sum(len(own) - 1 for own in several)
    if not freedom:
        return None
    squares = sum(variance(own) * (len(own) - 1) for own in several)
    return math.sqrt(squares / freedom)


def _pairs(results: Sequence[CellResult]) -> Iterator[tuple[Block, Point]]:
    """Overhead and transfer of every trial with its block, in blocks of all engines."""
    for result in results:
        others = tuple(pair for pair in result.cell.key if pair[0] != ENGINE)
        if ENGINE not in result.cell.levels:
            continue
        for attempt in result.done:
            overhead = amount(attempt, "overhead")
            transfer = amount(attempt, "transfer")
            if overhead is not None and transfer is not None:
                yield result.block_of(attempt), Point(others, overhead, transfer)


# In sentences


def sentences(trends: Trends) -> Iterator[str]:
    """What the trends say, as evidence."""
    for growth in trends.growths:
        name = growth.engine or "the engine"
        yield (
            f"Each further worker of {name} costs {show_slope(growth.overhead)} of overhead and"
            f" {show_slope(growth.transfer)} of transfer, over all slots."
        )
    yield from _spread_sentences(trends.spreads)
    if trends.compensation is not None:
        yield _compensation(trends.compensation)


def show_slope(slope: Slope, unit: str = " s") -> str:
    """A slope with the bounds of its interval."""
    text = f"{slope.value:.3g}{unit}"
    if slope.low is None or slope.high is None:
        return text
    return f"{text} ({slope.low:.3g} to {slope.high:.3g})"


def _spread_sentences(spreads: Sequence[Spread]) -> Iterator[str]:
    by_factor: dict[str, list[Spread]] = {}
    for spread in spreads:
        by_factor.setdefault(spread.factor, []).append(spread)
    for factor, own in by_factor.items():
        count = sum(spread.grows for spread in own)
        overheads = sum(spread.overhead_grows for spread in own)
        chance = sign_probability(count, len(own))
        yield (
            f"Makespans vary more between replicates with more {factor} on {count} of"
            f" {len(own)} engines (so many by chance: {chance:.2g}), overheads on {overheads}."
        )


def _compensation(slope: Slope) -> str:
    head = (
        f"Overhead and transfer of engines: {show_slope(slope, ' s')} of transfer for each second"
    )
    head += " of overhead"
    if slope.low is None or slope.high is None:
        return f"{head}; too few trials tell."
    if slope.high >= 0:
        return f"{head}; that they compensate each other is not shown."
    if slope.low <= -1 <= slope.high:
        return f"{head}: they compensate each other, wholly as far as can be told."
    if slope.high < -1:
        return f"{head}: transfer falls by more than overhead grows."
    return f"{head}: they compensate each other in part."


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
        "compensation": trends.compensation and trends.compensation._asdict(),
    }
