"""Keeper: starts a program, and ends it and all that it has started when the driver is gone or has
let go.

What a command starts may lead process groups of its own and outlive it, as jobs of GNU Parallel do.
The keeper adopts them (PR_SET_CHILD_SUBREAPER of prctl(2)), so it knows them all, whoever dies. It
runs as a script, without hyperslab and without site-packages: whoever starts it pays for that.

Arguments are a descriptor that is closed on its other side when the driver is gone, and the
command. The exit status is that of the command, as a shell has it. SIGTERM lets go.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
FIRST_SIGNAL = 128
POLL_S = 0.01
LET_GO_STATUS = 130
"Exit status when it was ended before the command was."


def main(lifeline: int, command: Sequence[str]) -> int:
    """Run a command to its end, or until the driver is gone or lets go."""
    signal.signal(signal.SIGTERM, lambda *_: _let_go())
    interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGINT, interrupts)
        _become(command, lifeline)
    threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
    status = _wait(child)
    end_all()
    return status


def _become(command: Sequence[str], lifeline: int) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.close(lifeline)
    try:
        os.execvp(command[0], list(command))  # noqa: S606  # a list, and no shell
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _watch(lifeline: int) -> None:
    select.select([lifeline], [], [])
    _let_go()


def _let_go() -> NoReturn:
    end_all()
    os._exit(LET_GO_STATUS)


def _wait(child: int) -> int:
    """The exit status of the child; orphans that were adopted are let go as they end."""
    pid = 0
    status = 0
    while pid != child:
        try:
            pid, status = os.wait()
        except ChildProcessError:  # the other thread has ended all
            return LET_GO_STATUS
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return FIRST_SIGNAL - code
    return code


def end_all() -> None:
    """Kill whatever descends from this process, until nothing is left. Those that had ended before
    are waited for, too, so that their processor time counts as this process's.
    """
    while living := _descendants():
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(POLL_S)
    # Those that ended in between; that of a few threads takes a moment.
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _descendants() -> list[int]:
    """Processes below this one that have not ended."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                parents[int(name)] = _parent_and_life(name)
    below = {os.getpid()}
    while more := {pid for pid, (parent, _) in parents.items() if parent in below} - below:
        below |= more
    return [pid for pid in below - {os.getpid()} if parents[pid][1]]


def _parent_and_life(pid: str) -> tuple[int, bool]:
    """Parent of a process, and whether a thread of it is left, from proc_pid_stat(5), behind the
    name of the program, which may hold anything. One whose first thread has ended looks like a
    zombie while others go on.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    state = fields[0].decode()
    threads = int(fields[17])
    return int(fields[1]), state not in "ZX" or threads > 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
