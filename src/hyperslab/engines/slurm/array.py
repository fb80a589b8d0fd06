"""Array: the elements of a round while they wait and run, as Slurm tells of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hyperslab.engines.slurm import commands, submitted
from hyperslab.engines.slurm.commands import FORGOTTEN, Job, Unanswered
from hyperslab.engines.slurm.ends import died
from hyperslab.engines.slurm.submitted import SubmittedJobs, forget, insist
from hyperslab.engines.slurm.waiting import Chain
from hyperslab.engines.stopping import why_stopped
from hyperslab.errors import CONTINUES, RunStopped
from hyperslab.units import show_count

LEAST_PAUSE_S = 0.3
MOST_PAUSE_S = 15.0
PAUSE_SHARE = 0.1
"Slurm is asked again after this share of the time that the round has taken so far."
SILENCE_LIMIT_S = 600.0
"How long a controller may be out of reach, as when it is started anew."
AFTER_OTHERS = "Dependency"
"Reason of jobs that wait for the end of others."
NEVER = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "DependencyNeverSatisfied",
        "InvalidAccount",
        "InvalidQOS",
        "JobHeldAdmin",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSNotAllowed",
    }
)
"Reasons to wait that end with an administrator's help alone ..."
BEYOND = re.compile(r"(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?|QOSMin\w+")
"... as do those of jobs that ask for more, or less, than one of their account or QOS may have."


@dataclass(slots=True)
class Array:
    """The elements of a round under way."""

    folder: Path
    submitted: SubmittedJobs
    jobs: dict[int, Job] = field(default_factory=dict)
    "What Slurm has said last of the element of every batch."
    _began: float = field(default_factory=time.monotonic)
    _answered: float = field(default_factory=time.monotonic)
    _ask_at: float = 0.0
    is_silent: bool = False
    "Whether Slurm has not answered when the jobs were given back."
    _is_given_back: bool = False

    def is_over(self, limit_s: float) -> bool:
        """Ask Slurm, or wait up to so many seconds; True when every element has ended."""
        now = time.monotonic()
        if now < self._ask_at:
            time.sleep(min(limit_s, self._ask_at - now))
            return False
        with suppress(Unanswered):
            self.ask()
            self._answered = time.monotonic()
        pause = PAUSE_SHARE * (time.monotonic() - self._began)
        self._ask_at = time.monotonic() + min(max(pause, LEAST_PAUSE_S), MOST_PAUSE_S)
        return self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether every element has, by what Slurm has said last."""
        return len(self.jobs) == self.submitted.count and all(
            job.has_ended for job in self.jobs.values()
        )

    def ask(self) -> None:
        """Learn the states of all elements. Raises Unanswered."""
        numbers = self.submitted.numbers
        told = self._take(commands.jobs(numbers))
        silent = [n for n in range(self.submitted.count) if n not in told and not self._knows(n)]
        if silent:
            self._take(commands.accounted(numbers))
        for n in silent:
            self._forget(n)

    def ask_of_ended(self) -> None:
        """Learn the states of elements that have ended, where Slurm can be asked; one that is
        silent is asked again for a while.
        """
        with suppress(RunStopped):
            insist(self.ask)
        for n in range(self.submitted.count):
            self._forget(n)

    def _forget(self, number: int) -> None:
        """Note of an element that Slurm knows it no longer, unless its end is known. When it was to
        end, which is told of those that run, says nothing any more.
        """
        if not self._knows(number):
            last = self.jobs.get(number, Job("", ""))
            self.jobs[number] = replace(last, state=FORGOTTEN, end_s=None)

    def _take(self, jobs: Iterable[Job]) -> set[int]:
        """Note what is said of elements; returns which ones."""
        said = {job.id: job for job in jobs}
        told = set()
        for array, first, size in self.submitted.arrays:
            rest = self._rest_of(array, said)
            for index in range(size):
                name = f"{array}_{index}"
                job = said.get(name)
                if job is None and not self._knows(first + index):
                    job = rest
                if job is not None:
                    self.jobs[first + index] = replace(job, id=name)
                    told.add(first + index)
        return told

    def _rest_of(self, array: str, said: Mapping[str, Job]) -> Job | None:
        """What is said of those elements of an array that have no line of their own: of those that
        were cancelled before they began there is one, of the array's number or as 7_[3-9%2].
        """
        names = [name for name in said if name == array or name.startswith(f"{array}_[")]
        return next((said[name] for name in names), None)

    def _knows(self, number: int) -> bool:
        """Whether the end of an element is known."""
        return number in self.jobs and self.jobs[number].has_ended

    def chains(self, jobs: Mapping[int, Job]) -> list[Chain]:
        """The jobs of all elements, by their batches, as those that follow each other."""
        return [
            Chain(self._in_turn(arrays, jobs), share) for share, arrays in self.submitted.chains
        ]

    def _in_turn(
        self, arrays: Sequence[tuple[str, int, int]], jobs: Mapping[int, Job]
    ) -> list[Job]:
        """The jobs of arrays of which each begins after the one before, as if they had been
        submitted then.
        """
        found = []
        free_s = 0.0
        for _, first, size in arrays:
            own = [jobs[number] for number in range(first, first + size) if number in jobs]
            found += [_waiting_since(job, free_s) for job in own]
            free_s = max((job.end_s for job in own if job.end_s is not None), default=free_s)
        return found

    def require_hope(self) -> None:
        """Raise RunStopped when Slurm has been silent for too long, or when no job will ever
        begin.
        """
        if time.monotonic() - self._answered > SILENCE_LIMIT_S:
            raise RunStopped(
                f"Slurm's controller has not answered for {SILENCE_LIMIT_S / 60:.0f} minutes",
                CONTINUES,
            )
        left = [job for job in self.jobs.values() if not job.has_ended]
        if reason := why_never(left):
            waiting = show_count(len(left), "job")
            one = next(job.id for job in left if job.reason == reason)
            raise RunStopped(
                f"Slurm will not begin {waiting} of the run ({reason}): see 'scontrol show job"
                f" {one}'",
                CONTINUES,
            )

    def require_able(self, log: Path) -> None:
        """Raise RunStopped when a batch could not go on, as on a full disk, with its reason."""
        if any(job.state == "FAILED" for job in self.jobs.values()):
            reason = why_stopped(log, self.submitted.log_nbytes)
            if reason:
                raise RunStopped(reason)

    def require_wanted(self) -> None:
        """Raise RunStopped when somebody has taken elements out of the queue: who did so does not
        want them to be submitted again.
        """
        taken = [job for job in self.jobs.values() if job.state == "CANCELLED" and not job.host]
        if taken:
            waiting = show_count(len(taken), "job")
            raise RunStopped(f"somebody has cancelled {waiting} of the run that waited", CONTINUES)

    def require_hosts(self, log: Path, begun: int) -> None:
        """Raise RunStopped where jobs on some hosts have done their tasks and on another all failed
        before their first: the next would fail there as fast, and take what others could do.
        `begun` is the number of jobs that have begun a task.
        """
        able = [job.host for job in self.jobs.values() if job.state == "COMPLETED"]
        failed = [job.host for job in self.jobs.values() if job.state == "FAILED"]
        unable = set(failed).difference(able, [""])
        if begun >= len(able) + len(failed) or not able or not unable:
            return
        named = ",".join(sorted(unable))
        others = ", ".join(sorted(set(able)))
        raise RunStopped(
            f"all of Slurm's jobs on {named} failed, and those on {others} did not: {log} says why,"
            f" unless {named} does not see that folder: choose an output directory (-o) that all"
            f" nodes share, or leave {named} out (--slurm-option exclude={named})",
            CONTINUES,
        )

    def require_begun(self, log: Path) -> None:
        """Raise RunStopped when all elements have failed; called where none has begun a task."""
        states = sorted({job.state for job in self.jobs.values()})
        if not states or "COMPLETED" in states:
            return
        hosts = sorted({job.host for job in self.jobs.values() if job.host})
        raise RunStopped(
            f"all of Slurm's jobs ended before their first task ({', '.join(states)} on"
            f" {', '.join(hosts) or 'no node'}): {log} says why, unless they do not see that"
            " folder: then choose an output directory (-o), and for 'hyperslab tiers' a current"
            " one, that the nodes share"
        )

    def how_it_ended(self, number: int) -> str:
        """How the element of a batch died, as part of a sentence; '' where Slurm does not tell."""
        job = self.jobs.get(number)
        if job is None:
            return ""
        return died(job.id, job.state) or died(job.id, job.reason)

    def cancel(self) -> None:
        """Give back the jobs, unless all have ended, or it was tried before. Those of a detached
        run stay on file, as one of them goes on with it.
        """
        if self._is_given_back:
            return
        if not self.has_ended:
            self._is_given_back = True
            is_heard = submitted.end(self.folder, self.submitted, submitted.LEAVE_LIMIT_S)
            self.is_silent = not is_heard
        elif not self.submitted.is_detached:
            forget(self.folder)


def _waiting_since(job: Job, moment_s: float) -> Job:
    """A job as one that was submitted at a moment, if it was submitted before."""
    if job.submitted_s is None or job.submitted_s >= moment_s:
        return job
    return replace(job, submitted_s=moment_s)


def why_never(jobs: Iterable[Job]) -> str:
    """Why none of these jobs, which have not ended, will ever begin, in Slurm's word; '' where one
    runs, or may begin. Those that wait for others of the run say nothing of it.
    """
    first = [job for job in jobs if job.reason != AFTER_OTHERS]
    if not all(job.state == "PENDING" and _is_hopeless(job.reason) for job in first):
        return ""
    return next((job.reason for job in first), "")


def _is_hopeless(reason: str) -> bool:
    """Whether a job that waits for this reason will never begin."""
    return reason in NEVER or BEYOND.fullmatch(reason) is not None
