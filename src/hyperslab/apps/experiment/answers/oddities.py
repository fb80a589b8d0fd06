"""Oddities: a drift over the order of trials, and trials unlike the others of their cell.

Both are looked for in the logarithms of makespans less the mean of their cell. Trials run in
blocks, a replicate each, and share what slows a replicate down, so that only replicates are
independent: a drift is the slope of their means over the order in which they began, tested by
Student's t. A trial is an outlier by its externally studentized residual among those of its own
cell, as cells vary by very different shares, at 5 % among all trials (R. D. Cook, S. Weisberg,
Residuals and Influence in Regression, 1982, section 2.2.2). Of fewer than five replicates nothing
is said. Nothing is left out for it: what machines do now and then belongs to what they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from hyperslab.apps.experiment.answers.comparison import MEASURE, CellResult
from hyperslab.apps.experiment.statistics.intervals import two_sided
from hyperslab.apps.experiment.statistics.regression import line_of
from hyperslab.apps.experiment.statistics.significance import LEVEL
from hyperslab.units import show_count, show_seconds, show_share

NOTHING = 1e-12
"Sum of squares below which trials do not vary."
LEAST_REPLICATES = 5
"Replicates below which neither a drift nor an outlier is told."


class Deviation(NamedTuple):
    """How a trial differs from its cell."""

    cell: str
    number: int
    replicate: int
    began_s: float
    makespan_s: float
    mean_s: float
    "Geometric mean of its cell."
    logarithm: float
    "Logarithm of its makespan, less the mean of its cell."


def sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """A drift and outliers among the trials that count, where there are any."""
    cells = [list(_deviations(result)) for result in results]
    yield from _drift([one for cell in cells for one in cell])
    yield from _outliers(cells)


def _deviations(result: CellResult) -> Iterator[Deviation]:
    """How the trials of a cell differ from it, where there are two or more."""
    known = [(one, seconds) for one in result.done if (seconds := one.numbers.get(MEASURE))]
    if len(known) < 2:
        return
    mean = fmean(math.log(seconds) for _, seconds in known)
    for one, seconds in known:
        yield Deviation(
            cell=result.cell.name,
            number=one.number,
            replicate=one.replicate,
            began_s=one.began_s,
            makespan_s=seconds,
            mean_s=math.exp(mean),
            logarithm=math.log(seconds) - mean,
        )


def _drift(found: Sequence[Deviation]) -> Iterator[str]:
    means = _means_in_order(found)
    freedom = len(means) - 2
    line = line_of(list(enumerate(means)))
    if len(means) < LEAST_REPLICATES or line is None:
        return
    if sum(one**2 for one in means) < NOTHING:
        return
    left = sum((one - line.start - line.slope * place) ** 2 for place, one in enumerate(means))
    places = sum((place - fmean(range(len(means)))) ** 2 for place in range(len(means)))
    t = math.inf
    if left:
        t = line.slope / math.sqrt(left / freedom / places)
    chance = 1 - two_sided(abs(t), freedom)
    if chance > LEVEL:
        return
    change = math.exp(line.slope * (len(means) - 1)) - 1
    longer = "longer" if change > 0 else "shorter"
    yield (
        f"Makespans drift: from the first replicate to the last they get"
        f" {show_share(abs(change))} {longer} (by chance: {chance:.2g}). What all trials of a"
        " replicate share is in no comparison, but it is in the intervals of makespans."
    )


def _means_in_order(found: Sequence[Deviation]) -> list[float]:
    """Mean deviation of every replicate, in the order in which they began."""
    groups: dict[int, list[Deviation]] = {}
    for one in found:
        groups.setdefault(one.replicate, []).append(one)
    in_order = sorted(groups.values(), key=_place)
    return [fmean(one.logarithm for one in own) for own in in_order]


def _place(own: Sequence[Deviation]) -> tuple[float, float]:
    """When the trials of a replicate began in the mean, and which they are."""
    return fmean(one.began_s for one in own), fmean(one.number for one in own)


def _outliers(cells: Sequence[Sequence[Deviation]]) -> Iterator[str]:
    several = [cell for cell in cells if len(cell) >= LEAST_REPLICATES]
    trials = sum(map(len, several))
    odd = [one for cell in several for one in cell if _chance(one, cell) * trials <= LEVEL]
    if not odd:
        return
    most = max(odd, key=lambda one: abs(one.logarithm))
    yield (
        f"{show_count(len(odd), 'trial')} took much longer or shorter than the others of the same"
        f" cell, such as trial {most.number} ({most.cell}: {show_seconds(most.makespan_s)}, where"
        f" the mean is {show_seconds(most.mean_s)}); none is left out for it."
    )


def _chance(one: Deviation, cell: Sequence[Deviation]) -> float:
    """Probability that a trial is as far from its cell by chance, by how the others of it vary."""
    own = one.logarithm**2 / (1 - 1 / len(cell))
    left = sum(other.logarithm**2 for other in cell) - own
    if left < NOTHING:
        return 0.0 if own > NOTHING else 1.0
    freedom = len(cell) - 2
    return 1 - two_sided(math.sqrt(own / (left / freedom)), freedom)
