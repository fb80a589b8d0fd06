"""Contents: what a command reads, by the states of its files, and by a checksum of their bytes.

A resumed run repeats a task whose inputs have changed. Their states tell at once where nothing has;
where times alone are others, as after a copy that keeps none, the checksum decides that was taken
when the task had ended. Held by tests/apps/commands/test_touched.py.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import xxhash

from hyperslab.blocks import checksums


class FileState(NamedTuple):
    """State of a file when it was looked at."""

    path: str
    nbytes: int
    mtime_ns: int


def states(path: str) -> Iterator[FileState]:
    """The state of a file, or of all files in a folder. Raises OSError."""
    if not os.path.isdir(path):
        yield _state(path, os.stat(path))
        return
    for file in _files_below(path):
        yield _state(file, os.lstat(file))


def version(what: str, found: Iterable[FileState]) -> str:
    """A text that differs for another task, and for inputs of other names, sizes or times; its
    second word does not differ for other times.
    """
    with_times = hashlib.sha256(what.encode())
    without = with_times.copy()
    for path, nbytes, mtime_ns in found:
        said = f"\0{path}\0{nbytes}"
        without.update(said.encode(errors="surrogateescape"))
        with_times.update(f"{said}\0{mtime_ns}".encode(errors="surrogateescape"))
    return f"{with_times.hexdigest()} {without.hexdigest()}"


def is_as_before(before: str, now: str) -> bool:
    """Whether a state that ends with a version is the same; earlier versions of hyperslab recorded
    no second word.
    """
    return now == before or now.startswith(f"{before} ")


def differs_in_times(before: str, now: str) -> bool:
    """Whether two states that end with a version differ in times alone."""
    return before.rpartition(" ")[2] == now.rpartition(" ")[2]


def checksum(inputs: Sequence[str]) -> str:
    """The checksum of the bytes of all inputs, with the names of files in folders; '' where one
    cannot be read.
    """
    digest = xxhash.xxh3_128()
    try:
        for place, path in enumerate(inputs):
            for name, content in _contents(path):
                said = f"\0{place}\0{name}\0{content}"
                digest.update(said.encode(errors="surrogateescape"))
    except OSError:
        return ""
    return digest.hexdigest()


def _contents(path: str) -> Iterator[tuple[str, str]]:
    """Names of the files of an input, and checksums of these. Raises OSError."""
    if not os.path.isdir(path):
        yield "", _of_input(_state(path, os.stat(path)))
        return
    for file in _files_below(path):
        yield os.path.relpath(file, path), _content(file)


@functools.lru_cache(maxsize=16)
def _of_input(state: FileState) -> str:
    """The checksum of an input, which is read once where tasks share it, as an image of
    Apptainer's. Raises OSError.
    """
    return checksums.of_file(state.path)


def _content(path: str) -> str:
    """What a file holds; where a link leads, if that is no file."""
    if os.path.isfile(path):
        return checksums.of_file(path)
    if os.path.islink(path):
        return os.readlink(path)
    return ""


def _state(path: str, about: os.stat_result) -> FileState:
    return FileState(path, about.st_size, about.st_mtime_ns)


def _files_below(folder: str) -> Iterator[str]:
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(top, name)
