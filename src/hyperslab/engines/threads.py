"""Tasks on threads of this process: for functions that release the GIL, and where memory must be
shared.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress

from threadpoolctl import threadpool_limits

from hyperslab.engines import EngineOptions, Managed, Running
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.steps import outcome_of
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.storage import fence
from hyperslab.trace import OwnTime, Slot

POLL_S = 0.1
GRACE_S = 2.0
"""How long a cancelled run waits for tasks that are under way: a thread cannot be stopped from
outside.
"""


class Threads(Managed):
    """Runs tasks on `workers x threads` threads."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._rounds = 0
        self._stopping = threading.Event()
        self._limits: threadpool_limits | None = None

    def start(self) -> None:
        """Give BLAS and OpenMP pools that are loaded in this process a slot's share of the
        processors.
        """
        self._limits = threadpool_limits(self._options.slot_cpus)

    def stop(self) -> None:
        self.cancel()
        if self._limits is not None:
            self._limits.restore_original_limits()
            self._limits = None

    def cancel(self) -> None:
        """Start no further task."""
        self._stopping.set()

    def slots(self) -> Sequence[Slot]:
        return [
            Slot(self._options.host, 0, t)
            for t in range(self._options.workers * self._options.threads)
        ]

    def own_times(self) -> Sequence[OwnTime]:
        """None: it keeps no record but the journal."""
        return ()

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        self._rounds += 1
        self._stopping.clear()
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        broken: list[BaseException] = []
        arguments = (waiting, steps, merge, broken)
        threads = [
            threading.Thread(target=self._serve, args=(slot, *arguments), daemon=True)
            for slot in self.slots()
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                next(
                    thread for thread in threads if thread.is_alive() or thread is threads[-1]
                ).join(POLL_S)
                yield None
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(GRACE_S)
        if broken:
            raise broken[0]

    def _serve(
        self,
        slot: Slot,
        waiting: queue.SimpleQueue[Task],
        steps: Sequence[StepFunction],
        merge: Merge | None,
        broken: list[BaseException],
    ) -> None:
        """Life of one slot's thread; what it cannot record ends the run."""
        try:
            journal = SlotJournal(self._options.folder, str(slot), f"r{self._rounds}", merge)
            try:
                # Every thread has limits of its own for OpenMP.
                limits = threadpool_limits(self._options.slot_cpus, user_api="openmp")
                with fence.working(self._options.folder), suppress(queue.Empty), limits:
                    while not self._stopping.is_set():
                        journal.take(outcome_of(waiting.get_nowait(), steps))
            finally:
                journal.close()
        except BaseException as error:  # noqa: BLE001  # handed to the thread that runs the engine
            broken.append(error)
            self._stopping.set()
