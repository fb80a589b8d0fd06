"""`tiers PATH` says of an emulated tier what it was made to be, and where its files are; any name
of its directory leads to it.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from hyperslab.storage.emulation import registry
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.tiers.looking import look
from hyperslab.storage.tiers.tier import Tier, share_a_medium
from hyperslab.storage.tiers.words import kind_words, meaning, medium_words
from tests.storage.emulation.tiers import mounted, status
from tests.system.faults.command import await_that

SLOW = Settings(bandwidth=50e6, latency_s=0.001)


def test_a_tier_is_named_with_its_settings_and_the_place_of_its_files(in_memory: Path) -> None:
    with mounted(in_memory, SLOW) as emulation:
        registry.record(emulation)
        tier = look(in_memory / "new")
        assert (kind_words(tier), medium_words(tier)) == ("emulated", "throttled")
        assert tier.emulated is not None
        assert tier.emulated.settings == {"bandwidth": 50e6, "latency_s": 0.001}
        told = "emulated, throttled: bandwidth 50.0 MB/s, latency 1 ms, over the files of"
        assert f"; {told} {in_memory}; write-through: every write waits" in meaning(tier)
        assert Tier.from_json(json.loads(json.dumps(tier.as_json()))) == tier


def test_a_tier_has_a_pace_of_its_own(in_memory: Path) -> None:
    """It is no part of the device that holds its files, and what is probed on it is kept for it."""
    beneath = look(in_memory)
    with mounted(in_memory, SLOW):
        tier = look(in_memory)
        assert share_a_medium(tier, look(in_memory / "other")) is True
        assert share_a_medium(tier, beneath) is False


def test_a_tier_that_writes_back(in_memory: Path) -> None:
    with mounted(in_memory, Settings(bandwidth=50e6, write_back_nbytes=10**6)) as emulation:
        registry.record(emulation)
        tier = look(in_memory)
        assert tier.write_back is True
        assert "write-back: 1.00 MB are taken before writers wait for the device" in meaning(tier)


def test_a_tier_of_somebody_else_is_no_more_than_that(in_memory: Path) -> None:
    with mounted(in_memory, SLOW):
        tier = look(in_memory)
        assert (tier.kind, tier.emulated, tier.write_back) == ("emulated", None, None)
        assert "an emulated tier of another user" in meaning(tier)


def test_the_command_names_it(in_memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted(in_memory, SLOW) as emulation:
        registry.record(emulation)
        assert status(["tiers", str(in_memory)]) == 0
        titles, row, sentence = capsys.readouterr().out.splitlines()
        assert titles.split()[:3] == ["kind", "path", "file"]
        assert row.split()[:4] == [
            "emulated",
            str(in_memory),
            "fuse.hyperslab-throttled",
            "throttled",
        ]
        assert "bandwidth 50.0 MB/s" in sentence


def _await_end(emulation: Emulation) -> None:
    await_that("the end of its program", lambda: not registry.is_alive(emulation))


def test_a_tier_is_removed_by_any_name_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its program does not answer any more."""
    place, link = tmp_path / "tier", tmp_path / "link"
    place.mkdir()
    link.symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to("tier")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(place)
    for name in (str(link), ".", "../tier"):
        with mounted(place, SLOW) as emulation:
            registry.record(emulation)
            assert emulation.pid is not None
            os.kill(emulation.pid, signal.SIGKILL)
            _await_end(emulation)
            assert status(["tiers", "remove", name]) == 0
            assert registry.known() == []
    assert status(["tiers", "remove", str(tmp_path / "loop")]) == 2
