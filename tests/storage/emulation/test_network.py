"""A network file system behind a link of limited bandwidth: made, and removed whatever has died."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.emulation import making, network, registry, removing
from hyperslab.storage.emulation.settings import Settings
from tests.storage.emulation.tiers import require_program

MB = 1_000_000


@pytest.fixture
def can_be_made() -> None:
    require_program()
    try:
        network.require()
    except UsageError as why:
        pytest.skip(str(why))


@pytest.mark.usefixtures("can_be_made")
def test_a_file_system_is_as_fast_as_its_link(tmp_path: Path) -> None:
    place = tmp_path / "tier"
    emulation = making.emulate("network", place, Settings(bandwidth=15 * MB), tolerance=0.3)
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


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(network, "PATH", "/nowhere")
    with pytest.raises(UsageError, match="needs ip: install the Debian package iproute2"):
        network.require()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="as root"):
        network.require()
