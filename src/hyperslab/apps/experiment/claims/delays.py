"""Judges of what delays of a place cost, as they grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from hyperslab.apps.experiment.answers.comparison import MEASURE, CellResult, measured
from hyperslab.apps.experiment.claims.claim import (
    Contrast,
    Evidence,
    Judged,
    by_signs,
    each_told,
    signs_of_contrasts,
)
from hyperslab.apps.experiment.claims.dask_counted import LIKE
from hyperslab.apps.experiment.design.links import Slow
from hyperslab.apps.experiment.statistics.shown import show_mean
from hyperslab.network.lab.spec import NodeSpec


def faults_of(evidence: Evidence, place: str) -> list[str]:
    """Delays or losses that were tried of a place, as their levels say."""
    levels = map(str, evidence.levels("slow"))
    return [level.partition(" ")[2] for level in levels if Slow.parse(level).place == place]


def in_proportion(evidence: Evidence) -> Judged:
    """Look at whether what the scheduler's delays cost grows as they do, within a fifth."""
    steps = list(_steps(evidence, "scheduler"))
    bounds = [one.beyond(1 - LIKE) for one in steps] + [one.below(1 + LIKE) for one in steps]
    signs = signs_of_contrasts(bounds)
    both = zip(signs[: len(steps)], signs[len(steps) :], strict=True)
    return _judged_steps(steps, list(map(_within, both)))


def _within(both: tuple[bool | None, bool | None]) -> bool | None:
    """Whether a value lies within two bounds, by whether it keeps each."""
    if False in both:
        return False
    if None in both:
        return None
    return True


def more_than_in_proportion(evidence: Evidence) -> Judged:
    """Look at whether what a worker's delays cost grows more than they do."""
    steps = list(_steps(evidence, "worker"))
    return _judged_steps(steps, signs_of_contrasts([one.beyond(1.0) for one in steps]))


def _judged_steps(steps: Sequence[Step], signs: Sequence[bool | None]) -> Judged:
    if not steps:
        return Judged("not tested", ["Fewer than two delays have been run beside none."])
    told = each_told([one.beyond(1.0) for one in steps], signs)
    return by_signs(signs, told)


class Step(NamedTuple):
    """Two delays of which one is the next longer one that was tried."""

    told: str
    "Sentence with the numbers."
    factor: float
    "How many times longer it is."
    costs: Sequence[tuple[float, float]]
    "What the shorter and the longer one cost, over the time without, by replicate."
    can_tell: bool
    "Whether no trial was ended for its length."

    def beyond(self, times: float) -> Contrast:
        """Whether the longer one costs more than so many times what is in proportion."""
        more = [longer - times * self.factor * shorter for shorter, longer in self.costs]
        return Contrast(self.told, more, self.can_tell)

    def below(self, times: float) -> Contrast:
        """Whether it costs less than that."""
        own = self.beyond(times)
        return own._replace(differences=[-one for one in own.differences])


def _steps(evidence: Evidence, place: str) -> Iterator[Step]:
    """Neighbouring delays of a place, with what both cost."""
    bare = evidence.cell(slow="none")
    faults = sorted(faults_of(evidence, place), key=_delay_ns)
    for shorter, longer in pairwise(faults):
        cells = [bare, *(evidence.cell(slow=f"{place} {one}") for one in (shorter, longer))]
        known = [one for one in cells if one is not None]
        if len(known) == len(cells):
            yield from _step(known, f"{place} {longer}", _delay_ns(longer) / _delay_ns(shorter))


def _delay_ns(fault: str) -> float:
    return float(NodeSpec(delay=fault).up_link().delay_ns)


def _step(cells: Sequence[CellResult], name: str, factor: float) -> Iterator[Step]:
    by_block = [one.by_block(measured(MEASURE)) for one in cells]
    blocks = sorted(set.intersection(*(set(one) for one in by_block)))
    if not blocks:
        return
    times = [[one[block] for one in by_block] for block in blocks]
    costs = [((short - none) / none, (long - none) / none) for none, short, long in times]
    shares = [show_mean([both[place] for both in costs]) for place in (0, 1)]
    told = (
        f"{name} costs {shares[1]} of the time without a delay; the {factor:g} times shorter one"
        f" costs {shares[0]}."
    )
    yield Step(told, factor, costs, not any(one.too_long for one in cells))
