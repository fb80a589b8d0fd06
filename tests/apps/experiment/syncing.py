"""What is waited for until it is on storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch


@contextmanager
def waited_for() -> Iterator[list[Path]]:
    """A list to which every file and folder is added that fsync(2) is called on."""
    found: list[Path] = []
    synchronise = os.fsync

    def noting(fd: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        synchronise(fd)

    with patch.object(os, "fsync", noting):
        yield found
