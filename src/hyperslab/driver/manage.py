"""What people do with a run directory apart from running: look, stop, check, tidy up. The command
line prints these.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.driver import cleaning, verification
from hyperslab.driver.directory import RunDirectory, RunState, load_status
from hyperslab.driver.verification import Compared
from hyperslab.errors import UsageError
from hyperslab.plan.failure import Failure
from hyperslab.plan.journal import Tail

CANCEL_PATIENCE_S = 30.0
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


def status(out: str | os.PathLike[str]) -> Status:
    """What the newest run in a directory is doing, or how it ended. Raises UsageError for none,
    DamagedRecord.
    """
    directory = RunDirectory.of(out)
    folder = directory.latest()
    last: dict[str, Any] = load_status(folder) or {"state": "running", "tasks": 0, "done": 0}
    alive = directory.is_owned()
    tail = Tail(folder)
    journal = tail.poll()
    done = {outcome.task for outcome in journal if outcome.status == "done"}
    failing = {
        outcome.task: outcome.failure
        for outcome in journal
        if outcome.failure and outcome.task not in done
    }
    state: RunState = last["state"]
    if state == "running" and not alive:
        state = "died"
    owner = ""
    if alive and "pid" in last:
        owner = f"pid {last['pid']} on {last['host']}"
    reasons = tuple(failing.values())
    counted = max(last["done"], len(done))
    more = (last.get("time"), owner, tail.damaged, last.get("ended_early", ""))
    return Status(state, last["tasks"], counted, reasons, *more)


def cancel(out: str | os.PathLike[str]) -> bool:
    """Ask the run in a directory to stop; True once it has. Raises UsageError when none is going
    on.
    """
    directory = RunDirectory.of(out)
    directory.latest()
    if not directory.is_owned():
        raise UsageError(
            f"{out}: no run is in progress there; 'hyperslab status {out}' says how the last one"
            " ended"
        )
    directory.ask_to_cancel()
    deadline = time.monotonic() + CANCEL_PATIENCE_S
    while directory.is_owned():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


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
    lock = directory.own()
    try:
        directory.await_workers()
        return cleaning.clean(directory, outputs_too)
    finally:
        os.close(lock)
