"""What people do with a run directory apart from running: look, stop, check, tidy up. The command
line prints these.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyperslab import engines
from hyperslab.driver import calls, cleaning, detached, verification
from hyperslab.driver.directory import RunDirectory, RunState, load_status, save_status
from hyperslab.driver.sweeping import sweep
from hyperslab.driver.verification import Compared
from hyperslab.engines.jobs import JobsLeft
from hyperslab.errors import UsageError
from hyperslab.plan.failure import Failure
from hyperslab.plan.journal import Tail
from hyperslab.report.progress import Progress, Quiet
from hyperslab.storage import fence
from hyperslab.storage.full import free
from hyperslab.units import show_seconds

CANCEL_PATIENCE_S = 30.0
WAIT_POLL_S = 0.2
LEAST_LOOK_S = 5.0
MOST_LOOK_S = 60.0
LOOK_SHARE = 0.05
"""Who waits looks whether there is still a driver, or a job, after this share of the time that it
has waited: a batch system has more to do than to answer.
"""
UNKNOWN_LIMIT_S = 3600.0
"""How long somebody waits for jobs about which nobody can be asked, and of which the records tell
nothing new: longer than most tasks take.
"""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Status:
    """How far a run is."""

    state: RunState
    tasks: int
    done: int
    failing: tuple[Failure, ...]
    "Failures of tasks that have no success yet."
    seen: float | None
    "When the driver last said so, seconds since the epoch."
    owner: str
    "pid and host of the driver; '' when none is alive."
    damaged: int = 0
    "Number of lines of the journal that say nothing any more."
    ended_early: str = ""
    "Why it ended before all tasks had been tried; '' if it did not."
    jobs: str = ""
    "What the jobs of a batch system do that it was submitted to; '' where it has none."
    why_stopped: str = ""
    "Why it could not go on, or cannot; '' where it did, or has not said so."
    is_known: bool = True
    "Whether its state is known; not where a batch system has its jobs that is silent here."


def status(out: str | os.PathLike[str]) -> Status:
    """What the newest run in a directory is doing, or how it ended: of calls at the same time the
    newest one that goes on. Raises UsageError for none, DamagedRecord.
    """
    directory = RunDirectory.of(out)
    return _status_of(directory, _followed(directory))


def _followed(directory: RunDirectory) -> Path:
    """The submission that people hear of. Raises UsageError for none."""
    newest = directory.latest()
    return next(reversed(calls.under_way(directory)), newest)


def _status_of(directory: RunDirectory, folder: Path) -> Status:
    out = directory.place
    last: dict[str, Any] = load_status(folder) or {"state": "running", "tasks": 0, "done": 0}
    own = RunDirectory.of_submission(folder.absolute()) or directory
    alive = own.is_owned()
    tail = Tail(folder)
    journal = tail.poll()
    done = {outcome.task for outcome in journal if outcome.status == "done"}
    failing = {
        outcome.task: outcome.failure
        for outcome in journal
        if outcome.failure and outcome.task not in done
    }
    state: RunState = last["state"]
    jobs = None
    if state == "running":
        jobs = engines.jobs_left(folder)
    is_left = jobs is not None and detached.may_end(folder, jobs)
    if state == "running" and not alive and not is_left:
        last = {**last, **load_status(folder)}  # unless it has ended since
        state = last["state"]
        if state == "running":
            state = "died"
    owner = ""
    if alive and "pid" in last:
        owner = f"pid {last['pid']} on {last['host']}"
    reasons = tuple(failing.values())
    counted = max(last["done"], len(done))
    told = ""
    if state == "running" and jobs is not None:
        told = jobs.told
    why_stopped = last.get("why_stopped", "")
    is_known = True
    if state == "running" and is_left and not alive and jobs is not None:
        is_known = jobs.are_there is not None
        why_stopped = _why_never(jobs, out)
    if state == "died":
        why_stopped = _why_died(folder, jobs)
    why = (last.get("ended_early", ""), told, why_stopped, is_known)
    more = (last.get("time"), owner, tail.damaged, *why)
    return Status(state, last["tasks"], counted, reasons, *more)


def _why_died(folder: Path, jobs: JobsLeft | None) -> str:
    """Why a run has died, as far as anything says it."""
    if jobs is not None and jobs.is_detached:
        return detached.why_died(folder)
    return (
        "it ended without a word, as what is killed does, or a machine that goes down; on its disk:"
        f" {free(folder)}"
    )


def _why_never(jobs: JobsLeft, out: str | os.PathLike[str]) -> str:
    """Why a run that was left to jobs cannot go on, although they are there; '' where it may."""
    if not jobs.never:
        return ""
    return f"none of its jobs will begin ({jobs.never}): 'hyperslab cancel {out}' gives them back"


class _News:
    """What somebody who waits has heard of a run, beside its tasks."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._told = ""
        self._heard_at = time.monotonic()

    def hear(self) -> None:
        """Note that the run has given a sign of life."""
        self._heard_at = time.monotonic()

    def take(self, now: Status) -> Status:
        """Tell what its jobs do when they do something else, whatever their numbers; the same, with
        why it is not known where it has been silent for too long.
        """
        kind = re.sub(r"\d+", "", now.jobs)
        if kind not in ("", self._told):
            self._progress.tell(f"jobs: {now.jobs}")
        self._told = kind
        if now.is_known:
            self.hear()
        if time.monotonic() - self._heard_at < UNKNOWN_LIMIT_S:
            return now
        limit = show_seconds(UNKNOWN_LIMIT_S)
        why = f"how it goes on cannot be known here, and it has recorded nothing for {limit}"
        return replace(now, why_stopped=why)


