"""Spreads: whether makespans vary more with more blocks, and how often chance says so."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from hyperslab.apps.experiment.answers.spreads import (
    Spread,
    Values,
    deviations,
    growing,
    in_common,
    is_shown,
    sentences,
    spreads_of,
)
from hyperslab.apps.experiment.statistics.regression import sign_probability
from hyperslab.apps.experiment.trials.record import Attempt, Session
from tests.apps.experiment.engines import results

BLOCKS = (4, 16, 64)
DRIFTS = (1.0, 1.1, 1.3)


def _varied(made: Attempt, by: float) -> float:
    """A factor that differs from replicate to replicate and from engine to engine."""
    sign = 1 if made.levels["engine"] == "threads" else -1
    return math.exp(sign * by * (made.replicate - 2))


def test_deviations_are_in_proportion_to_makespans() -> None:
    """Twice as long, and twice as many seconds more or less, is no more variance; nor is what slows
    down all that runs in a replicate.
    """

    def numbers(made: Attempt) -> dict[str, float]:
        files = float(made.levels["files"])
        drift = DRIFTS[made.replicate - 1]
        return {
            "makespan_s": files * drift * _varied(made, 0.05),
            "overhead_s": files * drift * _varied(made, 0.01 * files),
        }

    found = list(spreads_of(results(numbers)))
    assert [spread.engine for spread in found] == ["processes", "threads"]
    for spread in found:
        (few, first, _), (many, second, _) = spread.deviations
        assert (few, many) == (4, 8)
        assert first == pytest.approx(second)
        assert spread.overhead_grows
    (told,) = sentences(found)
    assert told.startswith("In proportion to their length, makespans vary more")
    assert "with more files on" in told
    assert ", overheads on 2;" in told


def test_a_cell_varies_by_what_its_replicates_do_not_share() -> None:
    cells = [{(n, 0): shift * sign for n, shift in enumerate((1, 0, -1))} for sign in (1, -1)]
    drifting = [{block: own + 10 * block[0] for block, own in cell.items()} for cell in cells]
    assert deviations(drifting, shares_blocks=True) == pytest.approx([2**0.5] * 2)
    assert deviations(cells[:1], shares_blocks=False) == [1.0]
    once: list[Values] = [{(1, 0): 1.0, (2, 1): 9.0}]
    assert deviations(once, shares_blocks=False) == [None]
    twice: list[Values] = [{(1, 0): 1.0, (2, 0): 3.0, (3, 1): 9.0, (4, 1): 9.0}]
    assert deviations(twice, shares_blocks=False) == [1.0]


def test_what_machines_differ_by_is_no_deviation() -> None:
    sessions = [Session(1, 0.0, {"processor": "new"}), Session(2, 0.0, {"processor": "old"})]

    def numbers(made: Attempt) -> dict[str, float]:
        slow = 100.0 if made.replicate > 2 else 1.0
        return {"makespan_s": slow * (10 + made.replicate), "overhead_s": 1.0}

    def most(found: Sequence[Spread]) -> float:
        return max(row[1] for one in found for row in one.deviations)

    assert most(list(spreads_of(results(numbers, sessions)))) < 0.1


def test_signs_of_engines_are_a_matter_of_chance() -> None:
    rows = [(4.0, 0.1, None), (8.0, 0.2, None)]
    more = [Spread(str(n), "files", rows) for n in range(5)]
    assert growing(more) == (5, 5)
    assert is_shown(5, 5)
    assert not is_shown(4, 5)
    assert sign_probability(5, 5) == 1 / 32
    assert sign_probability(0, 3) == 1.0
    still = Spread("still", "files", [(4.0, 0.0, None), (8.0, 0.0, None)])
    assert growing([still]) == (0, 0)


def test_an_engine_varies_over_the_replicates_that_all_its_cells_have() -> None:
    """Fewer of them seem to vary less, on all engines alike; a cell that ran once leaves the others
    theirs.
    """
    few: Values = {(n, 0): float(n**2) for n in range(4)}
    many: Values = {(n, 0): float(n**2) for n in (1, 2)}
    once: Values = {(3, 0): 9.0}
    assert in_common([few, many, {}]) == [many, many, {}]
    assert in_common([few, few, once]) == [few, few, once]

    def numbers(made: Attempt) -> dict[str, float]:
        is_missing = made.levels["files"] == 8 and made.replicate == 3
        return {"makespan_s": 0.0 if is_missing else _varied(made, 0.1 * made.replicate**2)}

    for spread in spreads_of(results(numbers)):
        (_, first, _), (_, second, _) = spread.deviations
        assert first == pytest.approx(second), "both are of two replicates"


def test_makespans_that_grow_alone_are_rarely_said_to_vary_more() -> None:
    """Five engines of three replicates that differ as much everywhere, and share what slows their
    replicates down.
    """
    draw = random.Random(18)
    wrong = sum(is_shown(*growing(_drawn(draw))) for _ in range(150))
    assert wrong / 150 < 0.07


def _drawn(draw: random.Random) -> list[Spread]:
    slow = [draw.gauss(0, 0.1) for _ in range(3)]
    cells: list[Values] = [
        {(n, 0): math.log(mean * (1 + draw.gauss(0, 0.05))) + slow[n] for n in range(3)}
        for _ in range(5)
        for mean in (0.6, 1.0, 2.0)
    ]
    found = deviations(cells, shares_blocks=True)
    known = [one or 0.0 for one in found]
    engines = [known[first : first + 3] for first in range(0, 15, 3)]
    return [
        Spread(
            str(n), "files", [(float(b), own, None) for b, own in zip(BLOCKS, engine, strict=True)]
        )
        for n, engine in enumerate(engines)
    ]
