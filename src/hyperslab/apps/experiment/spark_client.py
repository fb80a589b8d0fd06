"""Client: a Spark that computes rounds of a workload when it is told to, as a process of its own.

It says in a line when it is ready; each line that it reads is a round, after which it answers in a
line. It ends when there are no more lines.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from hyperslab.apps.experiment.spark_clients import FAILED, Order
from hyperslab.apps.experiment.spark_rounds import Rounds, sized
from hyperslab.connectors.spark import session
from hyperslab.connectors.spark.key_values import WORKLOADS, Found, table_of
from hyperslab.errors import HyperslabError, RunStopped


def main() -> None:
    """Do what the order says that is the first argument. Exits with 2 where that cannot be done."""
    answers = _own_output()
    try:
        for _ in _served(Order.of(sys.argv[1])):
            _tell(answers, {})
    except HyperslabError as error:
        _tell(answers, {FAILED: str(error)})
        sys.exit(2)


def _own_output() -> TextIO:
    """The standard output, which nobody else writes to from now on: Java and workers have the
    standard error in its place.
    """
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "w")


def _tell(answers: TextIO, answer: dict[str, str]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _served(order: Order) -> Iterator[None]:
    """Be ready once, and then after every round. Raises UsageError, and RunStopped for a wrong
    result.
    """
    asked = Rounds(**order.asked)
    size = sized(asked)
    workload = WORKLOADS[asked.workload]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with session(f"local[{order.workers}]", _settings(asked, order.events)) as started:
        context = started.sparkContext
        expected = workload.expected(table_of(context, size), size)
        yield
        for _ in sys.stdin:
            require(asked.workload, workload.run(context, size), expected)
            yield
            gc.collect()


def _settings(asked: Rounds, events: str) -> dict[str, str]:
    """Settings of Spark. An event log is kept where there is a folder for it, from which phases are
    known.
    """
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if events:
        settings |= {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": Path(events).as_uri(),
        }
    if asked.threshold >= 0:
        settings["spark.shuffle.sort.bypassMergeThreshold"] = str(asked.threshold)
    return settings


def require(name: str, found: Found, expected: Found) -> None:
    """Raise RunStopped for a result that is not the expected one."""
    if found != expected:
        raise RunStopped(f"{name}: the result is {found}, not {expected}")
