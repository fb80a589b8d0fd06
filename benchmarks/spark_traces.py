"""Traces of loads: a folder for each, as a run of hyperslab keeps its records, for `hyperslab
report FOLDER`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.spark_data import DATASET, Matrix
from benchmarks.spark_events import EventLog, TaskRun
from hyperslab.driver.directory import save_status
from hyperslab.driver.measured import Moments, agreement, build_trace
from hyperslab.driver.submission import save_records
from hyperslab.machine import pressure
from hyperslab.machine.host import Host, describe
from hyperslab.plan.failure import Failure
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.storage.recordfile import save_record
from hyperslab.trace import LOST, OwnTime, Phase, Slot

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
    return (
        "".join(letter if letter.isalnum() else "-" for letter in text)
        .replace("--", "-")
        .strip("-")
        .lower()
    )


def save(traced: Traced, folder: Path, log: EventLog | None) -> Path:
    """Write the records of a load below `folder`; `log` is that of its Spark, whose job group has
    its name.
    """
    own = folder / traced.name
    own.mkdir(parents=True, exist_ok=True)
    tasks = (
        [task for task in log.of(traced.name) if task.finish_ms is not None]
        if log is not None
        else []
    )
    outcomes = _outcomes(traced, tasks)
    partitions = max((outcome.task for outcome in outcomes), default=-1) + 1
    meta = {
        "labels": [f"partition {number}" for number in range(partitions)],
        "plan": traced.name,
        "run": {
            "engine": traced.way,
            "workers": traced.workers,
            "threads": 1,
            "cpus": Host.here().cpus,
            "granularity": "fused",
        },
        "load": traced.load,
    }
    slots = [str(Slot(HOST, number, 0)) for number in range(traced.workers)]
    moments = Moments(traced.start_ns, traced.start_ns, traced.end_ns)
    trace = build_trace(outcomes, slots, Tail(own), moments, meta)
    if tasks:
        trace.meta["own_times"] = agreement(
            trace, EVENTS, [_own_time(traced, task) for task in tasks]
        )
    save_record(own / "plan.json", _plan(traced, partitions))
    facts = {
        "way": traced.way,
        "master": traced.master,
        "bytes": f"{traced.matrix.nbytes:,}",
        **describe(),
    }
    save_status(own, "done", {"tasks": partitions, "done": partitions})
    save_records(own, trace, f"{traced.way}: {traced.matrix.path.name}", [], facts, "done")
    return own


def _outcomes(traced: Traced, tasks: Sequence[TaskRun]) -> list[Outcome]:
    """Of tasks in Python by their own records; of what left none, by Spark's: those in Java, and
    lost attempts.

    Spark gives a core now to one worker, now to another: slots are the cores, by when attempts were
    busy.
    """
    found = []
    for path in traced.spool.glob("*.json"):
        about = json.loads(path.read_text(encoding="utf-8"))
        phases = tuple(Phase(*phase) for phase in about["phases"])
        found.append(
            Outcome(
                about["partition"],
                about["attempt"],
                "done",
                phases=phases,
                max_rss=about["peak_nbytes"],
            )
        )
    for number, told in enumerate(traced.phases):
        found.append(Outcome(number, 0, "done", phases=tuple(Phase(*phase) for phase in told)))
    known = {(outcome.task, outcome.attempt) for outcome in found}
    found += [
        _of_spark(traced, task) for task in tasks if (task.partition, task.attempt) not in known
    ]
    ends: list[int] = []
    placed = []
    for outcome in sorted(found, key=_window):
        start, end = _window(outcome)
        lane = next((number for number, last in enumerate(ends) if last <= start), len(ends))
        ends[lane : lane + 1] = [end]
        placed.append(replace(outcome, slot=str(Slot(HOST, lane, 0))))
    return placed


def _window(outcome: Outcome) -> tuple[int, int]:
    """First and last moment of an attempt."""
    starts = [phase.start_ns for phase in outcome.phases]
    return min(starts, default=0), max((phase.end_ns for phase in outcome.phases), default=0)


def _of_spark(traced: Traced, task: TaskRun) -> Outcome:
    """An attempt as Spark's event log has it, to the millisecond."""
    own = _own_time(traced, task)
    if task.reason == "Success":
        phase = Phase("java", own.start_ns, own.end_ns, 0, 0, -1)
        return Outcome(task.partition, task.attempt, "done", phases=(phase,))
    phase = Phase(LOST, own.start_ns, own.end_ns, 0, 0, -1)
    failure = Failure(task.reason, "its worker ended", "Spark")
    return Outcome(task.partition, task.attempt, "lost", failure, phases=(phase,))


def _own_time(traced: Traced, task: TaskRun) -> OwnTime:
    assert task.finish_ms is not None
    return OwnTime(
        task.launch_ms * 10**6 - traced.clock_ns, task.finish_ms * 10**6 - traced.clock_ns
    )


def _plan(traced: Traced, tasks: int) -> dict[str, Any]:
    """What the page of a run reads of its plan.json."""
    m = traced.matrix
    source = {
        "first": f"{m.path}::{DATASET}",
        "files": 1,
        "shape": [m.rows, m.columns],
        "kind": m.kind,
    }
    end = {"function": "benchmarks.spark_checksum:checksum", "params": {}}
    summary = {
        "sources": {"matrix": source},
        "steps": [],
        "end": end,
        "values": "stored",
        "boundary": "",
    }
    return {"fingerprint": traced.name, "code": traced.way, "tasks": tasks, "summary": summary}
