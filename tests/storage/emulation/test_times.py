"""Emulated tiers take the time that was asked for: bandwidth, latency, metadata, stripes."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.storage.emulation import measuring, program
from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import Settings
from tests.storage.emulation.tiers import mounted

MB = 1_000_000
WITHIN = pytest.approx
"Values that are compared with a tolerance."


@contextmanager
def tier(folder: Path, **asked: Any) -> Iterator[Emulation]:
    place = folder / "tier"
    place.mkdir(exist_ok=True)
    with mounted(place, Settings(**asked)) as emulation:
        yield emulation


def values(emulation: Emulation) -> dict[str, Measured]:
    """What is measured of a tier, on a machine that may be busy: the best of some measurements."""
    best: dict[str, Measured] = {}
    for _ in range(4):
        for one in measuring.measure(
            Path(emulation.directory),
            emulation.settings,
            lambda: program.counters(emulation)["operations"],
        ):
            if one.what not in best or one.deviation < best[one.what].deviation:
                best[one.what] = one
        if all(one.deviation < 0.1 for one in best.values()):
            break
    return best


def test_all_streams_share_the_bandwidth(tmp_path: Path) -> None:
    with tier(tmp_path, bandwidth=60 * MB, write_bandwidth=30 * MB) as emulation:
        found = values(emulation)
        assert found["read"].value == WITHIN(60 * MB, rel=0.1)
        assert found["write"].value == WITHIN(30 * MB, rel=0.1)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_file_is_as_fast_as_its_targets(tmp_path: Path, count: int) -> None:
    asked = {"bandwidth": 20 * MB, "targets": 4, "stripe_count": count}
    with tier(tmp_path, **asked, stripe_nbytes=1 << 18) as emulation:
        found = values(emulation)
        assert found["read"].value == WITHIN(count * 20 * MB, rel=0.1)
        assert found["write"].value == WITHIN(count * 20 * MB, rel=0.1)


def test_every_request_takes_the_latency(tmp_path: Path) -> None:
    with tier(tmp_path, latency_s=0.01) as emulation:
        assert values(emulation)["operation"].value == WITHIN(0.01, rel=0.1)
        path = Path(emulation.directory) / "a"
        path.write_bytes(b"x")
        begun = time.perf_counter()
        assert path.read_bytes() == b"x"
        assert time.perf_counter() - begun > 0.02  # an open and a read


def test_a_metadata_server_slows_down_with_its_clients(tmp_path: Path) -> None:
    """Each client takes as long as all of them need together: t = clients x operations x cost."""
    cost_s, times = 0.004, 20
    with tier(tmp_path, metadata_s=cost_s) as emulation:
        place = Path(emulation.directory)
        paths = [place / str(number) for number in range(4)]
        for path in paths:
            path.touch()

        def operations() -> dict[str, int]:
            counts: dict[str, int] = program.counters(emulation)["operations"]
            return counts

        for clients in (1, 2, 4):
            runs = [measuring.opens(paths[:clients], times, operations) for _ in range(6)]
            took, served = min(runs)
            assert clients * times <= served <= clients * times + 2 * clients
            assert took == WITHIN(served * cost_s, rel=0.1)


def test_data_pass_a_metadata_server_at_full_speed(tmp_path: Path) -> None:
    with tier(tmp_path, metadata_s=0.02) as emulation:
        with (Path(emulation.directory) / "a").open("wb", buffering=0) as file:
            begun = time.perf_counter()
            for _ in range(20):
                file.write(bytes(100_000))
            assert time.perf_counter() - begun < 20 * 0.02
        counts = program.counters(emulation)
        assert counts["operations"]["write"] >= 20
        assert counts["written_nbytes"] == 2 * MB
        assert counts["operations"]["create"] == 1


def test_what_is_written_back_is_taken_at_once_and_synced_at_the_devices_speed(
    tmp_path: Path,
) -> None:
    """The contrast behind a medium in front of which there is memory, and one that is written
    through.
    """
    with tier(tmp_path, bandwidth=20 * MB, write_back_nbytes=6 * MB) as emulation:
        written_s, synced_s = _written(Path(emulation.directory) / "a", 6 * MB)
        assert written_s < 0.2
        assert lasts(synced_s, 0.3)
        # more than the limit waits for what is beyond it
        written_s, synced_s = _written(Path(emulation.directory) / "b", 10 * MB)
        assert lasts(written_s, 0.2)
        assert lasts(synced_s, 0.5)
    with tier(tmp_path, bandwidth=20 * MB) as emulation:
        written_s, synced_s = _written(Path(emulation.directory) / "c", 6 * MB)
        assert lasts(written_s, 0.3)


def lasts(took_s: float, asked_s: float) -> bool:
    """Whether something took as long as asked for, on a machine that has other things to do."""
    return 0.95 * asked_s < took_s < 1.5 * asked_s + 0.1


def _written(path: Path, nbytes: int) -> tuple[float, float]:
    """Seconds after which so many bytes are written, and synced."""
    data = bytes(nbytes)
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        assert file.write(data) == nbytes
        written = time.perf_counter() - begun
        os.fsync(file.fileno())
    return written, time.perf_counter() - begun


def test_reads_do_not_wait_for_what_is_written_back(tmp_path: Path) -> None:
    with tier(tmp_path, bandwidth=20 * MB, write_back_nbytes=20 * MB) as emulation:
        place = Path(emulation.directory)
        (place / "old").write_bytes(bytes(MB))
        with (place / "new").open("wb", buffering=0) as file:
            file.write(bytes(10 * MB))
            assert program.counters(emulation)["dirty_nbytes"] > 8 * MB
            descriptor = os.open(place / "old", os.O_RDONLY | os.O_DIRECT)
            begun = time.perf_counter()
            assert os.preadv(descriptor, [mmap.mmap(-1, MB)], 0) == MB
            assert time.perf_counter() - begun < 0.2
            os.close(descriptor)
            os.fsync(file.fileno())
        assert program.counters(emulation)["dirty_nbytes"] == 0


def test_memory_is_filled_before_the_device(tmp_path: Path) -> None:
    with tier(tmp_path, bandwidth=20 * MB, fast_nbytes=8 << 20) as emulation:
        place = Path(emulation.directory)
        assert _written(place / "fits", 1 << 23)[1] < 0.2
        assert program.counters(emulation)["fast_nbytes"] == 1 << 23
        assert lasts(_written(place / "waits", 4 * MB)[1], 0.2)
        (place / "fits").unlink()
        assert program.counters(emulation)["fast_nbytes"] == 0
        assert _written(place / "fits again", 1 << 23)[1] < 0.2


def test_what_was_read_stays_in_memory_if_asked_for(tmp_path: Path) -> None:
    for page_cache in (True, False):
        with tier(tmp_path, bandwidth=500 * MB) as usual:
            pass
        place = Path(usual.directory)
        with mounted(place, replace(usual.settings, page_cache=page_cache)) as emulation:
            (place / "a").write_bytes(bytes(1 << 20))
            for _ in range(2):
                (place / "a").read_bytes()
            assert program.counters(emulation)["read_nbytes"] == (0 if page_cache else 2 << 20)
