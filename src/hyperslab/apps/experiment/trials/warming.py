"""Warming: what is run before the first trials, and counts for nothing.

The first run of a program since the machine was started reads its libraries from disk, or the
classes of Java. So the first trial of each engine is run some times before it counts. The record
says so, and nothing is warmed up again before the machine is started anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hyperslab.apps.experiment.design.cells import WARM_UP, Trial
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.trials.record import Record


def warm_ups(trials: Iterable[Trial], times: int, record: Record, boot: str) -> list[Trial]:
    """What is run before trials, in their order: the first one of each engine, as often as is still
    to be done on a machine that was started at `boot`.
    """
    found: list[Trial] = []
    made = [_engine(one.levels) for one in record.warm_ups(boot)]
    for trial in trials:
        engine = _engine(trial.cell.levels)
        missing = times - made.count(engine)
        found += [Trial(WARM_UP, WARM_UP, trial.cell)] * missing
        made += [engine] * max(0, missing)
    return found


def _engine(levels: Mapping[str, Level]) -> Level:
    """The engine of a cell; '' where that is no factor."""
    return levels.get("engine", "")
