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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from hyperslab.machine import spawner_program

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
    "Length of that."


class _Here(threading.local):
    """The spawner of a thread."""

    process: subprocess.Popen[bytes] | None = None


_here = _Here()
_pipes: set[int] = set()
"Our ends of the pipes to spawners of this process."


def _let_go() -> None:
    """A process that was forked here must not keep the commands of this one alive."""
    for fd in _pipes:
        with suppress(OSError):
            os.close(fd)
    _pipes.clear()
    _here.process = None


os.register_at_fork(after_in_child=_let_go)


def run(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    log: str,
    limit_s: float | None,
    watch: Callable[[], None],
) -> Ended:
    """Run a command whose output is appended to a log; no input reaches it.

    `limit_s` is the time that it may take; `watch` is called now and then, and ends the command by
    what it raises. Raises Refused for a command that cannot be started.
    """
    process = _started()
    request = {"argv": list(argv), "cwd": cwd, "env": dict(env), "log": log, "limit_s": limit_s}
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = _answer(process, watch)
    except BaseException:
        end()
        raise
    if refusal := answer.get("refusal"):
        number, path, said = refusal
        reason = os.strerror(number) if number else said
        raise Refused(number, reason, path)
    return Ended(**answer)


def end() -> None:
    """End this thread's spawner with the command that it runs, and wait for that."""
    process = _here.process
    _here.process = None
    if process is None:
        return
    assert process.stdin is not None
    assert process.stdout is not None
    for pipe in (process.stdin, process.stdout):
        _pipes.discard(pipe.fileno())
        with suppress(OSError):
            pipe.close()
    process.wait()


def _started() -> subprocess.Popen[bytes]:
    process = _here.process
    if process is not None and process.poll() is None:
        return process
    end()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _text()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    _here.process = process
    assert process.stdin is not None
    assert process.stdout is not None
    _pipes.update((process.stdin.fileno(), process.stdout.fileno()))
    return process


@cache
def _text() -> str:
    return inspect.getsource(spawner_program)


def _answer(process: subprocess.Popen[bytes], watch: Callable[[], None]) -> dict[str, Any]:
    assert process.stdout is not None
    fd = process.stdout.fileno()
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
