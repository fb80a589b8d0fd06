"""Copies of input files on a fast tier: whole ones, which are the file that was planned with.

- a copy has its name only once all its bytes are there; it then has the size and the time of change
  of the file, so that every read of it compares them as it does with the file itself
- who needs a copy that is being made waits for it; who finds none reads the file, and leaves word
  of that, so that it is not read again for a copy

Held by tests/storage/test_staging.py.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hyperslab.storage.staging.area import let_go
from hyperslab.trace import span

_PIECE_NBYTES = 8 * 1024**2
_DECLINED = ".declined"


@dataclass(slots=True)
class Took:
    """What making copies took."""

    nbytes: int = 0
    read_ns: int = 0
    "Time of opening and reading the files."
    write_ns: int = 0

    @property
    def ns_per_byte(self) -> float:
        return (self.read_ns + self.write_ns) / max(1, self.nbytes)

    def include(self, other: Took) -> None:
        self.nbytes += other.nbytes
        self.read_ns += other.read_ns
        self.write_ns += other.write_ns


def bring(path: str, identity: tuple[int, int], copy: str, watch: Callable[[], None]) -> Took:
    """Copy the file that has this size and time of change (ns).

    `watch` is called now and then, and ends the copying by what it raises. Raises ValueError for a
    file that is another one by now, OSError.
    """
    took = Took()
    unfinished = f"{copy}.part"
    target = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(target, fcntl.LOCK_EX)
        began = time.monotonic_ns()
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _require(source, path, identity)
            took.read_ns += time.monotonic_ns() - began
            _pour(source, target, took, watch)
            _require(source, path, identity)
        finally:
            os.close(source)
        if took.nbytes != identity[0]:
            raise ValueError(f"{path} has {took.nbytes} of {identity[0]} bytes")
        os.utime(target, ns=(identity[1], identity[1]))
        os.rename(unfinished, copy)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
    finally:
        os.close(target)  # who waits goes on
    return took


def _require(fd: int, path: str, identity: tuple[int, int]) -> None:
    about = os.fstat(fd)
    if (about.st_size, about.st_mtime_ns) != identity:
        raise ValueError(f"{path} was written to")


def _pour(source: int, target: int, took: Took, watch: Callable[[], None]) -> None:
    """Copy all bytes from one file to another, and say how long reading and writing took."""
    buffer = memoryview(bytearray(_PIECE_NBYTES))
    while True:
        watch()
        began = time.monotonic_ns()
        count = os.readv(source, [buffer])
        read = time.monotonic_ns()
        written = 0
        while written < count:
            written += os.write(target, buffer[written:count])
        took.nbytes += count
        took.read_ns += read - began
        took.write_ns += time.monotonic_ns() - read
        if not count:
            return


def opened(copy: str) -> int | None:
    """Descriptor of a copy, once it is whole; None where there is none, and none is being made."""
    fd = _open(copy)
    if fd is not None:
        return fd
    unfinished = _open(f"{copy}.part")
    if unfinished is None:
        fd = _open(copy)  # it may have had its name in this moment
        if fd is None:
            _decline(copy)
        return fd
    try:
        with span("wait"):
            fcntl.flock(unfinished, fcntl.LOCK_SH)  # until it is made, or given up
    except OSError:
        return None
    finally:
        let_go(unfinished)
    return _open(copy)


def _decline(copy: str) -> None:
    """Say that a file is read where it lies, so that nobody copies it for that."""
    with suppress(OSError):
        os.close(os.open(copy + _DECLINED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def is_declined(copy: str) -> bool:
    """Whether somebody has read the file for want of its copy."""
    return os.path.exists(copy + _DECLINED)


def is_there(copy: str) -> bool:
    """Whether a copy is whole, or being made."""
    return os.path.exists(copy) or os.path.exists(f"{copy}.part")


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # the tier may be gone, or not to be reached
        return None
