"""Certainty: how far an answer is to be trusted: what is missing, what went wrong, and what its
intervals mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hyperslab.apps.experiment.answers import deployments, oddities
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.design.named import tier_of
from hyperslab.apps.experiment.model.places import Known
from hyperslab.apps.experiment.statistics.significance import level
from hyperslab.apps.experiment.trials.before import impossible
from hyperslab.apps.experiment.trials.record import PASSING, Attempt, Record, Session
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.units import show_count, show_list, show_share

REASONS_TOLD = 3


class Group(NamedTuple):
    """Comparisons that are decided together."""

    name: str
    "What they are, in words."
    comparisons: int
    "How many of them have pairs."


def doubts(
    experiment: Experiment,
    record: Record,
    results: Sequence[CellResult],
    known: Mapping[str, Known],
) -> Iterator[str]:
    """What is missing, what went wrong, and what stands for something else, the worst first;
    `known` is what is known of places, by path.
    """
    counted = record.counted()
    yield from _missing(experiment, record)
    yield from _failures(counted)
    yield from _starved(experiment, record)
    rejected = [attempt for attempt in counted if attempt.rejected]
    if rejected:
        yield (
            f"{show_count(len(rejected), 'trial')} kept out of all means and comparisons, such as"
            f" {_named(rejected[0])} ({rejected[0].rejected})."
        )
    if record.damaged:
        yield (
            f"Damaged in the record: {show_count(record.damaged, 'line')}, of which is not known"
            " what stood there."
        )
    yield from machine_changes(record.sessions)
    yield from _failed_at_first(record)
    yield from _emulated(experiment, known)
    if experiment.loaded.spec.is_timed and len(set(record.machines().values())) < 2:
        yield from oddities.sentences(results)
    yield from _without_folders(experiment, counted)
    yield from _preparations(counted)


def meaning(
    experiment: Experiment, record: Record, groups: Sequence[Group], looks: Sequence[int]
) -> Iterator[str]:
    """How trials were run, and what intervals and tests mean. `groups` are the
    comparisons that are decided together.
    """
    yield from _warm_ups(record.warm_ups())
    yield from deployments.sentences(experiment, record)
    yield from _laboratories(record.counted())
    yield from _tests(experiment, groups, looks)
    yield "All of it is about this machine, this source and these versions."


def _missing(experiment: Experiment, record: Record) -> Iterator[str]:
    missing = len(experiment.trials) - len(record.counted())
    if missing:
        total = show_count(len(experiment.trials), "trial")
        yield f"Not complete: {missing:,} of {total} are still to be run."


def _starved(experiment: Experiment, record: Record) -> Iterator[str]:
    """Trials that had to share the processors: those that are to be repeated, and others."""
    starved = [one for one in record.counted() if one.starved]
    repeats = experiment.loaded.spec.starved.repeats
    due = [one for one in starved if len(record.by_trial[one.number]) <= repeats]
    final = [one for one in starved if one.state == "done" and one not in due]
    if final:
        yield (
            f"{show_count(len(final), 'trial')} had to share the processors although repeated as"
            f" often as allowed, such as {_named(final[0])} ({final[0].starved}): their times"
            " are too long, and in no mean or comparison."
        )
    if due:
        yield (
            f"{show_count(len(due), 'trial')} had to share the processors, such as"
            f" {_named(due[0])} ({due[0].starved}), and are to be repeated: 'resume' does; until"
            " then they are in no mean or comparison."
        )


def _without_folders(experiment: Experiment, counted: Sequence[Attempt]) -> Iterator[str]:
    """Trials whose folders somebody has removed."""
    directory = experiment.directory
    if not directory.exists():
        return
    gone = [one for one in counted if not directory.trial(one.number, one.attempt).is_dir()]
    if gone:
        yield (
            f"Of {show_count(len(gone), 'trial')} the folder is gone, such as that of"
            f" {_named(gone[0])}: phases, first reads and charts are without it. Makespans are in"
            " the record."
        )


def _tests(experiment: Experiment, groups: Sequence[Group], looks: Sequence[int]) -> Iterator[str]:
    """What intervals and tests mean."""
    spec = experiment.loaded.spec
    if spec.replicates == 1:
        yield "There is one replicate, so that nothing has an interval, and no time is compared."
        return
    replicates = show_count(spec.replicates, "replicate")
    yield (
        f"Intervals are Student's t at 95 % over {replicates}, of ratios by the logarithms of"
        f" pairs of the same replicate; equivalence is tested by two one-sided tests at"
        f" {_percent(level())} (Schuirmann 1987) with a margin of {show_share(spec.margin)}."
    )
    comparisons = sum(one.comparisons for one in groups)
    if comparisons > 1:
        listed = "; ".join(f"{one.comparisons} {one.name}" for one in groups)
        yield (
            f"There are {comparisons} comparisons, and each interval is for itself: one in twenty"
            " misses the true ratio. What is decided allows for the number of comparisons of its"
            f" group (Holm 1979): {listed}. Where nothing differs, up to"
            f" {_percent(len(groups) * level())} of such answers decide something by chance."
        )
    if len(looks) > 1:
        yield (
            f"Answers were given at {show_list([str(one) for one in looks])} replicates. Who adds"
            " some until a test tells finds something, so each answer is tested at half the level"
            f" of the one before: this one at {_percent(level())}."
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


def _failed_at_first(record: Record) -> Iterator[str]:
    """Trials that were done when they were tried again, as was asked for, and the first reason."""
    tried = zip(record.by_trial.values(), record.counted(), strict=True)
    failed = [
        next(filter(_went_wrong, attempts))
        for attempts, best in tried
        if best.state == "done" and any(map(_went_wrong, attempts))
    ]
    if failed:
        yield (
            f"{show_count(len(failed), 'trial')} failed at first, such as {_named(failed[0])}"
            f" ({failed[0].reason}), and {_was(failed)} done when tried again: what fails now and"
            " then may do so again."
        )


def _went_wrong(attempt: Attempt) -> bool:
    """Whether an attempt failed that had the processors for itself."""
    return attempt.state != "done" and not attempt.starved


def _was(attempts: Sequence[Attempt]) -> str:
    if len(attempts) == 1:
        return "was"
    return "were"


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


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


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
