"""Tasks on Spark: an RDD with a partition per batch, a map per step, and treeReduce for a
reduction.

Spark pipelines the maps of a partition in one Python process, whatever the granularity, so blocks
never pass through Java. What does are tallies; a value larger than LIMIT_NBYTES stays in its file,
which is far below what Spark refuses (2 GiB in one piece, spark.driver.maxResultSize in all).
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from hyperslab.engines import EngineOptions, Managed, Running
from hyperslab.engines.batches import batch, inflight
from hyperslab.engines.batches.orders import clear, round_name, write_orders
from hyperslab.engines.batches.tally import Tally, keep, merge_two
from hyperslab.engines.batches.workers import Call
from hyperslab.engines.spark.java import copy_log, log_size, start_context, stop_context
from hyperslab.engines.spark.session import (
    has_executors,
    quietly,
    settings_of,
    slots_of,
    task_ends,
    why_failed,
)
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.clock import ClockServer, reference, serve_towards
from hyperslab.machine.java import require_java
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.trace import OwnTime, Slot

POLL_S = 0.1
LIMIT_NBYTES = 16 * 2**20
COLLECTED_NBYTES = 2**28
"""Values that a tree of depth two may leave to be collected in all; Spark's own limit is 1 GiB by
default.
"""
ALONE_LIMIT_S = 30.0
"How long a cluster may have no executor before the run is stopped."


class Spark(Managed):
    """Runs tasks on Spark RDDs, in this process's own Spark or on a cluster."""

    name = "spark"
    own_record = "Spark's event log"

    def __init__(self, options: EngineOptions) -> None:
        import pyspark  # noqa: F401  # missing: said before anything starts

        if options.task_timeout_s is not None:
            raise UsageError(
                "--task-timeout needs --engine processes: Spark cannot stop one function of a"
                " worker"
            )
        require_java("--engine spark")
        self._options = options
        self._events = options.folder / "spark-events"
        self._rounds = 0
        self._context: Any = None
        self._clock: ClockServer | None = None
        self._slots: list[Slot] = []
        self._own_times: list[OwnTime] = []
        self._log_start: int | None = None
        self._group = ""
        self._is_ours = self._is_local = True

    def start(self) -> None:
        """Start a context, and make sure that the workers can do the job. Raises RunStopped."""
        options = self._options
        self._log_start = log_size()
        self._events.mkdir(exist_ok=True)
        self._group = f"hyperslab {options.folder}"
        self._context, self._is_ours = start_context(settings_of(options, self._events))
        self._is_local = self._context.master.startswith("local[")
        if not self._is_local:
            self._clock = serve_towards(urlsplit(self._context.master).hostname)
        self._slots = self._survey()

    def _survey(self) -> list[Slot]:
        call = self._call(lambda: slots_of(self._context, self._options.folder))
        list(self._await(call))  # as long as there are executors
        if call.error is not None:
            raise RunStopped(
                why_failed(call.error) or "Spark's workers die as they start"
            ) from call.error
        return list(call.result)

    def stop(self) -> None:
        clear(self._options.folder)
        if self._context is not None:
            if self._is_ours:
                quietly(stop_context)
            self._own_times = list(task_ends(self._events))
        if self._log_start is not None:
            copy_log(self._log_start, self._options.folder / "worker.log")
        if self._clock is not None:
            self._clock.close()
        self._context = self._clock = None

    def cancel(self) -> None:
        """Stop at once; batches that a Python process still runs end at their next task."""
        clear(self._options.folder)
        self._cancel_jobs()

    def _cancel_jobs(self) -> None:
        if self._context is not None:
            quietly(lambda: self._context.cancelJobGroup(self._group))

    def _call(self, action: Callable[[], Any]) -> Call:
        """A Spark action that can be cancelled without those of others in the same context."""

        def grouped() -> Any:
            self._context.setJobGroup(self._group, "hyperslab", interruptOnCancel=True)
            return action()

        return Call(grouped)

    def slots(self) -> Sequence[Slot]:
        return self._slots

    def own_times(self) -> Sequence[OwnTime]:
        """Tasks as Spark's event log has them, to the millisecond."""
        return self._own_times

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        self._rounds += 1
        folder, name = self._options.folder, round_name(self._rounds)
        clock = reference(self._clock.address if self._clock else None)
        batches = batch.cut(tasks, len(self._slots), name, single=False)
        limit = min(LIMIT_NBYTES, COLLECTED_NBYTES // (2 * math.isqrt(len(batches)) + 2))
        place = write_orders(
            folder, name, steps, merge, self._options.shipment, clock, limit, of_processes=True
        )

        def act() -> Any:
            tallies = self._tallies(batches, place, len(steps))
            return (
                tallies.count()
                if merge is None
                else tallies.treeReduce(functools.partial(merge_two, place))
            )

        call = self._call(act)
        try:
            yield from self._await(call)
        finally:
            self._cancel_jobs()
        self._finish(call, name)
        yield from inflight.leftovers(folder / inflight.FOLDER / name, inflight.is_running_here)
        clear(folder)

    def _tallies(self, batches: Sequence[bytes], place: str, steps: int) -> Any:
        """The RDD of what batches come to."""
        tallies = self._context.parallelize(batches, len(batches)).flatMap(
            functools.partial(batch.begin, place)
        )
        for number in range(steps):
            tallies = tallies.map(batch.StepOf(place, number))
        return tallies.mapPartitions(functools.partial(_record, place))

    def _await(self, call: Call) -> Running:
        """Until Spark has answered. Raises RunStopped when there is nobody left who could."""
        alone_since = 0.0
        while not call.ended.wait(POLL_S):
            if self._is_local or has_executors(self._context):
                alone_since = 0.0
            elif (
                time.monotonic() - (alone_since := alone_since or time.monotonic()) > ALONE_LIMIT_S
            ):
                raise RunStopped(
                    f"{self._options.connect} has given the run no executor for {ALONE_LIMIT_S:.0f}"
                    " s: start workers, or free some; --resume goes on"
                )
            yield None

    def _finish(self, call: Call, name: str) -> None:
        """Take what Spark came to; batches of workers that died are left to the driver."""
        if call.error is not None and (why := why_failed(call.error)):
            raise RunStopped(why) from call.error
        if call.error is None and isinstance(call.result, Tally):
            keep(self._options.folder, name, call.result)


def _record(place: str, outcomes: Iterator[Any]) -> list[Tally]:
    return [batch.record(place, outcomes)]
