"""Terminals that vanish, outputs that nobody reads, and descriptors that are closed from the
start.
"""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import time
from collections.abc import Callable, Mapping

from tests.campaign.commands import Command, await_end, await_moment, begin, call, program
from tests.campaign.deaths import slower
from tests.campaign.judgement import expect_nothing_torn, expect_the_result, resume_to_the_end
from tests.campaign.rounds import Round

LEAST_PIPE_NBYTES = 4096


def play(this: Round) -> None:
    """Start the job where nobody listens to it, or stops to; resume what that has ended."""
    way = this.chance.choice([*WAYS])
    this.inject(way)
    code = WAYS[way](this)
    if code == 0:
        call(this, "status", str(this.place()))
        expect_the_result(this)
        return
    expect_nothing_torn(this)
    resume_to_the_end(this)


def _shell(words: str) -> Callable[[Round], int]:
    """A command whose shell does something to its descriptors first."""

    def run(this: Round) -> int:
        command = begin(this, *_loud(this), before=("sh", "-c", words, "sh"))
        return await_end(this, command, is_disturbed=True).code

    return run


def _loud(this: Round) -> list[str]:
    """The job's command, with its progress."""
    return [word for word in this.line() if word != "-q"]


def _hang_up(this: Round, before: tuple[str, ...] = ()) -> int:
    """A terminal that is closed at any moment.

    setsid becomes the command itself, since it is not the leader of a group yet.
    """
    ours, theirs = pty.openpty()
    command = _start(this, theirs, ("setsid", "-c", *before))
    os.close(theirs)
    await_moment(this, command)
    os.close(ours)
    return await_end(this, command, is_disturbed=True).code


def _hang_up_unheard(this: Round) -> int:
    return _hang_up(this, ("nohup",))


def _full_pipe(this: Round) -> int:
    """A pipe that is read after a while, to its end or not at all."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, LEAST_PIPE_NBYTES)
    os.set_blocking(theirs, False)
    os.write(theirs, b"x" * LEAST_PIPE_NBYTES)
    os.set_blocking(theirs, True)
    command = _start(this, theirs, ())
    os.close(theirs)
    await_moment(this, command)
    if this.chance.random() < 0.5:
        while os.read(ours, 2**16):
            pass
    os.close(ours)
    return await_end(this, command, is_disturbed=True).code


def _start(this: Round, output: int, before: tuple[str, ...]) -> Command:
    """A command that prints to this descriptor, in the environment of the round."""
    this.begun += 1
    words = _loud(this)
    environment = {**this.home.environment, **slower(this), "TERM": "xterm"}
    line = [*before, *program(this, words)]
    process = subprocess.Popen(
        line, stdin=output, stdout=output, stderr=output, cwd=this.folder, env=environment
    )
    this.home.members.append(process)
    time.sleep(this.chance.choice((0, 0.2)))
    return Command(f"{this.begun:02}-{words[0]}", words, process)


WAYS: Mapping[str, Callable[[Round], int]] = {
    "terminal closed": _hang_up,
    "terminal closed, SIGHUP ignored": _hang_up_unheard,
    "stdout closed": _shell('exec "$@" >&-'),
    "stderr closed": _shell('exec "$@" 2>&-'),
    "all closed": _shell('exec "$@" <&- >&- 2>&-'),
    "stdout full": _shell('exec "$@" >/dev/full'),
    "stdout and stderr full": _shell('exec "$@" >/dev/full 2>&1'),
    "a full pipe": _full_pipe,
}
