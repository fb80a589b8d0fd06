"""Commands that come while a run goes on: they are served or refused, and the run ends as if they
had not come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tests.campaign.commands import (
    Command,
    Ended,
    await_end,
    await_moment,
    await_that,
    begin,
    records_of,
)
from tests.campaign.deaths import slower
from tests.campaign.judgement import expect_nothing_torn, expect_the_result, resume_to_the_end
from tests.campaign.rounds import Round


def play(this: Round) -> None:
    """Start the job, and something else beside it."""
    name = this.chance.choice([*BESIDES])
    first = begin(this, *this.line(), environment=slower(this))
    if name != "a twin":
        _await_records(this, first)
        await_moment(this, first)
    was_running = not first.has_ended
    second = BESIDES[name](this)
    if was_running:
        this.inject(name)
    ends = [await_end(this, command, is_alone=False) for command in (second, first)]
    _judge(this, name, *ends)


def _judge(this: Round, name: str, second: Ended, first: Ended) -> None:
    if name.startswith("clean") and second.code == 0:
        _expect_cleaned(this, first, everything=name == "clean --all")
        return
    if first.code == 0 or (name in ("a twin", "--resume") and second.code == 0):
        expect_the_result(this)
        return
    if name not in ("cancel", "a twin"):
        this.find(
            "lost", f"{name} beside it ended the run with status {first.code}: {first.last_words}"
        )
    expect_nothing_torn(this)
    resume_to_the_end(this)


def _expect_cleaned(this: Round, first: Ended, *, everything: bool) -> None:
    """It came when the run was at its end, or had ended: the outputs are whole, or gone if that was
    asked for.
    """
    if first.code:
        this.find(
            "lost", f"clean beside it ended the run with status {first.code}: {first.last_words}"
        )
    expect_nothing_torn(this)
    if everything and any(not path.name.startswith(".") for path in this.seen.glob("*")):
        this.find("wrong", "clean --all said that it has removed the outputs, and there are some")


def _await_records(this: Round, command: Command) -> None:
    await_that(lambda: list(records_of(this).glob("run-*/plan.json")) or command.has_ended)


def _twin(this: Round) -> Command:
    time.sleep(this.chance.choice((0, 0, 0.05, 0.3, 0.8)))
    return begin(this, *this.line())


def _verb(*words: str) -> Callable[[Round], Command]:
    return lambda this: begin(this, words[0], str(this.place()), *words[1:])


BESIDES: Mapping[str, Callable[[Round], Command]] = {
    "a twin": _twin,
    "--resume": lambda this: begin(this, *this.line("--resume")),
    "cancel": _verb("cancel"),
    "clean": _verb("clean"),
    "clean --all": _verb("clean", "--all"),
    "verify": _verb("verify"),
    "status": _verb("status"),
    "report": _verb("report"),
}
