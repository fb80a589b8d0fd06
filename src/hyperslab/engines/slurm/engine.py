"""Tasks on Slurm: every batch is an element of a job array, and nothing else stands between.

A round submits its arrays, asks Slurm what has become of them until all elements have ended, and
says of each task that was lost what Slurm says of its job. A run that is left to its jobs
(`--detach`) submits one more, which begins when the arrays have ended and goes on with the run.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hyperslab.engines import EngineOptions, Running
from hyperslab.engines.batches.engine import Ending, Work
from hyperslab.engines.batches.launcher import CommandEngine, Launched
from hyperslab.engines.jobs import LAST_LOG, Detached, JobsLeft, Queued
from hyperslab.engines.slurm import commands, requests, submitted
from hyperslab.engines.slurm.array import AFTER_OTHERS, Array, why_never
from hyperslab.engines.slurm.commands import Job, Unanswered
from hyperslab.engines.slurm.submitted import Request, SubmittedJobs, insist
from hyperslab.engines.slurm.waiting import Waited, remembered
from hyperslab.errors import UsageError
from hyperslab.machine.clock import Reference
from hyperslab.plan.task import Merge, StepFunction, Task
from hyperslab.trace import OwnTime, Slot

BATCHES_PER_SLOT = 4
"Jobs per slot: enough for an even load at the end, as each costs the start of an interpreter."
OUR_REASONS = {"", "None", AFTER_OTHERS, "JobArrayTaskLimit"}
"Reasons to wait that a run gives its own jobs."
JOURNAL = re.compile(r"(?P<host>.+)\.w(?P<job>\d+)\.t\d+\.\d+\.[0-9a-f]+\.jsonl")
"Name of a journal that an element keeps, one for each of its processes."
LOG = "worker.log"


class Slurm(CommandEngine):
    """Runs every batch as an element of a job array."""

    batches_per_slot = BATCHES_PER_SLOT

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(replace(options, slot_cpus=requests.cpus(options)))
        self._array: Array | None = None
        self._goes_on = False
        self._driver_s: float | None = None
        "Moment at which this driver came out of the queue, if it did; seconds since the epoch."
        self._waited = Waited()
        self._is_detached = False
        self._clock_of_run: Reference | None = None

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise UsageError where jobs cannot be submitted, or would be rejected."""
        if options.threads > 1:
            raise UsageError(
                f"--threads {options.threads}: a job of --engine slurm runs one task at a time;"
                " give --workers, and processors by --slurm-option cpus-per-task=N"
            )
        arguments = requests.asked(options)
        if options.folder.name and submitted.load(options.folder) is not None:
            return  # they were taken before, and perhaps no more can be submitted from here
        commands.require_commands()
        commands.try_out(requests.last_script(["true"]), arguments)

    @staticmethod
    def memory_of_jobs(options: EngineOptions) -> int | None:
        """Bytes for all tasks that run at a time, by the memory that their jobs are given."""
        return requests.memory_of_jobs(options)

    @staticmethod
    def jobs_left(folder: Path) -> JobsLeft | None:
        """What Slurm says of the jobs that a submission has left."""
        given = submitted.load(folder)
        if given is None:
            return None
        try:
            found = commands.named([given.name, given.name_of_last], given.user)
            hidden = ""
            if not found:
                hidden = _why_hidden(given)
        except Unanswered as error:
            return JobsLeft(given.is_detached, None, f"Slurm cannot be asked here: {error}")
        if hidden:
            return JobsLeft(given.is_detached, None, hidden)
        left = [job for job in found if not job.has_ended]
        return JobsLeft(given.is_detached, bool(left), _told(left), why_never(left))

    @staticmethod
    def end_jobs(folder: Path) -> None:
        """Give back the jobs that a submission has left."""
        given = submitted.load(folder)
        if given is not None:
            submitted.end(folder, given, commands.ANSWER_LIMIT_S)

    def start(self) -> None:
        """Look whether jobs of the run have been submitted before; nothing runs yet."""
        options = self.options
        self._slots = [Slot(options.host, number, 0) for number in range(options.workers)]
        given = submitted.load(options.folder)
        if given is not None:
            self._array = Array(options.folder, given)
            self._array.ask_of_ended()  # as the job that goes on begins after them
            self._round = given.round
            self._goes_on = True
            self._driver_s = time.time()
            self._waited = given.waited
            self._clock_of_run = Reference(given.clock, None, given.wall_less_monotonic_ns)
        elif not options.last_job:  # whose jobs outlive this process
            self.serve_clock(commands.controller())

    def run(
        self, tasks: Sequence[Task], steps: Sequence[StepFunction], merge: Merge | None
    ) -> Running:
        if self._goes_on and self._array is not None:
            self._work = Launched(self._array)
            yield from self.see_out(self._work)
        else:
            yield from super().run(tasks, steps, merge)

    def python(self) -> Sequence[str]:
        return self.program("hyperslab.engines.slurm.element", [])

    def launch(self, script: Path, batches: int) -> Array:
        options = self.options
        clock = self.clock()
        given = SubmittedJobs(
            name=submitted.new_name(),
            round=self._round,
            count=batches,
            throttle=options.workers,
            journals=len(self._begun()),
            log_nbytes=_size(options.folder / LOG),
            is_detached=bool(options.last_job),
            submitted_s=time.time(),
            user=os.getuid(),
            clock=clock.identity,
            wall_less_monotonic_ns=clock.wall_less_monotonic_ns,
            waited=self._waited,
        )
        given = submitted.submit(options.folder, given, self._request(script))
        self._array = Array(options.folder, given)
        return self._array

    def _request(self, script: Path) -> Request:
        """What the elements of a round are submitted with, and the job after them."""
        options = self.options
        asked = ["--no-requeue", *requests.asked(options)]
        arguments = [*asked, *requests.log_into(options.folder / LOG)]
        if not options.last_job:
            return Request(
                arguments,
                lambda first: requests.element_script(script, first, options.heartbeat),
            )
        of_last, without = self._asked_of_last()
        return Request(
            arguments,
            lambda first: requests.element_script(script, first, None),
            ["--no-requeue", *of_last, *requests.log_into(options.folder / LAST_LOG)],
            requests.last_script(options.last_job),
            without,
        )

    def _asked_of_last(self) -> tuple[Sequence[str], Sequence[str]]:
        """Arguments of the job that ends the run, and variables that would add to them: it asks for
        what tasks alone need only where Slurm takes no job without, as in a partition for GPUs.
        """
        script = requests.last_script(self.options.last_job)
        own = requests.asked_of_last(self.options)
        without = requests.VARIABLES_OF_TASKS
        if insist(lambda: commands.would_take(script, own, without)):
            return own, without
        return requests.asked(self.options), ()

    def wait(self, going_on: Ending) -> Running:
        """Wait for the elements. Raises Detached where the last job is to see what came of them."""
        if self.options.last_job and not self._goes_on:
            self._work = None  # which is not to be given up
            self._is_detached = True
            raise Detached
        yield from super().wait(going_on)

    def see_out(self, work: Work) -> Running:
        yield from super().see_out(work)
        array = self._array
        self._note()
        if array is None:
            return
        log = self.options.folder / LOG
        array.require_able(log)
        array.require_wanted()
        begun = len(self._begun()) - array.submitted.journals
        array.require_hosts(log, begun)
        if not begun:
            array.require_begun(log)

    def _note(self) -> None:
        """Take the times of a round's jobs, and be done with it."""
        if self._array is None:
            return
        found = self._array.jobs
        are_all_known = self._waited.jobs == len(self._own_times)
        if are_all_known:  # unless another driver has seen the rounds before
            self._own_times += [
                OwnTime(self._ns(job.start_s), self._ns(job.end_s))
                for job in found.values()
                if job.start_s is not None and job.end_s is not None
            ]
        given = self._array.submitted
        ahead_ns = self.clock().wall_less_monotonic_ns
        jobs = remembered(found, self.options.folder, given.submitted_s, ahead_ns)
        self._waited = self._waited.and_round(self._array.chains(jobs), self._driver_s)
        self._driver_s = None
        self._array = None
        self._goes_on = False

    def clock(self) -> Reference:
        """The clock of the run's first driver."""
        if self._clock_of_run is None:
            self._clock_of_run = super().clock()
        return self._clock_of_run

    def _ns(self, moment_s: float) -> int:
        """A time of Slurm's on the clock of the run's first driver."""
        return int(moment_s * 1e9) - self.clock().wall_less_monotonic_ns

    def now_ns(self) -> int:
        if self._goes_on:  # perhaps on another host
            return time.time_ns() - self.clock().wall_less_monotonic_ns
        return super().now_ns()

    def look(self) -> None:
        """Raise RunStopped when Slurm is silent for too long, or will not begin the jobs."""
        if self._array is not None:
            self._array.require_hope()

    def who_lives(self) -> Callable[[Slot], bool]:
        """Nobody: a round is over when its jobs have ended."""
        return lambda slot: False

    def how_it_ended(self, batch: str) -> str:
        """What Slurm says of the job that ran a batch."""
        number = batch.rpartition(".b")[2]
        if self._array is None or not number.isdigit():
            return ""
        return self._array.how_it_ended(int(number))

    def queued(self) -> Queued | None:
        waited = self._waited
        if waited.submitted_s is None or waited.first_s is None:
            return None
        before_s = max(0.0, waited.first_s - waited.submitted_s)
        return Queued("Slurm", self._ns(waited.first_s), before_s, waited.missing_s, waited.jobs)

    def stop(self) -> None:
        if not self._is_detached:
            super().stop()

    def leave(self) -> None:
        """Give back what is left of the jobs, and name the slots by the hosts that they ran on."""
        if self._array is not None:
            if not self._goes_on and not self._array.is_silent:
                with suppress(Unanswered):
                    self._array.ask()
            self._array.cancel()
            self._note()
        self._slots = _lanes(list(self._begun().values()), self.options)

    def _begun(self) -> dict[str, str]:
        """The jobs of the elements that have begun, and the host of each."""
        names = (path.name for path in (self.options.folder / "journal").iterdir())
        found = map(JOURNAL.fullmatch, names)
        return {match["job"]: match["host"] for match in found if match}


