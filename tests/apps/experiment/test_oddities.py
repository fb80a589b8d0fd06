"""A drift over the order of trials, and trials unlike the others of their cell."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers import certainty
from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.comparison import results_of
from hyperslab.apps.experiment.answers.oddities import sentences
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import TEXT, experiment, record_of

SIX = TEXT.replace("replicates = 3", "replicates = 6")
SPREAD = 0.02


def _said(root: Path, factor: Callable[[Attempt], float], seed: int = 1) -> list[str]:
    """What is said of makespans that vary by some, each times a factor."""
    asked = experiment(root, SIX)
    chance = random.Random(seed)
    record = _record([_vary(one, chance, factor(one)) for one in _made(asked)])
    found = list(sentences(results_of(asked.cells, record)))
    if found:
        assert [text for text in answer_of(asked, record).doubts if text in found] == found
    return found


def _made(asked: Experiment) -> Sequence[Attempt]:
    return record_of(asked, {}, {}).attempts


def _vary(one: Attempt, chance: random.Random, factor: float) -> Attempt:
    seconds = math.exp(chance.gauss(0.0, SPREAD)) * factor
    return dataclasses.replace(one, numbers={**one.numbers, "makespan_s": seconds})


def _record(attempts: Sequence[Attempt]) -> Record:
    return Record([], attempts, 0, {one.number: [one] for one in attempts})


def test_a_drift_is_told_with_its_size(tmp_path: Path) -> None:
    """Of 6 % from replicate to replicate, of 6."""
    (told,) = _said(tmp_path, lambda one: 1.06**one.replicate)
    assert told.startswith("Makespans drift: from the first replicate to the last they get 3")
    assert "% longer (by chance: " in told
    (told,) = _said(tmp_path, lambda one: 0.94**one.replicate)
    assert "shorter" in told


def test_a_drift_follows_the_order_in_which_replicates_began(tmp_path: Path) -> None:
    asked = experiment(tmp_path, SIX)
    made = [_vary(one, random.Random(one.number), 1.06**one.replicate) for one in _made(asked)]
    turned = [dataclasses.replace(one, began_s=-float(one.replicate)) for one in made]
    (told,) = sentences(results_of(asked.cells, _record(turned)))
    assert "shorter" in told


def test_a_trial_unlike_the_others_is_told(tmp_path: Path) -> None:
    (told,) = _said(tmp_path, lambda one: 1.8 if one.number == 9 else 1.0)
    assert told.startswith("1 trial took much longer or shorter than the others of the same cell")
    assert "such as trial 9 (" in told
    assert "none is left out for it" in told


def _times_replicate(shared: Sequence[float]) -> Callable[[Attempt], float]:
    return lambda one: shared[one.replicate]


def _times_wide_cell(wide: Mapping[int, float]) -> Callable[[Attempt], float]:
    return lambda one: wide[one.number] if _level(one) == 2 else 1.0


def test_replicates_that_share_what_slows_them_down_drift_as_seldom_as_is_said(
    tmp_path: Path,
) -> None:
    """In one of twenty records; all trials of a replicate are up to some percents off together."""
    drifts = 0
    for seed in range(200):
        chance = random.Random(f"replicates {seed}")
        shared = [math.exp(chance.gauss(0.0, 0.05)) for _ in range(7)]
        said = _said(tmp_path, _times_replicate(shared), seed)
        drifts += any(text.startswith("Makespans drift") for text in said)
    assert 2 <= drifts <= 20


def test_cells_that_vary_more_than_others_have_outliers_as_seldom_as_is_said(
    tmp_path: Path,
) -> None:
    """A cell varies thirty times as much as others."""
    outliers = 0
    for seed in range(200):
        chance = random.Random(f"cells {seed}")
        wide = {n: math.exp(chance.gauss(0.0, 30 * SPREAD)) for n in range(1, 19)}
        said = _said(tmp_path, _times_wide_cell(wide), seed)
        outliers += any("much longer" in text for text in said)
    assert 2 <= outliers <= 20


def test_of_few_replicates_nothing_is_odd(tmp_path: Path) -> None:
    asked = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 4"))
    record = record_of(asked, {"iterations 2": (1.0, 1.01, 1.02, 9.0)}, {})
    assert list(sentences(results_of(asked.cells, record))) == []


def test_emulated_tiers_are_told_before_oddities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal shows the first three doubts."""
    asked = experiment(tmp_path, SIX)
    monkeypatch.setattr(certainty, "_emulated", lambda *_: ["Emulated: disk."])
    record = _record([_vary(one, random.Random(1), 1.06**one.replicate) for one in _made(asked)])
    doubts = answer_of(asked, record).doubts
    (drift,) = [text for text in doubts if text.startswith("Makespans drift")]
    assert doubts.index("Emulated: disk.") < doubts.index(drift)


def _level(one: Attempt) -> float:
    return float(str(one.levels["iterations"]))


def test_what_does_not_vary_is_not_odd(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    assert list(sentences(results_of(asked.cells, record_of(asked, {}, {})))) == []
