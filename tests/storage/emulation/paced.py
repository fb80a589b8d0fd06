"""Tiers that take their time, and what is measured of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hyperslab.storage.emulation import measuring, program
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import Settings
from tests.storage.emulation.tiers import mounted

MB = 1_000_000
WITHIN = pytest.approx
"Values that are compared with a tolerance."
COST_S, TIMES = 0.004, 20
"What an operation costs on a metadata server, and how many each client asks for."


@contextmanager
def tier(folder: Path, **asked: Any) -> Iterator[Emulation]:
    place = folder / "tier"
    place.mkdir(exist_ok=True)
    with mounted(place, Settings(**asked)) as emulation:
        yield emulation


def operations_of(emulation: Emulation) -> dict[str, int]:
    counts: dict[str, int] = program.counters(emulation)["operations"]
    return counts


def values(emulation: Emulation) -> dict[str, float]:
    """What is measured of a tier, by its names."""
    place = Path(emulation.directory)
    found = measuring.measure(place, emulation.settings, lambda: operations_of(emulation))
    return {one.what: one.value for one in found}


def cost_s(emulation: Emulation, clients: int) -> float:
    """Seconds between two operations of a server that so many clients ask: the median of three
    measurements.
    """
    paths = [Path(emulation.directory) / str(number) for number in range(clients)]
    for path in paths:
        path.touch()
    found = []
    for _ in range(3):
        took, served = measuring.opens(paths, TIMES, lambda: operations_of(emulation))
        assert clients * TIMES <= served <= clients * TIMES + 2 * clients
        found.append(took / served)
    return statistics.median(found)
