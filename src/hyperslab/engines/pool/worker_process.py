"""WorkerProcess: one worker of the `processes` engine, seen from the driver."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from hyperslab.engines import EngineOptions
from hyperslab.engines.environment import FIRST_SIGNAL, how_it_ended, start
from hyperslab.engines.lifeline import workers_end
from hyperslab.engines.pool import ahead
from hyperslab.engines.pool.worker import Begin, End
from hyperslab.errors import RunStopped
from hyperslab.plan.failure import Failure
from hyperslab.plan.task import Outcome, Status, Task
from hyperslab.trace import LOST, Phase, Slot

START_LIMIT_S = 60.0
RESERVE_NS = 10_000_000
"Work that a slot has at hand, so that it never waits for us ..."
MOST_RESERVE = 32
"... and the most tasks that this may be."


class WorkerProcess:
    """One worker process, seen from here."""

    def __init__(self, number: int, options: EngineOptions, incarnation: int) -> None:
        self.slots = tuple(Slot(options.host, number, t) for t in range(options.threads))
        self._incarnation = f"p{incarnation}"
        self.log = options.folder / "worker.log"
        self.given: dict[int, Task] = {}
        self.running: dict[int, tuple[int, int]] = {}
        "Thread -> task and when it began, on the monotonic clock."
        self.ended = False
        "True when it has no more to say in this round."
        self.was_useful = False
        "True when it has begun to run something."
        self.stage = ""
        "Stage that it was told of last; '' before the first."
        self.is_ready = False
        "True when it listens."
        self._task_ns = 0.0
        self._began_s = time.monotonic()
        self.process, self.connection = ahead.take(options.slot_cpus, self.log) or start(
            ahead.WORKER, options, self.log, [workers_end()]
        )

    def await_ready(self) -> None:
        """Return when the worker listens. Raises ConnectionError when it has died, RunStopped when
        it does not answer.
        """
        try:
            if self.connection.poll(START_LIMIT_S):
                self._note(self.connection.recv())
        except EOFError as error:
            raise ConnectionError(self.death()) from error
        self.require_answer()

    @property
    def is_late(self) -> bool:
        """Whether it was started longer ago than it may take until it listens."""
        return time.monotonic() - self._began_s >= START_LIMIT_S

    def require_answer(self) -> None:
        """Raise RunStopped for a worker that has not listened for too long after its start."""
        if not self.is_ready and self.is_late:
            raise RunStopped(
                "a worker process could not start: it did not answer within"
                f" {START_LIMIT_S:.0f} s; see {self.log}"
            )

    def begin(self, folder: Path, stage: str, payload: bytes) -> None:
        """Tell it what to do with the tasks that follow."""
        self.ended = False
        self.stage = stage
        self.connection.send(Begin(folder, f"{self._incarnation}.{stage}", self.slots, payload))

    @property
    def idle(self) -> int:
        """How many of its slots have no task."""
        return len(self.slots) - len(self.given)

    @property
    def room(self) -> int:
        """How many more tasks to hand to it: at least one to run and one in reserve, more when they
        are short.
        """
        reserve = RESERVE_NS / self._task_ns if self._task_ns else 0
        return len(self.slots) * (1 + max(1, min(MOST_RESERVE, int(reserve)))) - len(self.given)

    def hand(self, task: Task) -> None:
        self.given[task.id] = task
        self.connection.send(task)

    def end(self) -> None:
        """Tell it that no task follows."""
        try:
            self.connection.send(End())
        except OSError:
            self.ended = True  # it is dead already

    def listen(self) -> bool:
        """Take all that it has to say; False when it is dead. Raises RunStopped when it cannot
        record its outcomes.
        """
        is_dead = (
            self._has_exited()
        )  # the connection may be held open by what a function has forked
        try:
            while self.connection.poll():
                self._note(self.connection.recv())
        except (EOFError, ConnectionError):
            is_dead = True
        self.ended |= is_dead
        return not is_dead

    def _has_exited(self) -> bool:
        """True once it has ended; its exit status stays with the system until what it started has
        been ended, too.
        """
        if self.process.returncode is not None:
            return True
        return (
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        )

    def _note(self, message: tuple[object, ...]) -> None:
        match message:
            case ("ready",):
                self.is_ready = True
            case ("start", int(thread), int(task), int(since_ns)):
                self.running[thread] = (task, since_ns)
                self.was_useful = True
            case ("done", int(thread), int(task)):
                took = time.monotonic_ns() - self.running.pop(thread)[1]
                self._task_ns += (took - self._task_ns) / 8 if self._task_ns else took
                self.given.pop(task)
            case ("ended",):
                self.ended = True
            case ("broken", str(reason), str(resuming)):
                raise RunStopped(reason, resuming)

    def late(self, limit_s: float) -> list[int]:
        """Threads whose task has been running for longer than this."""
        now = time.monotonic_ns()
        return [
            thread for thread, (_, since) in self.running.items() if now - since > limit_s * 1e9
        ]

    def lose(self, thread: int, status: Status, failure: Failure) -> Outcome:
        """Give up what a thread is running."""
        task_id, since_ns = self.running.pop(thread)
        task = self.given.pop(task_id)
        phase = Phase(LOST, since_ns, time.monotonic_ns(), 0, 0, 0)
        return Outcome(
            task.id, task.attempt, status, failure, phases=(phase,), slot=str(self.slots[thread])
        )

    def forgive(self, saved: set[int]) -> None:
        """What it was running did nothing wrong: it is as good as only handed, unless a saved
        partial holds it.
        """
        self.running.clear()
        self.given = {task_id: task for task_id, task in self.given.items() if task_id not in saved}

    def death(self) -> str:
        """Why the process is no more, in words; what its functions have started ends with it."""
        if self.process.returncode is None:
            os.waitid(
                os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT
            )  # by its own doing, not by ours
            self.kill()
        code = self.process.returncode
        if code >= 0:
            return f"the worker process exited with code {code} in the middle of the task"
        return f"the worker process {how_it_ended(FIRST_SIGNAL - code)}"

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended it, of which `death` told."""
        return self.process.returncode < 0

    def kill(self) -> None:
        """End it and what its functions have started."""
        self.begin_to_kill()
        self.process.wait()

    def begin_to_kill(self) -> None:
        """The same without waiting until it has ended."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):  # killed before it led a group of its own
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()

    def close(self) -> None:
        """End it and let go of it."""
        self.kill()
        self.connection.close()
