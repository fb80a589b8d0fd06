"""A run that was killed half-way, for what comes afterwards."""

from __future__ import annotations

import signal

from tests.campaign.commands import await_end, await_that, begin, recorded
from tests.campaign.deaths import slower
from tests.campaign.rounds import Round
from tests.system.clusters.processes import signal_all

MOST_TASKS = 10


def interrupt(this: Round) -> bool:
    """Kill the job with its workers when some tasks are done; False when it was done by then."""
    return _interrupted(this)


def interrupt_resume(this: Round) -> bool:
    """Kill a --resume in the same way."""
    return _interrupted(this, "--resume")


def _interrupted(this: Round, *more: str) -> bool:
    tasks = recorded(this) + this.chance.randint(1, MOST_TASKS)
    command = begin(this, *this.line(*more), environment=slower(this))
    await_that(lambda: recorded(this) >= tasks or command.has_ended)
    workers = command.workers()
    was_running = not command.has_ended
    command.process.send_signal(signal.SIGKILL)
    signal_all(workers, signal.SIGKILL)
    await_end(this, command, is_disturbed=True)
    return was_running
