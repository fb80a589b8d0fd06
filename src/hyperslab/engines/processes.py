"""Tasks on a supervised pool of worker processes: the default engine.

A worker that dies, whatever killed it, is replaced within a fraction of a second: the task it was running is reported
lost with the reason, tasks it had only been handed go back to the queue. No `if __name__ == "__main__"` is needed in
the user's script: workers import the user's functions, they do not re-run the program.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Self

import cloudpickle

from hyperslab.engines import EngineOptions
from hyperslab.engines.process import WorkerProcess
from hyperslab.errors import RunStopped
from hyperslab.pipeline import Fold
from hyperslab.span import Slot
from hyperslab.task import Failure, Outcome, StepFunction, Task

POLL_S = 0.1
AHEAD = 2
"Tasks handed to a slot at a time: one to run and one so that it never waits for us."


class Processes:
    """Runs tasks on `workers` processes with `threads` slots each."""

    name = "processes"

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._processes: dict[int, WorkerProcess] = {}
        self._started = 0
        self._round = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all workers and wait until they listen. Raises RunStopped when one cannot start."""
        for number in range(self._options.workers):
            self._processes[number] = self._spawn(number)
        for process in self._processes.values():
            process.await_ready()

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        self._processes.clear()

    def cancel(self) -> None:
        """Stop at once; what the workers have not recorded is done again by a resumed run."""
        self.stop()

    def slots(self) -> Sequence[Slot]:
        options = self._options
        return [Slot(options.host, w, t) for w in range(options.workers) for t in range(options.threads)]

    def run(self, tasks: Sequence[Task], steps: Sequence[StepFunction], fold: Fold | None) -> Iterator[Outcome | None]:
        self._round += 1
        payload = cloudpickle.dumps((tuple(steps), fold.merge if fold else None))
        queue = deque(tasks)
        for number, process in self._processes.items():
            if process.is_dead:
                self._processes[number] = self._spawn(number)
                self._processes[number].await_ready()
        for process in self._processes.values():
            process.begin(self._options.folder, f"r{self._round}", payload)
        while queue or any(process.given for process in self._processes.values()):
            self._feed(queue)
            yield from self._listen(queue, payload)
        yield from self._finish()

    def _spawn(self, number: int) -> WorkerProcess:
        self._started += 1
        return WorkerProcess(number, self._options, self._started)

    def _feed(self, queue: deque[Task]) -> None:
        """Hand out tasks evenly: nobody gets a second one while another slot has none."""
        for depth in range(1, AHEAD + 1):
            for process in self._processes.values():
                while queue and len(process.given) < depth * self._options.threads:
                    try:
                        process.hand(queue.popleft())
                    except OSError:
                        break  # it died; listening finds out and puts its tasks back

    def _listen(self, queue: deque[Task], payload: bytes) -> Iterator[Outcome | None]:
        """Take what workers have to say, notice the dead and the late."""
        by_connection = {process.connection: number for number, process in self._processes.items()}
        for connection in wait(list(by_connection), POLL_S):
            number = by_connection[connection]  # type: ignore[index]  # wait() returns what it was given
            try:
                while self._processes[number].connection.poll():
                    self._note(self._processes[number], self._processes[number].connection.recv())
            except (EOFError, ConnectionError):
                yield from self._replace(number, queue, payload)
        if self._options.task_timeout_s is not None:
            yield from self._stop_late(self._options.task_timeout_s, queue, payload)
        yield None

    def _note(self, process: WorkerProcess, message: tuple[object, ...]) -> None:
        match message:
            case ("start", int(thread), int(task)):
                process.running[thread] = (task, time.monotonic_ns())
            case ("done", int(thread), int(task)):
                process.running.pop(thread)
                process.given.pop(task)
            case ("ended",):
                process.ended = True
            case ("broken", str(reason)):
                raise RunStopped(reason)

    def _replace(self, number: int, queue: deque[Task], payload: bytes) -> Iterator[Outcome]:
        """Report what a dead worker was running, requeue what it was only handed, start another."""
        process = self._processes[number]
        reason = process.death()
        process.connection.close()
        for thread in list(process.running):
            yield process.lose(thread, "lost", Failure("WorkerDied", reason, ""))
        queue.extendleft(reversed(process.given.values()))
        self._processes[number] = self._spawn(number)
        self._processes[number].await_ready()
        self._processes[number].begin(self._options.folder, f"r{self._round}", payload)

    def _stop_late(self, limit_s: float, queue: deque[Task], payload: bytes) -> Iterator[Outcome]:
        reason = f"the task ran longer than --task-timeout {limit_s:g} s, so its worker was stopped"
        for number, process in list(self._processes.items()):
            began_before = time.monotonic_ns() - limit_s * 1e9
            late = [thread for thread, (_, since) in process.running.items() if since < began_before]
            for thread in late:
                yield process.lose(thread, "timeout", Failure("Timeout", reason, ""))
            if late:
                process.running.clear()  # its other tasks did nothing wrong: they go back to the queue
                process.process.kill()
                yield from self._replace(number, queue, payload)

    def _finish(self) -> Iterator[None]:
        """Let every worker record what it still holds; what one that dies now has not recorded, the driver misses."""
        for process in self._processes.values():
            process.end()
        while any(not process.ended for process in self._processes.values()):
            yield None
            for process in self._processes.values():
                try:
                    while not process.ended and process.connection.poll(POLL_S / 10):
                        self._note(process, process.connection.recv())
                except (EOFError, ConnectionError):
                    process.ended = True
