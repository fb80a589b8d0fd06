"""Lifeline: a pipe that the kernel watches for a worker; once its driver is gone, however it went,
so is the worker.

A thread of the worker cannot see to that: a function that holds the interpreter's lock keeps all
threads waiting, and a process that was stopped runs none. When the other end of a pipe is closed
the kernel sends a signal to a process group (O_ASYNC, F_SETOWN and F_SETSIG of fcntl(2)), which
ends what functions have started, too. The signal that a process can have at its parent's death
(PR_SET_PDEATHSIG of prctl(2)) would not: it comes to one process, and when the thread that started
it ends, so that it may take the worker before the pipe is closed, and leave its children.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
from contextlib import suppress

_F_SETSIG = 10
_ends: list[int] = []
"Both ends of this process's pipe, which it has until it is gone: that closes the second."


def workers_end() -> int:
    """The end that workers inherit."""
    if not _ends:
        _ends.extend(os.pipe())
    return _ends[0]


def _let_go() -> None:
    """A process that this one has forked is not the driver of its workers."""
    for fd in _ends:
        os.close(fd)
    _ends.clear()


os.register_at_fork(after_in_child=_let_go)


def end_with_the_driver(inherited: int) -> None:
    """Have the kernel kill this process group when the driver is gone. Call it in the group's first
    process.
    """
    with suppress(
        OSError
    ):  # a sandbox may refuse: then a worker ends as soon as it hears that the driver is gone
        _watch(inherited)


def _watch(inherited: int) -> None:
    own = os.open(f"/proc/self/fd/{inherited}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.close(inherited)  # whose settings all workers share
    fcntl.fcntl(own, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(own, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(own, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | os.O_ASYNC)
    if select.select([own], [], [], 0)[0]:  # it was gone before anybody watched
        os.killpg(0, signal.SIGKILL)
