"""A disk of a given speed: commands of a group may read so many bytes a second from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.verdicts.groups import group, inside, unavailable


@contextmanager
def throttled(folder: Path, nbytes_per_s: int) -> Iterator[tuple[str, ...]]:
    """Limit the device that holds `folder` for commands that have what this yields before them."""
    device = _disk_of(folder)
    version_1 = {"blkio.throttle.read_bps_device": f"{device} {nbytes_per_s}"}
    with group("blkio", version_1, {"io.max": f"{device} rbps={nbytes_per_s}"}) as slow:
        yield inside(slow)


def evict(path: Path) -> None:
    """Drop a file from the page cache, so that its bytes come from the disk."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _disk_of(folder: Path) -> str:
    """MAJOR:MINOR of the whole disk that holds a folder."""
    number = folder.stat().st_dev
    entry = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not entry.exists():
        unavailable(
            f"{folder} is not on a disk that can be throttled; set TMPDIR to a folder on one",
            is_expected=False,
        )
    entry = entry.resolve()
    return ((entry.parent if (entry / "partition").exists() else entry) / "dev").read_text().strip()