def _why_hidden(given: SubmittedJobs) -> str:
    """Why jobs that Slurm does not tell of may be there all the same; '' where it would. Raises
    Unanswered.
    """
    here = commands.cluster()
    if given.cluster not in ("", here):
        return f"they are on {given.cluster}, and Slurm's commands mean {here} here"
    if os.getuid() not in (0, given.user) and commands.hides_jobs():
        return f"Slurm shows those of user {given.user} to nobody else"
    return ""


def _size(path: Path) -> int:
    """Bytes of a file; 0 of one that is not there yet."""
    if not path.exists():
        return 0
    return path.stat().st_size


def _lanes(hosts: Sequence[str], options: EngineOptions) -> list[Slot]:
    """Slots that may run at a time, shared out among the hosts that have run something."""
    used = sorted(set(hosts)) or [options.host]
    counts = Counter(used[number % len(used)] for number in range(max(options.workers, len(used))))
    return [Slot(host, number, 0) for host in used for number in range(counts[host])]


def _told(jobs: Sequence[Job]) -> str:
    """What jobs do, in words."""
    states = Counter(job.state.lower() for job in jobs)
    parts = [f"{count} {state}" for state, count in sorted(states.items())]
    reasons = sorted({job.reason for job in jobs if job.state == "PENDING"} - OUR_REASONS)
    if reasons:
        parts.append(f"waiting for {', '.join(reasons)}")
    return ", ".join(parts) or "no job is left"
