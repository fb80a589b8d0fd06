"""Rounds of a workload in Spark, each with its result compared, by one client or several at a
time.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hyperslab.apps.experiment.rounds import Program, save_rounds, submission, timed
from hyperslab.apps.experiment.spark_clients import Clients, Order, clients_of, events_in
from hyperslab.apps.files.runs import SPARK_EVENTS
from hyperslab.connectors.spark.key_values import Size, size_of
from hyperslab.driver.measured import Moments
from hyperslab.errors import UsageError

NAME = "spark-pairs"


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
    tasks: int = 0
    "Number of empty tasks, where it is not that of the scale."
    threshold: int = -1
    "Reduce tasks up to which a shuffle sorts nothing (bypassMergeThreshold); -1: Spark's own."
    clients: int = 1
    "Number of Sparks that compute the same at the same time, each with as many cores."


def run_rounds(
    asked: Rounds, workers: int, out: Path, began_ns: int, scratch: str = ""
) -> None:
    """Compute in rounds on cores of this host, with temporary files where `scratch` says, as
    --scratch does. Raises UsageError, and RunStopped for a wrong result.
    """
    sized(asked)
    if asked.rounds < 1 or asked.warmups < 0 or asked.clients < 1:
        raise UsageError(
            "rounds, warmups, clients: give at least one round and one client, and no negative"
            " number"
        )
    program = Program(NAME, asked.workload, workers=workers)
    with submission(program, out, asked.rounds) as folder:
        first = Order(asdict(asked), workers, events_in(folder / SPARK_EVENTS))
        others = [replace(first, events="")] * (asked.clients - 1)
        with clients_of([first, *others], scratch) as clients:
            for _ in range(asked.warmups):
                clients.compute()
            served = clients.names_served()
            ready_ns = time.monotonic_ns()
            outcomes = []
            for number in range(asked.rounds):
                time.sleep(asked.pause_s)
                outcomes.append(timed(number, clients.compute))
            moments = Moments(began_ns, ready_ns, time.monotonic_ns())
            numbers = _served_since(clients, served, asked.rounds)
        save_rounds(folder, program, outcomes, moments, numbers)


def sized(asked: Rounds) -> Size:
    """The data of a workload, with the numbers that are asked for. Raises UsageError."""
    size = size_of(asked.workload, asked.scale)
    given = {name: getattr(asked, name) for name in ("partitions", "reducers", "keys", "tasks")}
    return replace(size, **{name: number for name, number in given.items() if number})


def _served_since(clients: Clients, before: int | None, rounds: int) -> dict[str, float]:
    """Operations on names that an emulated tier has served for a round."""
    now = clients.names_served()
    if before is None or now is None:
        return {}
    return {"tier_operations": (now - before) / rounds}
