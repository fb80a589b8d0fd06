"""Cells of two engines, by workers and by files, with numbers that are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hyperslab.apps.experiment.answers.comparison import CellResult, results_of
from hyperslab.apps.experiment.design.cells import trials_of
from hyperslab.apps.experiment.trials.record import Attempt, Record, Session
from tests.apps.experiment.specs import TEXT, attempt, loaded

SPEC = TEXT.replace(
    'engine = "serial"\niterations = 1\ndelay = 0\n\n[vary]\niterations = [2]\ndelay = [0.01]',
    'engine = "processes"\nworkers = 2\nfiles = 4\n\n[vary]\nworkers = [1, 4]\nfiles = [8]\n\n'
    '[grid]\nengine = ["threads"]',
)
Numbers = Callable[[Attempt], dict[str, float]]


def results(numbers: Numbers, sessions: Sequence[Session] = ()) -> list[CellResult]:
    """All cells, with numbers that follow from the levels and the replicate of each trial; later
    replicates in the second session, where there are two.
    """
    spec = loaded(SPEC).spec
    attempts = []
    for trial in trials_of(spec):
        made = attempt(trial.number, trial.replicate, trial.cell, 1.0)
        own: dict[str, Any] = {"numbers": numbers(made), "session": 1 + (trial.replicate > 2)}
        attempts.append(attempt(trial.number, trial.replicate, trial.cell, 1.0, **own))
    record = Record(sessions, attempts, 0, {one.number: [one] for one in attempts})
    cells = list({trial.cell.key: trial.cell for trial in trials_of(spec)}.values())
    baseline = next(cell for cell in cells if not cell.changed)
    return results_of([baseline, *(cell for cell in cells if cell != baseline)], record)
