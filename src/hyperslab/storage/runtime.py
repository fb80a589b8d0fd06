"""Runtime: folders of this user's records of what is on this host, which end with the boot."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.storage import ownfolder


def place_of(name: str) -> Path:
    """Where the folder of such a name is, or will be."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isdir(runtime):  # a job may have that of the host from where it was submitted
        return Path(runtime) / name
    return Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"


def folder(name: str) -> Path:
    """The folder of such a name, made if it is not there. Raises UsageError where it is somebody
    else's.
    """
    return ownfolder.own_folder(place_of(name), 0o700, "set XDG_RUNTIME_DIR")


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """The folder of such a name, held by nobody else meanwhile."""
    place = folder(name)
    with ownfolder.locked(place):
        yield place
