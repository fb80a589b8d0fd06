"""Rounds of a workload in Spark, each with its result looked at, by one client or several at a
time.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path

from hyperslab.apps.experiment.programs.rounds import Program, save_rounds, submission, timed
from hyperslab.apps.experiment.programs.spark_clients import Clients, Order, clients_of, events_in
from hyperslab.apps.experiment.programs.spark_work import Rounds, require
from hyperslab.apps.files.runs import SPARK_EVENTS
from hyperslab.driver.measured import Moments
from hyperslab.plan.task import Outcome


def run_rounds(
    program: str, asked: Rounds, workers: int, out: Path, began_ns: int, scratch: str = ""
) -> None:
    """Compute in rounds on cores of this host, with temporary files where `scratch` says, as
    --scratch does. Raises UsageError, and RunStopped for a wrong result.
    """
    require(asked, program)
    about = Program(program, asked.workload, workers=workers)
    with submission(about, out, asked.rounds) as folder:
        first = Order(program, asdict(asked), workers, events_in(folder / SPARK_EVENTS))
        others = [replace(first, events="")] * (asked.clients - 1)
        with clients_of([first, *others], scratch) as clients:
            for _ in range(asked.warmups):
                clients.compute()
                clients.check()
            served = clients.names_served()
            ready_ns = time.monotonic_ns()
            outcomes = [_round(clients, number, asked.pause_s) for number in range(asked.rounds)]
            moments = Moments(began_ns, ready_ns, time.monotonic_ns())
            numbers = _served_since(clients, served, asked.rounds)
        save_rounds(folder, about, outcomes, moments, numbers)


def _round(clients: Clients, number: int, pause_s: float) -> Outcome:
    time.sleep(pause_s)
    outcome = timed(number, clients.compute)
    clients.check()
    return outcome


def _served_since(clients: Clients, before: int | None, rounds: int) -> dict[str, float]:
    """Operations on names that an emulated tier has served for a round."""
    now = clients.names_served()
    if before is None or now is None:
        return {}
    return {"tier_operations": (now - before) / rounds}
