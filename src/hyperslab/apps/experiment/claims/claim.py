"""Claim: what a paper states, and how experiments judge it: by comparisons that are expected to
come out one way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal, NamedTuple

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.break_even import BY_LENGTH
from hyperslab.apps.experiment.answers.comparison import (
    MEASURE,
    WITHOUT_START,
    Block,
    CellResult,
    Comparison,
    Verdict,
    as_far_as,
    compare,
    jointly,
    measured,
    paired,
)
from hyperslab.apps.experiment.claims.margins import signs_of, words
from hyperslab.apps.experiment.design.cells import Key
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.design.named import NamedTier
from hyperslab.apps.experiment.statistics.intervals import ratio_interval
from hyperslab.apps.experiment.statistics.shown import show_interval, show_mean
from hyperslab.apps.experiment.statistics.significance import differs_p, holm, is_told
from hyperslab.units import show_count, show_list

Outcome = Literal[
    "reproduced",
    "in part",
    "mixed",
    "refuted in part",
    "refuted",
    "open",
    "by construction",
    "held by a test",
    "not tested",
]
UNTOLD: Collection[Outcome] = ("open", "not tested", "held by a test")
"Outcomes that trials have not told, so that nothing of them can be by construction."
WORKERS = "workers"
COMPUTING = "compute_s"
"Field of the summary that holds the time of all tasks in the function."
ROUND = "round_median_s"
"Number of a program that computes in rounds: the median of their times."
UNTIL_WRITTEN = "tasks_s"
"Field of the summary: the time until the last task has ended, whose bytes may be in memory."
HEADS = {
    WITHOUT_START: "Without the start of engines, ",
    COMPUTING: "Of computing alone, ",
    UNTIL_WRITTEN: "Until the last write into memory, ",
    ROUND: "By the median round, ",
}
"Words before comparisons by another number than the makespan."
AS_LONG_AS = " as long as "
"Words of every comparison of times."
EVIDENCE_TOLD = 3
"Sentences of the evidence that go with an advice."
TOLD: Mapping[bool | None, str] = {
    True: "as the paper states",
    False: "otherwise",
    None: "open",
}
"What a test tells of a claim."
NOT_RUN = "None of the cells that tell has been run."


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a claim."""

    outcome: Outcome
    evidence: Sequence[str]
    "Sentences with the numbers, or why there are none."
    signs: Sequence[bool | None] = ()
    "Whether each test came out as claimed, or None where it tells nothing; () if none is counted."

    def beside(self, before: Sequence[str] = (), after: Sequence[str] = ()) -> Judged:
        """The same with further sentences before its own and after them."""
        return replace(self, evidence=[*before, *self.evidence, *after])

    def instead(self, outcome: Outcome, why: str) -> Judged:
        """Another outcome for a reason, with all that was found; what is not tested counts
        nothing.
        """
        if outcome != "not tested":
            return Judged(outcome, [why, *self.evidence], self.signs)
        return Judged(outcome, [why, *_uncounted(self.evidence)])


