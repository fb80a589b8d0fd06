"""Law: how far equation 1 is off, which takes the rates of one stream.

Makespans vary from replicate to replicate, and the rates of the probe from repetition to
repetition; the rates are the same for all replicates, and for cells on one tier. So a cell is off
where its replicates say so even if all rates were at the end of their intervals that speaks least
for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import NamedTuple

from hyperslab.apps.experiment.answers.comparison import WITHOUT_START, CellResult
from hyperslab.apps.experiment.answers.expectation import Expected
from hyperslab.apps.experiment.claims.claim import Evidence, Judged, by_signs
from hyperslab.apps.experiment.statistics.intervals import Interval
from hyperslab.apps.experiment.statistics.significance import beyond_p, equivalent_p, holm, is_told
from hyperslab.units import show_count

FAR = 1.25
"Ratio of a makespan to what is expected from which on that is off."


class Off(NamedTuple):
    """A cell beside what equation 1 expects of it."""

    result: CellResult
    measured_s: Sequence[float]
    "Makespans without the start of the engine, by replicate."
    expected_s: Interval
    "What is expected, with the bounds that the rates set; without them where nobody knows these."
    waits_for_storage: bool = True
    "Whether storage is busy for most of the time, of which alone the equation is."

    @property
    def ratio(self) -> float:
        return geometric_mean(self.measured_s) / self.expected_s.mean

    def beyond_p(self) -> float | None:
        """Probability of times so far beyond a factor of what is expected by chance; None where
        nobody knows.
        """
        expected_s = self.expected_s.high if self.ratio > 1 else self.expected_s.low
        if expected_s is None:
            return None
        logarithms = self._logarithms(expected_s)
        if sum(logarithms) * math.log(self.ratio) <= 0:  # what is expected may be what was measured
            return 1.0
        return beyond_p(logarithms, math.log(FAR))

    def alike_p(self) -> float | None:
        """Probability of times so near to what is expected by chance, if they were off by a factor;
        None where nobody knows.
        """
        found = [
            equivalent_p(self._logarithms(end_s), math.log(FAR))
            for end_s in self.expected_s[1:]
            if end_s is not None
        ]
        known = [p for p in found if p is not None]
        return max(known, default=None)

    def _logarithms(self, expected_s: float) -> list[float]:
        return [math.log(seconds / expected_s) for seconds in self.measured_s]


class Far(NamedTuple):
    """Numbers of cells that are far off by more than chance among so many."""

    less: int
    "Number of those that took less than 1 / FAR of what is expected."
    more: int
    "Number of those that took more than FAR times as long, and waited for storage."
    more_for_others: int
    "Number of those that took as much longer, and waited for something else for much of it."


def judge_law(evidence: Evidence) -> Judged:
    """Look for cells beyond a factor of what the equation expects, that are so by more than chance
    among so many cells. Where starts of processes and computing take longer than storage, a longer
    time says nothing of it.
    """
    cells = [off for one in evidence.answer.expected if (off := _off(one)) is not None]
    if not cells:
        return Judged("not tested", ["No cell has all figures that equation 1 needs."])
    less, more, more_for_others = far_off(cells)
    told = [*_by_engine(cells), *_unsure(evidence, cells)]
    told.append(
        "By more than chance, and with rates as far off as the probe's repetitions allow,"
        f" {less} of {show_count(len(cells), 'cell')} took less than 1 / {FAR:g} of it. Of those"
        f" that wait for storage {more} took more than {FAR:g} times as long, of the others"
        f" {more_for_others}, for what slots, processors and engines do, starts of processes"
        " included, of which the equation says nothing."
    )
    alike = holm([one.alike_p() for one in cells])
    is_refuted = all(map(is_told, alike))
    signs = [_sign(count, is_refuted) for count in (less, more)]
    return by_signs(signs, told, "direction")


def _sign(cells_off: int, is_refuted: bool) -> bool | None:
    """Whether cells are off in a direction; None where that is open."""
    if cells_off:
        return True
    return False if is_refuted else None


def far_off(cells: Sequence[Off]) -> Far:
    """Look which cells are far off by more than chance among so many."""
    by_chance = holm([one.beyond_p() for one in cells])
    apart = [one for one, p in zip(cells, by_chance, strict=True) if is_told(p)]
    longer = [one for one in apart if one.ratio > 1]
    waiting = sum(one.waits_for_storage for one in longer)
    return Far(len(apart) - len(longer), waiting, len(longer) - waiting)


def _off(one: Expected) -> Off | None:
    law = one.model.law
    measured = one.result.by_replicate(WITHOUT_START)
    if not law.seconds or not measured:
        return None
    expected_s = Interval(law.seconds, law.least_s, law.most_s)
    return Off(one.result, list(measured.values()), expected_s, one.waits_for_storage)


def _by_engine(cells: Sequence[Off]) -> Iterator[str]:
    """How far makespans of each engine are off."""
    for engine in dict.fromkeys(one.result.cell.shown("engine") for one in cells):
        own = [one for one in cells if one.result.cell.shown("engine") == engine]
        least = min(own, key=lambda one: one.ratio)
        most = max(own, key=lambda one: one.ratio)
        yield (
            f"{engine}, without its start: {least.ratio:.2f} ({least.result.cell.name}) to"
            f" {most.ratio:.2f} times ({most.result.cell.name}) what equation 1 expects, in"
            f" {len(own)} cells."
        )


def _unsure(evidence: Evidence, cells: Sequence[Off]) -> Iterator[str]:
    """Cells of which equation 1 says nothing, or nobody knows how far off."""
    if missing := len(evidence.answer.expected) - len(cells):
        yield f"Of {show_count(missing, 'cell')} it lacks a figure."
    once = sum(one.expected_s.low is None for one in cells)
    if once:
        yield f"Of {show_count(once, 'cell')} a rate was measured once, and nobody knows how well."
