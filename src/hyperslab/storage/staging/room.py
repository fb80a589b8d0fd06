"""Room: how much of a fast tier may be used, and whether a block still goes there.

A block is admitted if as many of its size as may be on their way at once are free, which is the
rule of Sea (Hayot-Sasson, Dugré and Glatard 2022): nobody has to know of the others. What is to
stay free does not count as free.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.machine.host import Host
from hyperslab.storage.mounts import file_system
from hyperslab.storage.staging.area import DECLINED, OPEN, REFUSED, TICKETS, TRIAL

_SHARE = 0.9
"Share of the free space of a tier that a run takes."
TRIED_NBYTES = 10**6
"Least size of a block that tells how fast a tier is."
FEW = 64
"Smaller blocks tell that if there are more of them."
_IN_MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True, slots=True)
class Room:
    """Share of a tier that an area may take. Plain data, which travels to workers."""

    area: str
    "Path of the area."
    keep_free_nbytes: int
    at_once: int
    "How many of a size may be on their way at the same time."

    @property
    def is_open(self) -> bool:
        """Whether blocks may be added; not where the tier is gone."""
        return os.path.exists(os.path.join(self.area, OPEN))

    @property
    def is_on_trial(self) -> bool:
        """Whether it is not known yet if staging pays."""
        return os.path.exists(os.path.join(self.area, TRIAL))

    def passes(self, number: int, nbytes: int) -> bool:
        """Whether a block is written directly so that both ways can be compared: all but the few
        that try the tier, until it is known whether staging pays.
        """
        if not is_compared(number, nbytes) or not self.is_on_trial:
            return False
        return number % 2 == 1 or not self._is_drawn()

    def _is_drawn(self) -> bool:
        """Whether the caller is one of those who try, of whom each takes a ticket."""
        for ticket in range(TICKETS):
            with suppress(OSError):
                os.unlink(os.path.join(self.area, TRIAL, str(ticket)))
                return True
        return False

    def decline(self) -> None:
        """Leave word that something was not admitted. Nothing happens where the tier is gone."""
        _touch(os.path.join(self.area, DECLINED))

    def refuse(self, nbytes: int) -> None:
        """Leave word that so many bytes were admitted, and had no room then, so that nobody tries
        with as many again: others want room there at the same time.
        """
        _touch(os.path.join(self.area, f"{REFUSED}{nbytes}"))
        self.decline()

    @property
    def has_declined(self) -> bool:
        """Whether something was not admitted, or had no room."""
        return os.path.exists(os.path.join(self.area, DECLINED))

    def has_refused(self, nbytes: int) -> bool:
        """Whether so many bytes, or fewer, had no room."""
        with suppress(OSError):
            names = filter(lambda name: name.startswith(REFUSED), os.listdir(self.area))
            return any(int(name.removeprefix(REFUSED)) <= nbytes for name in names)
        return False

    def holds(self, nbytes: int) -> bool:
        """Whether so many bytes more are admitted; not where the tier is gone."""
        try:
            about = os.statvfs(self.area)
        except OSError:
            return False
        free = about.f_bavail * about.f_frsize - self.keep_free_nbytes
        return free >= nbytes * self.at_once


def _touch(path: str) -> None:
    """Have an empty file there, which a full tier mostly has room for."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def is_compared(number: int, nbytes: int) -> bool:
    """Whether a block, by its number, is one by which both ways are compared."""
    return nbytes >= TRIED_NBYTES or number >= FEW


def keep_free(tier: Path, tasks_nbytes: int, share: float = 1.0) -> int:
    """Bytes of a tier that are to stay free: a tenth, and of one in memory what tasks may take,
    beside the share of the rest that others use.
    """
    about = os.statvfs(tier)
    free = about.f_bavail * about.f_frsize
    usable = free
    if file_system(str(tier)) in _IN_MEMORY:
        usable = min(free, max(0, Host.here().memory_bytes - tasks_nbytes))
    return free - int(usable * _SHARE * share)
