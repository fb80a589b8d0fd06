"""Traces of trials, where they have one."""

from __future__ import annotations

from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.trace import Trace


def trace_of(directory: ExperimentDirectory, attempt: Attempt) -> Trace | None:
    """The trace of a trial; None where there is none that can be read."""
    path = directory.trial(attempt.number, attempt.attempt) / "trace.parquet"
    if not path.is_file():
        return None
    try:
        return Trace.load(path)
    except (OSError, ValueError, KeyError):
        return None
