"""Certainty: what is said of trials that are missing, starved, failed or whose folders are gone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import TEXT, experiment, record_of

REPEATED = TEXT.replace("repeats = 0", "repeats = 1")
OTHERS = "others took 40 %"


def _said(asked: Experiment, record: Record) -> str:
    return " ".join(answer_of(asked, record).certainty)


def _with_first(record: Record, *changes: Callable[[Attempt], Attempt]) -> Record:
    """A record in which trial 1 was tried so often."""
    first, *others = record.attempts
    tried = [change(dataclasses.replace(first, attempt=n)) for n, change in enumerate(changes, 1)]
    by_trial = {one.number: [one] for one in others}
    return Record(record.sessions, [*tried, *others], 0, {first.number: tried, **by_trial})


def _starved(one: Attempt) -> Attempt:
    return dataclasses.replace(one, starved=OTHERS)


def _failed(one: Attempt) -> Attempt:
    return dataclasses.replace(one, starved=OTHERS, state="failed", reason="no room")


def test_a_trial_that_is_to_be_repeated_is_not_repeated_as_often_as_allowed(
    tmp_path: Path,
) -> None:
    asked = experiment(tmp_path, REPEATED)
    record = record_of(asked, {}, {})
    once = _said(asked, _with_first(record, _starved))
    assert "1 trial had to share the processors, such as trial 1 (others took 40 %), and" in once
    assert "although repeated" not in once
    twice = _said(asked, _with_first(record, _starved, _starved))
    assert "1 trial had to share the processors although repeated as often as allowed" in twice
    assert "to be repeated" not in twice


def test_a_trial_that_failed_has_no_time_that_is_too_long(tmp_path: Path) -> None:
    asked = experiment(tmp_path, REPEATED)
    said = _said(asked, _with_first(record_of(asked, {}, {}), _failed, _failed))
    assert "1 trial failed, such as trial 1: no room." in said
    assert "too long" not in said


def test_folders_that_are_gone_are_told(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    asked.directory.begin(asked.loaded)
    record = record_of(asked, {}, {})
    for one in record.attempts[1:]:
        asked.directory.trial(one.number, one.attempt).mkdir(parents=True)
    gone = "Of 1 trial the folder is gone, such as that of trial 1: phases, first reads and charts"
    assert gone in _said(asked, record)
    asked.directory.trial(1, 1).mkdir()
    assert "folder is gone" not in _said(asked, record)


def test_groups_of_comparisons_are_told_with_what_they_decide_by_chance(tmp_path: Path) -> None:
    asked = Experiment.of(find("dask-vs-spark/incrementation").load("quick"), tmp_path)
    said = _said(asked, record_of(asked, {}, {}, starts={}))
    assert "There are 47 comparisons" in said
    groups = (
        "7 with the baseline; 24 at other values; 4 with the baseline, without the start of"
        " engines; 12 at other values, without the start of engines."
    )
    assert f"of its group (Holm 1979): {groups}" in said
    assert "up to 20 % of such answers decide something by chance" in said
    alone = experiment(tmp_path / "alone")
    said = _said(alone, record_of(alone, {}, {}))
    assert "There are 2 comparisons" in said
    assert "up to 5 % of such answers" in said


def test_one_replicate_has_no_intervals(tmp_path: Path) -> None:
    asked = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 1"))
    said = _said(asked, record_of(asked, {}, {}))
    assert "There is one replicate, so that nothing has an interval" in said
    assert "Student's t" not in said
    assert "each interval" not in said


def test_a_trial_that_failed_at_first_is_told(tmp_path: Path) -> None:
    """Also once it was done; one that failed as it was starved is none."""
    asked = experiment(tmp_path)
    record = record_of(asked, {}, {})

    def failed(one: Attempt) -> Attempt:
        return dataclasses.replace(one, state="failed", reason="no room")

    def same(one: Attempt) -> Attempt:
        return one

    told = "1 trial failed at first, such as trial 1 (no room), and was done when tried again"
    assert told in _said(asked, _with_first(record, failed, same))
    assert "at first" not in _said(asked, _with_first(record, failed, failed))
    assert "at first" not in _said(asked, _with_first(record, _failed, same))
    assert "at first" not in _said(asked, record)


def test_doubts_are_those_remarks_that_say_what_went_wrong(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, {}, {})
    answer = answer_of(asked, record)
    assert answer.doubts == []
    assert answer.certainty
    damaged = dataclasses.replace(_with_first(record, _failed), damaged=1)
    answer = answer_of(asked, damaged)
    assert [text.split(" ", 2)[1] for text in answer.doubts] == ["trial", "in"]
    assert list(answer.certainty[: len(answer.doubts)]) == answer.doubts


def test_how_engines_ran_is_told(tmp_path: Path) -> None:
    """Each once, of trials that were done and of clusters that they had for themselves."""
    engines = TEXT.replace("delay = [0.01]", 'engine = ["spark", "h5py"]')
    asked = experiment(tmp_path, engines)
    said = _said(asked, record_of(asked, {}, {}))
    assert said.count("serial ran as one process, one task after the other.") == 1
    assert said.count("spark ran as local[N] on one host") == 1
    assert "h5py ran" not in said
    connected = experiment(
        tmp_path, engines.replace("seed = 7", 'seed = 7\nflags = ["--connect", "spark://a:7077"]')
    )
    assert " ran as " not in _said(connected, record_of(connected, {}, {}))
    assert " ran as " not in _said(asked, Record())


def test_cells_with_more_slots_than_processors_are_told(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, {}, {"processors": 2})

    def slots(one: Attempt) -> Attempt:
        number = 4.0 if one.levels["iterations"] == 2 else 2.0
        return dataclasses.replace(one, numbers={**one.numbers, "slots": number})

    attempts = list(map(slots, record.attempts))
    crowded = Record(record.sessions, attempts, 0, {one.number: [one] for one in attempts})
    said = _said(asked, crowded)
    assert "More slots than processors: iterations 2 (4 on 2). What their tasks compute" in said
    assert "More slots" not in _said(asked, record)


def test_a_group_of_comparisons_has_its_own_name(tmp_path: Path) -> None:
    """Also where nothing is compared at other values."""
    alone = experiment(tmp_path / "alone")
    said = _said(alone, record_of(alone, {}, {}))
    assert "(Holm 1979): 2 with the baseline. Where" in said
    text = TEXT.replace("iterations = [2]\ndelay = [0.01]", 'engine = ["threads", "processes"]')
    engines = experiment(tmp_path / "engines", text)
    said = _said(engines, record_of(engines, {}, {}, starts={}))
    assert "2 with the baseline; 2 with the baseline, without the start of engines. Where" in said
