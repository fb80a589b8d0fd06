"""Replacement: while the files of a directory get their names, one by one, it may hold those of two
conversions.

A file among the records says so from before the first to after the last one, whatever ends the
process.
"""

from __future__ import annotations

import os
from pathlib import Path

from hyperslab.errors import OutputBusy

FOLDER = ".hyperslab"
"Folder in an output directory that holds its records."
_MARK = "replacing"


def begin(records: Path) -> None:
    """Say, durably, that the directory of these records is a mixture from now on."""
    with (records / _MARK).open("w") as file:
        os.fsync(file.fileno())
    fd = os.open(records, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def end(records: Path) -> None:
    """Say that it is one no longer."""
    (records / _MARK).unlink(missing_ok=True)


def require_ended(folder: str | os.PathLike[str]) -> None:
    """Raise OutputBusy for a directory that may hold files of two conversions."""
    if os.path.exists(os.path.join(folder, FOLDER, _MARK)):
        raise OutputBusy(
            f"{folder}: its files are being replaced, or that was interrupted, so that some may be"
            " old and some new: wait, or finish it with the same command and --resume"
        )
