"""fio as a program: that it is asked, that it is missing or late, and what its spread decides."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from hyperslab.errors import HyperslabError, UsageError
from hyperslab.storage.probing import fio
from hyperslab.storage.probing.folder import own_folder
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.preparing import Effort, Options
from hyperslab.storage.probing.records import Compared, Measured
from hyperslab.storage.tiers.tier import Tier


@pytest.mark.skipif(
    shutil.which("fio") is None, reason="fio is not here; install the Debian package fio"
)
def test_a_probe_tells_both(tmp_path: Path) -> None:
    """Also in a directory whose name fio would take for two."""
    place = tmp_path / "a:b c\\"
    place.mkdir()
    (tmp_path / "a").mkdir()
    tier = Tier(str(place), socket.gethostname(), "ssd", device="8:0")
    options = Options(4 * 2**20, Effort(0.01, 2, 2, 3600.0), most_clients=1, with_fio=True)
    found = probe(place, tier, options, lambda done, total: None)
    assert {one.what for one in found.compared} >= {"write", next(iter(found.latency))}
    assert all(len(one.fio.values) == len(one.ours.values) == 2 for one in found.compared)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", place]


def test_a_program_that_does_not_end_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fio, "_LIMIT_S", 0.01)
    with (
        own_folder(tmp_path) as folder,
        pytest.raises(HyperslabError, match=r"has not ended within 0.01 s: see whether"),
    ):
        fio._run(["sleep", "10"], folder)


def test_without_fio_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fio, "PROGRAM", "no-fio-here")
    with pytest.raises(UsageError, match="Debian package fio"):
        fio.require()


def test_the_spread_of_fio_decides() -> None:
    fios = Measured((90.0, 100.0, 110.0))
    assert Compared("write", 1, 1, Measured((109.0,)), fios).agrees
    assert Compared("write", 1, 1, Measured((111.0,)), fios).agrees
    assert not Compared("write", 1, 1, Measured((112.0,)), fios).agrees
