"""Tasks on a supervised pool of worker processes: the default engine.

A worker that dies, whatever killed it, is replaced within a fraction of a second: the task it was
running is reported lost with the reason, tasks it had only been handed go back to the queue. No `if
__name__ == "__main__"` is needed in the user's script: workers import the user's functions, they do
not re-run the program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait

import cloudpickle

from hyperslab.engines import EngineOptions, Managed, Running
from hyperslab.engines.pool.worker_process import WorkerProcess
from hyperslab.errors import RunStopped
from hyperslab.plan.failure import DIED, Failure
from hyperslab.plan.journal import saved_tasks
from hyperslab.plan.task import Merge, Outcome, StepFunction, Task
from hyperslab.trace import OwnTime, Slot

POLL_S = 0.1
MOST_FUTILE = 5
"Workers that may die in a row before they have run a task."
START_ATTEMPTS = 10
"How often a worker is started again that something kills before it listens."


class Processes(Managed):
    """Runs tasks on `workers` processes with `threads` slots each."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._processes: dict[int, WorkerProcess] = {}
        self._started = 0
        self._round = 0
        self._futile = 0

    def start(self) -> None:
        """Start the workers that will have a task and wait until they listen. Raises RunStopped
        when one cannot start.
        """
        for number in range(self._needed()):
            self._spawn(number)
        for number in self._processes:
            self._insist(number, WorkerProcess.await_ready)

    def stop(self) -> None:
        for process in self._processes.values():
            process.begin_to_kill()
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def cancel(self) -> None:
        """Stop at once; what the workers have not recorded is done again by a resumed run."""
        self.stop()

    def slots(self) -> Sequence[Slot]:
        options = self._options
        return [
            Slot(options.host, w, t) for w in range(options.workers) for t in range(options.threads)
        ]

    def own_times(self) -> Sequence[OwnTime]:
        """None: it keeps no record but the journal."""
        return ()

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        self._round += 1
        payload = cloudpickle.dumps((tuple(steps), merge))
        queue = deque(tasks)
        for number in self._processes:
            self._begin(number, payload)
        while queue or any(process.given for process in self._processes.values()):
            self._feed(queue)
            yield from self._listen(queue, payload)
        yield from self._finish()

    def _needed(self) -> int:
        """Workers that may have something to do."""
        options = self._options
        if options.most_tasks is None:
            return options.workers
        return max(1, min(options.workers, options.most_tasks))

    def _spawn(self, number: int) -> None:
        self._started += 1
        self._processes[number] = WorkerProcess(number, self._options, self._started)

    def _begin(self, number: int, payload: bytes) -> None:
        self._insist(
            number, lambda process: process.begin(self._options.folder, f"r{self._round}", payload)
        )

    def _insist(self, number: int, order: Callable[[WorkerProcess], None]) -> None:
        """Give a worker an order, and another one in its place if it is dead. Raises RunStopped
        when none survives.
        """
        for attempt in range(START_ATTEMPTS):
            try:
                self._processes[number].await_ready()
                order(self._processes[number])
                return
            except OSError as error:
                if attempt == START_ATTEMPTS - 1:
                    raise RunStopped(
                        f"a worker process died {attempt + 1} times as it started: {error}"
                    ) from error
                self._processes[number].close()
                self._spawn(number)

    def _feed(self, queue: deque[Task]) -> None:
        """Hand out tasks, always to the worker with the least to do for its size."""
        able = {number for number, process in self._processes.items() if process.room > 0}
        while queue and able:
            number = max(able, key=lambda n: self._processes[n].room)
            try:
                self._processes[number].hand(queue.popleft())
            except OSError:
                able.remove(number)  # it died; listening finds out and puts its tasks back
            else:
                able -= {number} if self._processes[number].room <= 0 else set()

    def _listen(self, queue: deque[Task], payload: bytes) -> Iterator[Outcome | None]:
        """Take what workers have to say, notice the dead and the late."""
        wait([process.connection for process in self._processes.values()], POLL_S)
        for number in [n for n, process in self._processes.items() if not process.listen()]:
            yield from self._replace(number, queue, payload)
        if self._options.task_timeout_s is not None:
            yield from self._stop_late(self._options.task_timeout_s, queue, payload)
        yield None

    def _replace(self, number: int, queue: deque[Task], payload: bytes) -> Iterator[Outcome]:
        """Report what a dead worker was running, requeue what it was only handed, start another."""
        process = self._processes[number]
        reason = process.death()
        process.close()
        self._futile = 0 if process.was_useful else self._futile + 1
        if self._futile > MOST_FUTILE:
            raise RunStopped(
                f"worker processes die before they run anything: {reason}; see {process.log}"
            )
        for thread in list(process.running):
            yield process.lose(thread, "lost", Failure(DIED, reason, ""))
        queue.extendleft(reversed(process.given.values()))
        self._spawn(number)
        self._begin(number, payload)

    def _stop_late(self, limit_s: float, queue: deque[Task], payload: bytes) -> Iterator[Outcome]:
        reason = f"the task ran longer than --task-timeout {limit_s:g} s, so its worker was stopped"
        for number, process in list(self._processes.items()):
            if process.late(limit_s):
                process.kill()
                process.listen()
                for thread in process.late(limit_s):
                    yield process.lose(thread, "timeout", Failure("Timeout", reason, ""))
                process.forgive(saved_tasks(self._options.folder))
                yield from self._replace(number, queue, payload)

    def _finish(self) -> Iterator[None]:
        """Let every worker record what it still holds; what one that dies now has not recorded, the
        driver misses.
        """
        for process in self._processes.values():
            process.end()
        while waiting := [process for process in self._processes.values() if not process.ended]:
            yield None
            wait([process.connection for process in waiting], POLL_S)
            for process in waiting:
                process.listen()
