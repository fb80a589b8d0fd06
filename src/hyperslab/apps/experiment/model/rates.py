"""Rates: those of a probe, and how far they may be off.

A rate was measured several times. Its interval is Student's t at 95 % for the mean of the
logarithms, widened where need be to hold the median, which the models take. A rate that was
measured once has none: nobody knows how far it is off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hyperslab.apps.experiment.statistics.intervals import Interval, ratio_interval
from hyperslab.storage.probing.records import Curve, Measured, Point

End = Literal["low", "high"]
"End of an interval."


def interval_of(rate: Measured) -> Interval:
    """Median of a rate, with the interval of its repetitions; without bounds of a single one."""
    usual = ratio_interval(rate.values, [1.0] * len(rate.values))
    if usual.low is None or usual.high is None:
        return Interval(rate.median, None, None)
    return Interval(rate.median, min(usual.low, rate.median), max(usual.high, rate.median))


def at_end(curve: Curve, end: End) -> Curve | None:
    """The curve whose rates are all at one end of their intervals; None where one of them was
    measured once.
    """
    points = [_at_end(point, end) for point in curve.points]
    known = [point for point in points if point is not None]
    if len(known) < len(points):
        return None
    return Curve(tuple(known))


def _at_end(point: Point, end: End) -> Point | None:
    interval = interval_of(point.rate)
    rate = interval.low if end == "low" else interval.high
    if rate is None:
        return None
    return replace(point, rate=Measured((rate,)))
