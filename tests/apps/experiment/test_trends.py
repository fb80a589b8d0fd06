"""Slopes over workers, variance against blocks, compensation: by numbers that are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hyperslab.apps.experiment.comparison import MEASURE, CellResult, measured, paired, results_of
from hyperslab.apps.experiment.design import trials_of
from hyperslab.apps.experiment.record import Attempt, Record, Session
from hyperslab.apps.experiment.regression import Point, sign_probability, slope_of, slope_within
from hyperslab.apps.experiment.trends import deviation, sentences, trends_of
from tests.apps.experiment.specs import TEXT, attempt, loaded

SPEC = TEXT.replace(
    'engine = "serial"\niterations = 1\ndelay = 0\n\n[vary]\niterations = [2]\ndelay = [0.01]',
    'engine = "processes"\nworkers = 2\nfiles = 4\n\n[vary]\nworkers = [1, 4]\nfiles = [8]\n\n'
    '[grid]\nengine = ["threads"]',
)
Numbers = Callable[[Attempt], dict[str, float]]


def _results(numbers: Numbers, sessions: Sequence[Session] = ()) -> list[CellResult]:
    """All cells, with numbers that follow from the levels and the replicate of each trial; later
    replicates in the second session, where there are two.
    """
    spec = loaded(SPEC).spec
    attempts = []
    for trial in trials_of(spec):
        made = attempt(trial.number, trial.replicate, trial.cell, 1.0)
        own: dict[str, Any] = {"numbers": numbers(made), "session": 1 + (trial.replicate > 2)}
        attempts.append(attempt(trial.number, trial.replicate, trial.cell, 1.0, **own))
    record = Record(sessions, attempts, 0, {one.number: [one] for one in attempts})
    cells = list({trial.cell.key: trial.cell for trial in trials_of(spec)}.values())
    baseline = next(cell for cell in cells if not cell.changed)
    return results_of([baseline, *(cell for cell in cells if cell != baseline)], record)


def _numbers(made: Attempt) -> dict[str, float]:
    workers = float(made.levels["workers"])
    files = float(made.levels["files"])
    is_threads = made.levels["engine"] == "threads"
    overhead_s = 3 * workers + made.replicate * files * 0.01 + 5.0 * is_threads
    return {
        "makespan_s": 10 + made.replicate * files,
        "overhead_s": overhead_s,
        "read_s": 50 - 2 * workers - 4.0 * is_threads,
        "write_s": 1.0 * workers,
    }


def test_a_slope_is_that_of_least_squares() -> None:
    """The interval by hand: residuals 1, -2, 1 over x = -1, 0, 1, one degree of freedom."""
    exact = slope_of([(1, 2), (2, 4), (3, 6), (4, 8)])
    assert exact == (2.0, 2.0, 2.0, 4)
    found = slope_of([(0, 1), (1, 0), (2, 5)])
    assert found
    assert found.value == 2.0
    assert found.high is not None
    assert found.high - 2.0 == pytest.approx(12.7062 * (6 / 1 / 2) ** 0.5, rel=1e-4)
    assert slope_of([(1, 2), (2, 4)]) == (2.0, None, None, 2)
    assert slope_of([(1, 2), (1, 4)]) is None
    assert slope_of([]) is None


def test_heights_of_blocks_do_not_count() -> None:
    points = [Point(block, x, 7.0 * block - x) for block in range(3) for x in (1.0, 2.0)]
    found = slope_within(points)
    assert found
    assert found.value == pytest.approx(-1)
    assert found.points == 6


def test_overhead_and_transfer_grow_with_workers_engine_by_engine() -> None:
    trends = trends_of(_results(_numbers))
    assert [growth.engine for growth in trends.growths] == ["processes", "threads"]
    for growth in trends.growths:
        assert growth.workers == [1.0, 2.0, 4.0]
        assert growth.overhead.value == pytest.approx(3)
        assert growth.transfer.value == pytest.approx(-1)
    told = list(sentences(trends))
    assert told[0].startswith("Each further worker of processes costs 3 s (2.")


def test_variance_against_blocks_is_a_matter_of_signs() -> None:
    trends = trends_of(_results(_numbers))
    assert [spread.engine for spread in trends.spreads] == ["processes", "threads"]
    deviations = trends.spreads[0].deviations
    assert [row[:2] for row in deviations] == [(4.0, 4.0), (8.0, 8.0)]
    assert all(spread.grows and spread.overhead_grows for spread in trends.spreads)
    told = " ".join(sentences(trends))
    assert "with more files on 2 of 2 engines (so many by chance: 0.25), overheads on 2" in told
    assert sign_probability(5, 5) == 1 / 32
    assert sign_probability(0, 3) == 1.0


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (5.0, "wholly as far as can be told"),
        (2.0, "in part"),
        (9.0, "falls by more than overhead grows"),
        (-3.0, "is not shown"),
    ],
)
def test_engines_trade_overhead_for_transfer_or_not(taken: float, words: str) -> None:
    def numbers(made: Attempt) -> dict[str, float]:
        shift = 0.001 * ((made.number * 7) % 5)
        is_threads = made.levels["engine"] == "threads"
        transfer = {"read_s": 50 - taken * is_threads + shift, "write_s": 0.0}
        return {"makespan_s": 1.0, "overhead_s": 2 + 5.0 * is_threads, **transfer}

    trends = trends_of(_results(numbers))
    assert trends.compensation
    assert trends.compensation.value == pytest.approx(-taken / 5, abs=0.01)
    assert words in list(sentences(trends))[-1]


def test_cells_of_a_replicate_are_one_slope() -> None:
    """Slopes of -1, -2 and -3, however many cells agree on each of them."""

    def numbers(made: Attempt) -> dict[str, float]:
        is_threads = made.levels["engine"] == "threads"
        transfer = {"read_s": 50 - 5.0 * made.replicate * is_threads, "write_s": 0.0}
        return {"makespan_s": 1.0, "overhead_s": 2 + 5.0 * is_threads, **transfer}

    found = trends_of(_results(numbers)).compensation
    assert found
    assert found.low is not None
    assert (found.value, found.value - found.low) == pytest.approx((-2, 4.3027 / 3**0.5), rel=1e-4)


def test_numbers_that_are_missing_make_no_trend() -> None:
    trends = trends_of(_results(lambda made: {"makespan_s": 1.0}))
    assert trends.growths == []
    assert trends.compensation is None
    assert list(sentences(trends)) == []


def test_what_machines_differ_by_is_no_trend() -> None:
    """Another machine, on which everything takes ten times as long, for the last replicate."""
    sessions = [Session(1, 0.0, {"processor": "new"}), Session(2, 0.0, {"processor": "old"})]

    def later(made: Attempt) -> dict[str, float]:
        slow = 100.0 if made.replicate > 2 else 0.0
        numbers = {**_numbers(made), "makespan_s": 10.0 + made.replicate + slow}
        return {**numbers, "overhead_s": numbers["overhead_s"] + slow}

    trends = trends_of(_results(later, sessions))
    assert [growth.overhead.value for growth in trends.growths] == pytest.approx([3, 3])
    assert max(row[1] for one in trends.spreads for row in one.deviations) < 1
    alone = trends_of(_results(later))
    assert max(row[1] for one in alone.spreads for row in one.deviations) > 50
    assert deviation({(1, 0): 1.0, (2, 1): 9.0}) is None
    assert deviation({(1, 0): 1.0, (2, 0): 3.0, (3, 1): 9.0, (4, 1): 9.0}) == 1.0


def test_trials_of_two_machines_are_no_pair_of_any_number() -> None:
    here, there, *_ = _results(_numbers, [Session(1, 0.0, {"is": 1}), Session(2, 0.0, {"is": 2})])
    assert list(paired(here, there, measured(MEASURE))) == [(1, 0), (2, 0), (3, 1)]
    moved = [dataclasses.replace(one, session=2) for one in there.attempts]
    there = dataclasses.replace(there, attempts=moved)
    assert list(paired(here, there, measured(MEASURE))) == [(3, 1)]
