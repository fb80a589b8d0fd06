"""Intervals: how far a mean of few values may lie from the true one.

Means of replicates have Student's t as their distribution, if the replicates are independent and
about normal: times on a logarithmic scale nearly are. Its values are exact for whole degrees of
freedom by the finite series 26.7.3 and 26.7.4 of M. Abramowitz, I. A. Stegun, Handbook of
Mathematical Functions (1964).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

_LARGEST_T = 1e9
_BISECTIONS = 90


class Interval(NamedTuple):
    """A mean with the bounds of its confidence interval; without bounds for a single value."""

    mean: float
    low: float | None
    high: float | None


def two_sided(t: float, freedom: int) -> float:
    """Probability that Student's t with so many degrees of freedom lies between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = math.sin(angle)
    first = 2
    if freedom % 2:
        term *= cosine
        first = 3
    total = 0.0
    for k in range(first, freedom + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    if freedom % 2:
        return 2 / math.pi * (angle + total)
    return total


def quantile(confidence: float, freedom: int) -> float:
    """The t between whose negative and itself Student's t lies with this probability, below 1.
    Raises ValueError for no degree of freedom.
    """
    if freedom < 1:
        raise ValueError(f"Student's t has one degree of freedom or more, not {freedom}")
    low = 0.0
    high = _LARGEST_T
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if two_sided(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of some values, one at least, with Student's t interval."""
    mean = fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    half = quantile(confidence, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def ratio_interval(
    values: Sequence[float], references: Sequence[float], confidence: float = 0.95
) -> Interval:
    """Geometric mean of the ratios of paired values, all greater than 0, with the interval that
    Student's t gives for the mean of their logarithms.
    """
    pairs = zip(values, references, strict=True)
    return ratio_of([math.log(value / other) for value, other in pairs], confidence)


def ratio_of(logarithms: Sequence[float], confidence: float = 0.95) -> Interval:
    """Geometric mean of the ratios with these logarithms, with its interval."""
    found = mean_interval(logarithms, confidence)
    if found.low is None or found.high is None:
        return Interval(math.exp(found.mean), None, None)
    return Interval(math.exp(found.mean), math.exp(found.low), math.exp(found.high))
