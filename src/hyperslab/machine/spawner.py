"""Spawner: runs commands so that nothing is left of them, whoever dies; this is the worker's side.

Every thread that runs commands has a process beside it that starts them (`spawner_program`).
"""

from __future__ import annotations

import inspect
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from hyperslab.machine import spawner_program

AFTER_S = 60.0
"How long the command that removes the rest of another one may take."
KEPT_NBYTES = 64 * 1024**2
"Bytes of what a command prints that its log keeps: of more the beginning and the end."
POLL_S = 0.2
"How often whoever waits for a command looks whether it is still to run."
OVER_S = 120.0
"""How long a spawner may take to answer when the time of its command is over, which it asks to end,
kills, and removes the rest of: one that takes longer waits for storage itself.
"""
LEAVE_S = 90.0
"How long a spawner may take to end with its command, before it is killed."
_KILLED_S = 5.0
"How long one that was killed is waited for: it may wait for storage that does not answer."


class Refused(OSError):
    """Raised for a command that could not be started."""


class Unanswered(Refused):
    """Raised for a command of which nobody knows how it ended, as its spawner waits for storage
    that does not answer.
    """


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended, and what it has used, as wait4(2) counts it: with the processes
    that it has waited for, and those that it has left.
    """

    status: int
    "Exit status, or minus the number of the signal that ended it."
    is_late: bool
    "Whether it was ended because its time was over."
    start_ns: int
    end_ns: int
    user_s: float
    system_s: float
    max_rss: int
    "Peak resident memory of its largest process, bytes."
    log: str
    offset: int
    "Place in the log where what it printed begins."
    nbytes: int
    "Length of that, as far as it was kept."
    is_stuck: bool = False
    """Whether it, or something that it has started, has not ended although it was killed, as that
    waits for what does not answer.
    """


class _Spawner:
    """The process beside a thread, which ends with it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._is_given_up = False
        _all.add(self)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: Mapping[str, Any], watch: Callable[[], None]) -> dict[str, Any]:
        """Answer of the process to a request; what `watch` raises passes through. Raises Refused,
        Unanswered.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        left = memoryview(json.dumps(request).encode() + b"\n")
        while left:
            left = left[self.process.stdin.write(left) :]
        most_s = math.inf
        if request["limit_s"]:
            most_s = request["limit_s"] + OVER_S
        return _answer(self.process.stdout.fileno(), watch, most_s)

    def leave(self) -> None:
        """Close our ends of its pipes, upon which it ends with the command that it runs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self) -> None:
        """End it, and wait for that, unless it waits for storage that does not answer."""
        self.leave()
        if self._is_given_up:
            return
        try:
            self.process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self.give_up()

    def give_up(self) -> None:
        """Kill it, and all that it has started."""
        self._is_given_up = True
        left = spawner_program.descendants(self.process.pid)
        for pid in (self.process.pid, *left):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_KILLED_S)

    __del__ = end


class _Here(threading.local):
    """The spawner of a thread."""

    spawner: _Spawner | None = None


_here = _Here()
_all: weakref.WeakSet[_Spawner] = weakref.WeakSet()
"Spawners of this process."


def _let_go() -> None:
    """A process that was forked here must not keep the commands of this one alive."""
    for spawner in _all:
        spawner.leave()
        spawner.process.returncode = 0  # it is no child of this process
    _here.spawner = None


os.register_at_fork(after_in_child=_let_go)


def run(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    log: str,
    limit_s: float | None,
    watch: Callable[[], None],
    after: Sequence[str] = (),
) -> Ended:
    """Run a command whose output is appended to a log, of which that keeps KEPT_NBYTES at most; no
    input reaches it.

    `limit_s` is the time that it may take; `watch` is called now and then, and ends the command by
    what it raises. `after` is a command that removes what lies outside of the processes of one that
    fails or is ended. Raises Refused for a command that cannot be started, Unanswered.
    """
    if _here.spawner is None or not _here.spawner.is_alive:
        _here.spawner = _Spawner()
    request = {
        "argv": list(argv),
        "cwd": cwd,
        "env": dict(env),
        "log": log,
        "limit_s": limit_s,
        "after": list(after),
        "kept_nbytes": KEPT_NBYTES,
    }
    try:
        answer = _here.spawner.ask(request, watch)
    except Refused as error:  # the spawner was killed, and removes nothing any more
        if isinstance(error, Unanswered):
            _here.spawner.give_up()
        end()
        _clean_up(after, cwd, env)
        raise
    except BaseException:
        end()
        raise
    if refusal := answer.get("refusal"):
        number, path, said = refusal
        reason = os.strerror(number) if number else said
        raise Refused(number, reason, path)
    ended = Ended(**answer)
    if ended.is_stuck:  # another spawner has nothing to do with it
        end()
    return ended


def end() -> None:
    """End this thread's spawner with the command that it runs, and wait for that."""
    spawner = _here.spawner
    _here.spawner = None
    if spawner is not None:
        spawner.end()


def _clean_up(after: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    """Remove what a command has left outside of its processes."""
    if not after:
        return
    nowhere = subprocess.DEVNULL
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            after,
            cwd=cwd,
            env=dict(env),
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            timeout=AFTER_S,
            check=False,
        )


@cache
def _text() -> str:
    return inspect.getsource(spawner_program)


def _answer(fd: int, watch: Callable[[], None], most_s: float) -> dict[str, Any]:
    give_up_at = time.monotonic() + most_s
    said = b""
    while not said.endswith(b"\n"):
        if not select.select([fd], [], [], POLL_S)[0]:
            if time.monotonic() > give_up_at:
                raise Unanswered(0, "the process that runs it waits for storage of its log", "")
            watch()
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            raise Refused(0, "the process that runs it was killed", "")
        said += data
    answer: dict[str, Any] = json.loads(said)
    return answer
