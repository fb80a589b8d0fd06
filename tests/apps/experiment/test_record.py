"""The record: whole lines alone, and none lost for want of room."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.pages.page import write_experiment_page
from hyperslab.apps.experiment.pages.sheets import sessions_sheet
from hyperslab.apps.experiment.trials.record import Record, Session, append, load
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import RunStopped, UsageError
from hyperslab.storage.recordfile import load_record, save_record
from tests.apps.experiment.specs import TEXT, attempt, experiment, record_of
from tests.system.end_to_end.command import call


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    asked = experiment(tmp_path)
    session = Session(1, 5.0, {"host": "here"})
    tried = [attempt(1, 1, asked.cells[0], 2.0, starved="x"), attempt(1, 1, asked.cells[0], 1.0)]
    append(path, session)
    for entry in tried:
        append(path, entry)
    found = load(path)
    assert list(found.sessions) == [session]
    assert list(found.attempts) == tried
    assert found.counted() == [tried[1]]
    assert load(tmp_path / "none.jsonl") == Record()


def test_a_session_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Also after one whose line is damaged, and of which there are trials."""
    later = attempt(1, 1, experiment(tmp_path).cells[0], 1.0, session=3)
    assert Record().next_session() == 1
    assert Record([Session(1, 0.0, {})]).next_session() == 2
    assert Record([Session(1, 0.0, {})], [later]).next_session() == 4


def test_a_line_that_does_not_fit_leaves_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.jsonl"
    append(path, Session(1, 5.0, {}))
    before = path.read_bytes()
    write = os.write

    def half(fd: int, data: bytes) -> int:
        write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(RunStopped, match="make room"):
            append(path, Session(2, 5.0, {}))
    assert path.read_bytes() == before


