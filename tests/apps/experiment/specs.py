"""Specs and records for the tests of experiments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.answers.comparison import Comparison, compare, results_of
from hyperslab.apps.experiment.design.cells import Cell, cells_of, trials_of
from hyperslab.apps.experiment.design.spec import Loaded, load_spec
from hyperslab.apps.experiment.trials.record import Attempt, Record, Session, State
from hyperslab.apps.experiment.trials.runner import Experiment

TEXT = """\
title = "Small"
workload = "increment"
replicates = 3
seed = 7

[source]
synth = "bigbrain"
size = "64KiB"

[baseline]
engine = "serial"
iterations = 1
delay = 0

[vary]
iterations = [2]
delay = [0.01]

[starved]
others = 1.0
stolen = 1.0
repeats = 0
"""


def loaded(text: str = TEXT, scale: str | None = None) -> Loaded:
    return load_spec(text, "small.toml", "small", Path("/nowhere"), scale)


def experiment(root: Path, text: str = TEXT) -> Experiment:
    return Experiment.of(loaded(text), root)


def attempt(
    number: int,
    replicate: int,
    cell: Cell,
    makespan_s: float,
    state: State = "done",
    **more: Any,
) -> Attempt:
    fields: dict[str, Any] = {
        "number": number,
        "replicate": replicate,
        "levels": dict(cell.levels),
        "attempt": 1,
        "session": 1,
        "began_s": 0.0,
        "wall_s": makespan_s + 0.5,
        "state": state,
        "reason": "",
        "numbers": {
            "makespan_s": makespan_s,
            "read_s": makespan_s / 2,
            "compute_s": makespan_s,
            "written_nbytes": 1000,
        },
        "preparation": {},
        "load_before": {},
        "load_during": {},
        "starved": "",
    }
    return Attempt(**(fields | more))


def record_of(
    asked: Experiment,
    factors: Mapping[str, Sequence[float]],
    machine: Mapping[str, Any],
    starts: Mapping[str, float] | None = None,
) -> Record:
    """A record in which cells took a second times a factor for each replicate, by their names, the
    first one again where there are no more;
    `starts` are the seconds of it that the start of their engine took.
    """
    attempts = []
    for trial in trials_of(asked.loaded.spec):
        values = factors.get(trial.cell.name, (1.0,))
        factor = values[(trial.replicate - 1) % len(values)]
        made = attempt(trial.number, trial.replicate, trial.cell, factor)
        if starts is not None:
            after_s = factor - starts.get(trial.cell.name, 0.0)
            numbers = {**made.numbers, "makespan_without_startup_s": after_s}
            made = dataclasses.replace(made, numbers=numbers)
        attempts.append(made)
    by_trial = {one.number: [one] for one in attempts}
    return Record([Session(1, 0.0, machine)], attempts, 0, by_trial)


def compared(values: Sequence[float], references: Sequence[float]) -> Comparison:
    """A cell that took so many seconds in each replicate, beside one that took so many."""
    base, other, *_ = cells_of(loaded().spec)
    attempts = [attempt(2 * n, n, base, s) for n, s in enumerate(references, 1)]
    attempts += [attempt(2 * n + 1, n, other, s) for n, s in enumerate(values, 1)]
    record = Record((), attempts, 0, {one.number: [one] for one in attempts})
    results = results_of([base, other], record)
    return compare("iterations", results[1], results[0], margin=0.1)
