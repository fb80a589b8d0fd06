"""Slopes over workers, by numbers that are made."""

from __future__ import annotations

import dataclasses

import pytest

from hyperslab.apps.experiment.answers.comparison import MEASURE, measured, paired
from hyperslab.apps.experiment.answers.trends import sentences, trends_of
from hyperslab.apps.experiment.statistics.regression import slope_of
from hyperslab.apps.experiment.trials.record import Attempt, Session
from tests.apps.experiment.engines import results


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
    assert slope_of([(1, 2), (2, 4), (3, 6), (4, 8)]) == 2.0
    assert slope_of([(0, 1), (1, 0), (2, 5)]) == 2.0
    assert slope_of([(1, 2), (1, 4)]) is None
    assert slope_of([]) is None


def test_overhead_and_transfer_grow_with_workers_engine_by_engine() -> None:
    trends = trends_of(results(_numbers))
    assert [growth.engine for growth in trends.growths] == ["processes", "threads"]
    for growth in trends.growths:
        assert growth.workers == [1.0, 2.0, 4.0]
        assert growth.overhead == pytest.approx((3, 3, 3))
        assert growth.transfer == pytest.approx((-1, -1, -1))
    told = list(sentences(trends, 0.1))
    assert told[0].startswith("Each further worker of processes costs 3 s (3 to 3) of overhead")


def test_trials_of_a_replicate_have_one_slope() -> None:
    """Slopes of 1, 2 and 3, however well trials of several workers lie on each of them."""

    def numbers(made: Attempt) -> dict[str, float]:
        workers = float(made.levels["workers"])
        return {**_numbers(made), "overhead_s": made.replicate * workers}

    for growth in trends_of(results(numbers)).growths:
        half = 4.3027 / 3**0.5
        assert growth.overhead == pytest.approx((2, 2 - half, 2 + half), rel=1e-4)


def test_numbers_that_are_missing_make_no_trend() -> None:
    trends = trends_of(results(lambda made: {"makespan_s": 1.0}))
    assert trends.growths == []
    assert trends.trades == []


def test_what_machines_differ_by_is_no_trend() -> None:
    """Another machine, on which everything takes ten times as long, for the last replicate."""
    sessions = [Session(1, 0.0, {"processor": "new"}), Session(2, 0.0, {"processor": "old"})]

    def later(made: Attempt) -> dict[str, float]:
        slow = 100.0 if made.replicate > 2 else 0.0
        numbers = {**_numbers(made), "makespan_s": 10.0 + made.replicate + slow}
        return {**numbers, "overhead_s": numbers["overhead_s"] + slow}

    trends = trends_of(results(later, sessions))
    assert [growth.overhead.mean for growth in trends.growths] == pytest.approx([3, 3])
    assert {len(growth.overhead_s) for growth in trends.growths} == {3}


def test_trials_of_two_machines_are_no_pair_of_any_number() -> None:
    here, there, *_ = results(_numbers, [Session(1, 0.0, {"is": 1}), Session(2, 0.0, {"is": 2})])
    assert list(paired(here, there, measured(MEASURE))) == [(1, 0), (2, 0), (3, 1)]
    moved = [dataclasses.replace(one, session=2) for one in there.attempts]
    there = dataclasses.replace(there, attempts=moved)
    assert list(paired(here, there, measured(MEASURE))) == [(3, 1)]
