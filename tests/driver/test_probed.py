"""What a run takes of a description: that of its own host and media, and never silently."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hyperslab.driver.probed import look_up, probe_of
from hyperslab.storage.probing.description import Machine, add
from hyperslab.trace import Trace
from tests.storage.probing.made import probed

USED = {
    "read": {"host": "here", "media": ["here/8:0"]},
    "write": {"host": "here", "media": ["here/8:0"]},
}
SLOTS = ["here/w0/t0", "here/w1/t0"]


def probe_for(slots: list[str], used: dict[str, Any], **given: Any) -> dict[str, Any]:
    one = probed(at_s=time.time() - 3 * 86400, **given)
    return probe_of(used, slots, Machine({one.key: one}), Path("m.json"))


def test_rates_are_those_of_as_many_processes_as_there_were_slots() -> None:
    probe = probe_for(SLOTS, USED)
    assert probe["read_nbytes_per_s"] == 2.1e8
    assert probe["write_nbytes_per_s"] == 6e7
    assert probe["buffered_nbytes_per_s"] == 2e9
    assert probe["open_s"] == pytest.approx(1 / 3e4)
    assert probe["opens_per_s"] == 5e4
    assert probe["latency_s"] == 1e-4
    assert probe["clients"] == 2
    assert probe["from"] == "probe of /data on here, 3 days ago, in m.json"
    assert probe_for(SLOTS[:1], USED)["read_nbytes_per_s"] == 1.1e8


def test_another_host_or_medium_is_not_used() -> None:
    assert probe_for(SLOTS, USED, host="there") == {}
    assert probe_for(SLOTS, USED, media=("here/9:0",)) == {}
    assert probe_for([*SLOTS, "there/w0/t0"], USED) == {}


def test_only_what_is_known_is_said() -> None:
    elsewhere = {**USED, "write": {"host": "here", "media": ["here/9:0"]}}
    probe = probe_for(SLOTS, elsewhere)
    assert "read_nbytes_per_s" in probe
    assert "write_nbytes_per_s" not in probe


def test_an_old_probe_says_that_it_is_old(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    add(place, [probed(at_s=time.time() - 100 * 86400)])
    trace = Trace([], SLOTS, meta={"storage": USED})
    look_up(trace, place)
    assert trace.meta["probe"]["from"].endswith("(old: probe again)")


def test_a_damaged_description_is_told_and_nothing_of_it_taken(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    place.write_text("?")
    trace = Trace([], SLOTS, meta={"storage": USED})
    look_up(trace, place)
    assert "is damaged" in trace.meta["probe"]["why_not"]
    look_up(trace, tmp_path / "none.json")
    assert "is damaged" in trace.meta["probe"]["why_not"]
    older = Trace([], SLOTS, meta={})
    look_up(older, place)
    assert "probe" not in older.meta
