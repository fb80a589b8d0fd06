"""Places: what a user has probed is taken, and nothing is measured where nobody asked for it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

from hyperslab.apps.experiment import places
from hyperslab.apps.experiment.before import storage_of
from hyperslab.storage.probing.description import add
from hyperslab.storage.probing.preparing import FULL
from hyperslab.storage.tiers.looking import look
from tests.storage.probing.made import probed


def _silent(text: str) -> None:
    raise AssertionError(f"nothing is to be done: {text}")


def test_a_probe_of_the_users_is_taken(tmp_path: Path) -> None:
    machine = tmp_path / "machine.json"
    tier = look(tmp_path)
    add(machine, [replace(probed(), host=socket.gethostname(), media=tuple(sorted(tier.media)))])
    record = tmp_path / "places.json"
    asked = {str(tmp_path): True, str(tmp_path / "deeper"): False}
    found = places.survey(record, asked, 5.0, _silent, machine)
    assert [known.why_not for known in found.values()] == ["", ""]
    assert places.load(record) == found
    place = found[str(tmp_path)].place()
    assert place.curves["write"].single.rate.median == 5e7
    assert place.media == tuple(sorted(tier.media))


def test_what_is_not_ours_is_not_probed(tmp_path: Path) -> None:
    asked = {str(tmp_path): False}
    machine = tmp_path / "none.json"
    found = places.survey(tmp_path / "places.json", asked, 5.0, _silent, machine)
    assert "was not probed" in found[str(tmp_path)].place().why_not
    assert not found[str(tmp_path)].place().curves
    found = places.survey(tmp_path / "places.json", {str(tmp_path): True}, 0, _silent, machine)
    assert found[str(tmp_path)].probe is None


def test_a_place_that_cannot_be_probed_says_why(tmp_path: Path) -> None:
    told: list[str] = []
    closed = tmp_path / "file"
    closed.write_text("")
    found = places.survey(
        tmp_path / "places.json", {"/proc": True}, 0.5, told.append, tmp_path / "none.json"
    )
    assert "/proc cannot be probed" in found["/proc"].why_not
    assert told == ["probing /proc, about 500 ms"]


def test_a_long_probe_is_a_full_one() -> None:
    assert places.effort_of(60) == FULL
    assert places.effort_of(1).seconds == places.LEAST_S
    assert places.effort_of(24).seconds == 0.1


def test_what_is_in_memory_before_a_trial_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100_000))
    told = storage_of([path], tmp_path)
    assert told["source_nbytes"] == 100_000
    assert told["cached_share"] == 1.0
    assert storage_of([tmp_path / "none"], tmp_path)["cached_share"] is None
    assert storage_of([], tmp_path)["source_nbytes"] is None
