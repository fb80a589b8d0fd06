"""Cells, comparisons and machines of an experiment as sheets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from hyperslab.apps.experiment.answers.answer import Answer, makespan_words
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.statistics.shown import show_interval
from hyperslab.apps.experiment.trials.record import Record, Session


def cells_sheet(answer: Answer) -> Sheet:
    """Makespans of all cells."""
    rows = [
        (result.cell.name, makespan_words(result), _counts(result)) for result in answer.results
    ]
    hint = "Means over replicates, with half of their 95 % intervals."
    return Sheet("Makespans", ("cell", "makespan", "trials that count"), rows, hint)


def _counts(result: CellResult) -> str:
    """Number of trials that count, and of those left out as they had to share the processors."""
    if result.starved:
        return f"{len(result.done)} ({len(result.starved)} starved)"
    return str(len(result.done))


def comparisons_sheet(answer: Answer) -> Sheet:
    """Every comparison, those away from the baseline included."""
    rows = [
        (
            one.cell.name,
            one.reference.name,
            str(one.pairs),
            show_interval(one.ratio),
            one.verdict,
        )
        for one in answer.comparisons
        if one.ratio is not None
    ]
    columns = ("cell", "beside", "pairs", "ratio of makespans (95 % interval)", "alone")
    hint = (
        "Each verdict is that of one comparison alone: among so many, some are chance. What is"
        " decided allows for their number."
    )
    return Sheet("Comparisons, one factor at a time", columns, rows, hint)


def sessions_sheet(record: Record) -> Sheet:
    """The machine of every session; sessions one after the other that found the same are one
    column.
    """
    alike = [list(group) for _, group in groupby(record.sessions, lambda one: one.machine)]
    names = list(dict.fromkeys(name for one in record.sessions for name in one.machine))
    rows = [(name, *(str(group[0].machine.get(name, "")) for group in alike)) for name in names]
    return Sheet("Machine", ("", *map(_span, alike)), rows)


def _span(sessions: Sequence[Session]) -> str:
    first, last = sessions[0].number, sessions[-1].number
    if first == last:
        return f"session {first}"
    return f"sessions {first} to {last}"
