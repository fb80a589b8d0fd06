"""Decisions: at which values of other factors they hold, and where it is otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hyperslab.apps.experiment.answer import answer_of
from tests.apps.experiment.specs import TEXT, experiment, record_of

CROSSED = TEXT.replace("[vary]\niterations = [2]\n", "[grid]\niterations = [2]\n[vary]\n")
ALONE = TEXT.replace("[vary]\niterations = [2]\ndelay = [0.01]\n", "")
BOTH = "iterations 2, delay 0.01"


def _decided(root: Path, seconds: Mapping[str, Sequence[float]], text: str = CROSSED) -> list[str]:
    asked = experiment(root, text)
    return list(answer_of(asked, record_of(asked, seconds, {})).decision)


def test_a_decision_says_where_it_holds_and_where_it_does_not(tmp_path: Path) -> None:
    """Twice as many iterations cost nothing, but where there is a delay."""
    found = _decided(tmp_path, {BOTH: (2.0, 2.02, 1.98)})
    assert found == [
        "delay, at iterations 1: 0.01 and 0 are equivalent (within 10 %).",
        (
            "delay, at other values: 0.01 is slower than 0 at iterations 2 (2.00 x (1.95 to 2.05));"
            " of 1 comparison 0 as here, 0 open."
        ),
        "iterations, at delay 0: 2 and 1 are equivalent (within 10 %).",
        (
            "iterations, at other values: 2 is slower than 1 at delay 0.01 (2.00 x (1.95 to 2.05));"
            " of 1 comparison 0 as here, 0 open."
        ),
    ]


def test_what_is_alike_everywhere_is_said_in_numbers(tmp_path: Path) -> None:
    found = _decided(tmp_path, {})
    assert "delay, at other values: of 1 comparison 1 as here, 0 open." in found
    noisy = _decided(tmp_path, {BOTH: (0.3, 1.0, 4.0)})
    assert "delay, at other values: of 1 comparison 0 as here, 1 open." in noisy
    noise = (0.3, 1.0, 4.0)
    nowhere = _decided(tmp_path, {"delay 0.01": noise, "iterations 2": noise})
    assert "delay, at other values: of 1 comparison 0 told, 1 open, as it is here." in nowhere


def test_a_spec_that_varies_nothing_says_so(tmp_path: Path) -> None:
    assert _decided(tmp_path, {}, ALONE) == [
        "Nothing is varied: there is one cell, and no other one to compare it with."
    ]
