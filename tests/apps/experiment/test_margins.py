"""Margins of claims: what is shown, what is refuted, and how often by chance."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Collection

import pytest

from hyperslab.apps.experiment.answers.comparison import Verdict
from hyperslab.apps.experiment.claims.claim import Judged, expecting
from hyperslab.apps.experiment.claims.margins import signs_of
from tests.apps.experiment.specs import compared


def _judged(verdicts: Collection[Verdict], *ratios: float) -> Judged:
    return expecting(verdicts, [compared(ratios, [1.0] * len(ratios))])


@pytest.mark.parametrize(
    ("wanted", "ratios", "outcome", "words"),
    [
        ("faster", (0.92, 0.93, 0.94), "refuted", "faster, though by less than 10 %"),
        ("faster", (0.79, 0.8, 0.81), "reproduced", "faster by more than 10 %"),
        ("faster", (0.88, 0.9, 0.92), "open", "faster, and whether by more than 10 % is open"),
        ("faster", (1.19, 1.2, 1.21), "refuted", "slower"),
        ("faster", (0.99, 1.0, 1.01), "refuted", "equivalent within 10 % (90 % interval"),
        ("slower", (1.06, 1.07, 1.08), "refuted", "slower, though by less than 10 %"),
        ("slower", (1.19, 1.2, 1.21), "reproduced", "slower by more than 10 %"),
        ("slower", (0.85, 0.9, 0.95), "refuted", "not slower by more than 10 % (90 %"),
        ("slower", (0.5, 1.0, 2.0), "open", "too few replicates to tell"),
    ],
)
def test_an_effect_counts_beyond_the_margin(
    wanted: Verdict, ratios: tuple[float, ...], outcome: str, words: str
) -> None:
    found = _judged({wanted}, *ratios)
    assert (found.outcome, words in found.evidence[-1]) == (outcome, True), found.evidence


@pytest.mark.parametrize("wrong", [True, False])
def test_at_the_margin_a_claim_is_judged_by_chance_as_rarely_as_it_is_said(wrong: bool) -> None:
    """Of a true ratio that is the margin, `slower` is neither shown nor refuted."""
    draw = random.Random(18)
    known = compared([1.0, 1.1, 1.2], [1.0] * 3)
    signs = []
    for _ in range(1000):
        logarithms = [draw.gauss(math.log(1.1), 0.04) for _ in range(3)]
        one = dataclasses.replace(known, logarithms=logarithms)
        signs += signs_of([({"slower"}, one)])
    assert 0.03 < signs.count(wrong) / 1000 < 0.07
