"""Spark's side of a run: its settings, its cores, what it recorded, and an action that can be
waited for.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.engines import EngineOptions
from hyperslab.engines.batches import survey
from hyperslab.engines.batches.workers import pack_hyperslab, require_able, sent_by_value
from hyperslab.engines.environment import share
from hyperslab.engines.spark.java import said_by_java
from hyperslab.engines.spark.messages import SETTINGS
from hyperslab.errors import CONTINUES, RunStopped, UsageError
from hyperslab.trace import OwnTime, Slot

MOST_FAILURES = 8
"Attempts that Spark makes at a batch; each continues after the task at which the last one died."
WORKER_DIED = re.compile(
    r"exited unexpectedly|Connection reset|ExecutorLost|executor .* (lost|exited)|Worker.*crashed"
)
ANSWER_LIMIT_S = 5.0
SURVEY_PAUSE_S = 0.3
"How long a core is held by a survey, so that every core answers one."


def settings_of(options: EngineOptions, events: Path) -> dict[str, str]:
    """Spark's settings; what the user's spark-defaults.conf says of anything else stays."""
    slots = options.workers * options.threads
    variables = share(options.slot_cpus)
    settings = {
        "spark.master": options.connect or f"local[{slots},{MOST_FAILURES}]",
        "spark.app.name": "hyperslab",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": (
            "false"
        ),  # the same batch twice at a time helps nobody: they would write the same files
        "spark.task.maxFailures": str(MOST_FAILURES),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.absolute().as_uri(),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    if options.record_messages:
        settings |= SETTINGS
    return settings | {f"spark.executorEnv.{name}": value for name, value in variables.items()}


def slots_of(context: Any, folder: Path) -> list[Slot]:
    """Ask every core for what it has; send hyperslab where it is missing; returns the cores. Raises
    RunStopped.
    """
    from pyspark import cloudpickle

    cores = context.defaultParallelism
    with sent_by_value(cloudpickle, survey):
        answers = context.parallelize(range(cores), cores).map(_answer(str(folder))).collect()
    require_able((answer for answer, _ in answers), folder)
    if not all(answer["hyperslab"] for answer, _ in answers):
        context.addPyFile(str(pack_hyperslab(folder)))
    executors = sorted({(answer["host"], process) for answer, process in answers})
    numbers = {
        key: sum(key[0] == other[0] for other in executors[:n]) for n, key in enumerate(executors)
    }
    each = -(-cores // len(executors))
    return [
        Slot(host, numbers[host, process], t) for host, process in executors for t in range(each)
    ]


def _answer(folder: str) -> Callable[[int], tuple[dict[str, Any], int]]:
    def answer(_: int) -> tuple[dict[str, Any], int]:
        time.sleep(SURVEY_PAUSE_S)
        return survey.survey(folder), os.getppid()

    return answer


def task_ends(folder: Path) -> Iterator[OwnTime]:
    """Tasks as Spark's event log has them, to the millisecond."""
    wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
    for path in folder.iterdir():
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith('{"Event":"SparkListenerTaskEnd"') and line.endswith(
                    "}\n"
                ):  # Java may be killed
                    about = json.loads(line)["Task Info"]
                    yield OwnTime(
                        about["Launch Time"] * 10**6 - wall_less_monotonic_ns,
                        about["Finish Time"] * 10**6 - wall_less_monotonic_ns,
                    )


def is_of_dead_java(error: BaseException) -> bool:
    """Whether an error says that nobody answers for Java, rather than what Java answers."""
    from py4j.protocol import Py4JError, Py4JJavaError

    return isinstance(error, OSError | Py4JError) and not isinstance(error, Py4JJavaError)


def java_died(error: BaseException) -> RunStopped:
    """What to raise for such an error."""
    return RunStopped(f"Spark's Java process has died ({said_by_java(error)})", CONTINUES)


def why_failed(error: BaseException) -> RunStopped | None:
    """What to raise when Spark gave up on a job; None when batches lost their workers, which are
    run again.
    """
    said = str(error)
    if isinstance(error, RunStopped):
        return RunStopped(error.sentence, error.resuming)
    if is_of_dead_java(error):
        return java_died(error)
    if stopped := re.search(r"RunStopped: (.*)", said):
        return RunStopped(stopped[1])
    if WORKER_DIED.search(said):
        return None
    lines = [
        line.strip()
        for line in said.splitlines()
        if re.match(r"\w*(Error|Exception)\b", line.strip())
    ]
    last = lines[-1] if lines else said_by_java(error)
    return RunStopped(f"Spark cannot run the tasks: {last}", CONTINUES)


def has_executors(context: Any) -> bool:
    """True while somebody could run a task. Raises RunStopped when Java has died."""
    try:
        # the driver is one
        return len(context._jsc.sc().statusTracker().getExecutorInfos()) > 1  # noqa: SLF001
    except Exception as error:
        if is_of_dead_java(error):
            raise java_died(error) from error
        raise


def require_master(masters: str) -> None:
    """Raise UsageError when none of spark://HOST:PORT[,HOST:PORT...] answers: Spark itself tries
    for a minute.
    """
    for place in masters.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with (
            suppress(OSError, ValueError),
            socket.create_connection((host, int(port)), ANSWER_LIMIT_S),
        ):
            return
    raise UsageError(f"--connect {masters}: no Spark master answers there")


def quietly(action: Callable[[], Any]) -> None:
    """Say good-bye to a Spark that may be dead."""
    from py4j.protocol import Py4JError

    try:
        action()
    except (Py4JError, OSError):
        return
