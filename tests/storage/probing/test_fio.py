"""What fio measures at the same points, in turns with us."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.probing import fio
from hyperslab.storage.probing.bench import Bench, Setting
from hyperslab.storage.probing.clients import Clients
from hyperslab.storage.probing.folder import own_folder
from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.preparing import Effort, Options
from hyperslab.storage.probing.records import Compared, Measured
from hyperslab.storage.tiers.tier import Tier

ATTEMPTS = 3
"Other programs may slow one of two measurements; never always the same one."
LEAST_SPREAD = 0.1
"Share of a rate that a clock of milliseconds, and a quiet moment, leave unsaid."

needs_fio = pytest.mark.skipif(
    shutil.which("fio") is None, reason="fio is not here; install the Debian package fio"
)


def agreeing(bench: Bench, setting: Setting) -> Compared:
    """Both rates of a point, five times in turns."""
    bench.scout(setting)
    ours, theirs = [], []
    for _ in range(5):
        ours.append(bench.rates(setting)[setting.what])
        theirs.append(fio.rate(bench, setting))
    return Compared(*setting, Measured(tuple(ours)), Measured(tuple(theirs)))


@needs_fio
@pytest.mark.parametrize(
    ("what", "clients"), [("read-cold", 1), ("read-cold", 2), ("write", 2), ("write-direct", 1)]
)
def test_fio_measures_the_same(tmp_path: Path, what: str, clients: int) -> None:
    with own_folder(tmp_path) as folder, Clients(folder, 1) as processes:
        bench = Bench(folder, processes, 0.05, drops_caches=False)
        bench.write_files(32 * 2**20, 2**20, 2)
        told = []
        for _ in range(ATTEMPTS):
            found = agreeing(bench, Setting(what, clients, 2**20))
            told.append(found)
            if agrees(found):
                break
        assert agrees(told[-1]), told


def agrees(found: Compared) -> bool:
    low, high = min(found.fio.values), max(found.fio.values)
    margin = LEAST_SPREAD * found.fio.median
    return low - margin <= found.ours.median <= high + margin


@needs_fio
def test_a_probe_tells_both(tmp_path: Path) -> None:
    tier = Tier(str(tmp_path), socket.gethostname(), "ssd", device="8:0")
    options = Options(4 * 2**20, Effort(0.01, 2, 2, 60.0), most_clients=1, with_fio=True)
    found = probe(tmp_path, tier, options, lambda done, total: None)
    assert {one.what for one in found.compared} >= {"write"}
    assert all(len(one.fio.values) == len(one.ours.values) == 2 for one in found.compared)
    assert list(tmp_path.iterdir()) == []


def test_without_fio_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fio, "PROGRAM", "no-fio-here")
    with pytest.raises(UsageError, match="Debian package fio"):
        fio.require()


def test_the_spread_of_fio_decides() -> None:
    fios = Measured((90.0, 100.0, 110.0))
    assert Compared("write", 1, 1, Measured((109.0,)), fios).agrees
    assert not Compared("write", 1, 1, Measured((111.0,)), fios).agrees