def wait(out: str | os.PathLike[str], progress: Progress | None = None) -> Status:
    """Wait until the run in a directory ends, wherever it goes on, or cannot go on; how it ended.
    Of calls at the same time all have to end: how the first one ended that was not done, if any.
    Where nobody can be asked about its jobs, and it records nothing for UNKNOWN_LIMIT_S, it may go
    on. Raises UsageError for none, DamagedRecord.
    """
    progress = progress or Quiet()
    directory = RunDirectory.of(out)
    folder = _followed(directory)
    ended = _wait_for(directory, folder, progress)
    seen = {folder}
    while True:
        is_one_waiting = calls.is_one_waiting(directory)  # asked first: it may begin
        others = [one for one in calls.under_way(directory) if one not in seen]
        if not (others or is_one_waiting):
            return ended
        if not others:
            time.sleep(WAIT_POLL_S)
            continue
        another = _wait_for(directory, others[-1], progress)
        seen.add(others[-1])
        if ended.state == "done":
            ended = another


def _wait_for(directory: RunDirectory, folder: Path, progress: Progress) -> Status:
    tail = Tail(folder)
    now = _status_of(directory, folder)
    began = time.monotonic()
    done = {outcome.task for outcome in tail.poll() if outcome.status == "done"}
    counted = max(now.done, len(done))  # some may have ended since
    progress.begin(now.tasks - counted, 0, counted)
    news = _News(progress)
    look_at = 0.0
    while now.state == "running" and not now.why_stopped:
        time.sleep(WAIT_POLL_S)
        recorded = tail.poll()
        if recorded:
            news.hear()
        for outcome in recorded:
            if outcome.status == "done" and outcome.task not in done:
                done.add(outcome.task)
                progress.advance(sum(p.nbytes for p in outcome.phases if p.kind == "read"))
        if time.monotonic() > look_at or detached.has_ended(folder):
            now = news.take(_status_of(directory, folder))
            pause_s = LOOK_SHARE * (time.monotonic() - began)
            look_at = time.monotonic() + min(max(pause_s, LEAST_LOOK_S), MOST_LOOK_S)
    progress.end()
    return now


def cancel(out: str | os.PathLike[str]) -> bool:
    """Ask the run in a directory to stop, and end the jobs that it has left in the queue of a batch
    system; True once it has stopped. Raises UsageError when none is going on.
    """
    directory = RunDirectory.of(out)
    folder = directory.latest()
    if not directory.is_owned() and not _has_jobs(directory):
        raise UsageError(
            f"{out}: no run is in progress there; 'hyperslab status {out}' says how the last one"
            " ended"
        )
    deadline = time.monotonic() + CANCEL_PATIENCE_S
    while directory.is_owned():
        directory.ask_to_cancel()
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    if _has_jobs(directory):  # perhaps of a driver that has not heard of it
        return _cancel_jobs(directory, folder)
    return True


def _has_jobs(directory: RunDirectory) -> bool:
    """Whether jobs go on that nobody waits for: those to which a run was left, or those of a driver
    that has died.
    """
    folder = directory.latest()
    return not detached.has_ended(folder) and engines.jobs_left(folder) is not None


def _cancel_jobs(directory: RunDirectory, folder: Path) -> bool:
    """End a run that was left to jobs. Where the batch system cannot be asked, they find the fence
    closed and end by themselves.
    """
    lock = directory.own()
    try:
        fence.end(folder)
        engines.end_jobs(folder)
        last = load_status(folder)
        counted = [key for key in ("tasks", "done", "failed") if key in last]
        counts: dict[str, Any] = {key: last[key] for key in counted}
        save_status(folder, "cancelled", counts)
        return fence.is_left(folder, CANCEL_PATIENCE_S)
    finally:
        os.close(lock)


def verify(out: str | os.PathLike[str]) -> list[tuple[str, str | None]]:
    """Every output of a run with what is wrong with it; None: it is as it was written. Reads all
    outputs.
    """
    return [(one.name, one.problem) for one in verified(out)]


def verified(out: str | os.PathLike[str]) -> Iterator[Compared]:
    """Everything that a run has written, held against its manifest. Reads all outputs."""
    return verification.verify(RunDirectory.of(out))


def clean(out: str | os.PathLike[str], outputs_too: bool = False) -> list[Path]:
    """Remove leftovers and records, and on request the outputs; returns the files that are gone."""
    directory = RunDirectory.of(out)
    directory.latest()
    detached.require_none(directory)
    lock = directory.own()
    try:
        directory.await_workers()
        sweep(directory)
        return cleaning.clean(directory, outputs_too)
    finally:
        os.close(lock)
