"""Dask: what the engines dask-bag, dask-delayed and dask-futures share: a cluster, its slots, and
waiting for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import urlsplit

from hyperslab.engines import EngineOptions, Managed, Running
from hyperslab.engines.batches import batch, inflight
from hyperslab.engines.batches.orders import clear, round_name, write_orders
from hyperslab.engines.batches.tally import Tally, keep
from hyperslab.engines.dask.client import connect, living, redirect, slots_of, task_stream
from hyperslab.engines.dask.keeper_process import START_LIMIT_S, KeeperProcess
from hyperslab.engines.dask.watch import Watch
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.clock import ClockServer, reference, serve_towards
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.trace import OwnTime, Slot

POLL_S = 0.1
RESULT_LIMIT_S = 60.0
LIMIT_NBYTES = 64 * 2**20
"Larger values stay in their files: a scheduler is no place for them."
QUEUE_LIMIT_S = 86_400.0


class DaskEngine(Managed):
    """An engine on Dask; a subclass says how batches become futures."""

    name: str
    own_record = "Dask's task stream"
    single_steps: ClassVar[bool] = True
    """Whether every step of a block is an operator of its own to the scheduler, so that a batch
    holds one task.
    """

    def __init__(self, options: EngineOptions) -> None:
        import distributed  # noqa: F401  # missing: said before anything starts

        if options.task_timeout_s is not None:
            raise UsageError(
                "--task-timeout needs --engine processes: Dask cannot stop a function in a worker's"
                " thread"
            )
        self._options = options
        self._rounds = 0
        self._keeper: KeeperProcess | None = None
        self._clock: ClockServer | None = None
        self._slots: list[Slot] = []
        self._own_times: list[OwnTime] = []
        self._is_cancelled = self._is_lost = False
        self._said: list[logging.Handler] | None = None
        self._since_s = 0.0
        self.client: Any = None

    def start(self) -> None:
        """Find the cluster, or start one, and make sure that its workers can do the job. Raises
        RunStopped.
        """
        options, place = self._options, self._options.connect
        self._said = redirect([logging.FileHandler(options.folder / "worker.log", delay=True)])
        if place in ("", "slurm"):
            self._keeper = KeeperProcess(options)
            place = self._keeper.await_ready()
        self.client = connect(place)
        if options.connect:
            self._clock = serve_towards(urlsplit(self.client.scheduler.address).hostname)
        self.client.get_task_stream()  # from now on the scheduler keeps its own record
        self._since_s = time.time()
        self._await_workers()
        self._slots = slots_of(self.client, options.folder)

    def _await_workers(self) -> None:
        from distributed import TimeoutError as NoWorkers

        own = self._keeper and not self._options.connect  # jobs of a queue come when they may
        wanted = self._options.workers if own else 1
        limit_s = QUEUE_LIMIT_S if self._options.connect == "slurm" else START_LIMIT_S
        try:
            self.client.wait_for_workers(wanted, timeout=limit_s)
        except NoWorkers:
            raise RunStopped(
                f"no {wanted} Dask workers within {limit_s:.0f} s: {self._where()}"
            ) from None

    def _where(self) -> str:
        return (
            f"see {self._keeper.log}"
            if self._keeper
            else f"look at the cluster of {self._options.connect}"
        )

    def stop(self) -> None:
        clear(self._options.folder)
        if self.client is not None:
            with suppress(Exception):  # a scheduler that is dead cannot say good-bye
                self._own_times = task_stream(self.client, self._since_s)
                self.client.close(timeout=2)
        if self._keeper is not None:
            self._keeper.close(at_once=self._is_cancelled)
        if self._clock is not None:
            self._clock.close()
        if (
            self._said is not None and not self._is_lost
        ):  # a client whose scheduler is gone has more to say
            redirect(self._said)
        self.client = self._keeper = self._clock = None

    def cancel(self) -> None:
        """Stop at once: batches that run on somebody else's workers end at their next task."""
        self._is_cancelled = True
        self.stop()

    def slots(self) -> Sequence[Slot]:
        return self._slots

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        self._rounds += 1
        folder, name = self._options.folder, round_name(self._rounds)
        clock = reference(self._clock.address if self._clock else None)
        place = write_orders(
            folder, name, steps, merge, self._options.shipment, clock, LIMIT_NBYTES
        )
        stepwise = len(steps) > 1
        batches = batch.cut(tasks, len(self._slots), name, single=stepwise and self.single_steps)
        futures = self.submit(place, batches, len(steps) if stepwise else 1, merge is not None)
        try:
            yield from self._await(futures)
            for future in futures:
                self._finish(future, name)
        finally:
            with suppress(Exception):  # as above
                self.client.cancel(futures)
        yield from inflight.leftovers(folder / inflight.FOLDER / name, living(self.client))
        clear(folder)

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> list[Any]:
        """Futures of tallies: of every batch or, when reducing, of the root of a tree over them."""
        raise NotImplementedError

    def _await(self, futures: Sequence[Any]) -> Running:
        done = threading.Semaphore(0)
        for future in futures:
            future.add_done_callback(lambda _: done.release())
        left, watch = len(futures), Watch(self.client)
        while left:
            left -= done.acquire(timeout=POLL_S)
            if watch.is_lost():
                raise self._lost()
            if watch.is_alone():
                raise RunStopped(
                    f"the cluster has had no worker for a while: {self._where()}; --resume goes on"
                )
            yield None

    def _lost(self) -> RunStopped:
        self._is_lost = True
        return RunStopped(
            f"the connection to Dask's scheduler is lost: {self._where()}; --resume goes on"
        )

    def _finish(self, future: Any, name: str) -> None:
        """Take what a future came to; batches of workers that died are left to the driver."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        try:
            tally = future.result(timeout=RESULT_LIMIT_S)
        except KilledWorker:
            return
        except FutureCancelledError as error:
            raise self._lost() from error
        except RunStopped:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}; {self._where()}"
            raise RunStopped(f"Dask's workers cannot run the tasks: {said}") from error
        if isinstance(tally, Tally):  # a Bag that reduces nothing has a list of them
            keep(self._options.folder, name, tally)

    def own_times(self) -> Sequence[OwnTime]:
        """What the scheduler's task stream says of our batches."""
        return self._own_times