def test_the_answer_says_what_differs_and_what_to_doubt(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    factors = {"iterations 2": (2.0, 2.1, 2.05), "delay 0.01": (1.01, 0.99, 1.0)}
    record = record_of(asked, factors, {"processor": "old", "boot": "1"})
    later = Session(2, 1.0, {"processor": "new", "boot": "2"})
    record = Record([*record.sessions, later], record.attempts, 1, record.by_trial)
    answer = answer_of(asked, record)
    told = "iterations, at delay 0: 2 is slower than 1 (1.00 s): 2.05 x (1.93 to 2.18), 2.05 s."
    assert told in answer.decision
    assert "delay, at iterations 1: 0.01 and 0 are equivalent (within 10 %)." in answer.decision
    assert any(text.startswith("iterations 2 against 1: 2.05 x (") for text in answer.evidence)
    doubts = " ".join(answer.certainty)
    assert "another one from session 2 on: processor new, was old." in doubts
    assert "Damaged in the record: 1 line" in doubts
    assert "boot" not in doubts
    page = tmp_path / "report.html"
    write_experiment_page(page, asked, record, answer)
    text = page.read_text()
    assert "What this means" in text
    assert "http" not in text.replace("http-equiv", "")


def test_a_level_that_never_came_to_its_end_is_told(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    attempts = [
        dataclasses.replace(one, state="too long", reason="it was ended after 1 s")
        if one.levels["iterations"] == 2
        else one
        for one in record_of(asked, {}, {}).attempts
    ]
    answer = answer_of(asked, Record([], attempts, 0, {one.number: [one] for one in attempts}))
    assert "iterations, at delay 0: no trial of 2 was done." in answer.decision
    assert any(text.startswith("delay, at iterations 1: 0.01 ") for text in answer.decision)
    assert "ended for their length are in no mean" in " ".join(answer.certainty)


def test_an_empty_record_has_an_answer(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    answer = answer_of(asked, Record())
    assert answer.decision[0].startswith("Nothing can be said yet")
    assert "9 of 9 trials are still to be run" in answer.certainty[0]
    write_experiment_page(tmp_path / "report.html", asked, Record(), answer)


def test_a_directory_says_what_it_began_with(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    loaded = find("dask-vs-spark/histogram").load("laptop")
    Experiment.of(loaded, directory).directory.begin(loaded)
    done = call("experiment", "report", directory)
    assert done.code == 0, done.err
    assert "of 120 trials are still to be run" in done.out, "of the scale that it began with"
    begun = directory / "experiment.json"
    newer = {**load_record(begun, ""), "version": 99}
    save_record(begun, {name: newer[name] for name in newer if name != "checksum"})
    done = call("experiment", "report", directory)
    assert done.code == 2
    assert "records of version 99" in done.err
    own = experiment(tmp_path / "own")
    own.directory.root.mkdir(parents=True)
    own.directory.begin(own.loaded)
    done = call("experiment", "resume", own.directory.root)
    assert done.code == 2
    assert "it began with a spec of your own" in done.err


def test_sessions_that_found_the_same_machine_are_one_column() -> None:
    machines = ["old", "old", "new", "old"]
    record = Record([Session(n, 0.0, {"is": one}) for n, one in enumerate(machines, 1)])
    sheet = sessions_sheet(record)
    assert sheet.columns == ("", "sessions 1 to 2", "session 3", "session 4")
    assert sheet.rows == [("is", "old", "new", "old")]


def test_another_order_of_what_is_varied_is_another_spec(tmp_path: Path) -> None:
    """Trials have their numbers by it; in which order the baseline names factors does not count."""
    asked = experiment(tmp_path)
    asked.directory.begin(asked.loaded)
    record = record_of(asked, {"iterations 2": (2.0, 2.1, 2.05)}, {})
    append(asked.directory.record, record.sessions[0])
    for one in record.attempts:
        append(asked.directory.record, one)
    swapped = TEXT.replace("iterations = [2]\ndelay = [0.01]", "delay = [0.01]\niterations = [2]")
    other = experiment(tmp_path, swapped)
    with pytest.raises(UsageError, match="order of vary: delay, iterations, was iterations, delay"):
        other.directory.require_unchanged(other.loaded)
    with pytest.raises(UsageError, match="has other levels than the spec has for it"):
        other.record()
    reordered = 'delay = 0\nengine = "serial"\niterations = 1'
    same = experiment(
        tmp_path, TEXT.replace('engine = "serial"\niterations = 1\ndelay = 0', reordered)
    )
    same.directory.require_unchanged(same.loaded)
    answer = answer_of(same, same.record())
    assert any("at delay 0: 2 is slower than 1 (" in told for told in answer.decision)


def test_more_replicates_are_the_same_experiment(tmp_path: Path) -> None:
    """Earlier trials keep their numbers; whoever asks later has as many, also with the spec."""
    asked = experiment(tmp_path)
    asked.directory.begin(asked.loaded)
    more = Experiment.of(asked.loaded.with_replicates(5), tmp_path)
    more.directory.require_unchanged(more.loaded)
    assert more.trials[: len(asked.trials)] == asked.trials
    assert len(experiment(tmp_path).trials) == 9, "nobody has gone on yet"
    more.directory.extend(more.loaded)
    later = experiment(tmp_path)
    assert later.trials == more.trials
    later.directory.require_unchanged(later.loaded)
    assert later.loaded.identity() == asked.loaded.identity()
    written = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 7"))
    written.directory.require_unchanged(written.loaded)
    fewer = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 2"))
    with pytest.raises(UsageError, match="replicates: 2, was 3"):
        fewer.directory.require_unchanged(fewer.loaded)
    with pytest.raises(UsageError, match="--replicates 2: small asks for 3"):
        asked.loaded.with_replicates(2)


def test_an_experiment_of_an_earlier_version_can_be_extended(tmp_path: Path) -> None:
    """Its directory does not say how many replicates it has been extended to."""
    asked = experiment(tmp_path)
    identity = {"version": 1, "name": "small", "asked": asked.loaded.identity()}
    save_record(tmp_path / "experiment.json", identity)
    assert len(experiment(tmp_path).trials) == 9
    more = Experiment.of(asked.loaded.with_replicates(4), tmp_path)
    more.directory.extend(more.loaded)
    assert len(experiment(tmp_path).trials) == 12
