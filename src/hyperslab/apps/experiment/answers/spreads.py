"""Spreads: whether makespans vary more between replicates with more blocks, engine by engine.

That they do is stated by M. Dugré, V. Hayot-Sasson, T. Glatard, A performance comparison of Dask
and Apache Spark for data-intensive neuroimaging pipelines (2019). Longer makespans vary by more
seconds anyway, so deviations are those of logarithms. All engines run in the same replicates, and
what slows a whole replicate down would make all of them vary alike: what its trials share is taken
out first. What is left is held to be independent from engine to engine. If blocks did not matter,
the slope of deviations over blocks were then as often up as down on each engine, and a test of
signs tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hyperslab.apps.experiment.answers.comparison import (
    MEASURE,
    Block,
    CellResult,
    Number,
    measured,
)
from hyperslab.apps.experiment.answers.lines import amount, lines_of
from hyperslab.apps.experiment.statistics.regression import sign_probability, slope_of
from hyperslab.apps.experiment.statistics.significance import is_told
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.units import show_count

BLOCKS = ("files", "blocks")
"Factors that are numbers of blocks."
SWEEPS = 20
"Times that means are taken out, where some trials are missing."
Values = Mapping[Block, float]
"A number of a cell's trials, by block."
Place = tuple[int, Block]
"Number of a cell, and a block in which it ran."


@dataclass(frozen=True, slots=True)
class Spread:
    """How makespans and overheads vary between replicates, by blocks, on an engine."""

    engine: str
    factor: str
    deviations: Sequence[tuple[float, float, float | None]]
    """Blocks, standard deviations of the logarithms of makespan and of overhead; None of an
    overhead that is not known.
    """

    @property
    def grows(self) -> bool | None:
        """Whether makespans vary more with more blocks; None where they do not vary."""
        return _grows([(blocks, makespan) for blocks, makespan, _ in self.deviations])

    @property
    def overhead_grows(self) -> bool | None:
        """Whether overheads do."""
        known = [(blocks, own) for blocks, _, own in self.deviations if own is not None]
        return _grows(known)


def _grows(rows: Sequence[tuple[float, float]]) -> bool | None:
    slope = slope_of([(math.log(x), math.log(y)) for x, y in rows if y > 0])
    if not slope:
        return None
    return slope > 0


def spreads_of(results: Sequence[CellResult]) -> Iterator[Spread]:
    """How the trials of every engine vary, by numbers of blocks."""
    for factor in BLOCKS:
        yield from _of_factor(results, factor)


def _of_factor(results: Sequence[CellResult], factor: str) -> Iterator[Spread]:
    lines = lines_of(results, factor)
    makespans = _deviations(lines.values(), measured(MEASURE))
    overheads = _deviations(lines.values(), _overhead)
    for engine, line in lines.items():
        rows = [
            (float(result.cell.levels[factor]), makespan, overheads.get(result.cell.key))
            for result in line
            if (makespan := makespans.get(result.cell.key)) is not None
        ]
        if len(rows) > 1:
            yield Spread(engine, factor, sorted(rows, key=lambda row: row[0]))


def _overhead(attempt: Attempt) -> float | None:
    return amount(attempt, "overhead") or None


def _deviations(
    lines: Collection[Sequence[CellResult]], number: Number[float]
) -> dict[Hashable, float]:
    """Standard deviations of the logarithms of a number, by the key of each cell."""
    keys = [cell.cell.key for line in lines for cell in line]
    values = [own for line in lines for own in in_common(_logarithms(line, number))]
    found = deviations(values, shares_blocks=len(lines) > 1)
    return {key: one for key, one in zip(keys, found, strict=True) if one is not None}


def _logarithms(line: Sequence[CellResult], number: Number[float]) -> list[Values]:
    return [
        {block: math.log(value) for block, value in cell.by_block(number).items() if value > 0}
        for cell in line
    ]


def in_common(line: Sequence[Values]) -> list[Values]:
    """What cells of an engine have of the blocks in which all of them ran that ran twice: what
    varies over fewer replicates seems to vary less.
    """
    known = [set(own) for own in line if len(own) > 1]
    blocks = set.intersection(*known) if known else set()
    return [{block: own[block] for block in sorted(blocks & own.keys())} for own in line]


def deviations(cells: Sequence[Values], shares_blocks: bool) -> list[float | None]:
    """Standard deviation of each cell's values between replicates on one machine, of all machines
    together, beyond what the trials of a block share where there are several engines. None without
    two replicates on one machine.
    """
    left = {
        (number, block): value for number, own in enumerate(cells) for block, value in own.items()
    }
    for _ in range(SWEEPS if shares_blocks else 1):
        if shares_blocks:
            left = _centred(left, lambda place: place[1])
        left = _centred(left, _cell_on_machine)
    shared = 1.0
    if shares_blocks:
        shared -= 1 / len(cells)
    return [_deviation(number, own, left, shared) for number, own in enumerate(cells)]


def _cell_on_machine(place: Place) -> Hashable:
    number, (_, machine) = place
    return number, machine


def _centred(
    values: Mapping[Place, float], group: Callable[[Place], Hashable]
) -> dict[Place, float]:
    """Values less the mean of their group."""
    groups: dict[Hashable, list[float]] = {}
    for place, value in values.items():
        groups.setdefault(group(place), []).append(value)
    means = {name: fmean(own) for name, own in groups.items()}
    return {place: value - means[group(place)] for place, value in values.items()}


def _deviation(
    number: int, own: Values, left: Mapping[Place, float], shared: float
) -> float | None:
    """Standard deviation of a cell, of which the blocks have taken their share."""
    machines = {machine for _, machine in own}
    freedom = len(own) - len(machines)
    if freedom < 1:
        return None
    squares = sum(left[number, block] ** 2 for block in own)
    return math.sqrt(squares / freedom / shared)


def growing(spreads: Sequence[Spread]) -> tuple[int, int]:
    """Number of engines on which makespans vary more with more blocks, and number of all."""
    signs = [sign for one in spreads if (sign := one.grows) is not None]
    return sum(signs), len(signs)


def is_shown(positive: int, of: int) -> bool:
    """Whether so many signs of so many are more than chance."""
    return is_told(sign_probability(positive, of))


def sentences(spreads: Sequence[Spread]) -> Iterator[str]:
    """Whether makespans vary more with more blocks, as evidence."""
    by_factor: dict[str, list[Spread]] = {}
    for spread in spreads:
        by_factor.setdefault(spread.factor, []).append(spread)
    for factor, own in by_factor.items():
        yield sentence(factor, own)


def sentence(factor: str, spreads: Sequence[Spread]) -> str:
    """Say on how many engines makespans vary more with more blocks, and how probable that is."""
    count, of = growing(spreads)
    overheads = sum(spread.overhead_grows or False for spread in spreads)
    chance = sign_probability(max(count, of - count), of)
    tail = "so few" if 2 * count < of else "so many"
    shared = ""
    if len(spreads) > 1:
        shared = "; what all trials of a replicate share is left out"
    return (
        f"In proportion to their length, makespans vary more between replicates with more {factor}"
        f" on {count} of {show_count(of, 'engine')} ({tail} by chance: {chance:.2g}), overheads on"
        f" {overheads}{shared}."
    )
