"""Significance: how probable paired differences are by chance, alone and among others.

Of several tests of one claim some reject by chance. Holm's step-down keeps the probability that any
of them does so below the level (S. Holm, A simple sequentially rejective multiple test procedure,
1979). Equivalence is tested by two one-sided tests, of which the weaker one counts (D. J.
Schuirmann, 1987). That settings are not equivalent is a test of its own, too: a mean that is not 0
may well be within the margin.

Who adds replicates until a test tells something finds something. So every answer that was given
before spends of the level: the first one has all of it, each further one half as much as the one
before, so that all of them together have less than twice the level, however many there are; as all
of them look at the same first replicates, they tell something by chance hardly more often than one
(a test simulates it).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from statistics import fmean, stdev

from hyperslab.apps.experiment.statistics.intervals import quantile, two_sided
from hyperslab.apps.experiment.statistics.power import (
    least,
    power_of_difference,
    power_of_equivalence,
)

LEVEL = 0.05
"Probability by chance up to which a test of a first answer tells something."
POWER = 0.8
"Share of experiments that tell what a design is said to tell."
MOST_TIMES = 10.0
"Times Student's t above which the shift that has such a power never lies."
_looks: ContextVar[int] = ContextVar("looks", default=1)


@contextmanager
def spending(looks: int) -> Iterator[None]:
    """A block in which tests are of the last of so many answers."""
    token = _looks.set(max(1, looks))
    try:
        yield
    finally:
        _looks.reset(token)


def level(further: int = 0) -> float:
    """Probability by chance up to which a test tells something now, or after further answers."""
    return LEVEL / 2.0 ** (_looks.get() - 1 + further)


def differs_p(differences: Sequence[float]) -> float | None:
    """Probability that a mean so far from 0 comes by chance; None for fewer than two values."""
    if len(differences) < 2:
        return None
    return 1 - two_sided(abs(_t(differences, 0.0)), len(differences) - 1)


def equivalent_p(differences: Sequence[float], margin: float) -> float | None:
    """Probability that a mean so near to 0 comes by chance where the true one is as far from it as
    a margin; None for fewer than two values.
    """
    if len(differences) < 2:
        return None
    above = _above(differences, -margin)
    below = _above(_negative(differences), -margin)
    return max(above, below)


def beyond_p(differences: Sequence[float], margin: float) -> float | None:
    """Probability that a mean so far from 0, on either side, comes by chance where the true one is
    as far from it as a margin; None for fewer than two values.
    """
    if len(differences) < 2:
        return None
    if fmean(differences) < 0:
        differences = _negative(differences)
    return min(1.0, _above(differences, margin) + _above(differences, -margin))


def above_p(differences: Sequence[float], bound: float) -> float | None:
    """Probability that a mean so far above a bound comes by chance where the true one is at it;
    None for fewer than two values.
    """
    if len(differences) < 2:
        return None
    return _above(differences, bound)


def below_p(differences: Sequence[float], bound: float) -> float | None:
    """Probability that a mean so far below a bound comes by chance where the true one is at it;
    None for fewer than two values.
    """
    return above_p(_negative(differences), -bound)


def _above(differences: Sequence[float], bound: float) -> float:
    return _one_sided(_t(differences, bound), len(differences) - 1)


def _negative(differences: Sequence[float]) -> list[float]:
    return [-one for one in differences]


def _t(values: Sequence[float], centre: float) -> float:
    """Student's t of the mean of values, from a centre on."""
    distance = fmean(values) - centre
    error = stdev(values) / math.sqrt(len(values))
    if error:
        return distance / error
    if distance:
        return math.copysign(math.inf, distance)
    return 0.0


def _one_sided(t: float, freedom: int) -> float:
    """Probability that Student's t is greater than this one."""
    tail = (1 - two_sided(abs(t), freedom)) / 2
    if t < 0:
        return 1 - tail
    return tail


def holm(probabilities: Sequence[float | None]) -> list[float | None]:
    """Probabilities of tests that are made together, each as if it were the only one; None where
    there was none.
    """
    known = [(p, place) for place, p in enumerate(probabilities) if p is not None]
    adjusted: list[float | None] = [None] * len(probabilities)
    least = 0.0
    for rank, (p, place) in enumerate(sorted(known)):
        least = max(least, min(1.0, p * (len(known) - rank)))
        adjusted[place] = least
    return adjusted


def is_told(p: float | None) -> bool:
    """Whether a test of this probability tells something."""
    return p is not None and p <= level()


def needed(differences: Sequence[float], margin: float, tests: int, most: int) -> int | None:
    """Least number of values, more than there are, at which a difference or an equivalence is told
    by the next answer as the first of so many tests, if mean and deviation stay as they are; None
    where more than `most` are needed.
    """
    mean = abs(fmean(differences))
    spread = stdev(differences)
    if not spread:
        return None
    allowed = level(further=1) / tests
    for n in range(len(differences) + 1, most + 1):
        error = spread / math.sqrt(n)
        differs = 2 * _one_sided(mean / error, n - 1)
        alike = _one_sided((margin - mean) / error, n - 1)
        if min(differs, alike) <= allowed:
            return n
    return None


def told_from(spread: float, replicates: int, tests: int) -> float:
    """Least ratio, above 1, that a first answer tells in POWER of all experiments: of two settings
    whose makespans vary by a share between two replicates or more, as the first of so many tests.

    By Holm's first step each of m tests has the level a / m. The logarithms of ratios of n pairs
    have the deviation s sqrt(2), and their mean over its error the noncentral t distribution.
    """
    freedom = replicates - 1
    t = quantile(1 - level() / tests, freedom)
    shift = least(lambda one: power_of_difference(one, t, freedom), POWER, MOST_TIMES * t)
    return math.exp(shift * _deviation(spread) * math.sqrt(2 / replicates))


def alike_up_to(margin: float, replicates: int, tests: int) -> float:
    """Greatest spread, a share, at which settings that take as long as each other are told to be
    equivalent within a margin, as above: both one-sided tests reject in POWER of all experiments.
    """
    freedom = replicates - 1
    t = _quantile(1 - level() / tests, freedom)
    errors = least(lambda one: power_of_equivalence(one, t, freedom), POWER, MOST_TIMES * t)
    return math.exp(math.log(1 + margin) / errors / math.sqrt(2 / replicates)) - 1


def _deviation(spread: float) -> float:
    """Standard deviation of logarithms of values that vary by a share."""
    return math.log(1 + spread)


def _quantile(probability: float, freedom: int) -> float:
    """The t below which Student's t lies with a probability, above a half."""
    return quantile(2 * probability - 1, freedom)
