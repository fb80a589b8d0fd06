"""Rates of a probe: how far they may be off is what their repetitions say, in both models."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy  # whose statistics are imported where a test takes them

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.expectation import Expected, sentences
from hyperslab.apps.experiment.claims.claim import Evidence, Judged
from hyperslab.apps.experiment.claims.law import Off, far_off, judge_law
from hyperslab.apps.experiment.design.cells import Cell
from hyperslab.apps.experiment.model.bounds import Place, model_of
from hyperslab.apps.experiment.model.rates import interval_of
from hyperslab.apps.experiment.pages.charts import ratios_svg
from hyperslab.apps.experiment.pages.expected import expected_sheet
from hyperslab.apps.experiment.statistics.intervals import Interval, ratio_interval
from hyperslab.storage.probing.records import Measured
from tests.apps.experiment.specs import attempt
from tests.apps.experiment.test_model import CURVES, DISK, USE
from tests.storage.probing.made import curve

READ = (90e6, 100e6, 112e6)
WRITE = (50e6, 50e6, 50e6)
REPEATED = replace(
    DISK,
    curves={
        "read-cold": curve({1: READ}),
        "read-cached": curve({1: READ}),
        "write": curve({1: WRITE}),
    },
)
RESULT = CellResult(Cell({"engine": "serial"}, ()), (), None)


def _ends(values: tuple[float, ...]) -> tuple[float, float]:
    """Student's t interval of the logarithms, by SciPy."""
    logarithms = np.log(values)
    low, high = scipy.stats.t.interval(
        0.95, len(values) - 1, logarithms.mean(), scipy.stats.sem(logarithms)
    )
    return math.exp(low), math.exp(high)


def test_the_interval_of_a_rate_is_that_of_its_repetitions() -> None:
    assert interval_of(Measured(READ)) == pytest.approx((100e6, *_ends(READ)), rel=1e-6)
    assert interval_of(Measured(WRITE)) == pytest.approx((50e6, 50e6, 50e6))
    assert interval_of(Measured((5.0,))) == (5.0, None, None)
    mean, low, high = interval_of(Measured((*[1.0] * 40, *[9.0] * 30)))
    assert mean == low == 1.0, "the median, though the mean is far from it"
    assert high is not None


def test_what_is_expected_lies_between_what_the_rates_allow() -> None:
    model = model_of(USE, REPEATED, REPEATED)
    low, high = _ends(READ)
    law = model.law
    assert law.seconds == pytest.approx(7.2 + 12)
    assert law.least_s == pytest.approx(720e6 / high + 12)
    assert law.most_s == pytest.approx(720e6 / low + 12)
    ends = (30 / (720e6 / low + 12), 30 / (720e6 / high + 12))
    assert law.ratios == pytest.approx((30 / 19.2, *ends))
    assert model.bound.least_s == pytest.approx(1 + 720e6 / high + 12)
    assert model.bound.most_s == pytest.approx(1 + 720e6 / low + 12)
    asked = replace(REPEATED, ceilings={"read-cold": 1e8, "write": 5e7})
    bound = model_of(USE, asked, asked).bound
    assert bound.least_s == bound.most_s == bound.seconds, "an emulated tier is as it was asked"


def test_nobody_knows_how_far_off_a_rate_is_that_was_measured_once() -> None:
    law = model_of(USE, REPEATED, replace(DISK, path="/other", curves=CURVES)).law
    assert (law.least_s, law.most_s) == (None, None)
    assert law.ratios == Interval(30 / (7.2 + 12), None, None)


def test_equation_1_is_off_where_the_rates_say_so_too() -> None:
    few, many = (0.5, 0.51, 0.52), (2.0, 2.1, 2.2)
    sure = Interval(1.0, 0.99, 1.01)
    assert far_off([Off(RESULT, few, sure), Off(RESULT, many, sure)]) == (1, 1, 0)
    assert far_off([Off(RESULT, (0.78, 0.79, 0.8), sure)]) == (0, 0, 0), (
        "less than 1 / 1.25 by chance"
    )
    slow = Interval(1.0, 0.99, 1.9)
    assert far_off([Off(RESULT, few, slow), Off(RESULT, many, slow)]) == (1, 0, 0)
    fast = Interval(1.0, 0.45, 1.01)
    assert far_off([Off(RESULT, few, fast), Off(RESULT, many, fast)]) == (0, 1, 0)
    once = Interval(1.0, None, None)
    assert far_off([Off(RESULT, few, once), Off(RESULT, many, once)]) == (0, 0, 0)
    near = (0.99, 1.0, 1.01)
    assert Off(RESULT, near, sure).alike_p() == pytest.approx(0.0, abs=0.01)
    assert (Off(RESULT, near, slow).alike_p() or 0.0) > 0.5
    assert Off(RESULT, near, once).alike_p() is None
    others = Off(RESULT, many, sure, waits_for_storage=False)
    assert far_off([Off(RESULT, few, sure), others]) == (1, 0, 1)


