"""Replaced: what earlier runs have made in an output directory, which a run that starts over
replaces when all that it makes is there.

It is noted before the records of those runs go, and the note is there until the last of it is
replaced: whoever resumes the run in between knows what may go. Files of several tasks wait under
hidden names beside their own, files of blocks in a folder among the records. Held by
tests/system/faults/test_overwrite.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.blocks.writing.forms import stored_nbytes
from hyperslab.blocks.writing.part_folders import remove_output
from hyperslab.driver.committed import committed
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.manifest import load_manifest
from hyperslab.driver.verification import is_name
from hyperslab.errors import DamagedRecord
from hyperslab.plan.journal import Tail
from hyperslab.storage import renaming
from hyperslab.storage.recordfile import load_list, save_record


def note(directory: RunDirectory, parts: Collection[str], there: Collection[str]) -> None:
    """Note what a run is going to replace: all that earlier ones have made, parts of files of any
    origin, and what is `there` under the names of its own files.
    """
    names = sorted({*all_made(directory), *parts})
    save_record(directory.replaced, {"names": names, "there": sorted(there)})


def made(directory: RunDirectory) -> set[str]:
    """Names of the volumes that runs in a directory have finished, with all that one under way is
    going to replace. Raises DamagedRecord.
    """
    return {*committed(directory), *_noted(directory, "names")}


def all_made(directory: RunDirectory) -> set[str]:
    """The same, with files of blocks and of results that are as large as they were then."""
    return made(directory).union(_singly_made(directory))


def may_go(directory: RunDirectory) -> set[str]:
    """Names of what the run under way was told to replace. Raises DamagedRecord."""
    found = set(_noted(directory, "names"))
    with suppress(KeyError):  # which earlier versions did not note
        found.update(_noted(directory, "there"))
    return found


def drop(directory: RunDirectory) -> None:
    """Forget what a run was told to replace that was killed before it began."""
    directory.replaced.unlink(missing_ok=True)
    renaming.remove(directory.waiting)


def move_blocks(directory: RunDirectory, names: Iterable[str]) -> None:
    """Let files of blocks that wait have their names, each in one step. Raises OSError."""
    waiting = directory.blocks
    if waiting == directory.out:
        return
    renaming.synchronise(waiting)
    for name in names:
        if (waiting / name).exists():
            renaming.rename(waiting / name, directory.out / name, overwrite=True)
    renaming.remove(waiting)


def tidy(directory: RunDirectory, names: Collection[str]) -> None:
    """Remove what a run replaces, but for what it has made itself, which has these names."""
    if not directory.replaced.is_file():
        return
    for name in made(directory).difference(names):
        remove_output(directory.out / name)
    directory.replaced.unlink()


def size_of(path: Path) -> int | None:
    """Bytes of a file, or of all files of a directory; None where there is none."""
    if path.is_dir():
        return stored_nbytes(path)
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _singly_made(directory: RunDirectory) -> Iterator[str]:
    """Names of files that one task, or none, has written."""
    for name, nbytes in {*_recorded(directory), *_listed(directory)}:
        if is_name(name) and size_of(directory.out / name) == nbytes:
            yield name


def _recorded(directory: RunDirectory) -> Iterator[tuple[str, int]]:
    """Names and sizes of what tasks say they have written, also those of a run that was killed."""
    for folder in directory.submissions():
        for outcome in Tail(folder).poll():
            if outcome.status == "done":
                yield from ((Path(each.path).name, each.nbytes) for each in outcome.outputs)


def _listed(directory: RunDirectory) -> Iterator[tuple[str, int]]:
    """The same of what the manifest lists, where it is as it was written."""
    entries: list[dict[str, Any]] = []
    with suppress(DamagedRecord):
        entries = load_manifest(directory).get("outputs", [])
    for entry in entries:
        if entry.keys().isdisjoint(("region", "frame")):
            yield entry["path"], entry["nbytes"]


def _noted(directory: RunDirectory, field: str) -> list[str]:
    remedy = (
        "it is not known which files of an earlier run to replace; remove those in"
        f" {directory.out} that you do not want to keep, and {directory.replaced}, then run the"
        " same command again"
    )
    if not directory.replaced.is_file():
        return []
    return load_list(directory.replaced, field, remedy)
