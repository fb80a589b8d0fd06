"""Emulated tiers take the time that was asked for: bandwidth, latency, metadata, stripes."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from hyperslab.storage.emulation import measuring, program
from tests.repetitions import few
from tests.storage.emulation.paced import COST_S, MB, WITHIN, cost_s, operations_of, tier, values
from tests.system.faults.command import await_that

T = TypeVar("T")


def test_all_streams_share_the_bandwidth(in_memory: Path) -> None:
    with tier(in_memory, bandwidth=60 * MB, write_bandwidth=30 * MB) as emulation:
        found = values(emulation)
        assert found["read"] == WITHIN(60 * MB, rel=0.1)
        assert found["write"] == WITHIN(30 * MB, rel=0.1)


@pytest.mark.parametrize("count", few([2], [1, 2, 4], "a file of some targets of several"))
def test_a_file_is_as_fast_as_its_targets(in_memory: Path, count: int) -> None:
    asked = {"bandwidth": 20 * MB, "targets": 4, "stripe_count": count}
    with tier(in_memory, **asked, stripe_nbytes=1 << 18) as emulation:
        found = values(emulation)
        assert found["read"] == WITHIN(count * 20 * MB, rel=0.1)
        assert found["write"] == WITHIN(count * 20 * MB, rel=0.1)


def test_every_request_takes_the_latency(in_memory: Path) -> None:
    with tier(in_memory, latency_s=0.01) as emulation:
        assert values(emulation)["operation"] == WITHIN(0.01, rel=0.1)
        path = Path(emulation.directory) / "a"
        path.write_bytes(b"x")
        begun = time.perf_counter()
        assert path.read_bytes() == b"x"
        assert time.perf_counter() - begun > 0.02  # an open and a read


BEFORE_IT = [{"write_back_nbytes": 8 * MB}, {}]
"Memory in front of a device, and none."


@pytest.mark.parametrize("memory", few(BEFORE_IT[:1], BEFORE_IT, "bandwidth that is far away"))
def test_the_bandwidth_of_a_device_far_away_is_measured(
    in_memory: Path, memory: dict[str, int]
) -> None:
    """By more requests at a time than where it is near; and its memory is no slower for that."""
    asked = {"bandwidth": 40 * MB, "write_bandwidth": 30 * MB, "latency_s": 0.05, **memory}
    with tier(in_memory, **asked) as emulation:
        place = Path(emulation.directory)
        told = {one.what: one for one in measuring.measure(place, emulation.settings, None)}
    assert all(one.deviation < 0.1 for one in told.values()), told
    assert ("write to memory" in told) is bool(memory)


def test_a_metadata_server_slows_down_with_its_clients(in_memory: Path) -> None:
    """Each client takes as long as all of them need together: t = clients x operations x cost."""
    with tier(in_memory, metadata_s=COST_S) as emulation:
        for clients in (1, 2, 4):
            assert cost_s(emulation, clients) == WITHIN(COST_S, rel=0.1)


def test_a_slow_metadata_server_far_away_is_measured(in_memory: Path) -> None:
    """More clients than it takes where it is near keep it busy."""
    with tier(in_memory, metadata_s=0.002, latency_s=0.01) as emulation:
        place = Path(emulation.directory)
        counts = measuring.measure(place, emulation.settings, lambda: operations_of(emulation))
    told = {one.what: one for one in counts}
    assert told["operations, all clients"].deviation < 0.1


def test_data_pass_a_metadata_server_at_full_speed(in_memory: Path) -> None:
    with tier(in_memory, metadata_s=0.02) as emulation:
        path = Path(emulation.directory) / "a"
        path.touch()

        def write() -> float:
            with path.open("r+b", buffering=0) as file:
                begun = time.perf_counter()
                for _ in range(20):
                    file.write(bytes(100_000))
                return time.perf_counter() - begun

        assert going_first(write) < 20 * 0.02
        counts = program.counters(emulation)
        assert counts["operations"]["write"] >= 20
        assert counts["written_nbytes"] == 2 * MB
        assert counts["operations"]["create"] == 1


def test_what_is_written_back_is_taken_at_once_and_synced_at_the_devices_speed(
    in_memory: Path,
) -> None:
    """The contrast behind a medium in front of which there is memory, and one that is written
    through.
    """
    with tier(in_memory, bandwidth=5 * MB, write_back_nbytes=6 * MB) as emulation:
        written_s, synced_s = _written(Path(emulation.directory) / "a", 6 * MB)
        assert written_s < synced_s / 2
        assert lasts(synced_s, 1.2)
        # more than the limit waits for what is beyond it
        written_s, synced_s = _written(Path(emulation.directory) / "b", 8 * MB)
        assert lasts(written_s, 0.4)
        assert lasts(synced_s, 1.6)
    with tier(in_memory, bandwidth=5 * MB) as emulation:
        written_s, synced_s = _written(Path(emulation.directory) / "c", 2 * MB)
        assert lasts(written_s, 0.4)


def lasts(took_s: float, asked_s: float) -> bool:
    """Whether something took as long as asked for, on a machine that has other things to do."""
    return 0.95 * asked_s < took_s < 1.5 * asked_s + 0.1


def going_first(act: Callable[[], T]) -> T:
    """What something returns that has a processor before all others, where that is allowed."""
    with ThreadPoolExecutor(1, initializer=measuring.go_first) as pool:
        return pool.submit(act).result()


def _written(path: Path, nbytes: int) -> tuple[float, float]:
    """Seconds after which so many bytes are written, and synced."""
    data = bytes(nbytes)

    def write() -> tuple[float, float]:
        begun = time.perf_counter()
        with path.open("wb", buffering=0) as file:
            assert file.write(data) == nbytes
            written = time.perf_counter() - begun
            os.fsync(file.fileno())
        return written, time.perf_counter() - begun

    return going_first(write)


def test_reads_do_not_wait_for_what_is_written_back(in_memory: Path) -> None:
    with tier(in_memory, bandwidth=10 * MB, write_back_nbytes=20 * MB) as emulation:
        place = Path(emulation.directory)
        (place / "old").write_bytes(bytes(MB))
        descriptor = os.open(place / "old", os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, MB)

        def read() -> tuple[float, int]:
            """Seconds that a read takes, and what is still on its way then."""
            begun = time.perf_counter()
            assert os.preadv(descriptor, [buffer], 0) == MB
            took = time.perf_counter() - begun
            return took, program.counters(emulation)["dirty_nbytes"]

        with (place / "new").open("wb", buffering=0) as file:
            going_first(lambda: file.write(bytes(10 * MB)))
            took, dirty_nbytes = going_first(read)
            assert took < 0.5, "it waited for what is written, which takes a second"
            assert dirty_nbytes > 5 * MB
            os.fsync(file.fileno())
        assert program.counters(emulation)["dirty_nbytes"] == 0
        os.close(descriptor)


def test_memory_is_filled_before_the_device(in_memory: Path) -> None:
    at_the_device_s = (1 << 23) / (5 * MB)
    with tier(in_memory, bandwidth=5 * MB, fast_nbytes=8 << 20) as emulation:
        place = Path(emulation.directory)
        assert _written(place / "fits", 1 << 23)[1] < at_the_device_s / 2
        assert program.counters(emulation)["fast_nbytes"] == 1 << 23
        assert lasts(_written(place / "waits", 2 * MB)[1], 0.4)
        (place / "fits").unlink()
        # the kernel forgets a file some time after its last name is gone
        await_that(
            "what the kernel forgets", lambda: program.counters(emulation)["fast_nbytes"] == 0
        )
        assert _written(place / "fits again", 1 << 23)[1] < at_the_device_s / 2
