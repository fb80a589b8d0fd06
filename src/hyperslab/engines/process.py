"""WorkerProcess: one worker of the `processes` engine, seen from the driver."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from hyperslab.engines import EngineOptions
from hyperslab.engines.worker import Begin, End
from hyperslab.errors import RunStopped
from hyperslab.span import LOST, Phase, Slot
from hyperslab.task import Failure, Outcome, Status, Task

START_LIMIT_S = 60.0
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**62),
    "MALLOC_TOP_PAD_": str(2**24),
}
"glibc returns large arrays to the system and pays for fresh pages at the next one; a worker's blocks recur, so it keeps them."


class WorkerProcess:
    """One worker process, seen from here."""

    def __init__(self, number: int, options: EngineOptions, incarnation: int) -> None:
        self.slots = tuple(Slot(options.host, number, t) for t in range(options.threads))
        self._incarnation = f"p{incarnation}"
        self._log = options.folder / "worker.log"
        self.given: dict[int, Task] = {}
        self.running: dict[int, tuple[int, int]] = {}
        "Thread -> task and when it began, on the monotonic clock."
        self.ended = False
        ours, theirs = socket.socketpair()
        with theirs, open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"from hyperslab.engines.worker import main; main({theirs.fileno()})"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[theirs.fileno()], start_new_session=True, env=_environment(options),
            )  # fmt: skip
        self.connection = Connection(ours.detach())

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    def await_ready(self) -> None:
        """Return when the worker listens. Raises RunStopped when it died or does not answer."""
        try:
            if self.connection.poll(START_LIMIT_S) and self.connection.recv() == ("ready",):
                return
            reason = f"it did not answer within {START_LIMIT_S:.0f} s"
        except (EOFError, ConnectionError):
            reason = self.death()
        raise RunStopped(f"a worker process could not start: {reason}; see {self._log}")

    def begin(self, folder: Path, stage: str, payload: bytes) -> None:
        """Tell it what to do with the tasks that follow."""
        self.ended = False
        self.connection.send(Begin(folder, f"{self._incarnation}.{stage}", self.slots, payload))

    def hand(self, task: Task) -> None:
        self.given[task.id] = task
        self.connection.send(task)

    def end(self) -> None:
        """Tell it that no task follows."""
        try:
            self.connection.send(End())
        except OSError:
            self.ended = True  # it is dead already

    def lose(self, thread: int, status: Status, failure: Failure) -> Outcome:
        """Give up what a thread is running."""
        task_id, since_ns = self.running.pop(thread)
        task = self.given.pop(task_id)
        phase = Phase(LOST, since_ns, time.monotonic_ns(), 0, 0, 0)
        return Outcome(task.id, task.attempt, status, failure, phases=(phase,), slot=str(self.slots[thread]))

    def death(self) -> str:
        """Why the process is no more, in words."""
        code = self.process.wait()
        if code >= 0:
            return f"the worker process exited with code {code} in the middle of the task"
        name = signal.Signals(-code).name
        hint = " (kill -9, or the kernel's out-of-memory killer)" if name == "SIGKILL" else ""
        return f"the worker process was killed by {name}{hint}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


def _environment(options: EngineOptions) -> dict[str, str]:
    """Our environment, our import path, and a slot's share of the processors for BLAS and OpenMP."""
    environment = {**os.environ, **KEEP_MEMORY, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    for name in THREAD_VARIABLES:
        asked = os.environ.get(name, "")
        environment[name] = str(min(int(asked), options.slot_cpus) if asked.isdigit() else options.slot_cpus)
    return environment
