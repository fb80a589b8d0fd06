"""Sampling: where the samples of an array lie along an axis that its header speaks of by itself, as
of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hyperslab.arrays import Array

SECONDS = {"s": 1, "ms": 1000, "us": 1_000_000}
"Units of time, each with how many of it a second has."


@dataclass(frozen=True, slots=True)
class Sampling:
    """Evenly spaced samples: sample i lies at `first + step * i`."""

    first: float
    step: float
    unit: str = ""
    "Unit of both, as 's' and 'mm'; '' where the file does not say one."
    cosines: tuple[float, ...] = ()
    "Direction of the axis in the space of the affine, where the samples lie along a line in it."

    @property
    def is_usable(self) -> bool:
        """Whether no two samples have one place."""
        return math.isfinite(self.first) and math.isfinite(self.step) and self.step != 0

    def places(self, count: int) -> Array:
        """(count,) float64: places of the first samples."""
        found: Array = self.first + self.step * np.arange(count, dtype=np.float64)
        return found

    def moved(self, origin: float, step: float) -> Sampling:
        """The sampling of samples `origin + step * i` of these."""
        return Sampling(self.first + self.step * origin, self.step * step, self.unit, self.cosines)


def in_seconds(first: float, step: float, unit: str) -> Sampling:
    """A sampling in seconds where its unit is one of time."""
    if unit not in SECONDS:
        return Sampling(first, step, unit)
    parts = SECONDS[unit]
    return Sampling(first / parts, step / parts, "s")
