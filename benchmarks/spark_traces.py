"""Traces of loads: a folder for each, as a run of hyperslab keeps its records, for `hyperslab report FOLDER`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.spark_data import DATASET, Matrix
from benchmarks.spark_events import EventLog
from hyperslab import pressure
from hyperslab.journal import Tail
from hyperslab.machine import Host, describe
from hyperslab.measured import Moments, agreement, build_trace
from hyperslab.records import save_records
from hyperslab.rundir import save_json, save_status
from hyperslab.span import OwnTime, Phase, Slot
from hyperslab.task import Failure, Outcome

HOST = "local"
EVENTS = "Spark's event log"


@dataclass(slots=True)
class Traced:
    """One load whose tasks recorded themselves."""

    name: str
    "Of its folder."
    way: str
    matrix: Matrix
    master: str
    workers: int
    spool: Path
    start_ns: int = field(default_factory=time.monotonic_ns)
    end_ns: int = 0
    load: Any = field(default_factory=pressure.sample)
    phases: Sequence[Sequence[Sequence[Any]]] = ()
    "Of processes outside Spark, one list each."
    clock_ns: int = field(default_factory=lambda: time.time_ns() - time.monotonic_ns())
    "Wall clock less the monotonic one."

    def ended(self) -> None:
        """The load is over."""
        self.end_ns, self.load = time.monotonic_ns(), pressure.between(self.load, pressure.sample())


def folder_name(*words: object) -> str:
    """Of what describes a load."""
    text = "-".join(str(word) for word in words)
    return "".join(letter if letter.isalnum() else "-" for letter in text).replace("--", "-").strip("-").lower()


def save(traced: Traced, folder: Path, log: EventLog | None) -> Path:
    """Write the records of a load below `folder`; `log` is that of its Spark, whose job group has its name."""
    own = folder / traced.name
    own.mkdir(parents=True, exist_ok=True)
    outcomes, own_times = _outcomes(traced), _own_times(traced, log)
    if not outcomes:
        outcomes = _of_java(traced, own_times)
    partitions = max((outcome.task for outcome in outcomes), default=-1) + 1
    meta = {
        "labels": [f"partition {number}" for number in range(partitions)],
        "plan": traced.name,
        "run": {
            "engine": traced.way, "workers": traced.workers, "threads": 1, "cpus": Host.here().cpus,
            "granularity": "fused",
        },
        "load": traced.load,
    }  # fmt: skip
    slots = [str(Slot(HOST, number, 0)) for number in range(traced.workers)]
    moments = Moments(traced.start_ns, traced.start_ns, traced.end_ns)
    trace = build_trace(outcomes, slots, Tail(own), moments, meta)
    if own_times:
        trace.meta["own_times"] = agreement(trace, EVENTS, [time for _, time, _ in own_times])
    save_json(own / "plan.json", _plan(traced, partitions))
    facts = {"way": traced.way, "master": traced.master, "bytes": f"{traced.matrix.nbytes:,}", **describe()}
    save_status(own, "done", {"tasks": partitions, "done": partitions})
    save_records(own, trace, f"{traced.way}: {traced.matrix.path.name}", [], facts, "done")
    return own


def _outcomes(traced: Traced) -> list[Outcome]:
    """Of Python's tasks; an attempt that left no record was lost with its worker."""
    found = []
    for path in sorted(traced.spool.glob("*.json")) if traced.spool.is_dir() else []:
        about = json.loads(path.read_text(encoding="utf-8"))
        found.append(_outcome(about["partition"], about["attempt"], about["process"], about["phases"], about["peak_nbytes"]))
    for number, phases in enumerate(traced.phases):
        found.append(_outcome(number, 0, number, phases, 0))
    return found


def _outcome(task: int, attempt: int, process: int, phases: Sequence[Sequence[Any]], peak_nbytes: int) -> Outcome:
    told = tuple(Phase(*phase) for phase in phases)
    return Outcome(task, attempt, "done", phases=told, slot=str(Slot(HOST, process, 0)), max_rss=peak_nbytes)


def _own_times(traced: Traced, log: EventLog | None) -> list[tuple[int, OwnTime, str]]:
    """Partition, time and reason of the end, as Spark has them."""
    tasks = log.of(traced.name) if log is not None else []
    return [
        (task.partition, OwnTime(*(ms * 10**6 - traced.clock_ns for ms in (task.launch_ms, task.finish_ms))), task.reason)
        for task in tasks
        if task.finish_ms is not None
    ]


def _of_java(traced: Traced, times: Sequence[tuple[int, OwnTime, str]]) -> list[Outcome]:
    """Tasks that ran in Java alone, which Spark's event log knows to the millisecond."""
    ends: list[int] = []
    found = []
    for partition, time_, reason in sorted(times, key=lambda one: one[1].start_ns):
        lane = next((n for n, end in enumerate(ends) if end <= time_.start_ns), len(ends))
        ends[lane : lane + 1] = [time_.end_ns]
        phase = Phase("java", time_.start_ns, time_.end_ns, 0, 0, -1)
        failure = None if reason == "Success" else Failure("engine", reason)
        status = "done" if failure is None else "failed"
        slot = str(Slot(HOST, lane, 0))
        found.append(Outcome(partition, 0, status, failure, phases=(phase,), slot=slot))
    return found


def _plan(traced: Traced, tasks: int) -> dict[str, Any]:
    """What the page of a run reads of its plan.json."""
    m = traced.matrix
    source = {"first": f"{m.path}::{DATASET}", "files": 1, "shape": [m.rows, m.columns], "kind": m.kind}
    end = {"function": f"benchmarks.spark_checksum:{'checksum' if traced.spool else 'none'}", "params": {}}
    summary = {"sources": {"matrix": source}, "steps": [], "end": end, "values": "stored", "boundary": ""}
    return {"fingerprint": traced.name, "code": traced.way, "tasks": tasks, "summary": summary, "pid": os.getpid()}
