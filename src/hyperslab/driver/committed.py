"""Committed: which allocation every finished volume of an output directory was, and what it was
like then.

A line is added before a volume gets its name, so that a run that is killed in this moment knows its
own file again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hyperslab.blocks.writing.part_folders import discard
from hyperslab.driver.directory import RunDirectory
from hyperslab.storage.frame import Frame, Span
from hyperslab.storage.sealing import seal, unseal

RECORD = "committed.jsonl"


@dataclass(frozen=True, slots=True)
class Committed:
    """A finished volume."""

    name: str
    allocation: str
    "Name of the file or folder that it was while it was unfinished."
    identity: tuple[int, ...]
    """Size and time of it then; of a directory also the number of files, and the newest time of all
    in it.
    """
    frame: Frame | None = None
    "None where an earlier version has finished it."


def describe(final: Path, partial: Path, ready: Path, frame: Frame) -> Committed:
    """What there is to note of a file that is complete at `ready`. Raises OSError."""
    return Committed(final.name, partial.name, _identity(ready), frame)


def note(directory: RunDirectory, files: Iterable[Committed]) -> None:
    """Record, durably, that files are about to get their names. Raises OSError."""
    lines = [b"\n%s\n" % seal(json.dumps(asdict(file)).encode()) for file in files]
    with (directory.root / RECORD).open("ab") as record:
        record.write(b"".join(lines))  # each begins a line: the last one may have been cut off
        record.flush()
        os.fsync(record.fileno())


def committed(directory: RunDirectory) -> dict[str, Committed]:
    """Every finished volume by its name; those that are not as they were then are left out."""
    return {
        name: done
        for name, done in noted(directory).items()
        if _is_as_it_was(directory.out / name, done.identity)
    }


def noted(directory: RunDirectory) -> dict[str, Committed]:
    """What volumes were by their names when they were finished, whatever has become of them."""
    path = directory.root / RECORD
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return {done.name: done for done in map(_parse, lines) if done is not None}


def _parse(line: bytes) -> Committed | None:
    """What a line says; None for one that is damaged or cut off."""
    text = unseal(line)
    if text is None or not text.endswith((b"}", b"]")):
        return None
    try:
        return _decoded(json.loads(text))
    except (ValueError, TypeError, KeyError):
        return None


def _decoded(said: Any) -> Committed:
    if isinstance(said, list):  # of an earlier version
        name, allocation, *seen = said
        if os.path.basename(name) != name:
            raise ValueError(f"{name} is not a name")
        return Committed(name, allocation, tuple(seen))
    spans = tuple(Span(*span) for span in said["frame"]["spans"])
    return Committed(
        said["name"],
        said["allocation"],
        tuple(said["identity"]),
        Frame(spans, said["frame"]["checksum"]),
    )


def discard_replaced(directory: RunDirectory) -> None:
    """Remove what is left in the allocations of finished volumes, after a commit that ended
    early.
    """
    for name, done in committed(directory).items():
        if (directory.out / done.allocation).exists():
            discard(directory.out / done.allocation, directory.out / name)


def _is_as_it_was(path: Path, identity: tuple[int, ...]) -> bool:
    if path.is_dir() and len(identity) == len(_of_earlier_versions(path)):
        return identity == _of_earlier_versions(path)
    return identity == _identity(path)


def _identity(path: Path) -> tuple[int, ...]:
    """Size and time of a file; of a directory those of all in it. A new name changes neither."""
    try:
        return _of_tree(path) if path.is_dir() else _of_file(path.stat())
    except FileNotFoundError:
        return ()


def _of_file(about: os.stat_result) -> tuple[int, ...]:
    return (about.st_size, about.st_mtime_ns)


def _of_tree(folder: Path) -> tuple[int, ...]:
    """Bytes and number of the files in a directory, and the newest time of anything: a chunk that
    goes changes it.
    """
    nbytes = count = 0
    newest = folder.stat().st_mtime_ns
    for entry in _entries(folder):
        about = entry.stat(follow_symlinks=False)
        newest = max(newest, about.st_mtime_ns)
        if not entry.is_dir(follow_symlinks=False):
            nbytes += about.st_size
            count += 1
    return (nbytes, newest, count)


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path)


def _of_earlier_versions(folder: Path) -> tuple[int, ...]:
    return (0, folder.stat().st_mtime_ns)
