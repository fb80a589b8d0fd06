"""Folder: the one directory in which a probe writes, and its removal, by whoever comes next if need
be.

A folder belongs to those who have its file `owner` open and locked (flock(2)): the probe and its
clients. Where nobody holds the lock any more they are dead, and the folder is swept away by the
next probe of the place.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hyperslab.errors import UsageError
from hyperslab.storage.locks import NO_LOCKS

PREFIX = ".hyperslab-probe-"
"What the names of all folders of probes begin with."
OWNER = "owner"
_YOUNG_S = 60.0
"Age below which a folder without an owner may be one that is just being made."
_FOREIGN_S = 3600.0
"""Age from which on a folder of another host is swept: its lock may not be seen from here, but no
probe takes so long.
"""
_ATTEMPTS = 20
_PAUSE_S = 0.05


class Folder:
    """A directory of our own in `place`, locked as long as we or our clients live."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.path = place / f"{PREFIX}{secrets.token_hex(6)}"
        self.descriptors: list[int] = []
        "Descriptors that clients inherit: the lock."

    def make(self) -> None:
        """Make it and lock it. Raises UsageError where nothing can be written."""
        try:
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise UsageError(_refusal(self.place, error)) from error
        owner = self.path / OWNER
        unfinished = owner.with_suffix(".new")  # of which a sweep takes no lock
        fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.descriptors.append(fd)
        about = {"host": socket.gethostname(), "pid": os.getpid(), "locked": lock(fd)}
        os.write(fd, json.dumps(about).encode())
        unfinished.rename(owner)

    def remove(self) -> None:
        """Remove it with all that is in it. Raises OSError with the path where that fails.

        The lock is let go before the folder goes: NFS and sshfs keep a file that is open under
        another name in it.
        """
        try:
            if self.path.exists():
                empty(self.path)
        finally:
            while self.descriptors:
                os.close(self.descriptors.pop())
        if self.path.exists():
            remove_tree(self.path)


@contextmanager
def own_folder(place: Path) -> Iterator[Folder]:
    """A folder that is there for the length of a block, whatever ends it."""
    folder = Folder(place)
    try:
        folder.make()
        yield folder
    finally:
        folder.remove()


def empty(path: Path) -> None:
    """Remove all that is in a folder but its lock, as far as that can be."""
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.name != OWNER:
            with suppress(OSError):
                os.unlink(entry.path)


def remove_tree(path: Path) -> None:
    """Remove a folder; what a client that is just ending adds meanwhile goes, too."""
    for attempt in range(_ATTEMPTS):
        try:
            shutil.rmtree(path)
            return
        except OSError:
            if not path.exists():
                return
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)


def sweep(place: Path) -> tuple[list[Path], list[Path]]:
    """Remove the folders of dead probes. Returns those that were removed, and those that were left
    because it cannot be known whether their probe lives.
    """
    swept = []
    left = []
    for path in sorted(place.glob(f"{PREFIX}*")):
        fate = _fate(path)
        if fate == "dead":
            swept.append(path)
        if fate == "unknown":
            left.append(path)
    return swept, left


def _fate(path: Path) -> str:
    """Whether a folder's probe is alive, dead (then the folder is gone now), or that is unknown."""
    try:
        fd = os.open(path / OWNER, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return _remove_unless_young(path)
    except OSError:  # of another user
        return "unknown"
    try:
        about = _about(fd)
        if not about.get("locked", True):
            return "unknown"
        if about.get("host", socket.gethostname()) != socket.gethostname():
            return _remove_unless_young(path, _FOREIGN_S)
        if not lock(fd):
            return "alive"
        empty(path)
    finally:
        os.close(fd)
    remove_tree(path)
    return "dead"


def _about(fd: int) -> dict[str, Any]:
    """What a folder says of its owner; nothing where the owner died before it could."""
    with suppress(ValueError):
        return dict(json.loads(os.pread(fd, 4096, 0)))
    return {}


def _remove_unless_young(path: Path, young_s: float = _YOUNG_S) -> str:
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime < young_s:
            return "alive"
        remove_tree(path)
    return "dead"


def lock(fd: int, kind: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> bool:
    """Whether the lock of an open file is ours now; False where another has it, or where the file
    system has no locks.
    """
    try:
        fcntl.flock(fd, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def _refusal(place: Path, error: OSError) -> str:
    if error.errno == errno.EROFS:
        return f"{place}: is read-only, and a probe writes files of its own; mount it writable"
    if isinstance(error, PermissionError):
        return f"{place}: no permission to write here; choose a directory of your own on this disk"
    return f"{place}: no file can be written here: {error.strerror}"
