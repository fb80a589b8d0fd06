"""A drift over the order of trials, and trials unlike the others of their cell."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from pathlib import Path

from hyperslab.apps.experiment.answer import answer_of
from hyperslab.apps.experiment.comparison import results_of
from hyperslab.apps.experiment.oddities import sentences
from hyperslab.apps.experiment.record import Attempt, Record
from tests.apps.experiment.specs import TEXT, experiment, record_of

SIX = TEXT.replace("replicates = 3", "replicates = 6")
SPREAD = 0.02


def _said(root: Path, factor: Callable[[Attempt], float], seed: int = 1) -> list[str]:
    """What is said of makespans that vary by some, each times a factor."""
    asked = experiment(root, SIX)
    chance = random.Random(seed)

    def vary(one: Attempt) -> Attempt:
        seconds = math.exp(chance.gauss(0.0, SPREAD)) * factor(one)
        return dataclasses.replace(one, numbers={**one.numbers, "makespan_s": seconds})

    attempts = [vary(one) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    found = list(sentences(results_of(asked.cells, record)))
    if found:
        assert [text for text in answer_of(asked, record).doubts if text in found] == found
    return found


def test_a_drift_is_told_with_its_size(tmp_path: Path) -> None:
    """Of 2 % from trial to trial, of 18."""
    (told,) = _said(tmp_path, lambda one: 1.02**one.number)
    assert told.startswith("Makespans drift: from the first trial to the last they get 4")
    assert "% longer (by chance: " in told
    (told,) = _said(tmp_path, lambda one: 0.98**one.number)
    assert "shorter" in told


def test_a_trial_unlike_the_others_is_told(tmp_path: Path) -> None:
    (told,) = _said(tmp_path, lambda one: 1.5 if one.number == 9 else 1.0)
    assert told.startswith("1 trial took much longer or shorter than the others of the same cell")
    assert "such as trial 9 (" in told
    assert "none is left out for it" in told


def test_trials_that_vary_by_chance_alone_are_called_odd_as_seldom_as_is_said(
    tmp_path: Path,
) -> None:
    """Each of both in one of twenty records; levels of other cells are no oddity."""
    records = 200
    told = [_said(tmp_path, _level, seed) for seed in range(records)]
    drifts = sum(text.startswith("Makespans drift") for said in told for text in said)
    outliers = sum("much longer" in text for said in told for text in said)
    assert 2 <= drifts <= 22
    assert 2 <= outliers <= 22


def _level(one: Attempt) -> float:
    return float(str(one.levels["iterations"]))


def test_what_does_not_vary_is_not_odd(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    assert list(sentences(results_of(asked.cells, record_of(asked, {}, {})))) == []


def test_none_of_two_trials_is_the_odd_one(tmp_path: Path) -> None:
    two = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 2"))
    record = record_of(two, {"iterations 2": (1.0, 3.0)}, {})
    assert not any("much longer" in text for text in sentences(results_of(two.cells, record)))
