"""Continuing: a run that its driver leaves to jobs of a batch system, and how the last of them goes
on with it.

The driver of a detached run submits its first round, keeps what is needed to go on (`detached`),
and ends. The job that begins after the round is a driver of the same submission: it reads the
journal, submits what is to be tried again or the next stage, with another job after that, and
ends; or it commits, and keeps the records, when nothing is left to do. Between these drivers nobody
holds the lock of the directory. Held by tests/system/faults/test_detached.py.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from hyperslab.driver import detached, resume
from hyperslab.driver.admission import admit
from hyperslab.driver.agreed import agreed
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.measured import Moments
from hyperslab.driver.options import Options, spelled_out
from hyperslab.driver.prepare import Prepared, done_earlier, prepare
from hyperslab.driver.result import Result
from hyperslab.driver.resume import Inherited
from hyperslab.driver.run import Driver
from hyperslab.driver.warned import warn_of
from hyperslab.engines.environment import program
from hyperslab.engines.facts import facts_of, require_jobs
from hyperslab.engines.jobs import Detached
from hyperslab.errors import (
    HyperslabError,
    LocalityWarning,
    OutputBusy,
    RunStopped,
    UsageError,
    speaking_flags,
    told_in_python,
)
from hyperslab.plan.pipeline import Pipeline, Write
from hyperslab.plan.settings import Settings
from hyperslab.plan.shipment import Shipment
from hyperslab.report.progress import Progress, Quiet
from hyperslab.storage import fence
from hyperslab.storage.location import local_folder
from hyperslab.units import show_count

HANDOVER_LIMIT_S = 600.0
"How long a driver waits for the one before, longer than that waits for its batch system."
HANDOVER_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Left:
    """What the first driver of a submission leaves to those after it."""

    pipeline: Pipeline
    prepared: Prepared
    options: Options
    command: Sequence[str]
    "What the first driver was started with, for the provenance."
    start_ns: int
    "Beginning of the run, on the first driver's clock."
    wall_less_monotonic_ns: int
    "The first driver's clock, for other hosts."


@dataclass(frozen=True, slots=True)
class Submitted:
    """A run that was left to jobs of a batch system."""

    folder: Path
    "Folder of the submission."
    tasks: int
    system: str
    "The batch system."


@spelled_out
@told_in_python
def submit(
    pipeline: Pipeline,
    options: Options | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    prepared: Prepared | None = None,
    **settings: Unpack[Settings],
) -> Submitted | Result:
    """Leave a run to jobs of a batch system, the last of which ends it; the result, where there is
    nothing left to do.

    Takes what `run` takes; a reduction needs `out`. `hyperslab.wait` waits for the end. Raises as
    `run`, and UsageError for an engine without jobs.
    """
    options = agreed("submit", pipeline, prepared, options, settings, out)
    require_jobs(options.engine, {"--detach": True})
    if out is None and not isinstance(pipeline.end, Write):
        raise UsageError("submit() of a reduction needs `out`, where its result is to be found")
    place = None
    if out is not None:
        place = Path(local_folder(out))
    prepared = prepared or prepare(pipeline, options, place)
    assert prepared.directory is not None
    admit(prepared.needs, prepared.directory.out)
    warn_of(prepared.dependence, LocalityWarning)
    driver = Leaving(pipeline, prepared, options, progress or Quiet())
    try:
        return driver.execute()
    except Detached:
        system = facts_of(options.engine).batch_system
        return Submitted(driver.folder, prepared.needs.tasks, system)


class Leaving(Driver):
    """The first driver of a submission that is left to jobs."""

    def begin(self) -> Path:
        folder = super().begin().absolute()
        wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
        left = Left(
            self.pipeline,
            self.prepared,
            self.options,
            sys.argv,
            self.start_ns,
            wall_less_monotonic_ns,
        )
        detached.save(folder, self.shipment(), left)
        self.last_job = last_job(folder)
        return folder


class Continuing(Driver):
    """A driver that goes on with a submission which another one has left."""

    def __init__(self, folder: Path, left: Left, shipment: Shipment) -> None:
        directory = RunDirectory.of_records(folder.parent)
        assert directory is not None
        prepared = replace(left.prepared, directory=directory)
        options = replace(left.options, live=False)
        super().__init__(left.pipeline, prepared, options, Quiet())
        self._own = folder
        self._left = left
        self._shipment = shipment
        self.goes_on = True
        self.last_job = last_job(folder)

    def take(self) -> int:
        """Own the directory, as soon as the driver before has left: it may still wait for an answer
        about this job. Raises OutputBusy.
        """
        deadline = time.monotonic() + HANDOVER_LIMIT_S
        is_told = False
        while True:
            self._require_open()
            try:
                return super().take()
            except OutputBusy as reason:
                if time.monotonic() > deadline:
                    raise
                if not is_told:
                    print(f"waiting for the driver before: {reason}", file=sys.stderr, flush=True)
            is_told = True
            time.sleep(HANDOVER_POLL_S)

    def _require_open(self) -> None:
        if self.directory.latest() != self._own or not (self._own / fence.OPEN).exists():
            raise OutputBusy(f"{self._own}: another run has taken over, or it was cancelled")

    def begin(self) -> Path:
        """The folder of the submission, which is still open. Raises OutputBusy."""
        self._require_open()
        own = Inherited(self._own)
        self.done, _ = done_earlier(self.directory, self.plan, [*self.prepared.inherited, own])
        vanished = resume.results([own]).keys() - self.done
        if vanished and self.plan.stages[0].job.fold is None:
            raise RunStopped(
                f"what {show_count(len(vanished), 'task')} of the run wrote is gone, or was"
                " changed: the same command with --resume writes it again"
            )
        return self._own

    def shipment(self) -> Shipment:
        """The code that the run was begun with."""
        return self._shipment

    def moments(self) -> Moments:
        """The moments of the whole run, on the first driver's clock; it was ready when its first
        job began, which the engine knows.
        """
        start_ns = self._left.start_ns
        ahead_ns = time.time_ns() - time.monotonic_ns() - self._left.wall_less_monotonic_ns
        return Moments(start_ns, start_ns, super().moments().end_ns + ahead_ns)


def last_job(folder: Path) -> tuple[str, ...]:
    """The command that goes on with a submission."""
    return tuple(program(__name__, [str(folder)]))


def main(folder: str) -> None:
    """Go on with a submission: end it, or leave it to further jobs."""
    try:
        with speaking_flags():
            shipment, left = detached.load(Path(folder))
            sys.argv[:] = left.command
            result = Continuing(Path(folder), left, shipment).execute()
        for text in result.unfinished:
            print(f"warning: {text}", file=sys.stderr, flush=True)
    except Detached:
        return
    except HyperslabError as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(1)
