"""Tasks on a supervised pool of worker processes: the default engine.

A worker that dies, whatever killed it, is replaced within a fraction of a second: the task it was
running is reported lost with the reason, tasks it had only been handed go back to the queue. No `if
__name__ == "__main__"` is needed in the user's script: workers import the user's functions, they do
not re-run the program.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from operator import attrgetter

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
        self._lost_starts: Counter[int] = Counter()
        "Workers that died before one listened, by the number of their place."

    def start(self) -> None:
        """Start the workers that will have a task and wait until the first listens: the others take
        part as soon as they do. Raises RunStopped when it cannot start.
        """
        for number in range(self._needed()):
            self._spawn(number)
        while not self._processes[0].is_ready:
            try:
                self._processes[0].await_ready()
            except ConnectionError:
                self._start_again(0)

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
        self._begin_ready(payload)
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

    @property
    def _stage(self) -> str:
        return f"r{self._round}"

    @property
    def _at_work(self) -> list[WorkerProcess]:
        """Workers that have been told of this stage."""
        return [each for each in self._processes.values() if each.stage == self._stage]

    def _begin_ready(self, payload: bytes) -> None:
        """Tell workers of this stage that listen by now and do not know of it."""
        for number, process in self._processes.items():
            if process.is_ready and process.stage != self._stage:
                self._lost_starts.pop(number, None)
                with suppress(OSError):  # it died; listening finds out
                    process.begin(self._options.folder, self._stage, payload)

    def _start_again(self, number: int) -> None:
        """Start another worker in the place of one that died before it listened. Raises RunStopped
        where it ended by itself, or many have died in this place.
        """
        process = self._processes[number]
        reason = process.death()
        process.close()
        if not process.was_killed:
            raise RunStopped(f"a worker process could not start: {reason}; see {process.log}")
        self._lost_starts[number] += 1
        if self._lost_starts[number] == START_ATTEMPTS:
            raise RunStopped(
                f"a worker process died {START_ATTEMPTS} times as it started: {reason}"
            )
        self._spawn(number)

    def _feed(self, queue: deque[Task]) -> None:
        """Hand out tasks, always to the worker with the least to do for its size; none in reserve
        as long as a worker starts, which may run it sooner.
        """
        able = self._at_work
        room = attrgetter("room")
        if len(able) < len(self._processes):
            room = attrgetter("idle")
        while queue and (able := [each for each in able if room(each) > 0]):
            process = max(able, key=room)
            try:
                process.hand(queue.popleft())
            except OSError:
                able.remove(process)  # it died; listening finds out and puts its tasks back

    def _listen(self, queue: deque[Task], payload: bytes) -> Iterator[Outcome | None]:
        """Take what workers have to say, notice the dead and the late."""
        wait([process.connection for process in self._processes.values()], POLL_S)
        for number in [n for n, process in self._processes.items() if not process.listen()]:
            if self._processes[number].is_ready:
                yield from self._replace(number, queue)
            else:
                self._start_again(number)
        if self._options.task_timeout_s is not None:
            yield from self._stop_late(self._options.task_timeout_s, queue)
        self._begin_ready(payload)
        self._require_one()
        yield None

    def _require_one(self) -> None:
        """Raise RunStopped where no worker works, and all that start have taken too long."""
        starting = [each for each in self._processes.values() if not each.is_ready]
        if starting and not self._at_work and all(each.is_late for each in starting):
            starting[0].require_answer()

    def _replace(self, number: int, queue: deque[Task]) -> Iterator[Outcome]:
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

    def _stop_late(self, limit_s: float, queue: deque[Task]) -> Iterator[Outcome]:
        reason = f"the task ran longer than --task-timeout {limit_s:g} s, so its worker was stopped"
        for number, process in list(self._processes.items()):
            if process.late(limit_s):
                process.kill()
                process.listen()
                for thread in process.late(limit_s):
                    yield process.lose(thread, "timeout", Failure("Timeout", reason, ""))
                process.forgive(saved_tasks(self._options.folder))
                yield from self._replace(number, queue)

    def _finish(self) -> Iterator[None]:
        """Let every worker record what it still holds; what one that dies now has not recorded, the
        driver misses.
        """
        for process in self._at_work:
            process.end()
        while waiting := [process for process in self._at_work if not process.ended]:
            yield None
            wait([process.connection for process in waiting], POLL_S)
            for process in waiting:
                process.listen()
