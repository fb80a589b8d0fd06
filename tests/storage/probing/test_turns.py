"""Hosts that are measured one at a time and all at once, and what that says of a shared device."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from hyperslab.driver import company
from hyperslab.driver.company import Company, Left
from hyperslab.report.probed.together import sharing_lines, sharing_section
from hyperslab.storage.probing.preparing import Effort
from hyperslab.storage.probing.records import Measured
from hyperslab.storage.probing.sharing import Rates, Sharing
from hyperslab.storage.probing.turns import _at_once, _take_turns

HOSTS = ("n1", "n2")


def rates(alone: float, at_once: float) -> Rates:
    return Rates(*({host: Measured((rate,)) for host in HOSTS} for rate in (alone, at_once)))


def sharing(**ratios: float) -> Sharing:
    own = {way: rates(1e8, ratio * 1e8) for way, ratio in ratios.items()}
    return Sharing("/data", 1.7e9, {"n1": 4, "n2": 4}, {"n1": ("s:/x",), "n2": ("s:/x",)}, own)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (sharing(read=0.5, write=0.55, create=0.6), "the hosts share this device"),
        (sharing(read=0.98, write=1.02, create=0.9), "the hosts do not slow each other down"),
        (
            sharing(read=1.0, write=0.5, create=0.5),
            "the hosts share this device in writing and making files, not in reading",
        ),
    ],
)
def test_a_shared_device_shows_itself(found: Sharing, sentence: str) -> None:
    first, read, *_ = sharing_lines(found)
    assert first.startswith(f"/data from 2 hosts at once: {sentence}")
    assert read.endswith(f"{found.rates['read'].ratio:.2f}")
    assert sentence in sharing_section(found)
    assert Sharing.from_json(json.loads(json.dumps(asdict(found)))) == found


def test_a_slow_host_does_not_hide_a_shared_device() -> None:
    alone = {"n1": Measured((100.0,)), "n2": Measured((10.0,))}
    assert not Rates(alone, alone).is_shared
    assert Rates(alone, {"n1": Measured((90.0,)), "n2": Measured((10.0,))}).is_shared


class Device:
    """A measurement that says how many hosts were at it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def measure(self) -> float:
        with self._lock:
            self._users += 1
            users = self._users
        threading.Event().wait(0.005)
        with self._lock:
            self._users -= 1
        return 1.0 / users


def test_a_host_is_alone_in_its_turn(tmp_path: Path) -> None:
    device = Device()

    def take_part(host: str) -> dict[str, dict[str, list[float]]]:
        ours = Company(tmp_path, host, HOSTS)
        with ours.kept():
            return _take_turns({"read": device.measure}, Effort(0.01, 3, 3, 60.0), ours, "x")

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(take_part, HOSTS))
    for found in both:
        assert found["read"]["alone"] == [1.0] * 3
        assert len(found["read"]["at_once"]) == 3


def test_nobody_stops_before_all_have_measured(tmp_path: Path) -> None:
    """The other host is at it from before the measurement that counts until after it."""
    log: list[str] = []

    def take_part(host: str) -> float:
        ours = Company(tmp_path, host, HOSTS)

        def measure() -> float:
            log.append(host)
            threading.Event().wait(0.2 if host == "n1" else 0.002)
            return 1.0

        return _at_once(measure, ours, "x")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(take_part, HOSTS))
    assert log.count("n2") > log.count("n1") >= 2


def test_nobody_waits_for_a_host_that_has_failed(tmp_path: Path) -> None:
    failing = Company(tmp_path, "n2", HOSTS)
    with pytest.raises(ValueError, match="full"), failing.kept():
        raise ValueError("full")
    with pytest.raises(Left, match="n2 has failed"):
        Company(tmp_path, "n1", HOSTS).hear("x", HOSTS)


def test_nobody_waits_for_a_host_that_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(company, "SILENT_S", 0.05)
    with pytest.raises(Left, match="n2 has not been heard of"):
        Company(tmp_path, "n1", HOSTS).hear("x", ["n2"])


def test_a_driver_that_has_gone_ends_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Company(tmp_path / "gone", "n1", HOSTS).hear("x", HOSTS)
