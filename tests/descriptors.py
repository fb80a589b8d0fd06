"""Descriptors of this process that lead below a folder: others are those of threads that an earlier
test has left, and come and go.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def descriptors_below(folder: Path) -> list[str]:
    """What is open below a folder, once for each descriptor."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was that of the listing, or of another thread
            found.append(os.readlink(f"/proc/self/fd/{entry}"))
    return sorted(path for path in found if path.startswith(f"{folder}"))
