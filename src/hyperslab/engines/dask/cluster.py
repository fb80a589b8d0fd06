"""Cluster: what the engines dask-bag, dask-delayed and dask-futures share: workers, slots, and the
futures of a round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from hyperslab.engines import EngineOptions
from hyperslab.engines.batches.engine import BatchEngine, Work
from hyperslab.engines.batches.patience import within
from hyperslab.engines.batches.tally import Tally
from hyperslab.engines.dask.client import (
    LOGGERS,
    connect,
    living,
    redirect,
    size_of,
    slots_of,
    task_stream,
)
from hyperslab.engines.dask.keeper_process import START_LIMIT_S, KeeperProcess
from hyperslab.engines.dask.links import Tell, probe_links
from hyperslab.engines.dask.on_nodes import cluster_on
from hyperslab.engines.dask.recording import Recording
from hyperslab.engines.dask.watch import Watch
from hyperslab.engines.nodes import NodeCluster, Nodes
from hyperslab.errors import CONTINUES, RunStopped
from hyperslab.machine.links import Effort, Network
from hyperslab.trace import OwnTime, Slot
from hyperslab.traffic import Traffic

RESULT_LIMIT_S = 60.0
STREAM_LIMIT_S = 60.0
LEAVING_LIMIT_S = 2.0
"How long who has been cancelled waits for what a scheduler says."
QUEUE_LIMIT_S = 86_400.0
QUEUE = "slurm"
"What --connect takes for workers that are jobs of a batch system."


class Futures:
    """The futures of a round, of all its batches or of the root of a tree over them."""

    def __init__(
        self, client: Any, futures: Sequence[Any], finish: Callable[[Any], Tally | None]
    ) -> None:
        self._client = client
        self._futures = futures
        self._finish = finish
        self._left = len(futures)
        self._done = threading.Semaphore(0)
        for future in futures:
            future.add_done_callback(lambda _: self._done.release())

    def is_over(self, limit_s: float) -> bool:
        """Wait up to so many seconds for the next one; True when all have ended."""
        if self._left and self._done.acquire(timeout=limit_s):
            self._left -= 1
        return self._left == 0

    def tallies(self) -> Iterator[Tally]:
        """Collect their results. Raises RunStopped."""
        for future in self._futures:
            tally = self._finish(future)
            if tally is not None:
                yield tally

    def cancel(self) -> None:
        with suppress(Exception):  # a scheduler that is dead has nothing to cancel
            self._client.cancel(self._futures)


class DaskEngine(BatchEngine):
    """An engine on Dask; a subclass says how batches become futures."""

    limit_nbytes = 64 * 2**20  # a scheduler is no place for larger values
    single_steps = True

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise ImportError where Dask is missing: said before anything starts."""
        import distributed  # noqa: F401

    @staticmethod
    def cluster_on(nodes: Nodes) -> NodeCluster:
        """A scheduler and workers, each by a command."""
        return cluster_on(nodes)

    @staticmethod
    def links(connect: str, effort: Effort, tell: Tell) -> Network:
        """Links of a cluster, measured between its processes."""
        return probe_links(connect, effort, tell)

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._keeper: KeeperProcess | None = None
        self._watch: Watch | None = None
        self._recording: Recording | None = None
        self._is_cancelled = False
        self._is_lost = False
        self._said: dict[str, list[logging.Handler]] | None = None
        self._since_s = 0.0
        self.client: Any = None

    @staticmethod
    def capacity(connect: str) -> tuple[int, int] | None:
        """(workers, threads) of a cluster that runs already; None for jobs that have yet to start.
        Raises UsageError when no scheduler answers.
        """
        if connect == QUEUE:
            return None
        return size_of(connect)

    def start(self) -> None:
        """Find the cluster, or start one, and make sure that its workers can do the job. Raises
        RunStopped.
        """
        options = self.options
        place = options.connect
        log = logging.FileHandler(options.folder / "worker.log", delay=True)
        self._said = redirect({name: [log] for name in LOGGERS})
        if place in ("", QUEUE):
            self._keeper = KeeperProcess(options)
            place = self._keeper.await_ready()
        self.client = connect(place)
        if options.connect:
            self.serve_clock(urlsplit(self.client.scheduler.address).hostname)
        self.client.get_task_stream()  # from now on the scheduler keeps its own record
        self._since_s = time.time()
        self._await_workers()
        self._slots = slots_of(self.client, options.folder)
        if options.record_messages:
            self._recording = Recording(self.client, options.folder)

    def _await_workers(self) -> None:
        from distributed import TimeoutError as NoWorkers

        wanted = self.options.workers
        if self.options.connect:  # jobs of a queue come when they may
            wanted = 1
        limit_s = START_LIMIT_S
        if self.options.connect == QUEUE:
            limit_s = QUEUE_LIMIT_S
        try:
            self.client.wait_for_workers(wanted, timeout=limit_s)
        except NoWorkers:
            raise RunStopped(
                f"no {wanted} Dask workers within {limit_s:.0f} s: {self._where()}"
            ) from None

    def _where(self) -> str:
        if self._keeper:
            return f"see {self._keeper.log}"
        return f"look at the cluster of {self.options.connect}"

    def leave(self) -> None:
        if self._recording is not None:
            self._recording.end(self._is_lost)
        if self.client is not None:
            if not self._is_lost:  # Dask would look for it for ten seconds
                with suppress(Exception):  # a scheduler that is dead tells nothing
                    self._own_times = self._told_times()
            with suppress(Exception):  # nor can it say good-bye
                self.client.close(timeout=LEAVING_LIMIT_S)
        if self._keeper is not None:
            self._keeper.close(at_once=self._is_cancelled)
        is_silent = not self._is_lost  # a client whose scheduler is gone has more to say
        if self._said is not None and is_silent:
            redirect(self._said)
        self.client = None
        self._keeper = None

    def _told_times(self) -> list[OwnTime]:
        """What the scheduler says of the batches. Who has been cancelled does not wait for one that
        may be out of reach: Dask itself gives up when TCP does. Raises TimeoutError.
        """
        limit_s = STREAM_LIMIT_S
        if self._is_cancelled:
            limit_s = LEAVING_LIMIT_S
        told: list[OwnTime] = within(limit_s, lambda: task_stream(self.client, self._since_s))
        return told

    def traffic(self) -> Traffic | None:
        if self._recording is None:
            return None
        return self._recording.traffic()

    def cancel(self) -> None:
        """Stop at once: batches that run on somebody else's workers end at their next task."""
        self._is_cancelled = True
        super().cancel()

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Work:
        futures = self.futures(place, batches, steps, reducing)
        self._watch = Watch(self.client)
        return Futures(self.client, futures, self._finish)

    def futures(
        self, place: str, batches: Sequence[bytes], steps: int, reducing: bool
    ) -> list[Any]:
        """Futures of tallies: of every batch or, when reducing, of the root of a tree over them."""
        raise NotImplementedError

    def look(self) -> None:
        """Raise RunStopped when the scheduler is out of reach, or has had no worker for a while."""
        assert self._watch is not None
        if self._watch.is_lost():
            raise self._lost()
        if self._watch.is_alone():
            raise RunStopped(
                f"the cluster has had no worker for a while: {self._where()}", CONTINUES
            )

    def who_lives(self) -> Callable[[Slot], bool]:
        return living(self.client)

    def _lost(self) -> RunStopped:
        self._is_lost = True
        return RunStopped(f"the connection to Dask's scheduler is lost: {self._where()}", CONTINUES)

    def _finish(self, future: Any) -> Tally | None:
        """The result of a future; None for batches of workers that died, which are left to the
        driver.
        """
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        try:
            tally = future.result(timeout=RESULT_LIMIT_S)
        except KilledWorker:
            return None
        except FutureCancelledError as error:
            raise self._lost() from error
        except RunStopped:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}; {self._where()}"
            raise RunStopped(f"Dask's workers cannot run the tasks: {said}") from error
        if isinstance(tally, Tally):
            return tally
        return None  # of a Bag that reduces nothing, whose partitions are lists
