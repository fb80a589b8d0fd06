"""Files that a host does not see: its workers miss them, and the driver knows why."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace

from hyperslab.arrays.source import ArraySource
from hyperslab.errors import AGAIN, SourceGone
from hyperslab.plan.failure import Failure
from hyperslab.plan.task import Job, Outcome, Task
from hyperslab.trace import Slot


def told(outcome: Outcome, job: Job | None, task: Task | None) -> Outcome:
    """An outcome whose failure says that a host does not see a source, where that is why."""
    failure = outcome.failure
    slot = Slot.parse(outcome.slot)
    if failure is None or failure.error != SourceGone.__name__ or not (job and task and slot):
        return outcome
    here = socket.gethostname()
    if slot.host == here:
        return outcome
    for source in _sources(job, task):
        if failure.message.startswith(f"{source.url}: ") and os.path.exists(source.watched):
            return replace(outcome, failure=_unseen(failure, source.url, slot.host, here))
    return outcome


def _sources(job: Job, task: Task) -> Iterator[ArraySource]:
    """The sources that a task reads."""
    for sources, pieces in zip(job.inputs.values(), task.reads, strict=True):
        for piece in pieces:
            yield sources[piece.source]


def _unseen(failure: Failure, path: str, host: str, here: str) -> Failure:
    return replace(
        failure,
        message=f"{path}: {host} does not see this file, which is there on {here}: put it on a file"
        f" system that all hosts share, under one path; {AGAIN}",
    )
