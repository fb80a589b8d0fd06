"""Comparisons: each cell beside the one that differs from it in one factor alone, by replicate.

A cell and its reference are compared within each replicate, which ran in one block of trials, so
that what drifts over hours is the same for both; a block that went on on another machine has pairs
of each alone. Two settings are *equivalent* if two one-sided
tests on the logarithms of the ratios reject, at 5 % each (less of an answer that is not the first
one, see `significance`), that the ratio is as far from 1 as the
margin: which is so if the 90 % interval lies between 1 / (1 + margin) and 1 + margin (D. J.
Schuirmann, A comparison of the two one-sided tests procedure and the power approach for assessing
the equivalence of average bioavailability, 1987). They *differ* if the 95 % interval does not hold
1. Both may be so, of a difference that is there but too small to matter; and neither, where there
are too few replicates to tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from hyperslab.apps.experiment.design.cells import Cell, key_of, on_machines
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.statistics.intervals import Interval, mean_interval, ratio_interval
from hyperslab.apps.experiment.statistics.significance import (
    differs_p,
    equivalent_p,
    holm,
    is_told,
    needed,
)
from hyperslab.apps.experiment.trials.record import Attempt, Record

Verdict = Literal["slower", "faster", "equivalent", "open", "unknown"]
MEASURE = "makespan_s"
"Field of the summary that is compared."
WITHOUT_START = "makespan_without_startup_s"
"Field of the summary that leaves out the start of the engine."
LEAST_PAIRS = 2
"Pairs without which nothing is known of chance."
MOST_REPLICATES = 100
NOWHERE = -1
"Number of a machine that no session has told."
Block = tuple[int, int]
"""A replicate, and the number of the machine on which it ran: what was measured in one block is
compared, and nothing else.
"""
T = TypeVar("T")
Number = Callable[[Attempt], T | None]
"What is looked at of a trial; None of one that does not know it."


@dataclass(frozen=True, slots=True)
class CellResult:
    """What came of a cell."""

    cell: Cell
    attempts: Sequence[Attempt]
    "Attempts that stand for its trials, by replicate."
    makespan_s: Interval | None
    "Mean with its 95 % interval; None without a trial that was done."
    machines: Mapping[int, int] = field(default_factory=dict)
    "Number of the machine that each session found."

    @property
    def ended(self) -> list[Attempt]:
        """Attempts that came to their end, also those whose times tell nothing."""
        return [one for one in self.attempts if one.state == "done"]

    @property
    def done(self) -> list[Attempt]:
        """Attempts whose numbers count: none that had to share the processors or was rejected."""
        return [one for one in self.ended if not one.starved and not one.rejected]

    @property
    def rejected(self) -> list[Attempt]:
        """Attempts that were done and tell nothing, though they had the processors."""
        return [one for one in self.ended if one.rejected and not one.starved]

    @property
    def starved(self) -> list[Attempt]:
        """Attempts that had to share the processors."""
        return [one for one in self.attempts if one.starved]

    @property
    def failed(self) -> list[Attempt]:
        """Attempts that failed, though they had the processors."""
        return [one for one in self.attempts if one.state == "failed" and not one.starved]

    @property
    def too_long(self) -> list[Attempt]:
        """Attempts that were ended for their length, though they had the processors: those that
        were done are the shorter ones.
        """
        return [one for one in self.attempts if one.state == "too long" and not one.starved]

    def by_replicate(self, measure: str = MEASURE) -> dict[int, float]:
        """A number, by default the makespan, of the trials that were done."""
        found = {attempt.replicate: attempt.numbers.get(measure) for attempt in self.done}
        return {replicate: value for replicate, value in found.items() if value}

    def block_of(self, attempt: Attempt) -> Block:
        """The block of a trial."""
        return attempt.replicate, self.machines.get(attempt.session, NOWHERE)

    def by_block(self, number: Number[T]) -> dict[Block, T]:
        """A number of the trials that were done and know it."""
        told = {self.block_of(attempt): number(attempt) for attempt in self.done}
        return {block: value for block, value in told.items() if value is not None}

    def mean(self, name: str) -> float:
        """Mean of a number of the summaries over the trials that were done and know it; 0 without
        any.
        """
        known = [attempt.numbers.get(name) for attempt in self.done]
        values = [value for value in known if value is not None]
        if not values:
            return 0.0
        return sum(values) / len(values)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A cell beside another one that differs in one factor."""

    factor: str
    cell: Cell
    reference: Cell
    pairs: int
    "Replicates in which both were done."
    ratio: Interval | None
    "Makespan of the cell / that of the reference, with the 95 % interval; None without pairs."
    inner: Interval | None
    "The same with the 90 % interval, by which equivalence is tested."
    verdict: Verdict
    needed: int | None
    """Replicates after which an open one of comparisons that are made together may be told; None
    where that cannot be said.
    """
    measure: str = MEASURE
    "Field of the summary that is compared."
    margin: float = 0.0
    "Ratios within this margin of 1 count as equivalent."
    differs_p: float | None = None
    "Probability of such a difference by chance."
    equivalent_p: float | None = None
    "Probability of so small a difference by chance, were the true one as great as the margin."
    logarithms: Sequence[float] = ()
    "Logarithms of the ratios, one for each pair."
    tried: int = 0
    "Replicates in which one of both was tried."
    starved: int = 0
    "Trials of both that are left out, as they had to share the processors."
    is_cut: bool = False
    """Whether trials of the cell were ended for their length, so that it may take longer than the
    ratio says.
    """
    is_reference_cut: bool = False
    "Whether trials of the reference were."

    @property
    def level(self) -> Level:
        return self.cell.levels[self.factor]

    @property
    def reference_level(self) -> Level:
        return self.reference.levels[self.factor]

    @property
    def is_scarce(self) -> bool:
        """Whether it is open as so many trials had to share the processors."""
        return self.starved > 0 and self.pairs < LEAST_PAIRS

    @property
    def cut(self) -> list[str]:
        """Levels of which trials were ended for their length."""
        found = []
        if self.is_cut:
            found.append(self.cell.shown(self.factor))
        if self.is_reference_cut:
            found.append(self.reference.shown(self.factor))
        return found

    @property
    def may_be_told(self) -> bool:
        """Whether the side of 1 on which the ratio lies can be told: trials that were ended for
        their length lie further on that side, or there are none.
        """
        if self.ratio is None:
            return False
        is_unsure = self.is_cut if self.ratio.mean <= 1 else self.is_reference_cut
        return not is_unsure


