"""Workers that outlive their driver because nothing reaches them, and go on when another run has
done their tasks.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from tests.campaign import functions, jobs
from tests.campaign.commands import (
    await_end,
    await_moment,
    await_that,
    begin,
    call,
    expect_no_orphans,
    workers_of,
)
from tests.campaign.judgement import expect_the_data, resume_to_the_end
from tests.campaign.rounds import Round
from tests.system.clusters.processes import signal_all


def play(this: Round) -> None:
    """Kill a driver whose workers cannot notice it, resume, and let the workers go on."""
    if this.job.kind == jobs.HELD:
        _held(this)
    else:
        _stopped(this)


def _held(this: Round) -> None:
    """A worker holds the interpreter's lock, and would write another value than everybody else."""
    gate = this.folder / "gate"
    os.mkfifo(gate)
    command = begin(this, *this.line(), environment={functions.VARIABLE: str(gate)})
    await_that(lambda: (this.folder / "taken").exists() or command.has_ended)
    if not command.has_ended:
        this.inject("a worker that holds the interpreter's lock")
    command.process.send_signal(signal.SIGKILL)
    await_end(this, command, is_disturbed=True, is_alone=False)
    ended = call_beside(this, *this.line("--resume"))
    opener = threading.Thread(target=_open, args=(gate,), daemon=True)
    opener.start()
    expect_no_orphans(this)
    if ended:
        this.find("lost", f"--resume ends with status {ended}")
        return
    _after_the_stale(this)


def _stopped(this: Round) -> None:
    """Workers are stopped (SIGSTOP) at any moment of their work."""
    command = begin(this, *this.line())
    await_moment(this, command)
    workers = workers_of(this, command)
    if command.has_ended or not workers:
        await_end(this, command)
        return
    this.inject("stopped workers")
    signal_all(workers, signal.SIGSTOP)
    command.process.send_signal(signal.SIGKILL)
    await_end(this, command, is_disturbed=True, is_alone=False)
    code = call_beside(this, *this.line("--resume"))
    signal_all(workers, signal.SIGCONT)
    expect_no_orphans(this)
    if code:
        resume_to_the_end(this)
    else:
        _after_the_stale(this)


def call_beside(this: Round, *words: str) -> int:
    """Run a command while stale workers are there, which are no orphans of its own; its exit
    status.
    """
    return await_end(this, begin(this, *words), is_alone=False).code


def _after_the_stale(this: Round) -> None:
    """What the resumed run has made stays; what the stale ones left unfinished, only `clean` can
    know.
    """
    call(this, "status", str(this.place()))
    expect_the_data(this)


def _open(gate: Path) -> None:
    with open(gate, "wb"):
        pass
