"""Jobs of batch systems: what a run leaves in the queue, and what it has waited for there."""

from __future__ import annotations

from dataclasses import dataclass

JOBS = "jobs.json"
"File of a submission that names its jobs in a batch system, as long as they may be there."
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
