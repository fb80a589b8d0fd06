"""Claims: names that processes of several hosts hold alone, or together, as locks on bytes of one
file.

- a claim ends with whoever holds it, however that dies
- each name has the byte at its hash: the file stays empty, and one descriptor holds any number
- locks belong to the descriptor (F_OFD_SETLK, fcntl(2)): threads of one process exclude each other
  as well, and a server of NFS holds them for all hosts

Held by tests/storage/test_claims.py.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import xxhash

_FORM = "hhqqi4x"
"struct flock: type, whence, start, length, pid."
_ALONE = 0
"Byte of whoever looks at all claims; names have others."
_ONE, _ALL = 1, 0
"Lengths of a range: one byte, or all from its start on."
_FIRST_PAUSE_S, _PAUSE_S = 0.005, 0.5
"How long somebody waits for a turn before another try, at first and at most."


class Claims:
    """The claims of one process, or of one of its threads."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def close(self) -> None:
        """Give back all claims."""
        os.close(self._fd)

    def take(self, name: str) -> bool:
        """Hold a name alone; whether nobody else held it."""
        return self._is_set(fcntl.F_WRLCK, _byte_of(name))

    def share(self, name: str) -> bool:
        """Hold a name together with others who share it; whether nobody held it alone."""
        return self._is_set(fcntl.F_RDLCK, _byte_of(name))

    def give_back(self, name: str) -> None:
        """Hold a name no more."""
        self._free(_byte_of(name))

    def is_taken(self, name: str) -> bool:
        """Whether somebody else holds a name, alone or together with others."""
        return self._is_held(fcntl.F_WRLCK, _byte_of(name), _ONE)

    def is_taken_alone(self, name: str) -> bool:
        """Whether somebody else holds a name alone."""
        return self._is_held(fcntl.F_RDLCK, _byte_of(name), _ONE)

    def is_any_taken(self) -> bool:
        """Whether somebody else holds any name."""
        return self._is_held(fcntl.F_WRLCK, _ALONE + 1, _ALL)

    @contextmanager
    def alone(self, watch: Callable[[], None] = lambda: None) -> Iterator[None]:
        """A block in which nobody else looks at claims and takes some; waits for that.

        `watch` is called meanwhile now and then; what it raises ends the waiting.
        """
        pause_s = _FIRST_PAUSE_S
        while not self._is_set(fcntl.F_WRLCK, _ALONE):
            watch()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S)
        try:
            yield
        finally:
            self._free(_ALONE)

    def _free(self, start: int) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK, start, _ONE))

    def _is_set(self, kind: int, start: int) -> bool:
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _range(kind, start, _ONE))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _is_held(self, kind: int, start: int, length: int) -> bool:
        found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _range(kind, start, length))
        return bool(struct.unpack(_FORM, found)[0] != fcntl.F_UNLCK)


def is_any_taken(path: Path) -> bool:
    """Whether somebody holds any name in a file of claims, which need not be there."""
    if not path.exists():
        return False
    claims = Claims(path)
    try:
        return claims.is_any_taken()
    finally:
        claims.close()


def _byte_of(name: str) -> int:
    """Place of a name: one of 2**61 that are not `_ALONE`."""
    return (xxhash.xxh3_64_intdigest(os.fsencode(name)) >> 3) + 1


def _range(kind: int, start: int, length: int) -> bytes:
    return struct.pack(_FORM, kind, os.SEEK_SET, start, length, 0)
