"""Spawner: runs commands so that nothing is left of them, whoever dies; this is the worker's side.

Every thread that runs commands has a process beside it that starts them (`spawner_program`).
"""

from __future__ import annotations

import inspect
import json
import os
import select
import subprocess
import sys
import threading
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


class Refused(OSError):
    """Raised for a command that could not be started."""


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
    "Whether it has not ended although it was killed, as it waits for what does not answer."


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
        _all.add(self)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: Mapping[str, Any], watch: Callable[[], None]) -> dict[str, Any]:
        """Answer of the process to a request; what `watch` raises passes through."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        left = memoryview(json.dumps(request).encode() + b"\n")
        while left:
            left = left[self.process.stdin.write(left) :]
        return _answer(self.process.stdout.fileno(), watch)

    def leave(self) -> None:
        """Close our ends of its pipes, upon which it ends with the command that it runs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self) -> None:
        """End it, and wait for that."""
        self.leave()
        self.process.wait()

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
    fails or is ended. Raises Refused for a command that cannot be started.
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
    except Refused:  # the spawner was killed, and removes nothing any more
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


def _answer(fd: int, watch: Callable[[], None]) -> dict[str, Any]:
    said = b""
    while not said.endswith(b"\n"):
        if not select.select([fd], [], [], POLL_S)[0]:
            watch()
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            raise Refused(0, "the process that runs it was killed", "")
        said += data
    answer: dict[str, Any] = json.loads(said)
    return answer
