"""Numbers with their intervals, in words."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.apps.experiment.statistics.intervals import Interval, mean_interval
from hyperslab.report.compare import show_ratio

SAYS_NOTHING = 10.0
"Bound of a ratio above which nobody learns anything from it."


def show_interval(interval: Interval) -> str:
    """A ratio with the bounds of its interval, such as `1.32 x (1.21 to 1.44)`."""
    return f"{show_ratio(interval.mean)}{_bounds(interval)}"


def show_mean(values: Sequence[float], unit: str = "") -> str:
    """A mean with the bounds of its 95 % interval."""
    interval = mean_interval(values)
    return f"{interval.mean:.3g}{unit}{_bounds(interval)}"


def _bounds(interval: Interval) -> str:
    """The bounds of an interval in brackets; '' of one without."""
    if interval.low is None or interval.high is None:
        return ""
    return f" ({interval.low:.3g} to {interval.high:.3g})"


def show_bound(ratio: Interval) -> str:
    """How far a ratio is from 1 at most, on both sides, by its interval; '' of one without, or
    with a bound that says nothing.
    """
    if ratio.low is None or ratio.high is None:
        return ""
    slower = max(1.0, ratio.high)
    faster = max(1.0, 1 / ratio.low)
    if max(slower, faster) > SAYS_NOTHING:
        return ""
    return f"at most {show_ratio(slower)} slower or {show_ratio(faster)} faster"


def is_apart(ratio: Interval) -> bool:
    """Whether the 95 % interval of a ratio does not hold 1."""
    if ratio.low is None or ratio.high is None:
        return False
    return not ratio.low <= 1 <= ratio.high
