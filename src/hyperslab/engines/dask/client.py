"""Dask's client: finding a scheduler, asking its workers what they have, reading what it
recorded.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import cloudpickle

from hyperslab.engines.batches import survey
from hyperslab.engines.batches.patience import within
from hyperslab.engines.batches.workers import pack_hyperslab, require_able, sent_by_value
from hyperslab.engines.dask.keeper_process import START_LIMIT_S
from hyperslab.errors import RunStopped, UsageError
from hyperslab.trace import OwnTime, Slot

ANSWER_LIMIT_S = 10.0
CONNECT_LIMIT_S = 10.0
"How long a scheduler may take to be there: it may have been started together with the run."
LOGGERS = ("distributed", "distributed.client")
"Dask gives each of them a handler."


def connect(place: str) -> Any:
    """A client of the cluster at an address, or in a scheduler file. Raises UsageError when none
    answers.
    """
    from distributed import Client

    by_file = "://" not in place
    if by_file and not Path(place).is_file():
        raise UsageError(
            f"--connect {place}: give tcp://HOST:PORT, tls://HOST:PORT, a scheduler file, or slurm"
        )
    try:
        target = {"scheduler_file": place} if by_file else {"address": place}
        return Client(**target, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        hint = (
            "; TLS takes its certificates from Dask's configuration (distributed.comm.tls)"
            if "tls" in place
            else ""
        )
        raise UsageError(f"--connect {place}: no Dask scheduler answers ({error}){hint}") from error


def size_of(place: str) -> tuple[int, int]:
    """(workers, threads of the largest) of a running cluster. Raises UsageError when none answers
    or it is empty.
    """
    client = connect(place)
    try:
        threads = [worker["nthreads"] for worker in workers_of(client).values()]
    finally:
        client.close(timeout=2)
    if not threads:
        raise UsageError(f"--connect {place}: the cluster has no workers yet")
    return len(threads), max(threads)


def redirect(handlers: Mapping[str, list[logging.Handler]]) -> dict[str, list[logging.Handler]]:
    """Let Dask's client log to these handlers, by logger; returns those it had. Its lines belong
    beside those of the workers.
    """
    import distributed  # noqa: F401  # sets up its logging when it is first imported

    before = {name: _exchanged(name, those) for name, those in handlers.items()}
    for one in chain.from_iterable(before.values()):
        if isinstance(one, logging.FileHandler):
            one.close()  # it opens its file again if it is used again
    return before


def _exchanged(name: str, handlers: list[logging.Handler]) -> list[logging.Handler]:
    logger = logging.getLogger(name)
    before, logger.handlers = logger.handlers, handlers
    return before


def workers_of(client: Any) -> dict[str, Any]:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def slots_of(client: Any, folder: Path) -> list[Slot]:
    """Ask every worker what it has; send hyperslab where it is missing; returns the slots. Raises
    RunStopped.
    """
    try:
        with sent_by_value(cloudpickle, survey):
            answers = within(START_LIMIT_S, lambda: client.run(survey.survey, str(folder)))
    except TimeoutError as error:
        raise RunStopped(
            f"not all of Dask's workers answer ({error}): look for one that hangs"
        ) from error
    require_able(answers.values(), folder)
    if not all(answer["hyperslab"] for answer in answers.values()):
        client.upload_file(str(pack_hyperslab(folder)))
    slots: list[Slot] = []
    counts: dict[str, int] = {}
    for address, worker in workers_of(client).items():
        if address not in answers:
            continue  # it has joined since, and has its lane once it is busy
        host = answers[address]["host"]
        number = counts[host] = counts.get(host, -1) + 1
        slots += [Slot(host, number, thread) for thread in range(worker["nthreads"])]
    return slots


def living(client: Any) -> Callable[[Slot], bool]:
    """Tells whether a slot's worker lives; while one of them does not answer, all count as
    living.
    """
    try:
        alive = set(within(ANSWER_LIMIT_S, lambda: client.run(_who, on_error="ignore")).values())
    except TimeoutError:
        return lambda slot: True
    return lambda slot: (slot.host, slot.worker) in alive


def _who() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def task_stream(client: Any, since_s: float) -> list[OwnTime]:
    """What the scheduler's task stream says since then; on a cluster that others use, theirs is in
    it.
    """
    wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
    return [
        OwnTime(*(int(piece[end] * 1e9) - wall_less_monotonic_ns for end in ("start", "stop")))
        for task in client.get_task_stream(start=since_s, count=10**6)
        for piece in task["startstops"]
        if piece["action"] == "compute"
    ]
