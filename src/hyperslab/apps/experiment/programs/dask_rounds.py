"""Rounds of a computation on plain Dask arrays, on a cluster, with the records of a run; the
messages of the cluster are counted where that is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from hyperslab.apps.experiment.design.setting import IDLE
from hyperslab.apps.experiment.programs.rounds import Program, save_rounds, submission, timed
from hyperslab.connectors.dask_arrays import LEAST_CHUNKS, WORKLOADS, computation, is_right
from hyperslab.driver.measured import Moments
from hyperslab.engines.dask.client import connect
from hyperslab.engines.dask.recording import Recording
from hyperslab.errors import RunStopped, UsageError
from hyperslab.plan.task import Outcome
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import Traffic

HEARTBEAT = "heartbeat_worker"
DATA = "reply:get_data"
TASK = "compute-task"
_SETTLE_S = 1.0
"""Rest before and after what is measured, in which the bytes on the links are read several times,
so that none of those are counted by which the recorder comes and its messages go.
"""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What is computed, and how often."""

    workload: str
    "Name of a computation, or `idle`."
    array: int = 1000
    "Length of each axis."
    chunk: int = 250
    rounds: int = 10
    idle_s: float = 10.0
    "Seconds for which an idle cluster is watched."
    seed: int = 0


def run_rounds(asked: Rounds, place: str, out: Path, record_messages: bool) -> None:
    """Compute in rounds on the cluster at an address. Raises UsageError, and RunStopped for a wrong
    result.
    """
    if not place:
        raise UsageError("dask-arrays runs on a cluster: give the factor slow, or --connect")
    if asked.workload != IDLE:
        computation(asked.workload, asked.array, asked.chunk, asked.seed)
    program = Program("dask-arrays", asked.workload, (asked.array, asked.array))
    with submission(program, out, asked.rounds) as folder:
        client = connect(place)
        _warm_up(client, asked)
        recorder = Recording(client, folder) if record_messages else None
        time.sleep(_SETTLE_S)
        start_ns = time.monotonic_ns()
        began_ns = time.time_ns()
        outcomes = _outcomes(client, asked)
        ended_ns = time.time_ns()
        moments = Moments(start_ns, start_ns, time.monotonic_ns())
        time.sleep(_SETTLE_S)
        traffic = None
        if recorder is not None:
            recorder.end(is_lost=False)
        client.close()
        numbers: dict[str, float] = {}
        if recorder is not None:
            traffic = recorder.traffic()
            numbers = message_numbers(traffic, began_ns, ended_ns)
        save_rounds(folder, program, outcomes, moments, numbers, traffic)


def _outcomes(client: Any, asked: Rounds) -> list[Outcome]:
    if asked.workload == IDLE:
        return [timed(0, lambda: time.sleep(asked.idle_s))]
    return [timed(number, partial(_round, client, asked, number)) for number in range(asked.rounds)]


def _warm_up(client: Any, asked: Rounds) -> None:
    """Compute something small once, for which workers load what they need. Raises RunStopped."""
    if asked.workload != IDLE:
        _round(client, replace(asked, array=LEAST_CHUNKS * asked.chunk, seed=asked.seed + 100), 0)


def _round(client: Any, asked: Rounds, number: int) -> None:
    """One round: a sum with another number has other keys, so nothing is taken from earlier ones.
    Raises RunStopped.
    """
    result = computation(asked.workload, asked.array, asked.chunk, asked.seed) + number
    found = float(client.compute(result).result()) - number
    if not is_right(asked.workload, found, asked.array):
        expected = WORKLOADS[asked.workload][1]
        raise RunStopped(f"{asked.workload}: the result is {found!r}, not about {expected:.4g}")


def message_numbers(traffic: Traffic, start_ns: int, end_ns: int) -> dict[str, float]:
    """Shares of what scheduler and workers send between two moments of the wall clock, and sizes
    and intervals of heartbeats: without those by which the recorder comes and goes, which are up to
    a third of what the scheduler sends.

    Operations are counted: a message may hold several of them, and a packet several messages.
    """
    once = traffic.seen_once()
    time_ns = once.columns["time_ns"]
    once = once.where((start_ns <= time_ns) & (time_ns <= end_ns))
    names = [once.node_of(address) for address in once.addresses]
    scheduler = _sent(once, [name == "scheduler" for name in names])
    workers = _sent(once, [name.startswith("worker") for name in names])
    number = len({name for name in names if name.startswith("worker")})
    numbers: dict[str, float] = {}
    if scheduler and workers:
        operations, nbytes = _totals(scheduler)
        numbers["scheduler_operations"] = operations
        numbers["scheduler_message_nbytes"] = nbytes
        numbers["task_share"] = scheduler.get(TASK, (0, 0))[0] / operations
        operations, nbytes = _totals(workers)
        numbers["worker_operations"] = operations / number
        numbers["worker_message_nbytes"] = nbytes / number
        numbers["data_share"] = workers.get(DATA, (0, 0))[1] / nbytes
        numbers |= _by_pairs(once, names)
    return numbers | _heartbeats(traffic)


def _by_pairs(traffic: Traffic, names: Sequence[str]) -> dict[str, float]:
    """Bytes that workers send each other, and that go from the scheduler to them and back."""
    import numpy as np

    each = traffic.columns
    is_worker = np.array([name.startswith("worker") for name in names], bool)
    is_scheduler = np.array([name == "scheduler" for name in names], bool)
    from_worker, to_worker = is_worker[each["source"]], is_worker[each["target"]]
    handed = is_scheduler[each["source"]] & to_worker
    told = from_worker & is_scheduler[each["target"]]
    return {
        "between_workers_nbytes": int(each["nbytes"][from_worker & to_worker].sum()),
        "with_scheduler_nbytes": int(each["nbytes"][handed | told].sum()),
    }


def _sent(traffic: Traffic, is_sender: Sequence[bool]) -> dict[str, tuple[int, int]]:
    """How often some ends have sent each operation, and its bytes."""
    import numpy as np

    each = traffic.columns
    chosen = np.array(is_sender, bool)[each["source"]]
    found = {}
    for place, name in enumerate(traffic.operations):
        rows = chosen & (each["operation"] == place)
        if rows.any():
            found[name] = (int(each["count"][rows].sum()), int(each["nbytes"][rows].sum()))
    return found


def _totals(sent: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(count for count, _ in sent.values()), sum(nbytes for _, nbytes in sent.values())


def _heartbeats(traffic: Traffic) -> dict[str, float]:
    beats = [one for one in numbers_of(traffic).heartbeats if one.operation == HEARTBEAT]
    intervals = [one.interval_s.median for one in beats if one.interval_s is not None]
    replies = [one.reply_nbytes.median for one in beats if one.reply_nbytes is not None]
    if not intervals or not replies:
        return {}
    return {
        "heartbeat_interval_s": median(intervals),
        "heartbeat_request_nbytes": median(one.request_nbytes.median for one in beats),
        "heartbeat_reply_nbytes": median(replies),
    }