def measured(name: str) -> Number[float]:
    """A number of the summaries that tells nothing where it is 0, as times and rates."""
    return lambda attempt: attempt.numbers.get(name) or None


def paired(here: CellResult, there: CellResult, number: Number[T]) -> dict[Block, tuple[T, T]]:
    """A number of two cells, pair by pair, of all blocks in which both know it."""
    own = here.by_block(number)
    other = there.by_block(number)
    return {block: (own[block], other[block]) for block in sorted(own.keys() & other.keys())}


def results_of(cells: Sequence[Cell], record: Record) -> list[CellResult]:
    """What came of every cell."""
    machines = record.machines()
    return [_result(cell, record, machines) for cell in cells]


def _result(cell: Cell, record: Record, machines: Mapping[int, int]) -> CellResult:
    attempts = record.of_cell(cell)
    if found := record.processors(attempts):
        cell = on_machines(cell, found)
    result = CellResult(cell, attempts, None, machines)
    values = list(result.by_replicate().values())
    if not values:
        return result
    return replace(result, makespan_s=mean_interval(values))


def comparisons_of(
    results: Sequence[CellResult],
    baseline: Mapping[str, Level],
    margin: float,
    measure: str = MEASURE,
) -> list[Comparison]:
    """Every cell beside those at the baseline's level of one factor and else the same."""
    by_key = {result.cell.key: result for result in results}
    found = []
    for result in results:
        for factor in result.cell.changed:
            levels = {**result.cell.levels, factor: baseline[factor]}
            reference = by_key.get(key_of(levels))
            if reference is not None:
                found.append(compare(factor, result, reference, margin, measure))
    return found


def compare(
    factor: str,
    result: CellResult,
    reference: CellResult,
    margin: float,
    measure: str = MEASURE,
) -> Comparison:
    """Two cells by a number of their replicates."""
    both = list(paired(result, reference, measured(measure)).values())
    bare = Comparison(
        factor,
        result.cell,
        reference.cell,
        len(both),
        ratio=None,
        inner=None,
        verdict="unknown",
        needed=None,
        measure=measure,
        margin=margin,
        tried=max(len(result.attempts), len(reference.attempts)),
        starved=len(result.starved) + len(reference.starved),
        is_cut=bool(result.too_long),
        is_reference_cut=bool(reference.too_long),
    )
    if not both:
        return replace(bare, verdict=_verdict(bare))
    values = [value for value, _ in both]
    references = [other for _, other in both]
    wide = ratio_interval(values, references, 0.95)
    inner = ratio_interval(values, references, 0.9)
    logarithms = [math.log(value / other) for value, other in both]
    known = replace(bare, ratio=wide, inner=inner, logarithms=logarithms)
    found = replace(
        known,
        differs_p=as_far_as(known.may_be_told, differs_p(logarithms)),
        equivalent_p=as_far_as(not known.cut, equivalent_p(logarithms, math.log(1 + margin))),
    )
    return replace(found, verdict=_verdict(found))


def as_far_as(can_tell: bool, p: float | None) -> float | None:
    """The probability of a test, or 1 where trials that were ended for their length may say
    otherwise; None where there are too few pairs.
    """
    if p is None or can_tell:
        return p
    return 1.0


def jointly(found: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons that are made together, with verdicts that allow for their number, and with the
    replicates after which those may be told that are open.
    """
    differing = holm([one.differs_p for one in found])
    alike = holm([one.equivalent_p for one in found])
    adjusted = [
        replace(one, differs_p=differs, equivalent_p=equivalent)
        for one, differs, equivalent in zip(found, differing, alike, strict=True)
    ]
    verdicts = [_verdict(one) for one in adjusted]
    return [
        replace(one, verdict=verdict, needed=_needed(one, verdict, len(found)))
        for one, verdict in zip(found, verdicts, strict=True)
    ]


def _needed(one: Comparison, verdict: Verdict, comparisons: int) -> int | None:
    """Replicates after which one of so many comparisons may be told; those that make no pair are
    counted, too.
    """
    if verdict != "open" or one.pairs < LEAST_PAIRS or one.cut:
        return None
    pairs = needed(one.logarithms, math.log(1 + one.margin), comparisons, MOST_REPLICATES)
    if pairs is None:
        return None
    return pairs + max(0, one.tried - one.pairs)


def _verdict(one: Comparison) -> Verdict:
    if one.ratio is None or one.differs_p is None:
        return "open" if one.starved else "unknown"
    if is_told(one.equivalent_p):
        return "equivalent"
    if is_told(one.differs_p):
        return "slower" if one.ratio.mean > 1 else "faster"
    return "open"