def _uncounted(evidence: Sequence[str]) -> list[str]:
    """Evidence that decides nothing, and says so before its first count or comparison."""
    found = list(evidence)
    for place, text in enumerate(found):
        if " told: " in text or AS_LONG_AS in text:
            found[place] = f"Counts for nothing: {text}"
            break
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """An experiment by which claims are judged."""

    answer: Answer
    margin: float
    "Ratios within this margin of 1 count as equivalent."
    tiers: Mapping[str, NamedTier] = field(default_factory=dict)
    "Tiers of the spec, by name."
    asked: dict[Key, CellResult] = field(default_factory=dict)
    "Cells that a judge has asked for, which are those of its claim."
    alike: dict[str, None] = field(default_factory=dict)
    "Levels that are not compared, as they come to the same on this machine, in words."

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
                self.asked[result.cell.key] = result
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
        nothing where one of both was not run, or both come to the same workers on this machine.
        """
        here = self.cell(**{**others, factor: level})
        there = self.cell(**{**others, factor: reference})
        if here is None or there is None or level == reference:
            return
        if factor == WORKERS and here.cell.workers and here.cell.workers == there.cell.workers:
            shown = [one.cell.shown(WORKERS) for one in (there, here)]
            self.alike[f"{WORKERS} {show_list(shown)}"] = None
            return
        found = compare(factor, here, there, self.margin, measure)
        if found.ratio is not None:
            yield found


class Pair(NamedTuple):
    """A level of a factor beside another one, all else at the baseline or as named."""

    factor: str
    level: Level
    reference: Level
    others: Mapping[str, Level]
    "Levels of other factors, at which both are."

    def compared(self, evidence: Evidence, measure: str) -> Iterator[Comparison]:
        """Both by a number of the summaries; nothing where one of them was not run."""
        return evidence.beside(self.factor, self.level, self.reference, measure, **self.others)


Judge = Callable[[Evidence], Judged]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper states."""

    text: str
    "The claim in a sentence."
    spec: str
    "Name of the spec whose experiment judges it; '': none does."
    judge: Judge
    published: str = ""
    "Numbers of the paper that go with it, and where they stand."
    is_of_times: bool = True
    "Whether times judge it, which those of trials do not that had to share the processors."
    is_asked_for: bool = False
    """Whether an emulated tier is asked to be what the claim states, or the claim follows from the
    rate that it is asked for: all that shares a fixed bandwidth takes as long together.
    """
    by_emulation: str = ""
    "Sentence on how an emulated tier decides it by the way in which it is made; '' if it does not."
    needs: Sequence[str] = ()
    "Tiers of whose devices it is, so that emulated ones tell nothing."
    tiers: Sequence[str] = ()
    "Tiers that it is about, where these are not all of its spec's."


def untestable(why: str) -> Judge:
    """Judge nothing, and say why."""
    return lambda _: Judged("not tested", [why])


def held_by(tests: Sequence[str], *told: str) -> Judge:
    """Leave it to tests of this project, each named as pytest names it, which hold a claim whenever
    they are played; no trial tells it.
    """
    named = [f"`{test}`" for test in tests]
    return lambda _: Judged("held by a test", [f"{show_list(named)}.", *told])


def expecting(verdicts: Collection[Verdict], found: Sequence[Comparison]) -> Judged:
    """Judge by comparisons, each of which should have one of these verdicts."""
    return expecting_each([(verdicts, one) for one in found])


def expecting_each(found: Sequence[tuple[Collection[Verdict], Comparison]]) -> Judged:
    """Judge by comparisons, each with the verdicts of which it should have one."""
    if not found:
        return Judged("not tested", [NOT_RUN])
    signs = signs_of(found)
    return by_signs(signs, _sentences(found, signs))


def by_signs(
    signs: Sequence[bool | None], sentences: Iterable[str], what: str = "comparison"
) -> Judged:
    """What comes of a claim by tests that tell so, with a sentence on each."""
    return Judged(outcome_of(signs), [*counted(signs, what), *sentences], signs)


def expecting_without_start(
    evidence: Evidence, verdicts: Collection[Verdict], pairs: Sequence[Pair]
) -> Judged:
    """Judge by pairs without the start of engines, which hardly counts where they run for long;
    what comes of them with it is told, and counts for nothing.
    """
    found = [one for pair in pairs for one in pair.compared(evidence, WITHOUT_START)]
    whole = [one for pair in pairs for one in pair.compared(evidence, MEASURE)]
    return expecting(verdicts, found).beside(after=[_with_start(one) for one in whole])


def _with_start(one: Comparison) -> str:
    return f"With the start of engines, which does not count here, {_beside(one)}."


def expecting_all(
    verdicts: Collection[Verdict], found: Mapping[Level, Sequence[Comparison]]
) -> Judged:
    """Judge by engines, on each of which all comparisons should have one of these verdicts: where
    one is otherwise, so is the engine.
    """
    wanted = [(verdicts, one) for own in found.values() for one in own]
    if not wanted:
        return Judged("not tested", [NOT_RUN])
    signs = signs_of(wanted)
    left = iter(signs)
    by_engine = [_all([next(left) for _ in own]) for own in found.values()]
    return by_signs(by_engine, _sentences(wanted, signs), "engine")


