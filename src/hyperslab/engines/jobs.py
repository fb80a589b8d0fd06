"""Jobs of batch systems: what a run leaves in the queue, and what it has waited for there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

JOBS = "jobs.json"
"""File of a submission that names its jobs in a batch system, as long as they may be there: a
record of the engine that has submitted them, whose name is its field `engine`.
"""
FIRST = "slurm"
"Engine of records that name none: those of earlier versions, and damaged ones."
LAST_LOG = "driver.log"
"File of a submission with what the job prints that goes on with a detached run."
JOBS_AT_A_TIME = 16
"Jobs of a batch system that run at a time where the user names no number."


class Detached(Exception):
    """Raised by an engine that has left the rest of the run to jobs of a batch system."""


@dataclass(frozen=True, slots=True)
class Queued:
    """What a run has waited for in the queue of a batch system."""

    system: str
    first_ns: int
    "Moment at which the first job began, on the driver's clock."
    waited_s: float
    "Time from when it was submitted to that."
    missing_s: float
    "Slots' time afterwards in which jobs waited although fewer ran than might at a time."
    jobs: int


@dataclass(frozen=True, slots=True)
class JobsLeft:
    """Jobs of a submission that a batch system may still have."""

    is_detached: bool
    "Whether the run is theirs to end, and not that of a driver."
    are_there: bool | None
    "Whether some of them wait or run; None where the batch system cannot be asked."
    told: str
    "What they do, in words."
    never: str = ""
    "Why none of them will ever begin, in the batch system's word; '' where one may."


def engine_of(folder: Path) -> str | None:
    """Name of the engine that has submitted jobs of a submission; None where there are none. It
    tells, when it reads the record, whether that is damaged.
    """
    try:
        text = (folder / JOBS).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return str(json.loads(text)["engine"])
    except (ValueError, KeyError, TypeError):
        return FIRST
