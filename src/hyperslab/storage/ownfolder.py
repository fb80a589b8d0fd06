"""Own folder: a folder of records that nobody else may write to, and its lock."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.errors import UsageError

LOCK = "lock"
OTHERS_WRITE = 0o022


def own_folder(place: Path, mode: int, remedy: str) -> Path:
    """A folder of this user's, made if it is not there. Raises UsageError where it is somebody
    else's; `remedy` says what else can be done than to remove it, as a clause.
    """
    place.mkdir(mode=mode, exist_ok=True)
    about = place.lstat()
    is_ours = about.st_uid == os.geteuid() and stat.S_ISDIR(about.st_mode)
    if not is_ours or about.st_mode & OTHERS_WRITE:
        raise UsageError(
            f"{place} belongs to somebody else, or others may write to it: remove it, or {remedy}"
        )
    return place


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """A block in which nobody else has the lock of a folder."""
    descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
