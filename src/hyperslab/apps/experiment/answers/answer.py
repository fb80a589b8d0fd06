"""Answer: what an experiment means, in sentences: the decision, the evidence, how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from hyperslab.apps.experiment.answers import break_even, certainty, expectation
from hyperslab.apps.experiment.answers import phases as reading
from hyperslab.apps.experiment.answers import trends as growing
from hyperslab.apps.experiment.answers.asleep import asleep
from hyperslab.apps.experiment.answers.break_even import Cost, costs_of
from hyperslab.apps.experiment.answers.certainty import Group
from hyperslab.apps.experiment.answers.comparison import (
    MEASURE,
    WITHOUT_START,
    CellResult,
    Comparison,
    comparisons_of,
    jointly,
    results_of,
)
from hyperslab.apps.experiment.answers.decisions import NOTHING_VARIED, decisions
from hyperslab.apps.experiment.answers.expectation import Expected, Surroundings, expected_of
from hyperslab.apps.experiment.answers.looks import looks_of
from hyperslab.apps.experiment.answers.phases import CellPhases, cell_phases
from hyperslab.apps.experiment.answers.trends import Trends, trends_of
from hyperslab.apps.experiment.design.cells import Key
from hyperslab.apps.experiment.design.setting import BIDS, processors_of
from hyperslab.apps.experiment.design.spec import Spec
from hyperslab.apps.experiment.model.places import Known, load
from hyperslab.apps.experiment.statistics.shown import is_apart, show_interval
from hyperslab.apps.experiment.statistics.significance import spending
from hyperslab.apps.experiment.trials.record import Record, Session
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.units import show_count, show_list, show_seconds, show_share

WITHOUT = "without the start of engines"
"What does not count of times in a second look at engines, in words."
WITH_BASELINE, ELSEWHERE = "with the baseline", "at other values"
"Groups of comparisons that are decided together, in words."
TIMES = 2.0
"Ratio from which on it is told as a factor, and not as a share that is more."


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an experiment."""

    results: Sequence[CellResult]
    comparisons: Sequence[Comparison]
    decision: Sequence[str]
    "A sentence for each factor that was varied."
    evidence: Sequence[str]
    "A sentence for each comparison with the baseline, with the size of the effect."
    certainty: Sequence[str]
    "Sentences on how far to trust all of it, what is missing first."
    expected: Sequence[Expected] = ()
    "What the model says of each cell."
    trends: Trends = field(default_factory=Trends)
    phases: Sequence[CellPhases] = ()
    "Phases of the tasks of each cell."
    places: Mapping[str, Known] = field(default_factory=dict)
    "What is known of where trials read and write, by path."
    looks: Sequence[int] = ()
    "Numbers of replicates at which answers were given, this one included."
    costs: Sequence[Cost] = ()
    "What engines cost beside what tasks do."
    doubts: Sequence[str] = ()
    "Sentences of the certainty that say what is missing or went wrong, the worst first."


def answer_of(experiment: Experiment, record: Record) -> Answer:
    """What the record of an experiment says so far."""
    looks = looks_of(experiment.directory, record)
    with spending(len(looks)):
        return _answer(experiment, record, looks)


