"""What `hyperslab experiment` shows: the shipped specs, a plan, how far it is, what it means."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

from hyperslab.apps.experiment.answers import break_even, trends
from hyperslab.apps.experiment.answers.answer import Answer, makespan_words
from hyperslab.apps.experiment.answers.comparison import comparisons_of, results_of
from hyperslab.apps.experiment.answers.expectation import Expected
from hyperslab.apps.experiment.answers.phases import kinds_of
from hyperslab.apps.experiment.answers.running import so_far
from hyperslab.apps.experiment.design.cells import Cell, Key, Trial
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.model.bounds import Expectation
from hyperslab.apps.experiment.statistics.significance import alike_up_to, told_from
from hyperslab.apps.experiment.trials.estimate import Space
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment, Watcher, Wish
from hyperslab.report.listener import Listener
from hyperslab.units import show_bytes, show_count, show_list, show_seconds, show_share

MOST_NAMED = 8
"Numbers of trials that a line names."
DOUBTS_TOLD = 3
"Doubts that the end of an experiment tells, of those that its page has."
SPREAD = 0.05
"""Standard deviation of makespans between replicates, as a share, by which a plan says what it can
tell.
"""


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell that is about to be run."""

    name: str
    levels: Mapping[str, Level]
    trials: int
    "Number of trials, those that were run before included."
    done: int
    "Number of trials that were run before."
    seconds: float
    "Time that each takes."


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial in its place."""

    number: int
    replicate: int
    levels: Mapping[str, Level]
    is_done: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """What is about to be done."""

    directory: Path
    cells: int
    replicates: int
    trials: int
    "Number of trials, those that were run before included."
    done: int
    "Number of trials that were run before."
    warm_ups: int
    "Number of runs before the first trials of engines, which are not counted."
    seconds: float
    "Time that the others, warm-ups and probes take, without repeats."
    is_measured: bool
    "Whether that rests on trials of this experiment."
    spaces: Sequence[Space]
    emulated: Sequence[str]
    "Names of tiers that are emulated while trials run."
    by_cell: Sequence[PlannedCell]
    order: Sequence[PlannedTrial]
    "Trials in the order in which they are run."
    compared: int
    "Number of comparisons with the baseline; 0 where times tell nothing."
    margin: float
    "Relative difference below which settings count as equivalent."
    told_from: float | None
    """Least ratio to the baseline, above 1, that is told in four of five experiments whose
    makespans vary by 5 %; None of one replicate, or without comparisons.
    """
    alike_up_to: float | None
    """Spread of makespans, as a share, up to which settings that take as long as the baseline are
    told to be equivalent in four of five experiments; None as above.
    """


def planned(asked: Experiment, wish: Wish) -> Planned:
    """What an experiment would do now."""
    record = asked.record()
    left = [trial for trial in wish.trials if not record.of(trial)]
    warm_ups = asked.warm_ups(left, record)
    before_s = 0.0
    if left:
        before_s = asked.estimator.probing_s(asked.settings(wish.cells))
    spec = asked.loaded.spec
    compared = _compared(asked)
    told = alike = None
    if compared and spec.replicates > 1:
        told = told_from(SPREAD, spec.replicates, compared)
        alike = alike_up_to(spec.margin, spec.replicates, compared)
    return Planned(
        directory=asked.directory.root,
        cells=len(wish.cells),
        replicates=spec.replicates,
        trials=len(wish.trials),
        done=len(wish.trials) - len(left),
        warm_ups=len(warm_ups),
        seconds=before_s + asked.estimator.left_s([*warm_ups, *left], record),
        is_measured=bool(record.by_trial),
        spaces=asked.estimator.space(wish.cells, len(left), record, wish.keep),
        emulated=asked.inputs.emulated(asked.settings(wish.cells)),
        by_cell=list(_planned_cells(asked, wish, record)),
        order=[
            PlannedTrial(one.number, one.replicate, one.cell.levels, bool(record.of(one)))
            for one in wish.trials
        ],
        compared=compared,
        margin=spec.margin,
        told_from=told,
        alike_up_to=alike,
    )


def _compared(asked: Experiment) -> int:
    """Number of comparisons with the baseline, which are decided together."""
    spec = asked.loaded.spec
    if not spec.is_timed:
        return 0
    found = comparisons_of(results_of(asked.cells, Record()), spec.baseline, spec.margin)
    return sum(not one.reference.changed for one in found)


def _planned_cells(asked: Experiment, wish: Wish, record: Record) -> Iterator[PlannedCell]:
    """The cells that have trials to be run, the baseline first."""
    by_cell: dict[Key, list[Trial]] = {}
    for trial in wish.trials:
        by_cell.setdefault(trial.cell.key, []).append(trial)
    for cell in asked.cells:
        own = by_cell.get(cell.key, [])
        done = sum(bool(record.of(trial)) for trial in own)
        seconds = asked.estimator.seconds(cell, record)
        if own:
            yield PlannedCell(cell.name, cell.levels, len(own), done, seconds)


def plan_lines(asked: Experiment, plan: Planned) -> Iterator[str]:
    """A plan for the terminal."""
    cells = show_count(plan.cells, "cell")
    replicates = show_count(plan.replicates, "replicate")
    yield f"{asked.loaded.spec.title}"
    yield f"trials     {plan.trials:,}: {cells} x {replicates}, {plan.done:,} of them done"
    if plan.warm_ups:
        yield f"warm-ups   {plan.warm_ups:,}, before the first trial of each engine, not counted"
    source = "a guess, until trials have shown it"
    if plan.is_measured:
        source = "by the trials so far"
    yield f"time       about {show_seconds(plan.seconds)} ({source}; starved trials take more)"
    for space in plan.spaces:
        needed = show_bytes(space.needed_nbytes)
        yield f"space      {needed} at {space.path}, {show_bytes(space.free_nbytes)} free"
    if plan.emulated:
        yield f"emulated   {show_list(plan.emulated)} (a real one: --tier {plan.emulated[0]}=DIR)"
    yield from _telling_lines(plan)
    yield f"directory  {plan.directory}"


def _telling_lines(plan: Planned) -> Iterator[str]:
    """What a design can tell, before anything is known of how its trials vary."""
    if not plan.compared:
        return
    if plan.told_from is None or plan.alike_up_to is None:
        yield "tells      no difference, as one replicate says nothing of chance"
        return
    least = f"{plan.told_from:.3g} x"
    if plan.told_from < 2:
        least = show_share(plan.told_from - 1)
    compared = show_count(plan.compared, "comparison")
    yield (
        f"tells      differences from {least} on, where makespans vary by {show_share(SPREAD)}"
        f" between replicates ({compared} with the baseline)"
    )
    yield (
        f"           equivalence within {show_share(plan.margin)}, where they vary by"
        f" {show_share(plan.alike_up_to)} or less"
    )


def cell_lines(plan: Planned) -> Iterator[str]:
    """The cells of a plan for the terminal, with the time of a trial."""
    width = max(len(one.name) for one in plan.by_cell)
    yield "cells      each with the time of one trial"
    for one in plan.by_cell:
        count = show_count(one.trials, "trial")
        done = f", {one.done:,} of them done" if one.done else ""
        yield f"  {one.name:<{width}}  {count} of about {show_seconds(one.seconds)}{done}"


def answer_lines(asked: Experiment, answer: Answer, in_full: bool = False) -> Iterator[str]:
    """What an experiment means, for the terminal: the decision last, with what is most to doubt, so
    that it does not scroll away; all else before it, where that is asked for.
    """
    doubts = list(answer.doubts[:DOUBTS_TOLD])
    if in_full:
        yield from _detail_lines(answer)
        doubts = list(answer.certainty)
    yield ""
    yield "What this means"
    for text in answer.decision:
        yield f"  {text}"
    yield "How sure"
    if not answer.doubts:
        yield "  All trials are done: none failed, was starved or is kept out."
    for text in doubts:
        yield f"  {text}"
    if not in_full:
        yield f"more       {_unsaid(answer)} are in the report, and printed by 'report' with --all"
    yield f"report     {asked.directory.page}"


def _unsaid(answer: Answer) -> str:
    """What the end of an experiment does not tell, in words."""
    doubts = show_count(len(answer.certainty) - len(answer.doubts[:DOUBTS_TOLD]), "remark")
    return f"the evidence, {doubts} on how sure it is and the makespans"


def _detail_lines(answer: Answer) -> Iterator[str]:
    yield ""
    yield "Makespan"
    width = max(len(result.cell.name) for result in answer.results)
    for result in answer.results:
        yield f"  {result.cell.name:<{width}}  {makespan_words(result)}"
    yield "Evidence"
    for text in answer.evidence:
        yield f"  {text}"


def failure_lines(record: Record) -> Iterator[str]:
    """Trials that were not done, with the reason, each reason once."""
    by_reason: dict[str, list[Attempt]] = {}
    for attempt in record.counted():
        if attempt.state != "done":
            by_reason.setdefault(f"{attempt.state}: {attempt.reason}", []).append(attempt)
    for reason, attempts in by_reason.items():
        numbers = [str(attempt.number) for attempt in attempts[:MOST_NAMED]]
        if len(attempts) > MOST_NAMED:
            numbers.append(f"{len(attempts) - MOST_NAMED:,} more")
        noun = "trial" if len(attempts) == 1 else "trials"
        yield f"hyperslab: {noun} {show_list(numbers)}: {reason}"


def told(asked: Experiment, record: Record, answer: Answer) -> dict[str, Any]:
    """What an experiment means, for programs."""
    return {
        "name": asked.loaded.name,
        "scale": asked.loaded.scale,
        "directory": asked.directory.root,
        "page": asked.directory.page,
        "trials": len(asked.trials),
        "recorded": len(record.by_trial),
        "decision": answer.decision,
        "evidence": answer.evidence,
        "certainty": answer.certainty,
        "cells": [
            {
                "levels": result.cell.levels,
                "changed": result.cell.changed,
                "makespan_s": result.makespan_s and result.makespan_s._asdict(),
                "by_replicate": result.by_replicate(),
            }
            for result in answer.results
        ],
        "comparisons": [
            {
                "factor": one.factor,
                "levels": one.cell.levels,
                "reference": one.reference.levels,
                "pairs": one.pairs,
                "ratio": one.ratio and one.ratio._asdict(),
                "ratio_90": one.inner and one.inner._asdict(),
                "verdict": one.verdict,
                "replicates_needed": one.needed,
            }
            for one in answer.comparisons
        ],
        "expected": [expected_told(one) for one in answer.expected],
        "phases": [
            {
                "levels": one.result.cell.levels,
                "seconds": {kind: one.mean(kind) for kind in kinds_of([one])},
                "first_and_later_reads_s": [
                    (trial.first_read_s, trial.later_read_s) for trial in one.paired
                ],
            }
            for one in answer.phases
        ],
        "break_even": break_even.told(answer.costs, asked.loaded.spec.margin),
        "trends": trends.told(answer.trends),
        "attempts": record.attempts,
        "sessions": record.sessions,
    }


def expected_told(one: Expected) -> dict[str, Any]:
    """A cell beside its model, for programs."""
    law, bound = one.model.law, one.model.bound
    return {
        "levels": one.result.cell.levels,
        "reads": one.source,
        "writes": one.target,
        "measured_s": law.measured_s,
        "law": {**_expectation_told(law), "terms": law.terms},
        "bound": {
            **_expectation_told(bound),
            "binding": bound.binding,
            "resources": one.model.resources,
        },
    }


def _expectation_told(one: Expectation) -> dict[str, Any]:
    """What is expected and how far that is off, for programs; the least and the most are those that
    the rates of the probe allow.
    """
    return {
        "seconds": one.seconds,
        "seconds_least": one.least_s,
        "seconds_most": one.most_s,
        "ratio": one.ratio,
    }


@contextmanager
def watching(asked: Experiment, quiet: bool, stream: TextIO | None = None) -> Iterator[Watcher]:
    """Who is told how far an experiment is, and what it came to so far: a bar on a terminal below
    the lines of the trials, lines alone elsewhere.
    """
    stream = stream or sys.stderr
    baseline = asked.cells[0] if asked.loaded.spec.is_timed else None
    watcher: Watcher
    if quiet or stream is None:  # as it is where it was closed at the start
        watcher = Silent()
    elif stream.isatty():
        watcher = Bar(stream, baseline)
    else:
        watcher = Lines(stream, baseline)
    try:
        yield watcher
    finally:
        watcher.end()


class Silent:
    """Says nothing."""

    def tell(self, text: str) -> None:
        """A line about what is done before the trials."""

    def begin(self, trial: Trial, done: int, total: int, left_s: float) -> None:
        """A trial begins, after so many of so many; those that are left take so long."""

    def ended(self, trial: Trial, attempt: Attempt, record: Record) -> None:
        """A trial has ended, and is in the record."""

    def end(self) -> None:
        """No trial follows."""


class Lines:
    """A line for every trial, for logs; ratios are to the baseline, where there is one."""

    def __init__(self, stream: TextIO, baseline: Cell | None) -> None:
        self._stream = Listener(stream)
        self._baseline = baseline
        self._head = ""

    def tell(self, text: str) -> None:
        self._stream.write(f"{text}\n")

    def begin(self, trial: Trial, done: int, total: int, left_s: float) -> None:
        self._head = f"{done + 1}/{total}  {_name(trial)}  ({show_seconds(left_s)} left)"

    def ended(self, trial: Trial, attempt: Attempt, record: Record) -> None:
        self.tell(f"{self._head}: {how_it_went(attempt)}{_so_far(trial, self._baseline, record)}")

    def end(self) -> None:
        self._stream.drain()


class Bar:
    """A line for every trial, and a live bar with that under way and the time left, for
    terminals.
    """

    def __init__(self, stream: TextIO, baseline: Cell | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._stream = Listener(stream)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]} left"),
            console=Console(file=cast(TextIO, self._stream)),
            transient=True,
        )
        self._baseline = baseline
        self._task: Any = None

    def tell(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, trial: Trial, done: int, total: int, left_s: float) -> None:
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=total, left="")
        left = show_seconds(left_s)
        about: dict[str, Any] = {"description": _name(trial), "left": left}
        self._bar.update(self._task, completed=done, total=total, **about)

    def ended(self, trial: Trial, attempt: Attempt, record: Record) -> None:
        went = how_it_went(attempt)
        self.tell(f"{_name(trial)}: {went}{_so_far(trial, self._baseline, record)}")

    def end(self) -> None:
        self._bar.stop()
        self._stream.drain()


def _name(trial: Trial) -> str:
    if trial.is_warm_up:
        return f"warm-up: {trial.cell.name}"
    return f"trial {trial.number}, replicate {trial.replicate}: {trial.cell.name}"


def _so_far(trial: Trial, baseline: Cell | None, record: Record) -> str:
    """What the cell of a trial has come to so far, as a clause behind how that went; '' where
    nothing follows yet, and of warm-ups.
    """
    if baseline is None or trial.is_warm_up:
        return ""
    estimate = so_far(trial.cell, baseline, record)
    return estimate and f"; so far {estimate}"


def how_it_went(attempt: Attempt) -> str:
    """How a trial ended, in words."""
    makespan_s = attempt.numbers.get("makespan_s")
    words = f"{attempt.state}: {attempt.reason}"
    if attempt.state == "done" and makespan_s is not None:
        words = show_seconds(makespan_s)
    if attempt.starved:
        words += f" (starved: {attempt.starved})"
    if attempt.rejected:
        words += f" (kept out: {attempt.rejected})"
    return words
