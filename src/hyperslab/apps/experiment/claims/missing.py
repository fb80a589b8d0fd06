"""Missing: trials of a claim's cells that tell nothing, and why, as evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.claims.claim import Evidence
from hyperslab.apps.experiment.design.cells import Trial
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.units import show_count, show_list

MOST_REASONS = 3
"Reasons that a sentence tells."


def left_out_of(cells: Sequence[CellResult], trials: Sequence[Trial]) -> Iterator[str]:
    """How many trials of some cells are in no comparison, kind by kind, of all that are asked
    for.
    """
    keys = {one.cell.key for one in cells}
    asked = sum(trial.cell.key in keys for trial in trials)
    total = f"its {show_count(asked, 'trial')}"
    tried = [one for cell in cells for one in cell.attempts]
    failed = [one for one in tried if one.state == "failed" and not one.starved]
    rejected = [one for cell in cells for one in cell.rejected]
    starved = sum(len(cell.starved) for cell in cells)
    too_long = sum(len(cell.too_long) for cell in cells)
    if starved:
        yield f"Left out: {starved:,} of {total}, which had to share the processors."
    if failed:
        yield f"Failed: {len(failed):,} of {total} ({reasons_of(failed)})."
    if too_long:
        yield f"Ended for their length: {too_long:,} of {total}."
    if rejected:
        whys = dict.fromkeys(one.rejected for one in rejected)
        yield f"Rejected: {len(rejected):,} of {total} ({_few(list(whys))})."
    if missing := asked - len(tried):
        yield f"Not run: {missing:,} of {total}."


def reasons_of(attempts: Sequence[Attempt]) -> str:
    """Why attempts have failed, each reason once, with a trial that has it."""
    numbers: dict[str, list[int]] = {}
    for one in sorted(attempts, key=lambda one: one.number):
        numbers.setdefault(one.reason or one.state, []).append(one.number)
    return _few([f"{_trials(own)}: {reason}" for reason, own in numbers.items()])


def _trials(numbers: Sequence[int]) -> str:
    first, *others = numbers
    if others:
        return f"trial {first} and {len(others)} more"
    return f"trial {first}"


def _few(reasons: Sequence[str]) -> str:
    told = list(reasons[:MOST_REASONS])
    if len(reasons) > MOST_REASONS:
        told.append(f"{len(reasons) - MOST_REASONS} more")
    return show_list(told)


def not_compared(evidence: Evidence) -> Iterator[str]:
    """Levels that come to the same on the machine of the trials."""
    if evidence.alike:
        yield f"Not compared, as both are the same on this machine: {'; '.join(evidence.alike)}."
