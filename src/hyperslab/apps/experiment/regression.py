"""Regression: straight lines through few points, with Student's t intervals of their slopes.

The formulas are those of every textbook, such as N. R. Draper, H. Smith, Applied Regression
Analysis (3rd edition, 1998), chapter 1; lines within blocks have a height of their own for each
block, and one slope.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from hyperslab.apps.experiment.intervals import quantile


class Slope(NamedTuple):
    """A slope with the bounds of its 95 % interval; without bounds where there are too few
    points.
    """

    value: float
    low: float | None
    high: float | None
    points: int


class Point(NamedTuple):
    """A point in a block."""

    block: Hashable
    x: float
    y: float


def slope_of(points: Iterable[tuple[float, float]]) -> Slope | None:
    """Slope of a least-squares line through points (x, y); None where they have one x."""
    return slope_within([Point(None, x, y) for x, y in points])


def slope_within(points: Sequence[Point]) -> Slope | None:
    """Slope of least-squares lines, one for each block, that are parallel; None where no block has
    points of several x.
    """
    by_block: dict[Hashable, list[Point]] = {}
    for point in points:
        by_block.setdefault(point.block, []).append(point)
    centred = [pair for own in by_block.values() for pair in _centred(own)]
    xx = sum(x * x for x, _ in centred)
    if not xx:
        return None
    value = sum(x * y for x, y in centred) / xx
    freedom = len(points) - len(by_block) - 1
    if freedom < 1:
        return Slope(value, None, None, len(points))
    left = sum((y - value * x) ** 2 for x, y in centred)
    half = quantile(0.95, freedom) * math.sqrt(left / freedom / xx)
    return Slope(value, value - half, value + half, len(points))


def _centred(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Points as distances from their means."""
    x = fmean(point.x for point in points)
    y = fmean(point.y for point in points)
    return [(point.x - x, point.y - y) for point in points]


def sign_probability(positive: int, of: int) -> float:
    """Probability that so many signs, or more, are positive by chance, where each is as often
    positive as negative.
    """
    ways = sum(math.comb(of, k) for k in range(positive, of + 1))
    return ways / float(2**of)
