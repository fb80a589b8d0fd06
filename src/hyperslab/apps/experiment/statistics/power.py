"""Power: how often a design tells what is there, by noncentral distributions.

The mean of n paired differences over its error has the noncentral t distribution with n - 1
degrees of freedom, which is that of (Z + shift) / U for a normal Z and U = sqrt(chi2 / freedom).
So given U, the probability that a test rejects is one of the normal distribution, and the power is
its mean over U, by Simpson's rule (D. B. Owen, A special case of a bivariate non-central
t-distribution, Biometrika 52, 1965, has the same integrals).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

STEPS = 400
"Intervals of Simpson's rule, an even number."
FAR = 9.0
"Deviations beyond which nothing of a normal distribution counts."
BISECTIONS = 50
_normal = NormalDist()


def power_of_difference(shift: float, t: float, freedom: int) -> float:
    """Probability that a mean that lies `shift` errors above 0 is told to differ, where Student's t
    has to be greater than `t`.
    """

    def told(u: float) -> float:
        return _normal.cdf(shift - t * u)

    return _mean_over_u(told, freedom, (shift + FAR) / t)


def power_of_equivalence(margin: float, t: float, freedom: int) -> float:
    """Probability that a mean of 0 is told to lie within a margin of so many errors, where both
    one-sided t have to be greater than `t`.
    """

    def told(u: float) -> float:
        return 2 * _normal.cdf(margin - t * u) - 1

    return _mean_over_u(told, freedom, margin / t)


def least(power: Callable[[float], float], wanted: float, most: float) -> float:
    """The least argument, from 0 to `most`, at which a power that grows with it is as wanted."""
    low = 0.0
    high = most
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if power(middle) < wanted:
            low = middle
        else:
            high = middle
    return high


def _mean_over_u(told: Callable[[float], float], freedom: int, end: float) -> float:
    """Mean of a function of U from 0 up to an end, beyond which it is 0."""
    end = min(end, 1 + FAR / math.sqrt(2 * freedom))
    step = end / STEPS
    total = 0.0
    for k in range(STEPS + 1):
        u = k * step
        total += _weight(k) * told(u) * _density(u, freedom)
    return total * step / 3


def _weight(k: int) -> int:
    """Weight of a point in Simpson's rule."""
    if k in (0, STEPS):
        return 1
    return 4 if k % 2 else 2


def _density(u: float, freedom: int) -> float:
    """Density of sqrt(chi2 / freedom)."""
    if u <= 0:
        return math.sqrt(2 / math.pi) if freedom == 1 else 0.0
    half = freedom / 2
    logarithm = half * math.log(half) - math.lgamma(half)
    logarithm += (freedom - 1) * math.log(u) - half * u * u
    return 2 * math.exp(logarithm)
