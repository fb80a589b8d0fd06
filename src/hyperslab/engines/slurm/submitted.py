"""SubmittedJobs: the jobs that a run has submitted to Slurm.

A file of the submission, JOBS, names them before they are submitted, so that whoever finds the run
without a driver can end them.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from hyperslab.engines.jobs import JOBS
from hyperslab.engines.slurm import commands
from hyperslab.engines.slurm.commands import Silent, Unanswered
from hyperslab.engines.slurm.waiting import Waited
from hyperslab.errors import CONTINUES, RunStopped
from hyperslab.storage.recordfile import load_record, save_record

T = TypeVar("T")
ENGINE = "slurm"
"Engine that the record of its jobs names."
SILENCE_LIMIT_S = 300.0
"How long a controller that does not answer is asked to take a job."
SILENCE_PAUSE_S = 10.0
LEAVE_LIMIT_S = 10.0
"How long who leaves waits for Slurm to hear that the jobs are to end."
_LOST = (
    "which jobs of Slurm belong to the run is not known; look for them with 'squeue --me', and end"
    " them with scancel"
)


@dataclass(frozen=True, slots=True)
class SubmittedJobs:
    """What was submitted, as JOBS has it."""

    name: str
    "Name of the arrays' jobs, which no other run's have."
    round: str
    count: int
    "Number of elements in all."
    throttle: int
    "Number of elements that may run at a time."
    journals: int = 0
    "Number of elements of earlier rounds that have begun."
    log_nbytes: int = 0
    "Size of the jobs' log when they were submitted."
    is_detached: bool = False
    submitted_s: float = 0.0
    "Moment at which they were submitted, seconds since the epoch; 0 where it was not noted."
    user: int = 0
    cluster: str = ""
    "Name of Slurm's cluster."
    clock: str = ""
    "Identity of the clock of the run's first driver."
    wall_less_monotonic_ns: int = 0
    "Time of that clock."
    waited: Waited = field(default_factory=Waited)
    "What earlier rounds have waited for."
    arrays: tuple[tuple[str, int, int], ...] = ()
    "(number of the job, first batch, number of batches) of each array."
    last: str = ""
    "Number of the job that goes on with the run."

    @property
    def numbers(self) -> list[str]:
        """Numbers of its arrays."""
        return [number for number, _, _ in self.arrays]

    @property
    def chains(self) -> list[tuple[int, list[tuple[str, int, int]]]]:
        """The arrays that follow each other, with how many of their elements may run at a time."""
        number_of = min(len(self.arrays), self.throttle)
        return [
            (_share(chain, number_of, self.throttle), list(self.arrays[chain::number_of]))
            for chain in range(number_of)
        ]

    @property
    def name_of_last(self) -> str:
        """Name of the job that goes on with the run."""
        return f"{self.name}-last"


def save(folder: Path, submitted: SubmittedJobs) -> None:
    save_record(folder / JOBS, {"engine": ENGINE, **asdict(submitted)})


def load(folder: Path) -> SubmittedJobs | None:
    """What a submission has submitted and not seen the end of; None where there is nothing. Raises
    DamagedRecord.
    """
    try:
        record = load_record(folder / JOBS, _LOST)
    except FileNotFoundError:
        return None
    record.pop("engine", "")  # which those of earlier versions do not have
    arrays = tuple((number, first, count) for number, first, count in record.pop("arrays"))
    waited = Waited(**record.pop("waited"))
    return SubmittedJobs(**record, arrays=arrays, waited=waited)


def forget(folder: Path) -> None:
    """Drop the file: the jobs have ended."""
    (folder / JOBS).unlink(missing_ok=True)


def new_name() -> str:
    """A name that no other run's jobs have."""
    return f"hyperslab-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class Request:
    """How the elements of a round are submitted."""

    arguments: Sequence[str]
    "Arguments of sbatch beside those of the array."
    script_of: Callable[[int], str]
    "Script of the array whose first element has this batch."
    last_arguments: Sequence[str] = ()
    last_script: str = ""
    "The same of the job that goes on with the run when its arrays have ended."
    last_without: Sequence[str] = ()
    "Variables that would speak for that job, too."


