"""Oddities: a drift over the order of trials, and trials unlike the others of their cell.

Both are looked for in the logarithms of makespans less the mean of their cell. A drift is the
common slope over the places of trials in their order, tested by Student's t (analysis of
covariance). A trial is an outlier by its externally studentized residual, at 5 % among all trials
(R. D. Cook, S. Weisberg, Residuals and Influence in Regression, 1982, section 2.2.2). Nothing is
left out for it: what machines do now and then belongs to what they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from hyperslab.apps.experiment.comparison import MEASURE, CellResult
from hyperslab.apps.experiment.intervals import two_sided
from hyperslab.apps.experiment.significance import LEVEL
from hyperslab.units import show_count, show_seconds, show_share

NOTHING = 1e-12
"Sum of squares below which trials do not vary."
PAIR = 0.5
"Share of the variance in the deviations of two trials, of which none is the odd one."


class Deviation(NamedTuple):
    """How a trial differs from its cell."""

    cell: str
    number: int
    makespan_s: float
    mean_s: float
    "Geometric mean of its cell."
    place: float
    "Place among all trials, less the mean of its cell."
    logarithm: float
    "Logarithm of its makespan, less the mean of its cell."
    share: float
    "Part of the variance of one trial that is left in the deviation: 1 - 1/n of n trials."


def sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """A drift and outliers among the trials that count, where there are any."""
    found = [one for result in results for one in _deviations(result)]
    freedom = len(found) - len({one.cell for one in found}) - 1
    if freedom < 1 or sum(one.logarithm**2 for one in found) < NOTHING:
        return
    yield from _drift(found, freedom)
    yield from _outliers(found, freedom)


def _deviations(result: CellResult) -> Iterator[Deviation]:
    """How the trials of a cell differ from it, where there are two or more."""
    known = [(one, seconds) for one in result.done if (seconds := one.numbers.get(MEASURE))]
    if len(known) < 2:
        return
    mean = fmean(math.log(seconds) for _, seconds in known)
    place = fmean(one.number for one, _ in known)
    for one, seconds in known:
        yield Deviation(
            cell=result.cell.name,
            number=one.number,
            makespan_s=seconds,
            mean_s=math.exp(mean),
            place=one.number - place,
            logarithm=math.log(seconds) - mean,
            share=1 - 1 / len(known),
        )


def _drift(found: Sequence[Deviation], freedom: int) -> Iterator[str]:
    places = sum(one.place**2 for one in found)
    if not places:
        return
    slope = sum(one.place * one.logarithm for one in found) / places
    left = sum((one.logarithm - slope * one.place) ** 2 for one in found)
    t = math.inf
    if left:
        t = slope / math.sqrt(left / freedom / places)
    chance = 1 - two_sided(abs(t), freedom)
    if chance > LEVEL:
        return
    numbers = [one.number for one in found]
    change = math.exp(slope * (max(numbers) - min(numbers))) - 1
    longer = "longer" if change > 0 else "shorter"
    yield (
        f"Makespans drift: from the first trial to the last they get {show_share(abs(change))}"
        f" {longer} (by chance: {chance:.2g}). What all trials of a replicate share is in no"
        " comparison, but it is in the intervals of makespans."
    )


def _outliers(found: Sequence[Deviation], freedom: int) -> Iterator[str]:
    squares = sum(one.logarithm**2 for one in found)
    several = [one for one in found if one.share > PAIR]
    odd = [one for one in several if _chance(one, squares, freedom) * len(several) <= LEVEL]
    if not odd:
        return
    most = max(odd, key=lambda one: abs(one.logarithm))
    yield (
        f"{show_count(len(odd), 'trial')} took much longer or shorter than the others of the same"
        f" cell, such as trial {most.number} ({most.cell}: {show_seconds(most.makespan_s)}, where"
        f" the mean is {show_seconds(most.mean_s)}); none is left out for it."
    )


def _chance(one: Deviation, squares: float, freedom: int) -> float:
    """Probability that a trial is as far from its cell by chance, by how the others vary."""
    own = one.logarithm**2 / one.share
    left = squares - own
    if left < NOTHING:
        return 0.0 if own > NOTHING else 1.0
    return 1 - two_sided(math.sqrt(own / (left / freedom)), freedom)
