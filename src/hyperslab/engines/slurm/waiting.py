"""Waiting: what a run has waited for in Slurm's queue, from the times of its jobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hyperslab.engines.slurm.commands import Job


@dataclass(frozen=True, slots=True)
class Waited:
    """What the rounds of a run have waited for so far."""

    submitted_s: float | None = None
    "Moment at which the first job was submitted, seconds since the epoch."
    first_s: float | None = None
    "Moment at which the first job began."
    missing_s: float = 0.0
    "Slots' time in which jobs waited although fewer ran than might at a time."
    jobs: int = 0

    def and_round(
        self, jobs: Sequence[Job], throttle: int, driver_s: float | None = None
    ) -> Waited:
        """The same with a further round, and with the time until a driver came out of the queue at
        `driver_s` to go on after it.
        """
        submitted = [job.submitted_s for job in jobs if job.submitted_s is not None]
        begun = [job.start_s for job in jobs if job.start_s is not None]
        if not submitted or not begun:
            return self
        submitted_s = self.submitted_s
        first_s = self.first_s
        since_s = min(submitted)
        if submitted_s is None or first_s is None:
            submitted_s = since_s
            first_s = min(begun)
            since_s = first_s
        missing = self.missing_s + missing_s(jobs, throttle, since_s)
        ended = [job.end_s for job in jobs if job.end_s is not None]
        if driver_s is not None and ended:
            missing += throttle * max(0.0, driver_s - max(ended))
        return Waited(submitted_s, first_s, missing, self.jobs + len(jobs))


def missing_s(jobs: Sequence[Job], throttle: int, since_s: float) -> float:
    """Slots' seconds, from a moment on, in which jobs waited although fewer ran than might at a
    time.
    """
    ran = [(max(job.start_s, since_s), job.end_s) for job in jobs if job.start_s and job.end_s]
    starts = sorted(start for start, _ in ran)
    ends = sorted(end for _, end in ran)
    total = 0.0
    for begin, end in pairwise(sorted({since_s, *starts, *ends})):
        begun = bisect_right(starts, begin)
        running = begun - bisect_right(ends, begin)
        total += min(throttle - running, len(ran) - begun) * (end - begin)
    return max(0.0, total)
