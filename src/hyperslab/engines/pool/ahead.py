"""Ahead: a worker that is started before anybody knows its tasks, beside the imports that a command
needs to cut them. The engine takes it as its first one.

It has the environment that the engine gives its workers, or it is not taken. While it waits it
imports what tasks are likely to. What it prints before it is taken goes to the log of the run, too.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from hyperslab.engines.environment import environment, import_path, launch
from hyperslab.engines.lifeline import workers_end

WORKER = "hyperslab.engines.pool.worker"
"Module that runs in every worker."


@dataclass(frozen=True, slots=True)
class Ahead:
    """A worker that waits."""

    process: subprocess.Popen[bytes]
    connection: Connection
    variables: dict[str, str]
    "Environment that it was started with."

    def end(self) -> None:
        """End it, which nobody has given anything to do."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


_waiting: list[Ahead] = []


def _let_go() -> None:
    """A process that this one has forked is not who the worker waits for."""
    for one in _waiting:
        one.connection.close()
    _waiting.clear()


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def waiting(slot_cpus: int, example: str = "") -> Iterator[None]:
    """A block in which a worker waits whose slots may use so many processors; it ends with the
    block, unless a run has taken it. `example` is a file of the kind that the run may read.
    """
    with suppress(OSError):  # what keeps it from starting is told of the workers of a run
        _waiting.append(_started(slot_cpus, example))
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop().end()


def _started(slot_cpus: int, example: str) -> Ahead:
    variables = environment(slot_cpus)
    with tempfile.TemporaryFile() as printed:
        started = launch(WORKER, variables, printed, [workers_end()], example)
    return Ahead(*started, variables)


def take(slot_cpus: int, log: Path) -> tuple[subprocess.Popen[bytes], Connection] | None:
    """The worker that waits, which has our import path and prints to the log from now on; None
    where there is none that fits and lives.
    """
    from hyperslab.engines.pool.worker import Join  # which only those import who run tasks

    if not _waiting:
        return None
    found = _waiting.pop()
    if found.variables == environment(slot_cpus):
        with suppress(OSError):
            found.connection.send(Join(log, import_path()))
            return found.process, found.connection
    found.end()
    return None
