"""Probes of memory, of disks that are full, too small or damage what they keep, and of nodes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.errors import DoesNotFit, UsageError
from hyperslab.machine import numa
from hyperslab.storage.probing import caches, content, transfers
from hyperslab.storage.probing.bench import overlap_rate
from hyperslab.storage.probing.clients import Done, StorageDamages
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.preparing import QUICK, Effort, Options
from tests.storage.probing.short import SMALL, silent, tier_of

MEMORY = Path("/dev/shm")


@pytest.fixture
def in_memory() -> Iterator[Path]:
    if not os.access(MEMORY, os.W_OK):
        pytest.skip("there is no tmpfs at /dev/shm: mount one")
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="hyperslab-test-") as folder:
        yield Path(folder)


def test_memory_has_no_cold_reads(in_memory: Path) -> None:
    found = probe(in_memory, tier_of(in_memory), SMALL, silent)
    assert "read-cold" not in found.curves
    assert found.how_cold == ""
    assert "cached" in found.latency
    assert any("no cold reads" in note for note in found.notes)
    assert list(in_memory.iterdir()) == []


def test_a_size_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    options = replace(SMALL, size_nbytes=2**60)
    with pytest.raises(DoesNotFit, match="smaller --size"):
        probe(tmp_path, tier_of(tmp_path), options, silent)
    with pytest.raises(UsageError, match="2 clients need 131 kB"):
        probe(tmp_path, tier_of(tmp_path), replace(SMALL, size_nbytes=100), silent)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others write while a probe goes on, seen as a limit of its own on sizes of files."""
    monkeypatch.setattr("hyperslab.storage.probing.clients._program", _limited_program(2 * 2**20))
    with pytest.raises(OSError, match="File too large"):
        probe(tmp_path, tier_of(tmp_path), SMALL, silent)
    assert list(tmp_path.iterdir()) == []


def _limited_program(nbytes: int) -> object:
    from hyperslab.storage.probing import clients

    usual = clients._program
    setting = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({nbytes}, {nbytes}));"
    )
    return lambda given: setting + usual(given)


DAMAGING = """
import os
from hyperslab.storage.probing import transfers
usual = os.fsync
def fsync(fd):
    usual(fd)
    if {position} < os.fstat(fd).st_size:
        own = os.open(f"/proc/self/fd/{{fd}}", os.O_WRONLY)  # not direct, whatever fd is
        os.pwrite(own, b"?", {position})
        usual(own)
        os.close(own)
transfers.os.fsync = fsync
"""


@pytest.mark.parametrize("position", [0, 4096 * 3 + 17])
def test_storage_that_changes_a_byte_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    """One byte of every file is changed in the file itself, by what writes it."""
    from hyperslab.storage.probing import clients

    usual = clients._program
    setting = DAMAGING.format(position=position)
    monkeypatch.setattr(
        clients,
        "_program",
        lambda given: f"{usual(given).rpartition('main(')[0]}\n{setting}\n{_call(usual(given))}",
    )
    with pytest.raises(StorageDamages, match=rf"byte {position:,} of .* is not the one"):
        probe(tmp_path, tier_of(tmp_path), SMALL, silent)
    assert list(tmp_path.iterdir()) == []


def _call(program: str) -> str:
    return "main(" + program.rpartition("main(")[2]


def test_a_file_that_was_cut_is_found_out(tmp_path: Path) -> None:
    fd = content.random_window(1)
    own = content.Content(fd)
    os.close(fd)
    path = tmp_path / "file"
    segment = (str(path), 1, 2**20)
    _carry_out(transfers.write(own, [segment], 4096, is_direct=False))
    _carry_out(transfers.compare(own, [segment], is_cold=True))
    os.truncate(path, 2**20 - 4096)
    with pytest.raises(transfers.Damaged, match="ends at byte 1,044,480"):
        _carry_out(transfers.compare(own, [segment], is_cold=True))
    with pytest.raises(transfers.Damaged, match="ends at byte 1,044,480"):
        _carry_out(transfers.read([segment], 4096, 60.0, is_cold=True))


def _carry_out(operation: transfers.Operation) -> None:
    next(operation)
    with pytest.raises(StopIteration):
        next(operation)


def test_pages_leave_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2**20))
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        assert caches.resident_share(fd, 2**20) == 1
        caches.drop(fd)
        assert caches.resident_share(fd, 2**20) == 0
        os.pread(fd, 4096, 2**19)
        assert 0 < (caches.resident_share(fd, 2**20) or 0) < 1
    finally:
        os.close(fd)


def test_rates_are_those_of_the_time_in_which_all_were_at_it() -> None:
    first = Done({}, {"marks": [(0, 0), (10, 100), (20, 200)]})
    second = Done({}, {"marks": [(10, 0), (20, 50), (30, 100)]})
    assert overlap_rate([first, second]) == pytest.approx(150 / 10 * 1e9)
    apart = Done({}, {"marks": [(30, 0), (40, 100)]})
    assert overlap_rate([first, apart]) == pytest.approx(300 / 40 * 1e9)


def test_nodes_are_read_as_the_kernel_lists_them(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    for node, text in (("node0", f"{usable[0]}-{usable[-1]}"), ("node1", "900-903,910")):
        (tmp_path / node).mkdir()
        (tmp_path / node / "cpulist").write_text(f"{text}\n")
    assert numa.nodes(tmp_path) == {"node0": usable}
    assert numa.nodes(tmp_path / "absent") == {}


def test_each_node_is_measured_where_there_are_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = min(os.sched_getaffinity(0))
    monkeypatch.setattr(numa, "nodes", lambda: {"node0": [cpu], "node1": [cpu]})
    options = Options(2**20, Effort(0.005, 1, 1, 60.0), most_clients=1)
    found = probe(tmp_path, tier_of(tmp_path), options, silent)
    assert set(found.nodes) == {"node0", "node1"}
    assert all(rate.median > 0 for rates in found.nodes.values() for rate in rates.values())


def test_a_quick_probe_is_less() -> None:
    assert QUICK.seconds * QUICK.repetitions < 0.2
