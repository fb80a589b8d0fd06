"""Fence: whoever goes on with a run is sure that no worker of an earlier submission writes any
more.

While it is at tasks, a worker holds a shared lock (flock) on the file OPEN of its submission. The
end of a submission, or whoever finds it unended, gives the file another name, and waits until
nobody holds the lock. A worker that was stopped in the middle of a task, or that its driver cannot
reach, finds the name gone before it lets a write appear.

Held by tests/storage/test_fence.py, tests/system/faults/test_stale_workers.py.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.errors import RunStopped
from hyperslab.storage.locks import NO_LOCKS

OPEN, ENDED = "workers", "workers.ended"
"Name of the file in a submission while its tasks may write, and afterwards."
POLL_S = 0.05


class _Here(threading.local):
    """What the thread works for."""

    path: Path | None = None


_here = _Here()
_held: set[int] = set()
"Descriptors that hold a lock for a thread of this process."


def _let_go() -> None:
    """A process that a function has forked is not at the task, and may outlive it."""
    for fd in _held:
        os.close(fd)
    _held.clear()
    _here.path = None


os.register_at_fork(after_in_child=_let_go)


def raise_fence(folder: Path) -> None:
    """Make the file, for the workers of a new submission. Raises OSError."""
    (folder / OPEN).touch(exist_ok=False)


@contextmanager
def working(folder: Path) -> Iterator[None]:
    """This thread works for a submission, which nobody takes over meanwhile. Raises RunStopped when
    it has ended.
    """
    path = folder / OPEN
    fd = _shared(path)
    _held.add(fd)
    thread = threading.get_ident()
    before, _here.path = _here.path, path
    try:
        require_open()  # it may have ended while we took the lock
        yield
    finally:
        if threading.get_ident() == thread:  # a generator may be closed in another one
            _here.path = before
        _held.discard(fd)
        os.close(fd)


def require_open() -> None:
    """Raise RunStopped when the submission that this thread works for has ended; right before a
    write appears.
    """
    if _here.path is not None and not _here.path.exists():
        raise RunStopped("the run has been stopped, and the result of this task is dropped")


def end(folder: Path) -> None:
    """Let no worker of a submission begin another task, or let a write appear."""
    with suppress(FileNotFoundError):
        (folder / OPEN).rename(folder / ENDED)


def is_left(folder: Path, limit_s: float, watch: Callable[[], None] = lambda: None) -> bool:
    """Whether all workers of a submission that has ended have left their tasks; waits for that, up
    to a limit.

    `watch` is called now and then; what it raises ends the waiting.
    """
    deadline = time.monotonic() + limit_s
    while not _is_free(folder / ENDED):
        watch()
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def workers(folder: Path) -> list[int]:
    """Processes of this host that hold the lock of a submission that has ended, where proc_locks(5)
    tells.
    """
    try:
        about = (folder / ENDED).stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    own = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    found = (line.split() for line in lines if " FLOCK " in line)
    return sorted({int(pid) for *_, pid, place, _, _ in found if place == own})


def _shared(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RunStopped("the run has been stopped") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:  # without locks the name alone tells
            os.close(fd)
            raise RunStopped("the run has been stopped, and another run continues it") from error
    return fd


def _is_free(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # of a version that had no fence, or gone with the records
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
