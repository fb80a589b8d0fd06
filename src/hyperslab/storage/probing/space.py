"""Space: how much a probe may write in a place, so that no disk becomes full by it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from hyperslab.errors import DoesNotFit, UsageError
from hyperslab.units import show_bytes

LEFT_SHARE = 0.05
"Share of a file system that stays free, whatever is probed ..."
MOST_LEFT_NBYTES = 10 * 10**9
"... and the most that this is, bytes."
LEFT_FILES = 1000
"Files that can still be made, at least, where their number is limited."


class Space(NamedTuple):
    """What is free in a place, for those who are not root."""

    nbytes: int
    total_nbytes: int
    files: int | None
    "Files that can still be made; None where their number is not limited."

    @property
    def usable_nbytes(self) -> int:
        """Bytes that a probe may take."""
        margin = min(int(LEFT_SHARE * self.total_nbytes), MOST_LEFT_NBYTES)
        return max(0, self.nbytes - margin)


def require_directory(path: Path) -> Path:
    """The directory that a path is, or is in. Raises UsageError where there is none, or none that
    can be written to.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: there is no such directory; make it first, or name another one"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be looked at: {error.strerror}; 'hyperslab tiers list' says whether it"
            " is an emulated tier whose program has died"
        ) from error
    place = path
    if not path.is_dir():
        place = path.parent
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        raise UsageError(
            f"{path}: is mounted read-only, and a probe writes files of its own; name a directory"
            " that can be written to, or 'hyperslab tiers' for what can be said without writing"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(
            f"{path}: no permission to write here; choose a directory of your own on this disk"
        )
    return place


def space_of(place: Path) -> Space:
    """What is free in a place."""
    found = os.statvfs(place)
    files = None
    if found.f_files:
        files = found.f_favail
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, files)


def require_space(place: Path, nbytes: int, files: int) -> None:
    """Raise DoesNotFit where so many bytes in so many files would leave too little."""
    space = space_of(place)
    if nbytes > space.usable_nbytes:
        raise DoesNotFit(
            f"{place}: the probe needs {show_bytes(nbytes)} for a moment, and only"
            f" {show_bytes(space.nbytes)} are free, of which {show_bytes(_kept(space))} are to stay"
            " so; give a smaller --size, or make room"
        )
    if space.files is not None and files + LEFT_FILES > space.files:
        raise DoesNotFit(
            f"{place}: the probe needs {files:,} files for a moment, and only {space.files:,} can"
            f" still be made (inodes), of which {LEFT_FILES:,} are to stay; remove some"
        )


def _kept(space: Space) -> int:
    return min(int(LEFT_SHARE * space.total_nbytes), MOST_LEFT_NBYTES)
