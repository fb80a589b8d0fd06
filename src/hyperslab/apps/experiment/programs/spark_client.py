"""Client: a Spark that computes rounds of a workload when it is told to, as a process of its own.

It says in a line when it is ready. Each line that it reads is a word, after which it answers in a
line: to compute, or to look whether what has been computed is right. It ends when there are no more
lines.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from hyperslab.apps.experiment.programs.spark_clients import CHECK, FAILED, Order
from hyperslab.apps.experiment.programs.spark_work import Rounds, Work, work_of
from hyperslab.connectors.spark import session
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
    """Be ready once, and then after every word. Raises UsageError, and RunStopped for a wrong
    result.
    """
    asked = Rounds(**order.asked)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with session(f"local[{order.workers}]", _settings(asked, order.events)) as started:
        work = work_of(order.program, asked, started)
        found: Any = None
        yield
        for word in sys.stdin:
            if word.strip() == CHECK:
                require_right(asked.workload, work, found)
                gc.collect()
            else:
                found = work.run()
            yield


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


def require_right(name: str, work: Work, found: Any) -> None:
    """Raise RunStopped for a result that is not the expected one."""
    wrong = work.wrong(found)
    if wrong:
        raise RunStopped(f"{name}: {wrong}")
