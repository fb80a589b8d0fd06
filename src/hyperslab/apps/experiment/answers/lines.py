"""Lines: cells in which one factor varies and all else is the baseline's, engine by engine, and
what their trials spend on overhead and on transfer.

Transfer is the time of all slots in reading and writing, overhead that between their tasks, as the
summary of a run defines both.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.design.factors import ENGINE, Level
from hyperslab.apps.experiment.trials.record import Attempt


def lines_of(results: Sequence[CellResult], factor: str) -> dict[str, list[CellResult]]:
    """Cells in which a factor that is a number varies, by engine."""
    baseline = results[0].cell.levels
    if not _is_number(baseline.get(factor)):
        return {}
    found: dict[str, list[CellResult]] = {}
    for result in results:
        changed = set(result.cell.changed) - {ENGINE, factor}
        if not changed and _is_number(result.cell.levels[factor]):
            engine = str(result.cell.levels.get(ENGINE, ""))
            found.setdefault(engine, []).append(result)
    return found


def _is_number(level: Level | None) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def amount(attempt: Attempt, measure: str) -> float | None:
    """Overhead or transfer of a trial, seconds of all slots."""
    names: tuple[str, ...] = ("overhead_s",)
    if measure == "transfer":
        names = ("read_s", "write_s")
    values = [attempt.numbers.get(name) for name in names]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return sum(known)
