"""The real command, started in a round, watched, and listened to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.campaign.rounds import Round
from tests.system.clusters.processes import line, signal_all

PATIENCE_S = 100.0
"After so long, something hangs; nothing is measured by it."
GRACE_S = 60.0
"So long the processes of a run may take to end after its driver has."
LONGEST_S = 0.9
"What a run takes at least, after it has records, on any machine."
QUICK = "import hyperslab.driver.submission as records; records.write_report = lambda *_: None; "
MAIN = "from hyperslab.cli import main; main()"
ANNOUNCED = (0, 1, 2, 130)
"The exit statuses that there are."
NEVER_SAID = ("Traceback (most recent call last)", "this should not happen", "Fatal Python error")
MOST_QUOTED = 1500
"Characters of what should not have been said."


@dataclass(frozen=True, slots=True)
class Command:
    """A command under way."""

    name: str
    "Of its log."
    words: list[str]
    process: subprocess.Popen[bytes]

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def workers(self) -> list[psutil.Process]:
        """The processes below it."""
        try:
            return list(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return []


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended."""

    code: int
    text: str
    "What it printed."

    @property
    def last_words(self) -> str:
        return " | ".join(self.text.strip().splitlines()[-3:])[-400:]

    @property
    def never_said(self) -> str:
        """From the first phrase on that no command may print; '' when there is none."""
        places = [self.text.find(phrase) for phrase in NEVER_SAID if phrase in self.text]
        return self.text[min(places) :][:MOST_QUOTED] if places else ""


def program(this: Round, words: list[str]) -> list[str]:
    """The command line of a verb, as Python runs it."""
    quick = "" if this.job.has_report else QUICK
    return [*this.inside, sys.executable, "-c", quick + MAIN, *words]


def begin(
    this: Round,
    *words: str,
    before: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Command:
    """Start a command; `before` stands before its line, the environment joins that of the round."""
    this.begun += 1
    name = f"{this.begun:02}-{words[0]}"
    process = this.home.start(name, [*before, *program(this, list(words))], **(environment or {}))
    return Command(name, list(words), process)


def await_end(
    this: Round, command: Command, *, is_disturbed: bool = False, is_alone: bool = True
) -> Ended:
    """Wait for the end of a command, and judge its manners; `is_disturbed`: it may have been
    killed, by us.

    `is_alone`: no other command of the round is under way, so that every process that is left is an
    orphan.
    """
    try:
        command.process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        _note_hang(this, command)
    ended = Ended(command.process.returncode, this.home.log(command.name))
    if not is_disturbed:
        judge_manners(this, command.words, ended)
    elif any(phrase in ended.text for phrase in NEVER_SAID[:2]):
        this.find("unhelpful", f"{' '.join(command.words[:2])}: {ended.last_words}")
    if is_alone and not (is_disturbed and this.job.is_queued):
        expect_no_orphans(this)
    return ended


def call(this: Round, *words: str) -> Ended:
    """Run a command to its end."""
    return await_end(this, begin(this, *words))


def judge_manners(this: Round, words: list[str], ended: Ended) -> None:
    """An end that is announced, and a sentence for each that is not a success."""
    verb = " ".join(words[:2])
    if ended.never_said:
        this.find("unhelpful", f"{verb}: {ended.never_said}")
    elif ended.code not in ANNOUNCED:
        this.find("unhelpful", f"{verb} ended with status {ended.code}: {ended.last_words}")
    elif ended.code and len(ended.text.split()) < 3:
        this.find(
            "unhelpful", f"{verb} ended with status {ended.code} without a sentence: {ended.text!r}"
        )


def expect_no_orphans(this: Round) -> None:
    """All processes of the round have ended, or end soon."""
    if await_that(lambda: not this.home.left(), GRACE_S):
        return
    left = this.home.left()
    names = ", ".join(f"{process.pid} ({line(process)[-80:]})" for process in left)
    this.find("orphaned", f"{len(left)} processes outlive their driver: {names}")
    signal_all(left, signal.SIGKILL)


def await_that(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    """Wait until a condition holds; False when it does not within so long."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def workers_of(this: Round, command: Command) -> list[psutil.Process]:
    """The processes that do the tasks of a command; those of a batch system are not below it."""
    below = command.workers()
    if not this.job.is_queued:
        return below
    own = {command.process.pid, *(process.pid for process in below)}
    return [process for process in this.home.left() if process.pid not in own]


def await_moment(this: Round, command: Command) -> None:
    """Wait for a random moment of a run: so long after it has records, or so many tasks later."""
    await_that(lambda: list(records_of(this).glob("run-*/status.json")) or command.has_ended)
    if this.chance.random() < 0.5:
        time.sleep(this.chance.uniform(0, LONGEST_S))
        return
    tasks = recorded(this) + this.chance.randint(1, 12)
    await_that(lambda: recorded(this) >= tasks or command.has_ended)


def records_of(this: Round, out: Path | None = None) -> Path:
    """The folder of records, as it is seen from here."""
    file = this.job.about.file
    return (out or this.seen) / (f".{file}.hyperslab" if file else ".hyperslab")


def recorded(this: Round) -> int:
    """How often a task has been recorded as done, by all submissions."""
    return sum(path.read_bytes().count(b'"status":"done"') for path in _journals(this))


def recorded_tasks(this: Round) -> set[bytes]:
    """Those that have been."""
    lines = (line for path in _journals(this) for line in path.read_bytes().splitlines())
    return {
        line.partition(b'"task":')[2].partition(b",")[0]
        for line in lines
        if b'"status":"done"' in line
    }


def _journals(this: Round) -> list[Path]:
    return [path for path in records_of(this).glob("run-*/journal/*.jsonl") if path.is_file()]


def _note_hang(this: Round, command: Command) -> None:
    """Have the driver print where it is, and end it."""
    os.kill(command.process.pid, signal.SIGABRT)
    try:
        command.process.wait(5)
    except subprocess.TimeoutExpired:
        command.process.kill()
        command.process.wait()
    this.find(
        "hung",
        f"{' '.join(command.words[:2])} did not end within {PATIENCE_S:.0f} s; see"
        f" {command.name}.log",
    )
    signal_all(this.home.left(), signal.SIGKILL)
