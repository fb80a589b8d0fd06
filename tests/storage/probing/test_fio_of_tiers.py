"""What fio measures of emulated tiers, in turns with us: both find what these were made to be."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.probing import fio
from hyperslab.storage.probing.bench import Bench, Setting
from hyperslab.storage.probing.clients import Clients
from hyperslab.storage.probing.folder import own_folder
from hyperslab.storage.probing.records import Compared, Measured
from tests.repetitions import few
from tests.storage.emulation.tiers import mounted
from tests.storage.probing.compared import ATTEMPTS, in_turns, needs_fio

MB = 10**6
BANDWIDTH = 50 * MB


@pytest.fixture
def in_memory() -> Iterator[Path]:
    folder = None
    if Path("/dev/shm").is_dir():
        folder = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=folder, prefix="hyperslab-test-") as name:
        yield Path(name)


POINTS = [("read-cold", 1), ("read-cold", 2), ("write", 2), ("write-direct", 2)]
FEW = [("write-direct", 2)]
"Writes past the page cache; those through it, and reads, are compared on a disk."


@needs_fio
@pytest.mark.parametrize(("what", "clients"), few(FEW, POINTS, "both find what a tier is"))
def test_both_find_what_a_tier_was_made_to_be(in_memory: Path, what: str, clients: int) -> None:
    settings = Settings(bandwidth=BANDWIDTH)
    with ExitStack() as stack:
        stack.enter_context(mounted(in_memory, settings))
        folder = stack.enter_context(own_folder(in_memory))
        bench = Bench(folder, stack.enter_context(Clients(folder, 1)), 0.1, drops_caches=False)
        bench.write_files(10 * 2**20, 2**20, 2)
        told = []
        for _ in range(ATTEMPTS):
            told.append(in_turns(bench, Setting(what, clients, 2**18), 3))
            if agree_on(told[-1], BANDWIDTH):
                break
        assert agree_on(told[-1], BANDWIDTH), told


LATENCY_S = 0.005
SLEEPS = 40


def as_slept(seconds: float) -> float:
    """What this machine makes of a sleep of so long: a virtual one was seen to wake 0.3 ms late."""
    slept = []
    for _ in range(SLEEPS):
        began = time.monotonic()
        time.sleep(seconds)
        slept.append(time.monotonic() - began)
    return statistics.median(slept)


KINDS = ["cold", "direct"]


@needs_fio
@pytest.mark.parametrize("kind", few(["direct"], KINDS, "both find the latency of a tier"))
def test_both_find_the_latency_of_a_tier(in_memory: Path, kind: str) -> None:
    is_direct = kind == "direct"
    with ExitStack() as stack:
        stack.enter_context(mounted(in_memory, Settings(latency_s=LATENCY_S)))
        folder = stack.enter_context(own_folder(in_memory))
        bench = Bench(folder, stack.enter_context(Clients(folder, 1)), 0.1, drops_caches=False)
        bench.write_files(4 * 2**20, 2**16, 2)
        told = []
        for _ in range(ATTEMPTS):
            ours, fios = [], []
            for _ in range(3):
                ours.append(bench.small_reads(4096, is_direct=is_direct)[0])
                fios.append(fio.latency(bench, 4096, is_direct=is_direct))
            told.append(Compared(kind, 1, 4096, Measured(tuple(ours)), Measured(tuple(fios))))
            if agree_on(told[-1], as_slept(LATENCY_S)):
                break
        assert agree_on(told[-1], as_slept(LATENCY_S)), told


def agree_on(found: Compared, asked: float) -> bool:
    """Whether both have found what was asked for, and have found the same."""
    return found.agrees and found.fio.median == pytest.approx(asked, rel=0.05)
