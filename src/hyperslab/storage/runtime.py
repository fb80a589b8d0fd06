"""Runtime: folders of this user's records of what is on this host, which end with the boot."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.errors import UsageError


def place_of(name: str) -> Path:
    """Where the folder of such a name is, or will be."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / name
    return Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"


def folder(name: str) -> Path:
    """The folder of such a name, made if it is not there. Raises UsageError where it is somebody
    else's.
    """
    place = place_of(name)
    place.mkdir(mode=0o700, exist_ok=True)
    about = place.lstat()
    is_ours = about.st_uid == os.geteuid() and stat.S_ISDIR(about.st_mode)
    if not is_ours or about.st_mode & 0o022:
        raise UsageError(
            f"{place} belongs to somebody else, or others may write to it: remove it, or set"
            " XDG_RUNTIME_DIR"
        )
    return place


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """The folder of such a name, held by nobody else meanwhile."""
    place = folder(name)
    descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield place
    finally:
        os.close(descriptor)
