"""ForkLock: a lock that a forked process finds free."""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """A lock for `with` around what may take long. In a forked process nobody holds it.

    The thread that held it in the parent is not there to give it back. So what it guards must be
    sound at any moment: where it is not, a lock is better held while the process forks.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free: a lock that may be held can only be replaced."""
        self._lock = threading.Lock()


_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
