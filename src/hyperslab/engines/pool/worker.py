"""What runs in the processes that the `processes` engine starts: `main(FD)`.

It reads messages from its parent on FD and runs tasks on its threads, one slot each. When the
parent dies the connection ends and so does the worker, whatever its functions are doing; where one
of them holds the interpreter's lock, the kernel sees to that (`lifeline`).

    parent -> worker   Join, if it was started ahead; Begin, then Task after Task, then End; closing
                       the connection ends the worker
    worker -> parent   ("ready",), then per task ("start", thread, task id, when by the monotonic
                       clock) and ("done", thread, task id), ("ended",) after End, ("broken",
                       sentence, advice for a run that can be resumed) when outcomes cannot be
                       recorded
"""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hyperslab.engines.environment import forget_memory_variables, volunteer
from hyperslab.engines.lifeline import end_with_the_driver
from hyperslab.errors import HyperslabError
from hyperslab.formats.table import facts_of_file_name
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.steps import outcome_of
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.storage import fence
from hyperslab.trace import Slot


@dataclass(frozen=True, slots=True)
class Join:
    """A worker that was started ahead has a run to work for."""

    log: Path
    "File that it prints to."
    import_path: list[str]


@dataclass(frozen=True, slots=True)
class Begin:
    """A stage, or a round of retries, begins."""

    folder: Path
    incarnation: str
    slots: tuple[Slot, ...]
    payload: bytes
    "Pickle of (steps, merge or None)."


@dataclass(frozen=True, slots=True)
class End:
    """No task follows: record everything and say so."""


class Worker:
    """The slots of this process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def serve(self, example: str) -> None:
        """Obey the parent until it goes away."""
        _get_ready(example)
        self._send("ready")
        while True:
            match self._connection.recv():
                case Join() as join:
                    _join(join)
                case Begin() as begin:
                    self._begin(begin)
                case End():
                    self._end()
                case Task() as task:
                    self._tasks.put(task)
                case other:
                    raise TypeError(f"no such message: {other!r}")

    def _begin(self, begin: Begin) -> None:
        try:
            steps, merge = pickle.loads(begin.payload)
        # the user's modules, as they are imported: handed to the driver
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            self._send(
                "broken",
                f"a worker cannot load the function: {type(error).__name__}: {error}",
                "",
            )
            return
        self._threads = [
            threading.Thread(target=self._serve_slot, args=(slot, begin, steps, merge), daemon=True)
            for slot in begin.slots
        ]
        for thread in self._threads:
            thread.start()

    def _end(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        threading.Thread(
            target=self._join, daemon=True
        ).start()  # the main thread keeps listening for the parent's end

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._send("ended")

    def _serve_slot(
        self, slot: Slot, begin: Begin, steps: Sequence[StepFunction], merge: Merge | None
    ) -> None:
        try:
            journal = SlotJournal(begin.folder, str(slot), begin.incarnation, merge)
            with fence.working(begin.folder):
                while (task := self._next(journal)) is not None:
                    self._send("start", slot.thread, task.id, time.monotonic_ns())
                    journal.take(outcome_of(task, steps))
                    self._send("done", slot.thread, task.id)
            journal.close()
        except BaseException as error:  # noqa: BLE001  # handed to the driver
            self._send("broken", *_told(error))

    def _next(self, journal: SlotJournal) -> Task | None:
        try:
            return self._tasks.get_nowait()
        except queue.Empty:
            journal.flush()  # nothing else to do
            return self._tasks.get()

    def _send(self, *message: Any) -> None:
        with self._sending:
            self._connection.send(message)


def _join(join: Join) -> None:
    """Print to the log of the run, also what was printed so far, and import as its driver does."""
    sys.path[:] = join.import_path
    printed = os.pread(sys.stdout.fileno(), os.fstat(sys.stdout.fileno()).st_size, 0)
    with open(join.log, "ab") as log:
        log.write(printed)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(log.fileno(), stream.fileno())


def _told(error: BaseException) -> tuple[str, str]:
    """What an error says, and its advice for a run that can be resumed."""
    if isinstance(error, HyperslabError):
        return error.sentence, error.resuming
    return str(error) or type(error).__name__, ""


def _get_ready(example: str) -> None:
    """Import what tasks are likely to that read such a file, and write others of its kind."""
    facts = facts_of_file_name(example)
    if facts is None:
        return
    for name in (facts.module, *dict(facts.libraries)):
        with suppress(Exception):  # which a task will tell that needs it
            import_module(name)


def main(fd: int, lifeline: int, example: str = "") -> None:
    """Run a worker on the inherited socket `fd`; never returns.

    `lifeline` is the end of a pipe whose other one the driver has, `example` a file of the kind
    that tasks may read.
    """
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):  # what is printed is in the log, whatever ends us
        sys.stdout.reconfigure(line_buffering=True)
    end_with_the_driver(lifeline)
    forget_memory_variables()
    volunteer()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    try:
        Worker(Connection(fd)).serve(example)
    except (EOFError, ConnectionError):  # the driver is gone: end what functions have started, too
        os.killpg(0, signal.SIGKILL)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        os._exit(1)  # do not wait for functions that never return
