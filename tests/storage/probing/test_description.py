"""What was probed is kept in a file, by host and media, and not taken from a damaged one."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.errors import DamagedRecord, UsageError
from hyperslab.storage.probing.description import add, load_machine
from hyperslab.storage.probing.place import default_path
from tests.storage.probing.made import probed


def test_a_tier_that_is_probed_again_takes_the_place_of_its_record(tmp_path: Path) -> None:
    place = tmp_path / "new" / "machine.json"
    add(place, [probed(), probed(media=("here/9:0",), path="/other")])
    add(place, [probed(at_s=1.8e9)])
    machine = load_machine(place)
    assert sorted(one.path for one in machine.tiers.values()) == ["/data", "/other"]
    found = machine.of("here", ["here/8:0"])
    assert found is not None
    assert found.at_s == 1.8e9


def test_another_host_or_medium_is_not_taken_for_this_one(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    machine = add(place, [probed()])
    assert machine.of("there", ["here/8:0"]) is None
    assert machine.of("here", ["here/8:1"]) is None
    assert machine.of("here", []) is None


def test_nobody_s_record_is_lost_when_several_add_at_once(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    tiers = [replace(probed(), host=f"host{n}") for n in range(8)]
    threads = [threading.Thread(target=add, args=(place, [one])) for one in tiers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.host for one in load_machine(place).tiers.values()} == {t.host for t in tiers}


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    add(place, [probed()])
    place.write_text(place.read_text().replace("ext4", "ext3"))
    with pytest.raises(DamagedRecord, match="hyperslab probe"):
        load_machine(place)


def test_a_description_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    place.write_text(json.dumps({"version": 99, "tiers": {}}))
    with pytest.raises(UsageError, match="newer hyperslab"):
        load_machine(place)


def test_where_the_description_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSLAB_MACHINE", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local/share/hyperslab/machine.json"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_path() == Path("/data/hyperslab/machine.json")
    monkeypatch.setenv("HYPERSLAB_MACHINE", "/elsewhere/m.json")
    assert default_path() == Path("/elsewhere/m.json")
