"""Fixed cost and cost per byte of a load, told apart by loading matrices of several sizes in
equally many partitions.

    seconds = fixed + bytes x per byte

Shown are the least-squares line through the medians of each size; a gate compares two ways round by
round, by the slope of each one's line through that round's times, and the median of these ratios
counts. What disturbs the machine for a while disturbs both ways of a round, or spoils one round of
several.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

GB = 1e9


class Load(NamedTuple):
    """One load, timed."""

    round: int
    way: str
    kind: str
    "plain or gzip."
    nbytes: int
    seconds: float


class Line(NamedTuple):
    """What a load costs."""

    fixed_s: float
    per_gb_s: float


class Ratio(NamedTuple):
    """Of two slopes, over the rounds in which both are above zero."""

    middle: float
    low: float
    high: float
    rounds: int
    of_rounds: int

    def times(self, factor: float) -> Ratio:
        """All three numbers multiplied."""
        return self._replace(
            middle=self.middle * factor, low=self.low * factor, high=self.high * factor
        )


def fit(points: Iterable[tuple[int, float]]) -> Line:
    """The least-squares line through (bytes, seconds). Raises ValueError for fewer than two
    sizes.
    """
    listed = list(points)
    sizes = [nbytes / GB for nbytes, _ in listed]
    if len(set(sizes)) < 2:
        raise ValueError("a line needs loads of two sizes at least")
    slope, fixed = statistics.linear_regression(sizes, [seconds for _, seconds in listed])
    return Line(fixed, slope)


def of(loads: Sequence[Load], way: str, kind: str) -> list[Load]:
    """Those of one way on one kind of matrix."""
    return [load for load in loads if load.way == way and load.kind == kind]


def medians(loads: Sequence[Load]) -> dict[int, float]:
    """Seconds by size, of loads of one way."""
    sizes = sorted({load.nbytes for load in loads})
    return {
        size: statistics.median(load.seconds for load in loads if load.nbytes == size)
        for size in sizes
    }


def line(loads: Sequence[Load], way: str, kind: str) -> Line:
    """Through the medians of a way."""
    return fit(medians(of(loads, way, kind)).items())


def ratio(loads: Sequence[Load], kind: str, above: str, below: str) -> Ratio | None:
    """Slope of `above` over slope of `below`, round by round; None where no round tells."""
    mine, yours = (_by_round(of(loads, way, kind)) for way in (above, below))
    rounds = sorted(mine.keys() & yours.keys())
    found = [mine[n] / yours[n] for n in rounds if mine[n] > 0 and yours[n] > 0]
    return (
        Ratio(statistics.median(found), min(found), max(found), len(found), len(rounds))
        if found
        else None
    )


def _by_round(loads: Sequence[Load]) -> dict[int, float]:
    """Seconds per GB in each round."""
    rounds = sorted({load.round for load in loads})
    return {
        n: fit((load.nbytes, load.seconds) for load in loads if load.round == n).per_gb_s
        for n in rounds
    }