def _answer(experiment: Experiment, record: Record, looks: Sequence[int]) -> Answer:
    """An answer whose tests are of the last of so many."""
    spec = experiment.loaded.spec
    results = results_of(experiment.cells, record)
    comparisons = Compared()
    if spec.is_timed:
        comparisons = Compared.of(results, spec)
    engines = Compared()
    if spec.is_timed:
        engines = Compared.of(results, spec, WITHOUT_START).of_factor("engine")
    costs = costs_of(results) if spec.is_timed else []
    decision = [
        *_decision(results, spec, comparisons, engines),
        *break_even.decision(costs, spec.margin),
    ]
    evidence = [
        _evidence(one, other, spec.replicates)
        for one, other in zip(comparisons.direct, comparisons.together, strict=True)
        if one.pairs
    ]
    known = load(experiment.directory.places)
    phases = list(cell_phases(experiment.directory, results))
    expected = _expected(experiment, results, known, record.sessions, phases)
    trends = trends_of(results)
    evidence += [
        *expectation.sentences(expected),
        *break_even.evidence(costs, spec.margin),
        *growing.sentences(trends, spec.margin),
        *reading.sentences(phases),
    ]
    found = comparisons.all
    doubts = list(certainty.doubts(experiment, record, results, known))
    groups = [*comparisons.groups(), *engines.groups(WITHOUT)]
    meaning = certainty.meaning(experiment, record, groups, looks)
    return Answer(
        results=results,
        comparisons=found,
        decision=decision,
        evidence=evidence,
        certainty=[*doubts, *meaning],
        doubts=doubts,
        expected=expected,
        trends=trends,
        phases=phases,
        costs=costs,
        places=known,
        looks=looks,
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """All comparisons: those with the baseline, and those at other levels of the other factors."""

    direct: Sequence[Comparison] = ()
    elsewhere: Sequence[Comparison] = ()
    together: Sequence[Comparison] = ()
    "Comparisons with the baseline, with verdicts that allow for their number."
    others: Sequence[Comparison] = ()
    "All others, with verdicts that allow for theirs."

    @classmethod
    def of(cls, results: Sequence[CellResult], spec: Spec, measure: str = MEASURE) -> Compared:
        """Compare the cells of a spec by a number of their trials."""
        found = comparisons_of(results, spec.baseline, spec.margin, measure)
        direct = [one for one in found if not one.reference.changed]
        elsewhere = [one for one in found if one.reference.changed]
        return cls(direct, elsewhere, jointly(direct), jointly(elsewhere))

    def of_factor(self, factor: str) -> Compared:
        """Comparisons of one factor, which are made together then."""
        direct = [one for one in self.direct if one.factor == factor]
        elsewhere = [one for one in self.elsewhere if one.factor == factor]
        return Compared(direct, elsewhere, jointly(direct), jointly(elsewhere))

    def groups(self, without: str = "") -> list[Group]:
        """Comparisons that are decided together, of those that have any pairs; `without` is what
        does not count of their times, in words.
        """
        named = {WITH_BASELINE: self.direct, ELSEWHERE: self.elsewhere}
        tail = f", {without}" if without else ""
        found = [Group(f"{name}{tail}", _with_pairs(own)) for name, own in named.items()]
        return [one for one in found if one.comparisons]

    @property
    def all(self) -> list[Comparison]:
        """All of them, each for itself, with the replicates that would tell among all."""
        alone = [*self.direct, *self.elsewhere]
        among = [*self.together, *self.others]
        return [replace(one, needed=other.needed) for one, other in zip(alone, among, strict=True)]


def _with_pairs(found: Sequence[Comparison]) -> int:
    return sum(one.pairs > 0 for one in found)


def _decision(
    results: Sequence[CellResult], spec: Spec, comparisons: Compared, engines: Compared
) -> Iterator[str]:
    """What to choose of each factor, or why nothing is said; of engines also where their start does
    not count, as in runs that are long enough.
    """
    if not spec.is_timed:
        yield "Times tell nothing here: a cluster is watched for as long as was asked for."
        return
    if len(results) == 1:
        yield NOTHING_VARIED
        return
    found = [
        *decisions(results, comparisons.together, comparisons.others, spec.margin),
        *decisions(results, engines.together, engines.others, spec.margin, WITHOUT),
    ]
    if found:
        yield from asleep(results)
    yield from found
    if not found:
        yield "Nothing can be said yet: no trial of a cell and of its reference is done."


def _expected(
    experiment: Experiment,
    results: Sequence[CellResult],
    known: Mapping[str, Known],
    sessions: Sequence[Session],
    phases: Sequence[CellPhases],
) -> list[Expected]:
    """The model of every cell; none of commands, as nobody counts the bytes that they read."""
    if experiment.loaded.spec.source.synth == BIDS:
        return []
    return expected_of(results, known, _surroundings(experiment), sessions, phases)


def _surroundings(experiment: Experiment) -> dict[Key, Surroundings]:
    """Where the trials of each cell run, by its key."""
    settings = zip(experiment.cells, experiment.settings(experiment.cells), strict=True)
    return {
        cell.key: Surroundings(
            *experiment.inputs.places(setting),
            len(processors_of(setting.processors)),
            setting.program,
            experiment.inputs.between(setting),
        )
        for cell, setting in settings
    }


def _evidence(one: Comparison, decided: Comparison, replicates: int) -> str:
    """The size of an effect, and what follows from it alone; says so where all comparisons together
    decide nothing.
    """
    levels = f"{one.cell.shown(one.factor)} against {one.reference.shown(one.factor)}"
    head = f"{one.factor} {levels}: "
    assert one.ratio is not None
    pairs = show_count(one.pairs, "pair")
    among = ""
    if decided.verdict != one.verdict:
        among = ", alone; among so many comparisons it may be chance"
    told = f"{_conclusion(one)}{among}{_advice(decided, replicates)}"
    return f"{head}{show_interval(one.ratio)} as long, {pairs}; {told}."


def show_equivalence(one: Comparison) -> str:
    """Why settings are equivalent: the 90 % interval lies within the margin. Says so where the 95 %
    interval shows a difference that is too small to matter.
    """
    assert one.ratio is not None
    assert one.inner is not None
    inner = f"{one.inner.low:.3g} to {one.inner.high:.3g}"
    seen = ""
    if is_apart(one.ratio):
        seen = ", though a difference is there"
    return f"equivalent within {show_share(one.margin)} (90 % interval {inner}){seen}"


def _conclusion(one: Comparison) -> str:
    assert one.ratio is not None
    ratio = one.ratio
    if ratio.low is None or ratio.high is None:
        return "a single replicate says nothing of its uncertainty"
    match one.verdict:
        case "slower":
            return f"slower, by at least {_show_more(ratio.low)}"
        case "faster":
            return f"faster, by at least {show_share(1 - ratio.high)}"
        case "equivalent":
            return show_equivalence(one)
    if one.cut:
        return f"open, as trials of {show_list(one.cut)} were ended for their length"
    return "open"


def _show_more(ratio: float) -> str:
    """How much longer a ratio above 1 is: a share, or times where it is twice as much or more."""
    if ratio >= TIMES:
        return f"a factor of {ratio:.3g}"
    return show_share(ratio - 1)


def _advice(decided: Comparison, replicates: int) -> str:
    """After how many replicates an open comparison may be told, with all others."""
    if decided.needed is None:
        return ""
    if decided.needed <= replicates:
        return f": {decided.needed} of the {replicates} replicates asked for may tell"
    return (
        f": about {decided.needed} replicates may tell (resume with --replicates {decided.needed})"
    )


def _starved_words(result: CellResult) -> str:
    """Makespan of a cell without a trial that counts: that of those which were starved, marked."""
    told = [one.numbers.get("makespan_s") for one in result.starved if one.state == "done"]
    known = [seconds for seconds in told if seconds is not None]
    if not known:
        return "no trial done"
    return f"{show_seconds(fmean(known))}, starved"


def makespan_words(result: CellResult) -> str:
    """Makespan of a cell with its interval, in words."""
    interval = result.makespan_s
    if interval is None:
        return _starved_words(result)
    text = show_seconds(interval.mean)
    if interval.low is None or interval.high is None:
        return text
    return f"{text} ± {show_seconds(interval.high - interval.mean)}"