def _all(signs: Sequence[bool | None]) -> bool | None:
    """Whether all tests came out as claimed; None where that is open."""
    if any(sign is False for sign in signs):
        return False
    return True if all(signs) else None


def _sentences(
    found: Sequence[tuple[Collection[Verdict], Comparison]], signs: Sequence[bool | None]
) -> Iterator[str]:
    """Every comparison in words, by what it says of a claim among all others."""
    together = jointly([one for _, one in found])
    for one, (verdicts, _), sign in zip(together, found, signs, strict=True):
        yield sentence(one, words(one, verdicts, sign))


def outcome_of(as_claimed: Sequence[bool | None]) -> Outcome:
    """What comes of a claim by tests that came out as claimed or not; None: they tell nothing. Only
    tests that all tell reproduce or refute it as a whole; where some tell this and some that, it is
    mixed.
    """
    told = [one for one in as_claimed if one is not None]
    if not told:
        return "open"
    is_whole = len(told) == len(as_claimed)
    if not any(told):
        return "refuted" if is_whole else "refuted in part"
    if not all(told):
        return "mixed"
    return "reproduced" if is_whole else "in part"


def sign_of(judged: Judged) -> bool | None:
    """Whether a test came out as claimed; None where it tells nothing."""
    return {"reproduced": True, "refuted": False}.get(judged.outcome)


def counted(as_claimed: Sequence[bool | None], what: str = "comparison") -> Iterator[str]:
    """How many of several tests tell something, in a sentence."""
    if len(as_claimed) < 2:
        return
    told = [one for one in as_claimed if one is not None]
    agree = sum(told)
    yield (
        f"{len(told)} of {show_count(len(as_claimed), what)} told: {agree} as the paper"
        f" states, {len(told) - agree} otherwise."
    )


def sentence(one: Comparison, said: str) -> str:
    """A comparison in words, of which the last ones are given."""
    return f"{HEADS.get(one.measure, '')}{_beside(one)}: {said}."


def _beside(one: Comparison) -> str:
    """How long a level takes beside another one, in words."""
    assert one.ratio is not None
    cell = one.cell
    others = [name for name in cell.changed if name != one.factor]
    where = show_list([f"{name} {cell.shown(name)}" for name in others])
    if where:
        where = f" ({where})"
    return (
        f"{one.factor} {cell.shown(one.factor)} takes {show_interval(one.ratio)} as long as"
        f" {one.reference.shown(one.factor)}{where}, over {show_count(one.pairs, 'pair')}"
    )


class Contrast(NamedTuple):
    """Paired differences that are to be greater than 0."""

    told: str
    "Sentence with the numbers."
    differences: Sequence[float]
    "Differences, one for each replicate."
    can_tell: bool = True
    "Whether they tell anything: trials that were ended for their length may say otherwise."


def judged_contrasts(found: Sequence[Contrast]) -> Judged:
    """Judge that all differences are greater than 0, with an allowance for their number."""
    if not found:
        return Judged("not tested", [NOT_RUN])
    signs = signs_of_contrasts(found)
    return by_signs(signs, each_told(found, signs))


def each_told(found: Sequence[Contrast], signs: Sequence[bool | None]) -> Iterator[str]:
    """What there is to tell of each contrast, over how many replicates, and what it tells among
    several.
    """
    for one, sign in zip(found, signs, strict=True):
        over = show_count(len(one.differences), "replicate")
        said = f": {TOLD[sign]}" if len(found) > 1 else ""
        yield f"{one.told.removesuffix('.')}, over {over}{said}."


def signs_of_contrasts(found: Sequence[Contrast]) -> list[bool | None]:
    """Whether differences are greater than 0, or less, allowing for the number of contrasts; None:
    they tell nothing.
    """
    adjusted = holm([as_far_as(one.can_tell, differs_p(one.differences)) for one in found])
    return [
        fmean(one.differences) > 0 if is_told(p) else None
        for one, p in zip(found, adjusted, strict=True)
    ]