def submit(folder: Path, submitted: SubmittedJobs, request: Request) -> SubmittedJobs:
    """Submit as many arrays as Slurm's largest size makes necessary; together they run no more
    elements at a time than the throttle. Raises RunStopped.
    """
    submitted = replace(submitted, cluster=insist(commands.cluster))
    save(folder, submitted)
    try:
        for first, size, throttle, before in pieces(
            submitted.count, submitted.throttle, insist(commands.largest_array)
        ):
            after = []
            if before is not None:
                after = [f"--dependency=afterany:{submitted.arrays[before][0]}"]
            array = f"--array=0-{size - 1}%{throttle}"
            line = [*request.arguments, f"--job-name={submitted.name}", *after, array]
            job = _Job(submitted.name, request.script_of(first), line, submitted.numbers)
            number = insist(job.submit)
            submitted = replace(submitted, arrays=(*submitted.arrays, (number, first, size)))
            save(folder, submitted)
        if submitted.is_detached:
            submitted = replace(submitted, last=_submit_last(submitted, request))
            save(folder, submitted)
    except BaseException:
        end(folder, submitted, LEAVE_LIMIT_S)
        raise
    return submitted


def _submit_last(submitted: SubmittedJobs, request: Request) -> str:
    after = ":".join(submitted.numbers)
    name = f"--job-name={submitted.name_of_last}"
    line = [*request.last_arguments, name, f"--dependency=afterany:{after}"]
    job = _Job(submitted.name_of_last, request.last_script, line, (), request.last_without)
    return insist(job.submit)


@dataclass(slots=True)
class _Job:
    """A job, or an array, that is to be submitted once."""

    name: str
    script: str
    arguments: Sequence[str]
    known: Sequence[str]
    "Numbers of others of this name."
    without: Sequence[str] = ()
    "Variables that would speak for it, too."
    _is_tried: bool = False

    def submit(self) -> str:
        """Return its number. Who got no answer may have been heard, so that the next call looks in
        the queue first. Raises Silent, RunStopped.
        """
        if self._is_tried:
            there = commands.named([self.name], os.getuid())
            taken = {job.id.partition("_")[0] for job in there}.difference(self.known)
            if taken:
                return taken.pop()
        self._is_tried = True
        return commands.submit(self.script, self.arguments, self.without)


def insist(ask: Callable[[], T]) -> T:
    """What Slurm answers; one that is silent is asked again for a while. Raises RunStopped."""
    deadline = time.monotonic() + SILENCE_LIMIT_S
    while True:
        try:
            return ask()
        except Silent as error:
            if time.monotonic() > deadline:
                raise RunStopped(f"Slurm does not answer: {error}", CONTINUES) from error
        except Unanswered as error:
            raise RunStopped(f"Slurm cannot be asked: {error}", CONTINUES) from error
        time.sleep(SILENCE_PAUSE_S)


def pieces(count: int, throttle: int, largest: int) -> Iterator[tuple[int, int, int, int | None]]:
    """(first batch, size, throttle, piece that has to end before) of every array: chains of arrays
    side by side, which share the throttle, and are as long as each other so that none of it lies
    idle when the first of them has ended.
    """
    number_of = -(-count // largest)
    chains = min(number_of, throttle)
    first = 0
    for number in range(number_of):
        size = (count - first) // (number_of - number)
        before = None
        if number >= chains:
            before = number - chains
        yield first, size, _share(number % chains, chains, throttle), before
        first += size


def _share(chain: int, chains: int, throttle: int) -> int:
    """How many elements of a chain, one of so many, may run at a time."""
    return throttle // chains + (chain < throttle % chains)


def end(folder: Path, submitted: SubmittedJobs, limit_s: float) -> bool:
    """Give back all that may be left of a run's jobs, but for the one that this process is; whether
    Slurm has heard of it within the limit. Where it cannot be asked they find by themselves that
    the run has ended.
    """
    names = [submitted.name]
    if submitted.is_detached and submitted.last != os.environ.get("SLURM_JOB_ID"):
        names.append(submitted.name_of_last)
    are_heard = [_is_heard(name, limit_s) for name in names]
    if all(are_heard):
        forget(folder)
    return all(are_heard)


def _is_heard(name: str, limit_s: float) -> bool:
    """Whether Slurm has taken it that jobs of a name are to end."""
    try:
        commands.cancel(name, limit_s)
    except Unanswered:
        return False
    return True
