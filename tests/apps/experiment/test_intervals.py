"""Intervals agree with SciPy's, and comparisons say what the tests of the literature do."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
import scipy  # whose statistics are imported where a test takes them

from hyperslab.apps.experiment.answers.comparison import compare, jointly, results_of
from hyperslab.apps.experiment.design.cells import cells_of
from hyperslab.apps.experiment.statistics.intervals import (
    mean_interval,
    quantile,
    ratio_interval,
    two_sided,
)
from hyperslab.apps.experiment.statistics.significance import below_p, beyond_p, differs_p
from hyperslab.apps.experiment.trials.record import Record, Session
from tests.apps.experiment.specs import attempt, compared, loaded


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 101])
def test_students_t_is_scipys(freedom: int) -> None:
    for t in (0.0, 0.1, 1.0, 2.5, 40.0):
        expected = 1 - 2 * scipy.stats.t.sf(t, freedom)
        assert two_sided(t, freedom) == pytest.approx(expected, abs=1e-12)
    for confidence in (0.5, 0.9, 0.95, 0.99):
        expected = scipy.stats.t.ppf((1 + confidence) / 2, freedom)
        assert quantile(confidence, freedom) == pytest.approx(expected, rel=1e-9)


def test_a_mean_has_the_interval_of_scipy() -> None:
    values = [3.1, 2.9, 3.4, 3.0]
    expected = scipy.stats.t.interval(0.95, 3, np.mean(values), scipy.stats.sem(values))
    assert mean_interval(values)[1:] == pytest.approx(expected)
    assert mean_interval([2.0]) == (2.0, None, None)


def test_a_ratio_is_that_of_pairs() -> None:
    """A drift that both share does not widen it."""
    references = [1.0, 10.0, 100.0]
    found = ratio_interval([2.0, 20.0, 200.0], references)
    assert found == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 1.01, 0.99], "equivalent"),
        ([1.05, 1.051, 1.049], "equivalent"),
        ([1.5, 1.6, 1.55], "slower"),
        ([0.5, 0.52, 0.51], "faster"),
        ([0.8, 1.0, 1.3], "open"),
        ([1.2], "unknown"),
        ([], "unknown"),
    ],
)
def test_cells_are_told_apart_by_pairs(values: list[float], verdict: str) -> None:
    assert compared(values, [1.0, 1.0, 1.0]).verdict == verdict


def test_equivalence_is_what_two_one_sided_tests_say() -> None:
    """The p-values of both one-sided t tests on the logarithms, by SciPy, around 5 %."""
    for spread in (0.02, 0.04, 0.05, 0.06, 0.08):
        logarithms = np.array([-spread, 0.0, spread, 0.01])
        bound = math.log(1.1)
        above = scipy.stats.ttest_1samp(logarithms, -bound, alternative="greater").pvalue
        below = scipy.stats.ttest_1samp(logarithms, bound, alternative="less").pvalue
        found = compared(list(np.exp(logarithms)), [1.0] * 4)
        weaker = max(above, below)
        assert (found.verdict == "equivalent") == (weaker < 0.05)
        assert found.equivalent_p == pytest.approx(weaker, rel=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_lies_beyond_a_margin_is_what_one_sided_tests_say(sign: int) -> None:
    """Both tails from a true ratio at the margin on; without a margin it is the usual test."""
    logarithms = [sign * one for one in (0.15, 0.2, 0.22, 0.12)]
    tails = [
        scipy.stats.ttest_1samp(np.array(logarithms) * sign, centre, alternative="greater").pvalue
        for centre in (0.1, -0.1)
    ]
    assert beyond_p(logarithms, 0.1) == pytest.approx(sum(tails), rel=1e-6)
    assert beyond_p(logarithms, 0.0) == pytest.approx(differs_p(logarithms), rel=1e-6)
    below = scipy.stats.ttest_1samp(logarithms, 0.3, alternative="less").pvalue
    assert below_p(logarithms, 0.3) == pytest.approx(below, rel=1e-6)
    assert beyond_p([0.5], 0.1) is None
    assert below_p([0.5], 0.1) is None


def test_an_open_comparison_says_how_many_replicates_may_tell() -> None:
    (one,) = jointly([compared([0.95, 1.0, 1.06, 1.2], [1.0] * 4)])
    assert one.needed is not None
    assert 4 < one.needed < 60


def test_a_difference_may_be_told_sooner_than_an_equivalence() -> None:
    """Two pairs of about 2.5 times as long: a few more would tell, and more so among several."""
    one = compared([2.1, 3.1], [1.0] * 2)
    assert one.verdict == "open"
    (alone,) = jointly([one])
    among = jointly([one] * 10)[0]
    assert alone.needed in (3, 4, 5)
    assert among.needed is not None
    assert alone.needed < among.needed < 10


def test_among_many_cells_that_do_not_differ_one_is_rarely_said_to() -> None:
    """Six cells beside one baseline, whose replicates they share."""
    draw = random.Random(18)
    known = dataclasses.replace(compared([1.0, 1.1], [1.0] * 2), pairs=0, equivalent_p=1.0)
    wrong = 0
    for _ in range(400):
        base = [draw.gauss(0, 0.05) for _ in range(4)]
        cells = [[draw.gauss(0, 0.05) - one for one in base] for _ in range(6)]
        found = [dataclasses.replace(known, differs_p=differs_p(one)) for one in cells]
        wrong += any(one.verdict != "open" for one in jointly(found))
    assert wrong / 400 < 0.07


def test_replicates_that_made_no_pair_are_asked_for_once_more() -> None:
    one = compared([2.1, 3.1], [1.0] * 2)
    (alone,) = jointly([one])
    (without,) = jointly([dataclasses.replace(one, tried=4)])
    assert (alone.needed or 0) + 2 == without.needed


def test_a_replicate_that_failed_on_one_side_makes_no_pair() -> None:
    found = compared([2.0, 2.1], [1.0, 1.0, 1.0])
    assert found.pairs == 2


def test_trials_of_two_machines_make_no_pair() -> None:
    """A block that went on elsewhere: pairs of the first machine, and pairs of the second."""
    base, other, *_ = cells_of(loaded().spec)
    attempts = [
        attempt(1, 1, base, 1.0),
        attempt(2, 1, other, 1.5),
        attempt(3, 2, base, 1.0),
        attempt(4, 2, other, 9.0, session=2),
        attempt(5, 3, base, 3.0, session=2),
        attempt(6, 3, other, 4.5, session=3),
    ]
    machines = [{"processor": "old"}, {"processor": "new"}, {"processor": "new", "boot": "2"}]
    sessions = [Session(number, 0.0, one) for number, one in enumerate(machines, 1)]
    record = Record(sessions, attempts, 0, {one.number: [one] for one in attempts})
    results = results_of([base, other], record)
    found = compare("iterations", results[1], results[0], margin=0.1)
    assert found.pairs == 2
    assert found.ratio
    assert found.ratio.mean == pytest.approx(1.5)
