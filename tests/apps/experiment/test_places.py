"""Places: what a user has probed is taken, and nothing is measured where nobody asked for it."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.claims.claim import Claim, untestable
from hyperslab.apps.experiment.claims.page import Paper
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.model import places
from hyperslab.apps.experiment.trials.before import storage_of
from hyperslab.apps.experiment.trials.record import append
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.cli import verdicts
from hyperslab.storage.probing.description import add
from hyperslab.storage.probing.preparing import FULL
from hyperslab.storage.tiers.looking import look
from tests.apps.experiment.specs import TEXT, record_of
from tests.storage.probing.made import probed
from tests.system.end_to_end.command import call

NUMBERS = {
    "read_nbytes": 65_536.0,
    "written_nbytes": 65_536.0,
    "slots": 1.0,
    "tasks": 1.0,
    "startup_s": 0.1,
    "overhead_s": 0.1,
}
"What the model of a cell takes beside the numbers that all made-up trials have."


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


def _ended(spec: Path, root: Path, machine: Path) -> Experiment:
    """An experiment whose trials are recorded, and whose folder was probed."""
    asked = Experiment.of(find(str(spec)).load("laptop"), root)
    root.mkdir(parents=True)
    asked.directory.begin(asked.loaded)
    record = record_of(asked, {}, {})
    append(asked.directory.record, record.sessions[0])
    for one in record.attempts:
        append(asked.directory.record, replace(one, numbers={**one.numbers, **NUMBERS}))
    media = tuple(sorted(look(root).media))
    add(machine, [replace(probed(), host=socket.gethostname(), media=media)])
    places.survey(
        asked.directory.places,
        asked.inputs.places_asked(asked.settings(asked.cells)),
        0,
        _silent,
        machine,
    )
    return asked


def test_an_experiment_that_was_moved_keeps_its_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy whose original is gone says the same, on its page and on that of verdicts."""
    spec = tmp_path / "small.toml"
    spec.write_text(TEXT + "\n[scales.laptop]\n")
    paper = Paper("page", "Small", "Nobody", (Claim("Nothing.", "small", untestable("No.")),))
    monkeypatch.setattr(verdicts, "paper_of", lambda _: paper)
    monkeypatch.setattr(verdicts, "find", lambda _: find(str(spec)))

    def told(home: Path) -> list[str]:
        root, pages = home / "small-laptop", tmp_path / "pages"
        assert call("experiment", "report", spec, "--out", root).code == 0
        assert call("experiment", "verdicts", "page", "--in", home, "-o", pages).code == 0
        files = (root / "report.html", pages / "page.md", pages / "page/small/tables.md")
        return [file.read_text().replace(str(home), "HOME") for file in files]

    asked = _ended(spec, tmp_path / "before" / "small-laptop", tmp_path / "machine.json")
    before = told(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    shutil.rmtree(tmp_path / "before")
    assert told(tmp_path / "after") == before
    moved = Experiment.of(asked.loaded, tmp_path / "after" / "small-laptop")
    expected = answer_of(moved, moved.record()).expected
    assert len(expected) == 3
    assert all(one.model.law.seconds for one in expected)
    assert f"| {places.OWN} |" in before[2]
    assert str(tmp_path / "before") not in before[2]


def test_a_place_that_has_moved_to_other_media_is_looked_at_anew(tmp_path: Path) -> None:
    machine = tmp_path / "machine.json"
    media = tuple(sorted(look(tmp_path).media))
    add(machine, [replace(probed(), host=socket.gethostname(), media=media)])
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    record = before / "places.json"
    places.survey(record, {str(before): False}, 0, _silent, machine)
    before.rename(after)
    record = after / "places.json"
    asked = {str(after): False}
    nowhere = tmp_path / "none.json"
    kept = places.survey(record, asked, 0, _silent, nowhere)
    assert list(kept) == [str(after)]
    assert kept[str(after)].probe is not None
    elsewhere = replace(kept[str(after)].tier, device="900:1", disks=(), backing=None)
    assert places._is_still(str(after), kept[str(after)])
    assert not places._is_still(str(after), replace(kept[str(after)], tier=elsewhere))
