"""What a design is said to tell, by experiments that are drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperslab.apps.experiment.statistics.significance import (
    LEVEL,
    POWER,
    alike_up_to,
    differs_p,
    equivalent_p,
    told_from,
)
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Wish
from hyperslab.cli.trials import plan_lines, planned
from tests.apps.experiment.specs import TEXT, experiment

DRAWN = 8000
SPREAD, MARGIN = 0.05, 0.1
Test = Callable[[list[float]], float | None]


def _told(difference: float, spread: float, pairs: int, tests: int, test: Test) -> float:
    """Share of drawn experiments in which a test tells something as the first of several."""
    chance = random.Random(f"{pairs} {tests}")

    def value() -> float:
        return chance.gauss(0.0, math.log(1 + spread))

    count = 0
    for _ in range(DRAWN):
        ratios = [difference + value() - value() for _ in range(pairs)]
        p = test(ratios)
        assert p is not None
        count += p * tests <= LEVEL
    return count / DRAWN


@pytest.mark.parametrize(("pairs", "tests"), [(3, 1), (3, 9), (6, 7), (12, 1)])
def test_what_is_said_to_be_told_is_told_in_four_of_five_experiments(
    pairs: int, tests: int
) -> None:
    ratio = told_from(SPREAD, pairs, tests)
    assert _told(math.log(ratio), SPREAD, pairs, tests, differs_p) == pytest.approx(
        POWER, abs=0.015
    )
    spread = alike_up_to(MARGIN, pairs, tests)

    def alike(ratios: list[float]) -> float | None:
        return equivalent_p(ratios, math.log(1 + MARGIN))

    assert _told(0.0, spread, pairs, tests, alike) == pytest.approx(POWER, abs=0.015)


def test_a_plan_says_what_it_can_tell(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    plan = planned(asked, Wish(asked.trials))
    assert plan.compared == 2
    assert plan.told_from == told_from(SPREAD, 3, 2)
    told = "\n".join(plan_lines(asked, plan))
    assert "tells      differences from 38 % on, where makespans vary by 5.0 %" in told
    assert "between replicates (2 comparisons with the baseline)" in told
    assert "equivalence within 10 %, where they vary by 1.9 % or less" in told
    once = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 1"))
    plan = planned(once, Wish(once.trials))
    assert plan.told_from is None
    assert "tells      no difference, as one replicate" in "\n".join(plan_lines(once, plan))
    assert not asked.directory.record.exists()
    assert asked.record() == Record()
