"""Rounds of a computation on plain Dask arrays, on a cluster, with the records of a run; the
messages of the cluster are counted where that is asked for.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from hyperslab.apps.experiment.process import NUMBERS
from hyperslab.connectors.dask_arrays import LEAST_CHUNKS, WORKLOADS, computation, is_right
from hyperslab.driver.directory import RunDirectory, save_status
from hyperslab.driver.measured import Moments, build_trace
from hyperslab.driver.submission import save_records, surroundings
from hyperslab.engines.dask.client import connect
from hyperslab.engines.dask.recording import Recording
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.host import Host, describe
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.trace import Slot, recording, span
from hyperslab.traffic import Traffic
from hyperslab.units import show_count

IDLE = "idle"
"Workload in which a cluster has nothing to do."
HEARTBEAT = "heartbeat_worker"
DATA = "reply:get_data"
TASK = "compute-task"


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
    directory = RunDirectory(out.absolute())
    owned = directory.own()
    try:
        folder = directory.new_submission(_plan(asked))
        save_status(folder, "running", {"tasks": asked.rounds})
        client = connect(place)
        _warm_up(client, asked)
        recorder = Recording(client, folder) if record_messages else None
        start_ns = time.monotonic_ns()
        outcomes = _outcomes(client, asked)
        moments = Moments(start_ns, start_ns, time.monotonic_ns())
        traffic = None
        if recorder is not None:
            recorder.end(is_lost=False)
        client.close()
        if recorder is not None:
            traffic = recorder.traffic()
        _save(folder, asked, outcomes, moments, traffic)
    finally:
        os.close(owned)


def _outcomes(client: Any, asked: Rounds) -> list[Outcome]:
    if asked.workload == IDLE:
        return [_timed(0, lambda: time.sleep(asked.idle_s))]
    return [
        _timed(number, lambda n=number: _round(client, asked, n)) for number in range(asked.rounds)
    ]


def _warm_up(client: Any, asked: Rounds) -> None:
    """Compute something small once, for which workers load what they need. Raises RunStopped."""
    if asked.workload != IDLE:
        _round(client, replace(asked, array=LEAST_CHUNKS * asked.chunk, seed=asked.seed + 100), 0)


def _timed(number: int, work: Any) -> Outcome:
    with recording() as phases, span("compute"):
        work()
    slot = str(Slot(os.uname().nodename, os.getpid(), 0))
    return Outcome(number, 1, "done", phases=tuple(phases), slot=slot)


def _round(client: Any, asked: Rounds, number: int) -> None:
    """One round: a sum with another number has other keys, so nothing is taken from earlier ones.
    Raises RunStopped.
    """
    result = computation(asked.workload, asked.array, asked.chunk, asked.seed) + number
    found = float(client.compute(result).result()) - number
    if not is_right(asked.workload, found, asked.array):
        expected = WORKLOADS[asked.workload][1]
        raise RunStopped(f"{asked.workload}: the result is {found!r}, not about {expected:.4g}")


def _plan(asked: Rounds) -> dict[str, Any]:
    """What the page of a run reads of its plan."""
    source = {"first": asked.workload, "files": 0, "shape": [asked.array] * 2, "kind": "dask"}
    summary = {
        "sources": {"source": source},
        "steps": [{"function": asked.workload, "params": {}}],
        "end": {"format": "none", "keep": "nothing"},
        "values": "stored",
        "boundary": "",
    }
    named = f"dask-arrays {asked.workload}"
    return {"fingerprint": named, "code": named, "tasks": asked.rounds, "summary": summary}


def _save(
    folder: Path,
    asked: Rounds,
    outcomes: Sequence[Outcome],
    moments: Moments,
    traffic: Traffic | None,
) -> None:
    """Write the records of a run, and the numbers beside them."""
    run = {"engine": "dask-arrays", "workers": 1, "threads": 1, "cpus": Host.here().cpus}
    labels = [f"round {number}" for number in range(len(outcomes))]
    meta = {"plan": asked.workload, "labels": labels, "run": run}
    trace = build_trace(outcomes, [], Tail(folder), moments, meta)
    save_status(folder, "done", {"tasks": len(outcomes), "done": len(outcomes)})
    title = f"{asked.workload}: {show_count(len(outcomes), 'round')}"
    facts = {"engine": "dask-arrays", **surroundings(), **describe()}
    save_records(folder, trace, title, [], facts, has_page=False, traffic=traffic)
    seconds = [sum(one.end_ns - one.start_ns for one in done.phases) / 1e9 for done in outcomes]
    numbers = {
        "round_min_s": min(seconds),
        "round_avg_s": fmean(seconds),
        "round_max_s": max(seconds),
    }
    if traffic is not None:
        numbers |= message_numbers(traffic)
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n")


def message_numbers(traffic: Traffic) -> dict[str, float]:
    """Shares of what scheduler and workers send, and sizes and intervals of heartbeats."""
    once = traffic.seen_once()
    names = [once.node_of(address) for address in once.addresses]
    scheduler = _sent(once, [name == "scheduler" for name in names])
    workers = _sent(once, [name.startswith("worker") for name in names])
    number = len({name for name in names if name.startswith("worker")})
    numbers: dict[str, float] = {}
    if scheduler and workers:
        messages, nbytes = _totals(scheduler)
        numbers["scheduler_messages"] = messages
        numbers["scheduler_message_nbytes"] = nbytes
        numbers["task_share"] = scheduler.get(TASK, (0, 0))[0] / messages
        messages, nbytes = _totals(workers)
        numbers["worker_messages"] = messages / number
        numbers["worker_message_nbytes"] = nbytes / number
        numbers["data_share"] = workers.get(DATA, (0, 0))[1] / nbytes
    return numbers | _heartbeats(traffic)


def _sent(traffic: Traffic, is_sender: Sequence[bool]) -> dict[str, tuple[int, int]]:
    """Messages and bytes of each operation that some ends have sent."""
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
