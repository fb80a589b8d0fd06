"""Regression: slopes of straight lines through few points, and how probable signs are by chance.

The formula is that of every textbook, such as N. R. Draper, H. Smith, Applied Regression Analysis
(3rd edition, 1998), chapter 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple


class Line(NamedTuple):
    """A straight line."""

    start: float
    "Value at x = 0."
    slope: float


def slope_of(points: Sequence[tuple[float, float]]) -> float | None:
    """Slope of a least-squares line through points (x, y); None where they have one x."""
    if not points:
        return None
    mean_x = fmean(x for x, _ in points)
    mean_y = fmean(y for _, y in points)
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    if not xx:
        return None
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / xx


def line_of(points: Sequence[tuple[float, float]]) -> Line | None:
    """Least-squares line through points (x, y); None where they have one x."""
    slope = slope_of(points)
    if slope is None:
        return None
    return Line(fmean(y for _, y in points) - slope * fmean(x for x, _ in points), slope)


def sign_probability(positive: int, of: int) -> float:
    """Probability that so many signs, or more, are positive by chance, where each is as often
    positive as negative.
    """
    ways = sum(math.comb(of, k) for k in range(positive, of + 1))
    return ways / float(2**of)
