"""Contents: what a command reads, by the states of its files, and by a checksum of their bytes.

A resumed run repeats a task whose inputs have changed. Their states tell at once where nothing has;
where times alone are others, as after a copy that keeps none, the checksum decides that was taken
when the task had ended. Held by tests/apps/commands/test_touched.py.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import xxhash

from hyperslab.arrays.byteranges import BUFFER_NBYTES
from hyperslab.blocks import checksums

ALWAYS_NBYTES = BUFFER_NBYTES
"Bytes of inputs that are read however long that takes."
FILE_NBYTES = 16 * 1024
"""Bytes for which a file in a folder counts each time that it is looked at, beside its own: it
takes time to find and to open.
"""
MOST_KNOWN = 16
"Inputs whose checksums are known without reading them again."
_OBJECTS = os.path.join(".git", "annex", "objects", "")


class FileState(NamedTuple):
    """State of a file when it was looked at."""

    path: str
    nbytes: int
    mtime_ns: int


class Patience:
    """How much longer inputs may be looked at, and read."""

    def __init__(self, limit_s: float) -> None:
        self._end_s = time.monotonic() + limit_s
        self._left_nbytes = ALWAYS_NBYTES

    @property
    def left_s(self) -> float:
        """Time that is left of it; less than 0 where it is over but for what is little."""
        return self._end_s - time.monotonic()

    def took(self, nbytes: int) -> None:
        """Raise TimeoutError, which is an OSError, where it is over."""
        self._left_nbytes -= nbytes
        if self._left_nbytes < 0 and time.monotonic() > self._end_s:
            raise TimeoutError


ENDLESS = Patience(math.inf)


def states(path: str, patience: Patience = ENDLESS) -> Iterator[FileState]:
    """The state of a file, or of all files in a folder: of links in it, and of where they lead.
    Raises OSError.
    """
    if not os.path.isdir(path):
        yield _state(path, os.stat(path))
        return
    for file in _files_below(path, patience):
        yield from _states_of(file)


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


def checksum(inputs: Sequence[str], digest: Callable[[str], str]) -> str:
    """The checksum of all inputs, made of what `digest`, such as `digest_of`, tells of each; ''
    where one cannot be read, or not in time.
    """
    found = xxhash.xxh3_128()
    try:
        for place, path in enumerate(inputs):
            found.update(f"\0{place}\0\0{digest(path)}".encode())
    except OSError:
        return ""
    return found.hexdigest()


def digest_of(path: str, patience: Patience = ENDLESS) -> str:
    """The checksum of the bytes of a file, or of all files in a folder with their names. Raises
    OSError.
    """
    return _latest.of(path, patience)


class _Latest:
    """Checksums of the inputs that were read last: those that tasks share, such as an image or a
    sandbox of Apptainer's, are read once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def of(self, path: str, patience: Patience) -> str:
        """The checksum of an input. Raises OSError."""
        state = (path, version("", states(path, patience)))
        found = self._known.get(state) or _read(path, patience)
        with self._lock:
            self._known.pop(state, None)
            self._known[state] = found
            while len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return found


_latest = _Latest()


def _read(path: str, patience: Patience) -> str:
    if not os.path.isdir(path):
        return checksums.of_file(path, patience.took)
    found = xxhash.xxh3_128()
    for file in _files_below(path, patience):
        said = f"\0{os.path.relpath(file, path)}\0{_content(file, patience)}"
        found.update(said.encode(errors="surrogateescape"))
    return found.hexdigest()


def _content(path: str, patience: Patience) -> str:
    """What a file holds; where a link leads, if that is no file."""
    if os.path.isfile(path):
        return checksums.of_file(path, patience.took)
    if os.path.islink(path):
        return os.readlink(path)
    return ""


def _states_of(path: str) -> Iterator[FileState]:
    """The state of a file in a folder, and that of the file behind a link, unless it is of
    git-annex: its name tells what is in it.
    """
    about = os.lstat(path)
    yield _state(path, about)
    if not stat.S_ISLNK(about.st_mode) or os.path.isdir(path) or _is_of_annex(path):
        return
    with suppress(OSError):  # it leads nowhere
        yield _state(path, os.stat(path))


def _is_of_annex(link: str) -> bool:
    return _OBJECTS in os.readlink(link) or _OBJECTS in os.path.realpath(link)


def _state(path: str, about: os.stat_result) -> FileState:
    return FileState(path, about.st_size, about.st_mtime_ns)


def _files_below(folder: str, patience: Patience) -> Iterator[str]:
    """All files, in an order that does not change: also those in folders to which links lead, and
    links to folders that would never end.
    """
    followed = {folder: frozenset({os.path.realpath(folder)})}
    for top, folders, names in os.walk(folder, followlinks=True):
        before = followed.pop(top)
        for name in sorted(folders):
            path = os.path.join(top, name)
            after = _followed(path, before)
            if after is None:
                folders.remove(name)
                names.append(name)
            else:
                followed[path] = after
        folders.sort()
        for name in sorted(names):
            patience.took(FILE_NBYTES)
            yield os.path.join(top, name)


def _followed(path: str, before: frozenset[str]) -> frozenset[str] | None:
    """The folders to which links have led on the way into a folder; None for a link that leads to
    one of them again, or to a folder above itself.
    """
    if not os.path.islink(path):
        return before
    target = os.path.realpath(path)
    above = os.path.realpath(os.path.dirname(path))
    if target in before or Path(above).is_relative_to(target):
        return None
    return before | {target}
