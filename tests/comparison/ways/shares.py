"""The ways of reading, and how often a case takes each."""

from __future__ import annotations

from random import Random

from tests.comparison.cases import Way
from tests.comparison.ways import (
    blocks,
    changed,
    converted,
    datasets_of_xarray,
    lazy,
    pipelines,
    views,
)

_SHARES: tuple[tuple[Way, float], ...] = (
    (views.described, 1.0),
    (views.indexed, 1.0),
    (blocks.assembled, 0.25),
    (lazy.computed, 0.08),
    (datasets_of_xarray.opened, 0.1),
    (changed.found, 0.08),
    (pipelines.mapped, 0.03),
    (pipelines.reduced, 0.03),
    (converted.there_and_back, 0.06),
)


def chosen(rng: Random) -> list[Way]:
    return [way for way, share in _SHARES if rng.random() < share]
