"""Rounds of a workload on pairs of keys and values in Spark, each with its result compared."""

from __future__ import annotations

import gc
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from hyperslab.apps.experiment.rounds import Program, save_rounds, submission, timed
from hyperslab.connectors.spark.key_values import WORKLOADS, Found, Size, size_of, table_of
from hyperslab.driver.measured import Moments
from hyperslab.errors import RunStopped, UsageError

NAME = "spark-pairs"
_EVENTS = "spark-events"


@dataclass(frozen=True, slots=True)
class Rounds:
    """What is computed, and how often."""

    workload: str
    scale: float = 0.001
    "Number of times 20 hosts that the data are for: spark-perf's scale factor."
    rounds: int = 8
    warmups: int = 2
    "Rounds before them that do not count."
    pause_s: float = 0.0
    "Seconds between two rounds."
    partitions: int = 0
    "Number of map tasks, where it is not that of the scale."
    reducers: int = 0
    keys: int = 0
    threshold: int = -1
    "Reduce tasks up to which a shuffle sorts nothing (bypassMergeThreshold); -1: Spark's own."


def run_rounds(asked: Rounds, workers: int, out: Path, began_ns: int) -> None:
    """Compute in rounds on cores of this host. Raises UsageError, and RunStopped for a wrong
    result.
    """
    from hyperslab.connectors.spark import session

    size = _sized(asked)
    if asked.rounds < 1 or asked.warmups < 0:
        raise UsageError("rounds, warmups: give at least one round, and no negative number")
    workload = WORKLOADS[asked.workload]
    program = Program(NAME, asked.workload, workers=workers)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with submission(program, out, asked.rounds) as folder:
        settings = _settings(asked, folder)
        with session(f"local[{workers}]", settings) as started:
            context = started.sparkContext
            expected = workload.expected(table_of(context, size), size)

            def compute() -> None:
                _require(asked.workload, workload.run(context, size), expected)

            for _ in range(asked.warmups):
                compute()
            ready_ns = time.monotonic_ns()
            outcomes = []
            for number in range(asked.rounds):
                time.sleep(asked.pause_s)
                gc.collect()
                outcomes.append(timed(number, compute))
            moments = Moments(began_ns, ready_ns, time.monotonic_ns())
        save_rounds(folder, program, outcomes, moments, {})


def _sized(asked: Rounds) -> Size:
    """The data of a workload, with the numbers that are asked for. Raises UsageError."""
    size = size_of(asked.workload, asked.scale)
    given = {name: getattr(asked, name) for name in ("partitions", "reducers", "keys")}
    return replace(size, **{name: number for name, number in given.items() if number})


def _settings(asked: Rounds, folder: Path) -> dict[str, str]:
    """Settings of Spark: it keeps an event log, from which phases are known."""
    events = folder / _EVENTS
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.absolute().as_uri(),
    }
    if asked.threshold >= 0:
        settings["spark.shuffle.sort.bypassMergeThreshold"] = str(asked.threshold)
    return settings


def _require(name: str, found: Found, expected: Found) -> None:
    if found != expected:
        raise RunStopped(f"{name}: the result is {found}, not {expected}")
