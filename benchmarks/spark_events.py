"""Spark's event log: what it says of jobs, by the group that they ran in: launches of tasks,
failures, time in GC.

Lines of JSON without compression (`spark.eventLog.compress=false`,
`spark.eventLog.rolling.enabled=false`); a last line that was cut by the end of its writer is left
out, any other that cannot be read is an error.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hyperslab.errors import FormatError, UsageError

GROUP = "spark.jobGroup.id"
SOON_S = 1.0
"H5Spark's figure 3 asks how many tasks are launched within seconds, and how late the rest is."

Stage = tuple[int, int]
"Number and attempt."


@dataclass(slots=True)
class TaskRun:
    """One attempt at a task; milliseconds of the wall clock."""

    number: int
    "Of all attempts of a session."
    stage: Stage
    partition: int
    attempt: int
    launch_ms: int
    finish_ms: int | None = None
    "None where the log ends before."
    reason: str = ""
    "Success, or what Spark calls the failure."
    gc_ms: int = 0
    executor: str = ""


@dataclass(slots=True)
class EventLog:
    """What a log says."""

    groups: dict[Stage, str] = field(default_factory=dict)
    "In which job group a stage ran; '' for none."
    submitted_ms: dict[Stage, int] = field(default_factory=dict)
    tasks: list[TaskRun] = field(default_factory=list)

    def of(self, group: str) -> list[TaskRun]:
        """The tasks of a job group."""
        return [task for task in self.tasks if self.groups.get(task.stage) == group]


class Launches(NamedTuple):
    """When tasks were launched after their stage was submitted, in seconds, and how they ended."""

    tasks: int
    "Attempts."
    first_s: float
    "Median over the stages of the first launch."
    median_s: float
    late_s: float
    "95 of 100 are launched by then."
    last_s: float
    soon: float
    "Share of the attempts that is launched within SOON_S."
    behind_s: float
    "The longest time from the first launch of a stage to another one."
    failed: int
    relaunched: int
    gc_s: float
    "Over all tasks; tasks that share a Java process count its pauses each."


def read_log(path: Path) -> EventLog:
    """Raises UsageError for logs that are compressed or in pieces, FormatError for a damaged
    one.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a log in pieces: set spark.eventLog.rolling.enabled=false")
    data = path.read_bytes()
    if data and not data.startswith(b"{"):
        raise UsageError(f"{path} is compressed: set spark.eventLog.compress=false")
    log = EventLog()
    running: dict[int, TaskRun] = {}
    for event in _events(path, data):
        match event["Event"]:
            case "SparkListenerStageSubmitted":
                info = event["Stage Info"]
                stage = info["Stage ID"], info["Stage Attempt ID"]
                log.groups[stage] = (event.get("Properties") or {}).get(GROUP, "")
                log.submitted_ms[stage] = info["Submission Time"]
            case "SparkListenerTaskStart":
                task = _started(event)
                log.tasks.append(task)
                running[task.number] = task
            case "SparkListenerTaskEnd":
                task = running.pop(event["Task Info"]["Task ID"])
                task.finish_ms = event["Task Info"]["Finish Time"]
                task.reason = event["Task End Reason"]["Reason"]
                task.gc_ms = (event.get("Task Metrics") or {}).get("JVM GC Time", 0)
    return log


def _events(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            if number == len(lines):  # nothing ends it
                return
            raise FormatError(
                f"{path}, line {number}: not an event of Spark's log ({error})"
            ) from error
        if not isinstance(event, dict) or "Event" not in event:
            raise FormatError(f"{path}, line {number}: not an event of Spark's log")
        yield event


def _started(event: dict[str, Any]) -> TaskRun:
    info = event["Task Info"]
    stage = event["Stage ID"], event["Stage Attempt ID"]
    executor = str(info.get("Executor ID", ""))
    return TaskRun(
        info["Task ID"],
        stage,
        info["Index"],
        info["Attempt"],
        info["Launch Time"],
        executor=executor,
    )


def launches(log: EventLog, groups: Sequence[str]) -> Launches:
    """What became of the tasks of these job groups. Raises ValueError where the log knows none."""
    tasks = [task for group in groups for task in log.of(group)]
    if not tasks:
        raise ValueError(f"Spark's event log has no task of {', '.join(groups)}")
    delays: dict[Stage, list[float]] = {}
    for task in tasks:
        delays.setdefault(task.stage, []).append(
            (task.launch_ms - log.submitted_ms[task.stage]) / 1e3
        )
    every = sorted(delay for of_stage in delays.values() for delay in of_stage)
    return Launches(
        tasks=len(every),
        first_s=statistics.median(min(of_stage) for of_stage in delays.values()),
        median_s=statistics.median(every),
        late_s=every[math.ceil(0.95 * len(every)) - 1],
        last_s=every[-1],
        soon=sum(delay <= SOON_S for delay in every) / len(every),
        behind_s=max(max(of_stage) - min(of_stage) for of_stage in delays.values()),
        failed=sum(task.reason not in ("Success", "") for task in tasks),
        relaunched=sum(task.attempt > 0 for task in tasks),
        gc_s=sum(task.gc_ms for task in tasks) / 1e3,
    )
