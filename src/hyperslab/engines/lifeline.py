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
from dataclasses import dataclass

from hyperslab.machine.clock import identity
from hyperslab.machine.host import numbering

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


@dataclass(frozen=True, slots=True)
class Lifeline:
    """The workers' end, for processes that do not inherit it: whoever started them closed it."""

    path: str
    "Where it is, as long as the driver lives."
    pipe: str
    "What it is, as proc(5) says, so that it is taken for no other."
    machine: str
    "Kernel that the driver runs on."
    numbering: int
    "Namespace in which the driver has its number."

    def is_seen(self) -> bool:
        """Whether this process sees it: both are on one kernel, and see the same processes. One in
        a user namespace of its own may not look into the driver, whose number it knows.
        """
        if self.machine != identity():
            return False
        try:
            return os.readlink(self.path) == self.pipe
        except PermissionError:
            return self.numbering == numbering()
        except OSError:  # in a container of its own, say
            return False


def own() -> Lifeline:
    """This process's lifeline."""
    path = f"/proc/{os.getpid()}/fd/{workers_end()}"
    return Lifeline(path, os.readlink(path), identity(), numbering())


def end_with_the_driver(inherited: int) -> None:
    """Have the kernel kill this process group when the driver is gone. Call it in the group's first
    process.
    """
    with suppress(
        OSError
    ):  # a sandbox may refuse: then a worker ends as soon as it hears that the driver is gone
        _watch(f"/proc/self/fd/{inherited}")
    os.close(inherited)  # whose settings all workers share


def end_with(driver: Lifeline) -> None:
    """The same, in a process that has inherited nothing. Where it does not see the driver it does
    nothing: then whoever started it sees to that.
    """
    if not driver.is_seen():
        return
    with suppress(OSError):  # as above
        _watch(driver.path)


def signal_at_our_end(end: int, group: int, number: int) -> None:
    """Have the kernel send a signal to a process group when this process is gone, as long as one of
    the group holds this end, which is to be `another_end`.
    """
    with suppress(OSError):  # as above
        _arm(end, group, number)


def another_end() -> int:
    """A workers' end whose settings nobody shares, to be inherited."""
    return os.open(f"/proc/self/fd/{workers_end()}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _watch(path: str) -> None:
    own = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    _arm(own, os.getpgrp(), signal.SIGKILL)
    if select.select([own], [], [], 0)[0]:  # it was gone before anybody watched
        os.killpg(0, signal.SIGKILL)


def _arm(end: int, group: int, number: int) -> None:
    fcntl.fcntl(end, fcntl.F_SETOWN, -group)
    fcntl.fcntl(end, _F_SETSIG, number)
    fcntl.fcntl(end, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | os.O_ASYNC)
