"""Turns: at most so many tasks of a host read from one device at a time, and their first reads
begin one after the other.

Locks of files (flock) are what is counted, so that a worker that dies gives its turn back. They lie
with the records of the run: nothing of them is left elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Turns:
    """How reads take turns. Plain data, which travels to workers."""

    folder: Path
    "Where the locks are."
    most: int | None
    "Tasks of a host that may read from a device at a time; None: any number."
    stagger_s: float
    "Time between the first reads of two slots."
    slots: int
    "Slots, as many of which wait at their first read."

    def await_start(self) -> None:
        """Wait, at the first read of a thread, until its time has come."""
        if not self.stagger_s or self.folder in _seen.folders:
            return
        _seen.folders.add(self.folder)
        number, since_s = _drawn(self.folder / "starts")
        if number < self.slots:
            time.sleep(max(0.0, number * self.stagger_s - since_s))

    @contextmanager
    def taken(self, devices: Collection[str]) -> Iterator[None]:
        """A turn on each of the devices, in an order that is everybody's."""
        with ExitStack() as stack:
            if self.most is not None:
                for device in sorted(devices):
                    stack.callback(os.close, self._turn(device))
            yield

    def _turn(self, device: str) -> int:
        """Descriptor of a lock on one of the places of a device, once one is free."""
        names = [f"{socket.gethostname()}.{device}.{n}" for n in range(self.most or 0)]
        pause_s = FIRST_PAUSE_S
        while True:
            for name in names:
                if (fd := _locked(self.folder / name)) is not None:
                    return fd
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class _Seen(threading.local):
    def __init__(self) -> None:
        self.folders: set[Path] = set()


_seen = _Seen()
"Runs whose first read this thread has begun."


def _locked(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _drawn(path: Path) -> tuple[int, float]:
    """How many have drawn a number before, and the seconds since the first one did."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        now = time.time()
        times = os.pread(fd, 1 << 20, 0).split()
        os.pwrite(fd, f"{now:.6f}\n".encode(), os.fstat(fd).st_size)
    finally:
        os.close(fd)
    if not times:
        return 0, 0.0
    return len(times), now - float(times[0])
