"""Claim: what a paper states, and how experiments judge it: by comparisons that are expected to
come out one way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from hyperslab.apps.experiment.answer import Answer, show_interval
from hyperslab.apps.experiment.comparison import (
    MEASURE,
    WITHOUT_START,
    CellResult,
    Comparison,
    Verdict,
    compare,
)
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.intervals import Interval, ratio_interval
from hyperslab.units import show_list

Outcome = Literal["reproduced", "in part", "refuted", "open", "not tested"]
UNTOLD = frozenset(("open", "unknown"))
"Verdicts on comparisons that say nothing yet."


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a claim."""

    outcome: Outcome
    evidence: Sequence[str]
    "Sentences with the numbers, or why there are none."


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """An experiment by which claims are judged."""

    answer: Answer
    margin: float
    "Ratios within this margin of 1 count as equivalent."

    @property
    def baseline(self) -> Mapping[str, Level]:
        return self.answer.results[0].cell.levels

    def levels(self, factor: str) -> list[Level]:
        """Levels of a factor, that of the baseline first."""
        found = [result.cell.levels[factor] for result in self.answer.results]
        return list(dict.fromkeys(found))

    def cell(self, **levels: Level) -> CellResult | None:
        """The cell at these levels, else at the baseline's."""
        wanted = {**self.baseline, **levels}
        for result in self.answer.results:
            if dict(result.cell.levels) == wanted:
                return result
        return None

    def beside(
        self,
        factor: str,
        level: Level,
        reference: Level,
        measure: str = MEASURE,
        **others: Level,
    ) -> Iterator[Comparison]:
        """A level of a factor beside another one, all else alike, by a number of the summaries;
        nothing where one of both was not run.
        """
        here = self.cell(**{**others, factor: level})
        there = self.cell(**{**others, factor: reference})
        if here is None or there is None or level == reference:
            return
        found = compare(factor, here, there, self.margin, measure)
        if found.ratio is not None:
            yield found


Judge = Callable[[Evidence], Judged]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper states."""

    text: str
    "The claim in a sentence."
    spec: str
    "Name of the spec whose experiment judges it; '': none does."
    judge: Judge


def untestable(why: str) -> Judge:
    """Judge nothing, and say why."""
    return lambda _: Judged("not tested", [why])


def expecting(verdicts: Collection[Verdict], found: Sequence[Comparison]) -> Judged:
    """Judge by comparisons, each of which should have one of these verdicts."""
    if not found:
        return Judged("not tested", ["None of the cells that tell has been run."])
    evidence = [sentence(one) for one in found]
    told = [one for one in found if one.verdict not in UNTOLD]
    return Judged(_outcome([one.verdict in verdicts for one in told]), evidence)


def _outcome(as_claimed: Sequence[bool]) -> Outcome:
    if not as_claimed:
        return "open"
    if all(as_claimed):
        return "reproduced"
    if any(as_claimed):
        return "in part"
    return "refuted"


def sentence(one: Comparison) -> str:
    """A comparison in words."""
    assert one.ratio is not None
    cell = one.cell
    others = [name for name in cell.changed if name != one.factor]
    where = show_list([f"{name} {cell.shown(name)}" for name in others])
    if where:
        where = f" ({where})"
    head = ""
    if one.measure == WITHOUT_START:
        head = "Without the start of engines, "
    return (
        f"{head}{one.factor} {cell.shown(one.factor)} takes {show_interval(one.ratio)} as long as"
        f" {one.reference.shown(one.factor)}{where}: {_words(one.verdict)}."
    )


def _words(verdict: Verdict) -> str:
    words = {
        "open": "too few replicates to tell",
        "unknown": "one replicate alone, which tells nothing",
    }
    return words.get(verdict, verdict)


def judged_ratio(ratio: Interval, told: str) -> Judged:
    """Judge that a ratio is greater than 1, by its 95 % interval."""
    if ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
        return Judged("open", [told])
    return Judged("reproduced" if ratio.low > 1 else "refuted", [told])


Values = tuple[str, Mapping[int, float]]
"A level, and a number of its trials by their replicates."


def rising(what: str, first: Values | None, last: Values | None) -> Judged:
    """Judge that a number is greater at the last level than at the first, pair by pair."""
    if first is None or last is None:
        return Judged("not tested", ["None of the cells that tell has been run."])
    both = sorted(first[1].keys() & last[1].keys())
    pairs = [(last[1][one], first[1][one]) for one in both]
    known = [(late, early) for late, early in pairs if late > 0 and early > 0]
    if not known:
        return Judged("not tested", ["No replicate has both cells that tell."])
    ratio = ratio_interval([late for late, _ in known], [early for _, early in known])
    means = [f"{fmean(values.values()):.3g} on {name}" for name, values in (first, last)]
    told = f"{what}: {show_list(means)}, which is {show_interval(ratio)} as much."
    return judged_ratio(ratio, told)