def advised(
    sentences: Mapping[str, Mapping[Outcome, str]], found: Sequence[tuple[Claim, Judged]]
) -> Iterator[str]:
    """What follows from claims, by their texts and by what came of them, with the evidence: its
    first sentence, which is the caveat where there is one, and comparisons before all else.
    """
    by_text = {claim.text: one for claim, one in found}
    for text, told in sentences.items():
        one = by_text.get(text)
        if one is not None and one.outcome in told and not _is_otherwise_by_construction(one):
            yield " ".join([told[one.outcome], *_most_telling(one.evidence)])


def _is_otherwise_by_construction(one: Judged) -> bool:
    """Whether trials were made so that it came out otherwise than stated: nothing follows of it."""
    return one.outcome == "by construction" and False in one.signs


def _most_telling(evidence: Sequence[str]) -> list[str]:
    """The first sentence, and those that follow it, comparisons that count before others."""
    rest = evidence[1:]
    compared = [text for text in rest if _is_comparison(text)]
    others = [text for text in rest if not _is_comparison(text)]
    return [*evidence[:1], *compared, *others][:EVIDENCE_TOLD]


def _is_comparison(text: str) -> bool:
    """Whether a sentence of an evidence compares times, and counts."""
    return text.startswith(BY_LENGTH) or (AS_LONG_AS in text and "does not count" not in text)


Values = tuple[str, Mapping[Block, float]]
"A level, and a number of its trials by their blocks."


def rising(
    what: str,
    first: Values | None,
    last: Values | None,
    show: Callable[[float], str] = "{:.3g}".format,
) -> Judged:
    """Judge that a number is greater at the last level than at the first, pair by pair: by its
    ratios, or by its differences where it may be 0. Means are shown as `show` has them.
    """
    if first is None or last is None:
        return Judged("not tested", [NOT_RUN])
    both = sorted(first[1].keys() & last[1].keys())
    if not both:
        return Judged("not tested", ["No replicate of both cells knows this number."])
    pairs = [(last[1][one], first[1][one]) for one in both]
    numbers = {name: [values[one] for one in both] for name, values in (first, last)}
    means = [f"{show(fmean(values))} on {name}" for name, values in numbers.items()]
    head = f"{what}: {show_list(means)}"
    return judged_contrasts([contrast(head, pairs)])


def contrast(head: str, pairs: Sequence[tuple[float, float]]) -> Contrast:
    """Pairs of a later number and an earlier one, as logarithms of ratios or as differences where a
    number is 0.
    """
    later = [late for late, _ in pairs]
    earlier = [early for _, early in pairs]
    if min(*later, *earlier) > 0:
        told = f"{head}, which is {show_interval(ratio_interval(later, earlier))} as much."
        return Contrast(told, [math.log(late / early) for late, early in pairs])
    differences = [late - early for late, early in pairs]
    return Contrast(f"{head}, a difference of {show_mean(differences)}.", differences)


Ratios = Mapping[Block, float]
"Times at one level over those at another, by block."


def ratios_of(
    evidence: Evidence,
    factor: str,
    level: Level,
    reference: Level,
    measure: str = ROUND,
    **others: Level,
) -> Ratios:
    """Times at a level over those at another, all else alike; by default those of median rounds."""
    here = evidence.cell(**{**others, factor: level})
    there = evidence.cell(**{**others, factor: reference})
    if here is None or there is None:
        return {}
    return over(here, there, measure)


def over(here: CellResult, there: CellResult, measure: str) -> Ratios:
    """A number of a cell over that of another one."""
    both = paired(here, there, measured(measure))
    return {block: value / other for block, (value, other) in both.items()}


def show_ratios(ratios: Ratios) -> str:
    """Mean of ratios with the bounds of its 95 % interval."""
    return show_interval(ratio_interval(list(ratios.values()), [1.0] * len(ratios)))
