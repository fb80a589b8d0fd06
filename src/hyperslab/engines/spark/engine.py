"""Tasks on Spark: an RDD with a partition per batch, a map per step, and treeReduce for a
reduction.

Spark pipelines the maps of a partition in one Python process, whatever the granularity, so blocks
never pass through Java. What does are tallies; a value larger than LIMIT_NBYTES stays in its file,
which is far below what Spark refuses (2 GiB in one piece, spark.driver.maxResultSize in all).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from hyperslab.engines import EngineOptions
from hyperslab.engines.batches import batch, patience
from hyperslab.engines.batches.engine import BatchEngine, Work
from hyperslab.engines.batches.patience import Call, Solitude
from hyperslab.engines.batches.tally import Tally, merge_two
from hyperslab.engines.nodes import NodeCluster, Nodes
from hyperslab.engines.spark.java import copy_log, log_size, start_context, stop_context
from hyperslab.engines.spark.messages import logged
from hyperslab.engines.spark.on_nodes import cluster_on
from hyperslab.engines.spark.session import (
    has_executors,
    quietly,
    require_master,
    settings_of,
    slots_of,
    task_ends,
    why_failed,
)
from hyperslab.errors import CONTINUES, RunStopped
from hyperslab.machine.java import require_java
from hyperslab.trace import Slot
from hyperslab.traffic import Traffic

LIMIT_NBYTES = 16 * 2**20
COLLECTED_NBYTES = 2**28
"""Values that a tree of depth two may leave to be collected in all; Spark's own limit is 1 GiB by
default.
"""


class Job:
    """An action of Spark's that can be cancelled without those of others in the same context."""

    def __init__(self, context: Any, group: str, action: Callable[[], Any]) -> None:
        self._context = context
        self._group = group
        self._action = action
        self.call = Call(self._act)

    def _act(self) -> Any:
        self._context.setJobGroup(self._group, "hyperslab", interruptOnCancel=True)
        return self._action()

    def is_over(self, limit_s: float) -> bool:
        """Wait up to so many seconds; True when Spark has answered."""
        return self.call.ended.wait(limit_s)

    def result(self) -> Any:
        """The result from Spark; None when workers died. Raises RunStopped."""
        if self.call.error is None:
            return self.call.result
        why = why_failed(self.call.error)
        if why is not None:
            raise why from self.call.error
        return None

    def tallies(self) -> Iterator[Tally]:
        """The tally of a reduction; batches of workers that died are left to the driver."""
        result = self.result()
        if isinstance(result, Tally):
            yield result

    def cancel(self) -> None:
        quietly(lambda: self._context.cancelJobGroup(self._group))


class Spark(BatchEngine):
    """Runs tasks on Spark RDDs, in this process's own Spark or on a cluster."""

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise ImportError where Spark, UsageError where Java is missing: said before anything
        starts.
        """
        import pyspark  # noqa: F401

        require_java("--engine spark")

    @staticmethod
    def cluster_on(nodes: Nodes) -> NodeCluster:
        """A master and workers, each by a command."""
        return cluster_on(nodes)

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._events = options.folder / "spark-events"
        self._context: Any = None
        self._log_start: int | None = None
        self._group = f"hyperslab {options.folder}"
        self._is_ours = True
        self._is_local = True
        self._solitude = Solitude()

    @staticmethod
    def capacity(connect: str) -> tuple[int, int] | None:
        """None: Spark says how many cores it gives when it has given them. Raises UsageError when
        no master answers.
        """
        if connect.startswith("spark://"):
            require_master(connect)
        return None

    def start(self) -> None:
        """Start a context, and make sure that the workers can do the job. Raises RunStopped."""
        options = self.options
        self._log_start = log_size()
        self._events.mkdir(exist_ok=True)
        self._context, self._is_ours = start_context(settings_of(options, self._events))
        self._is_local = self._context.master.startswith("local[")
        if not self._is_local:
            self.serve_clock(urlsplit(self._context.master).hostname)
        self._slots = self._survey()

    def _survey(self) -> list[Slot]:
        job = self._job(lambda: slots_of(self._context, self.options.folder))
        try:
            for _ in self.wait(job):
                pass
        finally:
            job.cancel()
        found = job.result()
        if found is None:
            raise RunStopped("Spark's workers die as they start") from job.call.error
        return list(found)

    def leave(self) -> None:
        had_context = self._context is not None
        if had_context and self._is_ours:
            quietly(stop_context)
        self._context = None
        if self._log_start is not None:
            copy_log(self._log_start, self.options.folder / "worker.log")
        if had_context:
            self._own_times = list(task_ends(self._events))

    def traffic(self) -> Traffic | None:
        if not self.options.record_messages or not self._events.is_dir():
            return None
        return logged(self._events)

    def value_limit(self, batches: int) -> int:
        collected = 2 * math.isqrt(batches) + 2
        return min(LIMIT_NBYTES, COLLECTED_NBYTES // collected)

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Work:
        def act() -> Any:
            tallies = self._tallies(batches, place, steps)
            if reducing:
                return tallies.treeReduce(functools.partial(merge_two, place))
            return tallies.count()

        return self._job(act)

    def _job(self, action: Callable[[], Any]) -> Job:
        self._solitude = Solitude()
        return Job(self._context, self._group, action)

    def _tallies(self, batches: Sequence[bytes], place: str, steps: int) -> Any:
        """The RDD of the batches' results."""
        tallies = self._context.parallelize(batches, len(batches)).flatMap(
            functools.partial(batch.begin, place)
        )
        for number in range(steps):
            tallies = tallies.map(batch.StepOf(place, number))
        return tallies.mapPartitions(functools.partial(_record, place))

    def look(self) -> None:
        """Raise RunStopped when a cluster has given the run no executor for a while."""
        is_anybody_there = self._is_local or has_executors(self._context)
        if self._solitude.is_too_long(is_anybody_there):
            raise RunStopped(
                f"{self.options.connect} has given the run no executor for"
                f" {patience.ALONE_LIMIT_S:.0f} s: start workers, or free some",
                CONTINUES,
            )


def _record(place: str, outcomes: Iterator[Any]) -> list[Tally]:
    return [batch.record(place, outcomes)]
