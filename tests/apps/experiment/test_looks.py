"""Looks: answers that were given before, and what they cost."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.looks import looks_of, note
from hyperslab.apps.experiment.design.spec import load_spec
from hyperslab.apps.experiment.statistics.significance import (
    LEVEL,
    differs_p,
    equivalent_p,
    is_told,
    level,
    spending,
)
from hyperslab.apps.experiment.trials.record import Record, append
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import DamagedRecord
from tests.apps.experiment.specs import TEXT, experiment, record_of
from tests.system.end_to_end.command import call

TWO = "iterations 2"
LOOKS = range(3, 9)


def _begun(root: Path, replicates: int, text: str = TEXT) -> Experiment:
    asked = experiment(root, text.replace("replicates = 3", f"replicates = {replicates}"))
    root.mkdir(exist_ok=True)
    if not asked.directory.exists():
        asked.directory.begin(asked.loaded)
    return asked


def _first(record: Record, replicates: int) -> Record:
    attempts = [one for one in record.attempts if one.replicate <= replicates]
    return Record(record.sessions, attempts, 0, {one.number: [one] for one in attempts})


def test_each_further_answer_is_tested_at_half_the_level() -> None:
    assert level() == LEVEL
    with spending(3):
        assert level() == LEVEL / 4
        assert not is_told(0.02)
    assert is_told(0.02)


def test_answers_about_more_replicates_are_counted(tmp_path: Path) -> None:
    asked = _begun(tmp_path, 5)
    whole = record_of(asked, {}, {})
    assert looks_of(asked.directory, Record()) == []
    for replicates, expected in ((1, []), (2, [2]), (2, [2]), (3, [2, 3]), (5, [2, 3, 5])):
        record = _first(whole, replicates)
        assert looks_of(asked.directory, record) == expected
        note(asked.directory, record)
    more = [one for one in whole.attempts if one.replicate < 5 or one.levels["iterations"] == 2]
    some = Record([], more, 0, {one.number: [one] for one in more})
    assert looks_of(asked.directory, some) == [2, 3, 5], "replicates of some cells alone"
    (tmp_path / "looks.json").write_text("{")
    with pytest.raises(DamagedRecord, match=r"looks\.json"):
        looks_of(asked.directory, whole)


def test_a_report_is_an_answer(tmp_path: Path) -> None:
    """Of two replicates at first, and of three."""
    spec = tmp_path / "small.toml"
    spec.write_text(TEXT)
    asked = Experiment.of(load_spec(TEXT, "small.toml", "small", tmp_path, None), tmp_path / "out")
    asked.directory.root.mkdir()
    asked.directory.begin(asked.loaded)
    record = record_of(asked, {}, {})
    append(asked.directory.record, record.sessions[0])
    for new in ((1, 2), (3,)):
        for one in record.attempts:
            if one.replicate in new:
                append(asked.directory.record, one)
        done = call("experiment", "report", spec, "--all", "--out", asked.directory.root)
        assert done.code == 0, done.err
        assert ("Answers were given at 2 and 3 replicates." in done.out) == (3 in new)


def test_an_earlier_experiment_that_was_extended_has_been_looked_at(tmp_path: Path) -> None:
    asked = _begun(tmp_path, 3)
    more = Experiment.of(asked.loaded.with_replicates(5), tmp_path)
    more.directory.extend(more.loaded)
    assert looks_of(more.directory, record_of(more, {}, {})) == [3, 5]


def test_a_difference_that_tells_at_first_may_not_tell_later(tmp_path: Path) -> None:
    """Of 4 % by chance, alone."""
    asked = _begun(tmp_path, 3, TEXT.replace("delay = [0.01]\n", ""))
    record = record_of(asked, {TWO: (1.15, 1.25, 1.32)}, {})
    answer = answer_of(asked, record)
    (told,) = answer.decision
    assert told.startswith("iterations: 2 is slower than 1 (1.00 s): 1.24 x (")
    assert "two one-sided tests at 5 %" in " ".join(answer.certainty)
    note(asked.directory, _first(record, 2))
    assert json.loads((tmp_path / "looks.json").read_bytes())["replicates"] == [2]
    answer = answer_of(asked, record)
    (told,) = answer.decision
    assert told.startswith("iterations: whether 2 differs from 1 is open (at most 1.")
    told = " ".join(answer.certainty)
    assert "Answers were given at 2 and 3 replicates." in told
    assert "at half the level of the one before: this one at 2.5 %." in told


@pytest.mark.parametrize("true", [0.0, math.log(1.1)])
def test_who_looks_until_a_test_tells_is_wrong_hardly_more_often(true: float) -> None:
    """Settings that do not differ, or that differ by the margin, looked at with each replicate."""
    draw = random.Random(18)
    wrong = sum(_is_told(draw, true) for _ in range(300))
    assert wrong / 300 < 0.08


def _is_told(draw: random.Random, true: float) -> bool:
    """Whether any of several answers says what is not so."""
    values = [draw.gauss(true, 0.03) for _ in LOOKS]
    values += [draw.gauss(true, 0.03) for _ in range(LOOKS[0] - 1)]
    for number, replicates in enumerate(LOOKS, 1):
        seen = values[:replicates]
        p = equivalent_p(seen, true) if true else differs_p(seen)
        with spending(number):
            if is_told(p):
                return True
    return False
