"""Full disks: which errors they are behind, and how much of a disk is free, in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hyperslab.units import show_bytes

_CODES = (errno.ENOSPC, errno.EDQUOT)
_FULL = "the disk is full"
_LEAST_NBYTES = 4096
"Bytes without which no file can be written: a block of most file systems."


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk, or a quota that is used up, is behind an error, or behind its cause."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _CODES:
            return True
        error = error.__cause__
    return False


def says_full(error: BaseException) -> bool:
    """Whether an error of another process says so, of which there is no more than its text."""
    return _FULL in str(error)


def has_room(place: Path) -> bool:
    """Whether another file fits on the disk of a place, which need not be there yet."""
    disk = _disk_of(place)
    return _nbytes_free(disk) >= _LEAST_NBYTES and not _lacks_names(disk)


def why(error: OSError, place: Path) -> str:
    """Why a place cannot be written to: what the system says, and how much of a full disk is
    free.
    """
    if not is_full(error):
        return str(error.strerror)
    return f"{_FULL}: {error.strerror}, {free(place)}"


def free(place: Path) -> str:
    """How much is free on the disk of a place, which need not be there yet, in words."""
    disk = _disk_of(place)
    if _lacks_names(disk):
        return "no further file is possible"
    return f"{show_bytes(_nbytes_free(disk))} free"


def _disk_of(place: Path) -> os.statvfs_result:
    return os.statvfs(next(folder for folder in (place, *place.parents) if folder.exists()))


def _nbytes_free(disk: os.statvfs_result) -> int:
    return disk.f_bavail * disk.f_frsize


def _lacks_names(disk: os.statvfs_result) -> bool:
    """Whether no file can be made, of a file system that counts them."""
    return bool(disk.f_files) and not disk.f_favail