def test_what_takes_longer_for_other_things_than_storage_is_not_off() -> None:
    """As where starts of processes take most of the time, or the engine itself does: storage that
    is busy longest, for less than most of a run, does not hold it up.
    """
    for use in (replace(USE, compute_s=70.0), USE):
        cells = [_took(seconds, REPEATED) for seconds in (9.6, 38.4)]
        cells[1] = replace(cells[1], model=model_of(use, REPEATED, REPEATED))
        assert not cells[1].waits_for_storage
        found = judge_law(Evidence(Answer([cells[0].result], (), (), (), (), cells), 0.1))
        assert found.outcome == "in part"
        assert found.signs == [True, None], "less, and nothing known of more"
        told = "Of those that wait for storage 0 took more than 1.25 times as long, of the others 1"
        assert told in found.evidence[-1]


def test_a_claim_on_equation_1_is_as_sure_as_the_rates() -> None:
    """One cell takes half of the 19.2 s, another one twice as long."""

    def said(place: Place) -> Judged:
        cells = [_took(seconds, place) for seconds in (9.6, 38.4)]
        return judge_law(Evidence(Answer([cells[0].result], (), (), (), (), cells), 0.1))

    assert said(REPEATED).outcome == "reproduced"
    unsteady = {**REPEATED.curves, "write": curve({1: (30e6, 50e6, 80e6)})}
    assert said(replace(REPEATED, curves=unsteady)).outcome == "open"
    once = said(DISK)
    assert once.outcome == "open"
    assert "Of 2 cells a rate was measured once, and nobody knows how well." in once.evidence


def _took(seconds: float, place: Place) -> Expected:
    """A cell whose three replicates took about so long, after the start, and waited for storage."""
    numbers = [{"makespan_without_startup_s": seconds * share} for share in (0.99, 1.0, 1.01)]
    trials = [attempt(n, n, RESULT.cell, 1.0, numbers=one) for n, one in enumerate(numbers, 1)]
    model = model_of(replace(USE, makespan_s=21.0), place, place)
    return Expected(replace(RESULT, attempts=trials), model, "/d", "/d")


def test_a_page_says_how_far_the_rates_may_be_off() -> None:
    trials = [attempt(n, n, RESULT.cell, 30.0) for n in (1, 2, 3)]
    result = replace(RESULT, attempts=trials)
    one = Expected(result, model_of(USE, REPEATED, REPEATED), "/disk", "/disk")
    low, _ = _ends(READ)
    row = expected_sheet(Answer((), (), (), (), (), [one])).rows[0]
    assert row[3].startswith(f"1.56 x ({30 / (720e6 / low + 12):.3g} to ")
    chart = ratios_svg([one])
    assert chart.count('stroke-width="2"') == chart.count("<circle") == 2
    within = model_of(replace(USE, makespan_s=19.5), REPEATED, REPEATED)
    assert within.bound.ratio is not None
    assert within.bound.ratio < 1
    told = " ".join(sentences([replace(one, model=within)]))
    assert "took less than the bound" not in told, "as far as anybody knows"
    beyond = model_of(replace(USE, makespan_s=10.0), REPEATED, REPEATED)
    assert "took less than the bound" in " ".join(sentences([replace(one, model=beyond)]))


def test_a_ratio_is_as_sure_as_the_trials_and_the_rates_together() -> None:
    """Whichever varies: trials by 10 % in both directions, and rates by their repetitions."""
    trials = [attempt(n, n, RESULT.cell, 30.0 * by) for n, by in enumerate((0.9, 1.0, 1.1), 1)]
    model = model_of(USE, REPEATED, REPEATED)
    one = Expected(replace(RESULT, attempts=trials), model, "/disk", "/disk")
    by_rates = model.law.ratios
    both = one.ratios(model.law)
    by_trials = ratio_interval([27.0, 30.0, 33.0], [1.0] * 3)
    assert both
    assert by_rates
    for end in ("low", "high"):
        widths = [math.log(getattr(own, end) / own.mean) for own in (by_rates, by_trials, both)]
        assert math.hypot(*widths[:2]) == pytest.approx(abs(widths[2]), rel=1e-9)
    sure = replace(model.law, least_s=model.law.seconds, most_s=model.law.seconds)
    alone = one.ratios(sure)
    assert alone
    assert alone.high
    assert by_trials.high
    assert alone.high / alone.mean == pytest.approx(by_trials.high / by_trials.mean)
    once = replace(one, result=replace(RESULT, attempts=trials[:1]))
    assert once.ratios(model.law) == (by_rates.mean, None, None)
