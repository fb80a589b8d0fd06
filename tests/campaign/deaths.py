"""Signals to a driver, to its workers, or to all of them, at any moment, several times in a row."""

from __future__ import annotations

import signal

from tests.campaign import shim
from tests.campaign.commands import Command, await_end, await_moment, begin, workers_of
from tests.campaign.judgement import expect_nothing_torn, expect_the_result, resume_to_the_end
from tests.campaign.rounds import Round
from tests.system.clusters.processes import signal_all

ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
VICTIMS = ("driver", "driver", "worker", "workers", "all")
SLOWER_US = 600_000
"What all writes of a conversion take longer together, so that there is something to be disturbed."


def play(this: Round) -> None:
    """Send signals, and resume."""
    for turn in range(this.chance.choice((1, 1, 2, 3))):
        command = begin(this, *this.line(*(["--resume"] if turn else [])), environment=slower(this))
        await_moment(this, command)
        victim, number = this.chance.choice(VICTIMS), this.chance.choice(ENDS)
        is_hit = _strike(this, command, victim, number)
        ended = await_end(this, command, is_disturbed=is_hit and victim in ("driver", "all"))
        if ended.code == 0:
            expect_the_result(this)
            return
        expect_nothing_torn(this)
    resume_to_the_end(this)


def slower(this: Round) -> dict[str, str]:
    """The environment of a conversion whose writes take their time."""
    if this.job.about.verb == "run" or this.job.is_spark or shim.missing():
        return {}
    calls = this.reference().calls
    pace_us = SLOWER_US // max(1, calls["write"] + calls["pwrite"])
    return shim.environment(
        this.references.library(), this.out, this.folder / "pace", pace_us=pace_us
    )


def _strike(this: Round, command: Command, victim: str, number: signal.Signals) -> bool:
    """Whether somebody was there to be struck."""
    workers = workers_of(this, command)
    if command.has_ended or (victim.startswith("worker") and not workers):
        return False
    if victim == "worker":
        workers = [this.chance.choice(workers)]
    if victim != "driver":
        signal_all(workers, number if victim == "all" else signal.SIGKILL)
    if victim in ("driver", "all"):
        command.process.send_signal(number)
    name = number.name if victim in ("driver", "all") else "SIGKILL"
    this.inject(f"{name} to {victim}")
    return True
