"""Warm-ups: the first trial of each engine is run before it counts, once since the machine was
started.
"""

from __future__ import annotations

from pathlib import Path

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.cells import chosen
from hyperslab.apps.experiment.trials.record import Record, Session, append, load
from hyperslab.apps.experiment.trials.warming import warm_ups
from tests.apps.experiment.specs import TEXT, attempt, experiment

BOTH = TEXT.replace("[vary]", '[grid]\nengine = ["threads"]\n\n[vary]')


def test_engines_are_warmed_up_once_since_the_machine_was_started(tmp_path: Path) -> None:
    asked = experiment(tmp_path, BOTH)
    sessions = [Session(1, 0.0, {"boot": "a"}), Session(2, 0.0, {"boot": "b"})]
    cold = warm_ups(asked.trials, 2, Record(sessions), "a")
    engines = sorted(str(one.cell.levels["engine"]) for one in cold)
    assert engines == ["serial"] * 2 + ["threads"] * 2
    assert all(one.is_warm_up and one.replicate == 0 for one in cold)
    alone = warm_ups(chosen(asked.trials, ["engine=threads", "iterations=2"]), 1, Record(), "a")
    assert [one.cell.name for one in alone] == ["engine threads, iterations 2"]
    made = [attempt(0, 0, one.cell, 1.0, attempt=n) for n, one in enumerate(cold[:3], 1)]
    record = Record(sessions, made)
    left = warm_ups(asked.trials, 2, record, "a")
    assert [one.cell.levels["engine"] for one in left] == [cold[3].cell.levels["engine"]]
    assert record.next_attempt(left[0]) == 4
    assert len(warm_ups(asked.trials, 2, record, "b")) == 4, "the machine was started anew"
    assert warm_ups(asked.trials, 0, record, "b") == []


def test_warm_ups_count_for_nothing(tmp_path: Path) -> None:
    asked = experiment(tmp_path, BOTH)
    path = tmp_path / "record.jsonl"
    first, *_ = asked.trials
    append(path, Session(1, 0.0, {"boot": "a"}))
    append(path, attempt(0, 0, first.cell, 90.0))
    append(path, attempt(0, 0, first.cell, 90.0, "failed", attempt=2, reason="cold"))
    append(path, attempt(first.number, first.replicate, first.cell, 1.0))
    record = load(path)
    assert [one.numbers["makespan_s"] for one in record.counted()] == [1.0]
    assert len(record.warm_ups()) == len(record.warm_ups("a")) == 2
    answer = answer_of(asked, record)
    doubts = " ".join(answer.certainty)
    assert "Not counted: 2 warm-ups before the first trial of each engine" in doubts
    assert "started, 1 of which failed." in doubts
    assert "17 of 18 trials are still to be run" in doubts
    assert "1 trial failed" not in doubts
