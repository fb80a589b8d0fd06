"""Turns: at most so many tasks of a host read from one device at a time, and their first reads
begin one after the other.

Names of sockets are what is counted (unix(7), abstract): one process of a host has a name at a
time, the kernel gives it back when that one dies, and no file is asked or left anywhere. Those who
begin one after the other count themselves in a file with the records of the run.

Held by tests/storage/test_staging.py.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperslab.storage.locks import NO_LOCKS

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Turns:
    """How reads take turns. Plain data, which travels to workers."""

    folder: Path
    "Folder of the run that the turns are of, with the file of those who have begun."
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
                    stack.enter_context(self._turn(device))
            yield

    def _turn(self, device: str) -> socket.socket:
        """One of the places of a device, held until it is closed, once one is free."""
        names = [f"{self._prefix}.{device}.{n}" for n in range(self.most or 0)]
        pause_s = FIRST_PAUSE_S
        while True:
            for name in names:
                if (place := _taken(name)) is not None:
                    return place
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    @property
    def _prefix(self) -> str:
        """What the names of this run begin with: its folder may be longer than a name."""
        digest = hashlib.blake2b(os.fsencode(self.folder), digest_size=8)
        return f"hyperslab-turn-{digest.hexdigest()}"


class _Seen(threading.local):
    def __init__(self) -> None:
        self.folders: set[Path] = set()


_seen = _Seen()
"Runs whose first read this thread has begun."


def _taken(name: str) -> socket.socket | None:
    """A socket with a name; None where another process, or thread, has it."""
    place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        place.bind(f"\0{name}")
    except OSError as error:
        place.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return place


def _drawn(path: Path) -> tuple[int, float]:
    """How many have drawn a number before, and the seconds since the first one did."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(fd)
        now = time.time()
        times = os.pread(fd, 1 << 20, 0).split()
        os.pwrite(fd, f"{now:.6f}\n".encode(), os.fstat(fd).st_size)
    finally:
        os.close(fd)
    if not times:
        return 0, 0.0
    return len(times), now - float(times[0])


def _lock(fd: int) -> None:
    """Lock a file; where there are no locks, two may draw the same number."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
