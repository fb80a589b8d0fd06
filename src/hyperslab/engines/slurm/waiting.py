"""Waiting: what a run has waited for in Slurm's queue, from the times of its jobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from hyperslab.engines.slurm.commands import FORGOTTEN, Job
from hyperslab.plan.journal import Tail


@dataclass(frozen=True, slots=True)
class Chain:
    """Jobs of a round that share the places of its slots with no others."""

    jobs: Sequence[Job]
    throttle: int
    "How many of them may run at a time."


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

    def and_round(self, chains: Sequence[Chain], driver_s: float | None = None) -> Waited:
        """The same with a further round, and with the time until a driver came out of the queue at
        `driver_s` to go on after it.
        """
        jobs = [job for chain in chains for job in chain.jobs]
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
        missing = self.missing_s + sum(missing_s(chain, since_s) for chain in chains)
        ended = [job.end_s for job in jobs if job.end_s is not None]
        if driver_s is not None and ended:
            throttle = sum(chain.throttle for chain in chains)
            missing += throttle * max(0.0, driver_s - max(ended))
        return Waited(submitted_s, first_s, missing, self.jobs + len(jobs))


def remembered(
    jobs: Mapping[int, Job], folder: Path, submitted_s: float, wall_less_monotonic_ns: int
) -> dict[int, Job]:
    """The jobs of a round by their batches. Of those of which Slurm has forgotten when they ran the
    first stands for all, by what the journal of the submission knows: it has run from the first
    phase after they were submitted to the last one.
    """
    told = dict(jobs)
    unknown = [number for number, job in jobs.items() if _is_unknown(job)]
    if not unknown or not submitted_s:
        return told
    since_ns = submitted_s * 1e9 - wall_less_monotonic_ns
    phases = [phase for outcome in Tail(folder).poll() for phase in outcome.phases]
    starts = [phase.start_ns for phase in phases if phase.start_ns >= since_ns]
    if not starts:
        return told
    start_s = (min(starts) + wall_less_monotonic_ns) / 1e9
    end_s = (max(phase.end_ns for phase in phases) + wall_less_monotonic_ns) / 1e9
    first = unknown[0]
    told[first] = replace(told[first], submitted_s=submitted_s, start_s=start_s, end_s=end_s)
    return told


def _is_unknown(job: Job) -> bool:
    return job.state == FORGOTTEN and job.start_s is None


def missing_s(chain: Chain, since_s: float) -> float:
    """Slots' seconds, from a moment on, in which jobs waited that had been submitted, although
    fewer ran than might at a time.
    """
    ran = [
        (job.submitted_s or 0.0, job.start_s, job.end_s)
        for job in chain.jobs
        if job.start_s is not None and job.end_s is not None
    ]
    starts = sorted(max(start, since_s) for _, start, _ in ran)
    submitted = sorted(max(min(moment, start), since_s) for moment, start, _ in ran)
    ends = sorted(end for _, _, end in ran)
    total = 0.0
    for begin, end in pairwise(sorted({since_s, *submitted, *starts, *ends})):
        begun = bisect_right(starts, begin)
        running = begun - bisect_right(ends, begin)
        waiting = bisect_right(submitted, begin) - begun
        total += min(chain.throttle - running, waiting) * (end - begin)
    return max(0.0, total)
