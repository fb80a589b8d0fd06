"""Processes that examine cases: one that crashes or hangs is a note on its case, and another takes
its place.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple

from tests.comparison.ledger import Ledger

Examine = Callable[[int, int, Path, str], tuple[str, Ledger]]
"(seed, number of the case, its own empty folder, kind asked for or '') -> kind of file and notes."
_READY = "ready"
"What a process sends first."
_KEPT_CASES = 12
_KEPT_FRAMES = 6
"Of the traceback of a process that crashed or hung."


class Outcome(NamedTuple):
    """What a case has come to."""

    number: int
    kind: str
    ledger: Ledger


class Task(NamedTuple):
    """What is the same for all cases."""

    examine: Examine
    seed: int
    kind: str
    limit_s: float
    "Seconds that one case may take."


@dataclass(slots=True)
class _Worker:
    """One process, and the case it is at."""

    process: SpawnProcess
    connection: Connection
    log: Path
    number: int = -1
    deadline_s: float = float("inf")
    before: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT_CASES))
    "Cases that this process had last: one of them may have spoilt its memory."


def outcomes(task: Task, numbers: Iterable[int], processes: int) -> Iterator[Outcome]:
    """Examine these cases, in so many processes, or with 0 in this one. As they end, not in
    order.
    """
    folder = Path(tempfile.mkdtemp(prefix="comparison-"))
    try:
        if processes:
            yield from _in_processes(task, iter(numbers), processes, folder)
        else:
            with quiet():
                yield from (_examined(task, number, folder) for number in numbers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the page that every run ends with: it takes longer than the run, and says nothing
    of values.
    """
    from hyperslab.driver import submission

    before, submission.write_report = submission.write_report, _nothing
    try:
        yield
    finally:
        submission.write_report = before


def _nothing(records: object, path: Path, has_pictures: bool = True) -> None:
    """Instead of the page of a run."""


def _examined(task: Task, number: int, folder: Path) -> Outcome:
    own = folder / f"case-{number}"
    own.mkdir()
    try:
        kind, ledger = task.examine(task.seed, number, own, task.kind)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return Outcome(number, kind, ledger)


def _serve(task: Task, connection: Connection, folder: Path, log: Path) -> None:
    """What runs in a process: one case after the other, until none is sent."""
    with quiet(), log.open("w") as file:
        for descriptor in (1, 2):  # what libraries print, also as they crash
            os.dup2(file.fileno(), descriptor)
        faulthandler.enable(file)
        connection.send(_READY)
        while (number := connection.recv()) is not None:
            faulthandler.dump_traceback_later(task.limit_s, file=file)
            connection.send(_examined(task, number, folder))
            faulthandler.cancel_dump_traceback_later()


def _in_processes(
    task: Task, numbers: Iterator[int], processes: int, folder: Path
) -> Iterator[Outcome]:
    workers = [_begun(task, folder, place) for place in range(processes)]
    try:
        for worker in workers:
            _send(worker, next(numbers, None), task.limit_s)
        while busy := [worker for worker in workers if worker.number >= 0]:
            ready = wait([worker.connection for worker in busy], timeout=0.2)
            for place, worker in enumerate(workers):
                found = _looked_at(worker, worker.connection in ready)
                if found is None:
                    continue
                yield found
                if not worker.process.is_alive():
                    workers[place] = _begun(task, folder, place)
                _send(workers[place], next(numbers, None), task.limit_s)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _begun(task: Task, folder: Path, place: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    log = folder / f"worker-{place}.log"
    process = context.Process(target=_serve, args=(task, there, folder, log))
    process.start()
    there.close()
    return _Worker(process, here, log)


def _send(worker: _Worker, number: int | None, limit_s: float) -> None:
    if (
        not worker.before and worker.connection.recv() != _READY
    ):  # its time begins when it has imported everything
        raise RuntimeError(f"a worker did not begin: {worker.log.read_text(errors='replace')}")
    worker.connection.send(number)
    worker.before.append(worker.number)
    worker.number = -1 if number is None else number
    worker.deadline_s = time.monotonic() + limit_s + 2  # by then the process has told where it is


def _looked_at(worker: _Worker, is_ready: bool) -> Outcome | None:
    """What has become of the case that a worker is at; None while it goes on."""
    if worker.number < 0:
        return None
    if is_ready:
        try:
            found: Outcome = worker.connection.recv()
            return found
        except (EOFError, ConnectionResetError):
            worker.process.join()
            return _lost(worker, _ended(worker.process.exitcode or 0))
    if time.monotonic() < worker.deadline_s:
        return None
    worker.process.kill()
    worker.process.join()
    return _lost(worker, "it hangs")


def _ended(code: int) -> str:
    return f"its process ended with {signal.Signals(-code).name if code < 0 else code}"


def _lost(worker: _Worker, what: str) -> Outcome:
    log = worker.log.read_text(errors="replace").replace(os.getcwd(), ".")
    before, _, after = log.partition("Fatal Python error")
    words = [line.strip() for line in before.splitlines() if line.strip()]
    current = after.partition("Current thread")[2] or log
    frames = [line.strip() for line in current.splitlines() if line.startswith("  File")][
        :_KEPT_FRAMES
    ]
    said = (
        f"{what}; its last words: {words[-1] if words else 'none'}; it was at"
        f" {'; '.join(frames) or 'no known place'}"
    )
    said += f"; before it that process had {list(worker.before)}"
    return Outcome(worker.number, "crashed or hung", Ledger(findings=[said]))
