"""A network file system behind a link of limited bandwidth, which nobody else may use meanwhile."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest

from hyperslab.storage.emulation import making, removing
from hyperslab.storage.emulation.settings import Settings
from tests.repetitions import few
from tests.storage.emulation.tiers import require_network

MB = 1_000_000


RATES = [15 * MB, 100 * MB]


@pytest.mark.parametrize("rate", few(RATES[:1], RATES, "a file system is as fast as its link"))
def test_a_file_system_is_as_fast_as_its_link(in_memory: Path, rate: int) -> None:
    require_network()
    place = in_memory / "tier"
    emulation = making.emulate("network", place, Settings(bandwidth=rate), tolerance=0.1)
    try:
        assert [one.what for one in emulation.measured] == ["write", "read"]
        assert statistics.median(_write_small(place / "a") for _ in range(5)) < PUT_OFF_S / 2
    finally:
        removing.remove(emulation, by_force=True)


PUT_OFF_S = 0.04
"Time by which Linux puts off the acknowledgement of what nobody answers."


def _write_small(path: Path) -> float:
    """Seconds until few bytes are on the server."""
    begun = time.perf_counter()
    with path.open("wb") as file:
        file.write(bytes(100_000))
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun
