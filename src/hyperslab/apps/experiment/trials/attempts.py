"""Attempts: all that were made at trials as a table, a line each, for spreadsheets and data
frames.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.errors import UsageError
from hyperslab.storage.whole import replace_text

ABOUT = (
    "number",
    "attempt",
    "replicate",
    "session",
    "began_s",
    "wall_s",
    "state",
    "reason",
    "starved",
    "rejected",
)
"Fields of an attempt that have one value."


def write_attempts(path: Path, record: Record) -> None:
    """Write a CSV file: a line for every attempt, warm-ups (number 0) among them, the oldest first,
    with its levels, the numbers of its run and the load meanwhile. What an attempt does not know is
    empty. Raises UsageError.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(_rows(record.attempts))
    try:
        replace_text(path, text.getvalue())
    except OSError as error:
        raise UsageError(f"--csv {path}: {error.strerror}") from error


def _rows(attempts: Sequence[Attempt]) -> Iterator[list[Any]]:
    levels = list(dict.fromkeys(name for one in attempts for name in one.levels))
    numbers = list(dict.fromkeys(name for one in attempts for name in one.numbers))
    loads = list(dict.fromkeys(name for one in attempts for name in one.load_during))
    yield [*ABOUT, *levels, *numbers, *(f"load_{name}" for name in loads)]
    for one in attempts:
        yield [
            *(getattr(one, name) for name in ABOUT),
            *(one.levels.get(name) for name in levels),
            *(one.numbers.get(name) for name in numbers),
            *(one.load_during.get(name) for name in loads),
        ]
