"""Vacancy: may a run begin in an output directory, by what lies there?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hyperslab.driver.committed import made
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import OutputBusy
from hyperslab.storage.replacement import FOLDER
from hyperslab.storage.unfinished import leftovers


def require_empty(directory: RunDirectory, verb: str) -> None:
    """Raise OutputBusy for a file, and for a directory that holds what no run wrote."""
    flag = ""
    if verb == "run":
        flag = "-o "
    out = directory.out
    if out.exists() and not out.is_dir():
        raise OutputBusy(f"{flag}{out} is a file: give a directory")
    if directory.file or not out.is_dir():
        return
    if any(path.name != FOLDER for path in out.iterdir()):
        raise OutputBusy(
            f"{flag}{out} holds files that no run wrote: give a new or empty directory"
        )


def require_replaceable(directory: RunDirectory) -> None:
    """Raise OutputBusy for a directory that holds more than what conversions have made."""
    known = {FOLDER, *made(directory), *(path.name for path in leftovers(directory.out))}
    other = [
        path.name
        for path in _entries(directory.out)
        if path.name.partition(".parts-")[0] not in known
    ]
    if not directory.file and other:
        raise OutputBusy(
            f"{directory.out} holds files that no conversion made, such as {min(other)}:"
            " --overwrite"
            " replaces only what an earlier conversion made; give a new or empty directory"
        )


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return list(folder.iterdir())


def files(folder: Path) -> Iterator[Path]:
    """The files in a directory and below. Links to directories are not followed, nor are they when
    it is removed.
    """
    return (Path(top, name) for top, _, names in os.walk(folder) for name in names)
