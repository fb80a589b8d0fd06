"""Sizing: how much room temporary files take, and whether it is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.host import Host
from hyperslab.machine.within import within
from hyperslab.storage.mounts import file_system
from hyperslab.units import show_bytes

BLOCK_NBYTES = 4096
"Room that the smallest file takes."
LEAST_NBYTES = 64 << 20
ANSWER_S = 10.0
"Time that a storage has to answer before it is told that it does not."
_SHARE = 0.5
"Share of what is free that is taken where nobody says how much."
_IN_MEMORY = ("tmpfs", "ramfs")


def shuffled_nbytes(nbytes: int, maps: int, reduces: int) -> int:
    """Room that a shuffle of so many bytes takes.

    Spark writes what a map task has for each reducer into a file of its own, and joins these into
    one while they are still there, with an index and checksums beside it: twice the bytes, and the
    last block of maps x reduces + 3 maps files.
    """
    files = maps * reduces + 3 * maps
    return max(LEAST_NBYTES, 2 * nbytes + files * BLOCK_NBYTES)


def available_nbytes(place: str) -> int:
    """Room that a file system says is left. Raises OSError where it does not answer."""
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize


def free_nbytes(place: str) -> int:
    """Room that is left in a directory; of one in memory, what is left of that."""
    free = available_nbytes(place)
    if file_system(place) in _IN_MEMORY:
        return min(free, Host.here().memory_bytes)
    return free


def usual_nbytes(place: str) -> int:
    """Room that is asked for where nobody says how much."""
    return int(free_nbytes(place) * _SHARE)


def require_directory(flag: str, place: Path) -> str:
    """A directory without links. Raises UsageError for one that is not there, that cannot be
    written to, or that does not answer in time.
    """
    with answering(flag, place):
        return within(ANSWER_S, partial(_required, flag, place))


@contextmanager
def answering(flag: str, place: Path) -> Iterator[None]:
    """A block that may wait for a directory as long as `within` does. Raises UsageError where it
    does not answer.
    """
    try:
        yield
    except TimeoutError:
        raise UsageError(
            f"{flag} {place} does not answer: wait until it does, or give another directory"
        ) from None


def _required(flag: str, place: Path) -> str:
    folder = os.path.realpath(place)
    if not os.path.isdir(folder):
        raise UsageError(f"{flag} {place}: there is no such directory; give one that is there")
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise UsageError(
            f"{flag} {place}: it is on a file system that is mounted read-only; give another"
            " directory"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{flag} {place}: no permission to write there; give another directory")
    return folder


def require_room(place: str, nbytes: int) -> None:
    """Raise UsageError where there is less room."""
    if nbytes < BLOCK_NBYTES:
        raise UsageError(f"--size {show_bytes(nbytes)}: the smallest file takes {BLOCK_NBYTES} B")
    free = free_nbytes(place)
    if nbytes > free:
        raise UsageError(
            f"{place} has {show_bytes(free)} free, and not the {show_bytes(nbytes)} that are asked"
            " for: give a smaller --size, or another directory"
        )
