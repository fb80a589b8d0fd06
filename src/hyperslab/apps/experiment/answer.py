"""Answer: what an experiment means, in sentences: the decision, the evidence, how sure it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from hyperslab.apps.experiment import expectation
from hyperslab.apps.experiment import phases as reading
from hyperslab.apps.experiment import trends as growing
from hyperslab.apps.experiment.before import impossible
from hyperslab.apps.experiment.comparison import (
    WITHOUT_START,
    CellResult,
    Comparison,
    Verdict,
    comparisons_of,
    jointly,
    results_of,
)
from hyperslab.apps.experiment.design import Key
from hyperslab.apps.experiment.expectation import Expected, Surroundings, expected_of
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.named import tier_of
from hyperslab.apps.experiment.phases import CellPhases, cell_phases
from hyperslab.apps.experiment.places import Known, load
from hyperslab.apps.experiment.record import PASSING, Attempt, Record, Session
from hyperslab.apps.experiment.runner import Experiment
from hyperslab.apps.experiment.setting import BIDS, processors_of
from hyperslab.apps.experiment.shown import is_apart, show_interval
from hyperslab.apps.experiment.trends import Trends, trends_of
from hyperslab.units import show_count, show_list, show_seconds, show_share

REASONS_TOLD = 3


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


def answer_of(experiment: Experiment, record: Record) -> Answer:
    """What the record of an experiment says so far."""
    spec = experiment.loaded.spec
    results = results_of(experiment.cells, record)
    comparisons = []
    if spec.is_timed:
        comparisons = comparisons_of(results, spec.baseline, spec.margin)
    direct = [one for one in comparisons if not one.reference.changed]
    together = jointly(direct)
    decision = list(_decisions(together, spec.margin, _never_done(results)))
    if spec.is_timed:
        decision += _without_start(results, spec.baseline, spec.margin)
    else:
        decision = ["Times tell nothing here: a cluster is watched for as long as was asked for."]
    if not decision:
        decision = ["Nothing can be said yet: no trial of a cell and of its reference is done."]
    evidence = [
        _evidence(one, other.verdict)
        for one, other in zip(direct, together, strict=True)
        if one.pairs
    ]
    known = load(experiment.directory.places)
    phases = list(cell_phases(experiment.directory, results))
    expected = _expected(experiment, results, known, record.sessions, phases)
    trends = trends_of(results)
    evidence += [
        *expectation.sentences(expected),
        *growing.sentences(trends, spec.margin),
        *reading.sentences(phases),
    ]
    certainty = [
        *_certainty(experiment, record, len(comparisons)),
        *_emulated(experiment, known),
        "All of it is about this machine, this source and these versions.",
    ]
    return Answer(
        results, comparisons, decision, evidence, certainty, expected, trends, phases, known
    )


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


def _surroundings(experiment: Experiment) -> dict[str, Surroundings]:
    """Where the trials of each cell run, by its name."""
    settings = zip(experiment.cells, experiment.settings(experiment.cells), strict=True)
    return {
        cell.name: Surroundings(
            *experiment.inputs.places(setting),
            len(processors_of(setting.processors)),
            setting.program,
            experiment.inputs.between(setting),
        )
        for cell, setting in settings
    }


def _never_done(results: Sequence[CellResult]) -> set[Key]:
    """Cells that were tried, and of which no trial was done."""
    return {one.cell.key for one in results if one.attempts and not one.ended}


def _decisions(
    direct: Sequence[Comparison], margin: float, never_done: Collection[Key] = ()
) -> Iterator[str]:
    """What to choose of each factor, all others at the baseline."""
    for factor in dict.fromkeys(one.factor for one in direct):
        own = [one for one in direct if one.factor == factor]
        told = [one for one in own if one.ratio is not None or one.is_scarce]
        clauses = [*_clauses(told, margin), *_cut_clauses(own, never_done)]
        failed = [one.cell.shown(factor) for one in own if one.cell.key in never_done]
        if failed:
            clauses.append(f"no trial of {show_list(failed)} was done")
        if clauses:
            yield f"{factor}: {'; '.join(clauses)}."


def _without_start(
    results: Sequence[CellResult], baseline: Mapping[str, Level], margin: float
) -> Iterator[str]:
    """What to choose of engines whose start does not count, as in runs that are long enough."""
    found = comparisons_of(results, baseline, margin, WITHOUT_START)
    engines = [one for one in found if one.factor == "engine" and not one.reference.changed]
    for text in _decisions(jointly(engines), margin):
        yield text.replace("engine: ", "engine, without the start of engines: ", 1)


def _clauses(own: Sequence[Comparison], margin: float) -> Iterator[str]:
    if not own:
        return
    reference = own[0].reference.shown(own[0].factor)
    within = f"within {show_share(margin)}"
    if faster := _levels(own, "faster"):
        yield f"{show_list(faster)} {_is(faster)} faster than {reference}"
    if equivalent := _levels(own, "equivalent"):
        yield f"{show_list(equivalent)} and {reference} are equivalent ({within})"
    if slower := _levels(own, "slower"):
        yield f"{show_list(slower)} {_is(slower)} slower than {reference}"
    scarce = [one.cell.shown(one.factor) for one in own if one.is_scarce]
    if unclear := [level for level in _levels(own, "open") if level not in scarce]:
        yield f"whether {show_list(unclear)} differ{_s(unclear)} from {reference} is open"
    if scarce:
        yield (
            f"whether {show_list(scarce)} differ{_s(scarce)} from {reference} is open, as too few"
            " trials had the processors for themselves"
        )
    if unknown := _levels(own, "unknown"):
        yield f"of {show_list(unknown)} there are too few replicates to tell"


def _cut_clauses(own: Sequence[Comparison], never_done: Collection[Key]) -> Iterator[str]:
    """What cannot be said of levels of which the longest trials were ended."""
    cut = [
        one.cell.shown(one.factor) for one in own if one.is_cut and one.cell.key not in never_done
    ]
    if cut:
        yield (
            f"trials of {show_list(cut)} were ended for their length, so that nothing is called"
            " faster or equivalent of them"
        )
    if own and own[0].is_reference_cut:
        reference = own[0].reference.shown(own[0].factor)
        yield (
            f"trials of {reference} were ended for their length, so that nothing is called slower"
            " than it or equivalent"
        )


def _levels(own: Sequence[Comparison], verdict: Verdict) -> list[str]:
    return [one.cell.shown(one.factor) for one in own if one.verdict == verdict]


def _is(words: Sequence[str]) -> str:
    if len(words) == 1:
        return "is"
    return "are"


def _s(words: Sequence[str]) -> str:
    if len(words) == 1:
        return "s"
    return ""


def _evidence(one: Comparison, decided: Verdict) -> str:
    """The size of an effect, and what follows from it alone; says so where all comparisons together
    decide nothing.
    """
    levels = f"{one.cell.shown(one.factor)} against {one.reference.shown(one.factor)}"
    head = f"{one.factor} {levels}: "
    assert one.ratio is not None
    pairs = show_count(one.pairs, "pair")
    among = ""
    if decided != one.verdict:
        among = ", alone; among so many comparisons it may be chance"
    return f"{head}{show_interval(one.ratio)} as long, {pairs}; {_conclusion(one)}{among}."


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
            return f"slower, by at least {show_share(ratio.low - 1)}"
        case "faster":
            return f"faster, by at least {show_share(1 - ratio.high)}"
        case "equivalent":
            return show_equivalence(one)
    if one.cut:
        return f"open, as trials of {show_list(one.cut)} were ended for their length"
    more = ""
    if one.needed is not None:
        more = f": about {one.needed} replicates may tell (resume with --replicates {one.needed})"
    return f"open{more}"


def _certainty(experiment: Experiment, record: Record, comparisons: int) -> Iterator[str]:
    """What is missing, what went wrong, and what the intervals mean."""
    spec = experiment.loaded.spec
    counted = record.counted()
    missing = len(experiment.trials) - len(counted)
    if missing:
        total = show_count(len(experiment.trials), "trial")
        yield f"Not complete: {missing:,} of {total} are still to be run."
    yield from _failures(counted)
    starved = [attempt for attempt in counted if attempt.starved]
    if starved:
        yield (
            f"{show_count(len(starved), 'trial')} had to share the processors although repeated as"
            f" often as allowed, such as {_named(starved[0])} ({starved[0].starved}): their times"
            " are too long, and in no mean or comparison."
        )
    rejected = [attempt for attempt in counted if attempt.rejected]
    if rejected:
        yield (
            f"{show_count(len(rejected), 'trial')} kept out of all means and comparisons, such as"
            f" {_named(rejected[0])} ({rejected[0].rejected})."
        )
    yield from _warm_ups(record.warm_ups())
    yield from _laboratories(counted)
    yield from _preparations(counted)
    yield from machine_changes(record.sessions)
    if record.damaged:
        yield (
            f"Damaged in the record: {show_count(record.damaged, 'line')}, of which is not known"
            " what stood there."
        )
    replicates = show_count(spec.replicates, "replicate")
    yield (
        f"Intervals are Student's t at 95 % over {replicates}, of ratios by the logarithms of"
        " pairs of the same replicate; equivalence is tested by two one-sided tests at 5 %"
        f" (Schuirmann 1987) with a margin of {show_share(spec.margin)}."
    )
    if comparisons > 1:
        yield (
            f"There are {comparisons} comparisons, and each interval is for itself: one in twenty"
            " misses the true ratio. What is decided allows for the number of comparisons with the"
            " baseline (Holm 1979)."
        )


def _emulated(experiment: Experiment, known: Mapping[str, Known]) -> Iterator[str]:
    """Name the tiers that were made: they say so much of real ones, and no more."""
    levels = [cell.levels[name] for cell in experiment.cells for name in cell.emulated]
    named = experiment.loaded.spec.tiers
    tiers = dict.fromkeys(tier_of(str(level)) for level in levels)
    told = {name: named[name].about for name in tiers}
    if told:
        listed = show_list([f"{name}{_stands_for(about)}" for name, about in told.items()])
        yield (
            f"Emulated: {listed}. Such tiers have the bandwidth, the latency and the write-back"
            " that they were asked for, and nothing else of the devices that they stand for."
        )
    for one in known.values():
        if one.emulated and not told:
            yield f"Emulated: {one.tier.path}, {one.emulated}."


def _stands_for(about: str) -> str:
    if not about:
        return ""
    return f" ({about})"


def _failures(counted: Sequence[Attempt]) -> Iterator[str]:
    failed = [attempt for attempt in counted if attempt.state != "done"]
    reasons: dict[str, list[Attempt]] = {}
    for attempt in failed:
        reasons.setdefault(attempt.reason, []).append(attempt)
    for reason, own in list(reasons.items())[:REASONS_TOLD]:
        yield f"{show_count(len(own), 'trial')} failed, such as {_named(own[0])}: {reason}."
    if len(reasons) > REASONS_TOLD:
        yield f"Trials failed for {len(reasons) - REASONS_TOLD} other reasons, too."
    if any(attempt.state == "too long" for attempt in failed):
        yield (
            "Trials that were ended for their length are in no mean: those of their cells are too"
            " short, where there are any."
        )


def _warm_ups(made: Sequence[Attempt]) -> Iterator[str]:
    """Say what was run before it counted."""
    if not made:
        return
    failed = sum(one.state != "done" for one in made)
    ended = f", {failed:,} of which failed" if failed else ""
    yield (
        f"Not counted: {show_count(len(made), 'warm-up')} before the first trial of each engine"
        f" since the machine was started{ended}."
    )


def _laboratories(counted: Sequence[Attempt]) -> Iterator[str]:
    """Say what made the links of trials that ran in laboratories."""
    networks = [one.network for one in counted if one.network]
    found = {(one["backend"], one["mode"], one.get("queues", "")) for one in networks}
    for backend, mode, queues in sorted(found):
        yield (
            f"Links were made on this host alone by {backend} ({mode}), and measured before each"
            " trial; nodes share its processors and its memory."
        )
        if queues:
            yield f"Of links that have a rate, {queues}."


def _named(attempt: Attempt) -> str:
    return f"trial {attempt.number}"


def _preparations(counted: Sequence[Attempt]) -> Iterator[str]:
    """What was to be done before trials and could not be."""
    found: dict[str, int] = {}
    for attempt in counted:
        for told in impossible(attempt.preparation):
            found[told] = found.get(told, 0) + 1
    for told, count in found.items():
        yield f"Before {show_count(count, 'trial')}: {told}."


def machine_changes(sessions: Sequence[Session]) -> Iterator[str]:
    """What a later session found that the first had not."""
    if not sessions:
        return
    first = sessions[0].machine
    for session in sessions[1:]:
        changed = list(_changed(first, session.machine))
        if changed:
            yield (
                f"The machine was another one from session {session.number} on:"
                f" {'; '.join(changed)}. Trials of one are not compared with those of another;"
                " means of cells are over all of them."
            )


def _changed(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if name in before and name not in PASSING and before[name] != now.get(name):
            yield f"{name} {now.get(name)}, was {before.get(name)}"


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
