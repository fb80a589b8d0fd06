"""A network file system behind a link: nothing of it is left, whatever has died."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.emulation import making, network, registry, removing
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.probing.folder import Folder, sweep
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.preparing import Effort, Options
from hyperslab.storage.staging import area
from hyperslab.storage.tiers.looking import look
from tests.storage.emulation.tiers import require_network

MB = 1_000_000
BRIEF = Options(2**20, Effort(0.01, 1, 1, 60.0), most_clients=2)


def test_a_tier_whose_client_was_killed_is_removed(tmp_path: Path) -> None:
    require_network()
    place = tmp_path / "tier"
    emulation = making.emulate("network", place, Settings(bandwidth=15 * MB), tolerance=9.0)
    (place / "a").write_text("a")
    assert all(Path("/run/netns", name).exists() for name in emulation.parts)
    assert emulation.pid is not None
    os.kill(emulation.pid, signal.SIGKILL)
    while registry.is_alive(emulation):
        time.sleep(0.01)
    assert registry.state_of(emulation) == "stale"
    assert removing.remove(emulation) == 1
    assert (place / "a").read_text() == "a"
    assert not any(Path("/run/netns", name).exists() for name in emulation.parts)
    assert registry.known() == []


def test_nothing_of_a_probe_or_a_run_is_left_on_a_network(in_memory: Path) -> None:
    """Its client keeps a file that is open under another name, and the locks of both are files."""
    require_network()
    place = in_memory / "tier"
    emulation = making.emulate("network", place, Settings(bandwidth=50 * MB), tolerance=9.0)
    try:
        probe(place, look(place), BRIEF, lambda done, total: None)
        assert list(place.iterdir()) == []
        assert area.create(place).remove() == []
        left = area.create(place)
        os.close(left.lock)
        assert area.sweep(place) == [left.path]
        folder = Folder(place)
        folder.make()
        os.close(folder.descriptors.pop())
        assert sweep(place) == ([folder.path], [])
        assert list(place.iterdir()) == []
    finally:
        removing.remove(emulation, by_force=True)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(network, "PATH", "/nowhere")
    with pytest.raises(UsageError, match="needs ip: install the Debian package iproute2"):
        network.require()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="as root"):
        network.require()
