"""Storage that fails in the middle of a probe: a sentence, and nothing is left if that can be."""

from __future__ import annotations

import errno
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperslab.errors import HyperslabError
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.probing import clients
from hyperslab.storage.probing.folder import sweep
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.preparing import Effort, Options
from hyperslab.storage.tiers.tier import Tier
from tests.storage.emulation.tiers import mounted
from tests.system.faults.disk import small_disk

BRIEF = Options(2**20, Effort(0.01, 3, 2, 60.0), most_clients=1)


def probe_until(place: Path, act: Callable[[], None]) -> str:
    """What is said of a probe in the middle of which something is done."""
    is_done = False

    def told(done: int, total: int) -> None:
        nonlocal is_done
        if total and not is_done:
            is_done = True
            act()

    tier = Tier(str(place), socket.gethostname(), "ssd", device="8:0")
    with pytest.raises(HyperslabError) as why:
        probe(place, tier, BRIEF, told)
    assert is_done
    return str(why.value)


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 8 * 10**6) as disk:
        said = probe_until(disk.seen, disk.fill)
        assert said.startswith(f"{disk.seen}: became full in the middle of the probe: make room")
        assert sorted(path.name for path in disk.seen.iterdir()) == ["filler", "mounted"]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hyperslab-test-") as name:
        yield Path(name)


def test_a_tier_that_vanishes(in_memory: Path) -> None:
    with mounted(in_memory, Settings()) as emulation:
        assert emulation.pid is not None
        pid = emulation.pid
        said = probe_until(in_memory, lambda: os.kill(pid, signal.SIGKILL))
        assert f"{in_memory}: went away in the middle of the probe (" in said
    swept, _ = sweep(in_memory)
    assert len(swept) == 1
    assert list(in_memory.iterdir()) == []


REFUSING = """
import os
from hyperslab.storage.probing import transfers
usual = os.pwrite
written = 0
def pwrite(fd, data, offset):
    global written
    written += len(data)
    if written > {nbytes}:
        raise OSError({number}, os.strerror({number}))
    return usual(fd, data, offset)
transfers.os.pwrite = pwrite
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EDQUOT, "your quota of bytes or files was reached in the middle of the probe"),
        (errno.EROFS, "became read-only in the middle of the probe, as devices do that have"),
        (errno.EIO, "has failed in the middle of the probe (Input/output error): look into"),
    ],
)
def test_writes_that_are_refused_from_some_moment_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    """No disk with quotas, or one that fails, is here: calls of the clients say what it says."""
    usual = clients._program
    code = REFUSING.format(nbytes=3 * 2**20, number=number)
    monkeypatch.setattr(clients, "_program", lambda given: f"exec({code!r});{usual(given)}")
    tier = Tier(str(tmp_path), socket.gethostname(), "ssd", device="8:0")
    with pytest.raises(HyperslabError) as why:
        probe(tmp_path, tier, BRIEF, lambda done, total: None)
    assert str(why.value).startswith(f"{tmp_path}: {words}")
    assert list(tmp_path.iterdir()) == []
