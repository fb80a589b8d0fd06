"""Progress of a run: a bar on a terminal, a line per 5 % in a log, or nothing."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO, cast

from hyperslab.report.listener import Listener
from hyperslab.units import show_rate, show_seconds

LINES = 20
"Lines of a log: one per 5 % of the tasks."
FAILURES_SHOWN = 5
"Failures of different kinds told at once; the rest are in the report."


class Progress(Protocol):
    """What the driver tells while tasks run."""

    def tell(self, text: str) -> None: ...
    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None: ...
    def advance(self, nbytes: int) -> None: ...
    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None: ...
    def end(self) -> None: ...


class Quiet:
    """Says nothing."""

    def tell(self, text: str) -> None:
        """A line about what is done before the tasks, and takes long."""

    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None:
        """Tasks left to do, the bytes they read, and tasks that an earlier run has done."""

    def advance(self, nbytes: int) -> None:
        """A task is done."""

    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None:
        """An attempt has failed, the first for this reason, at a place in the user's code."""

    def end(self) -> None:
        """No task follows."""


class Lines:
    """One line per 5 % of the tasks, for logs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = Listener(stream or sys.stderr)
        self._tasks = self._done = self._before = self._nbytes = self._failures = 0
        self._began = time.monotonic()
        self._told = 0

    def tell(self, text: str) -> None:
        self._say(text)

    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None:
        self._tasks = done + tasks
        self._done = self._before = done
        self._told = self._passed()
        self._began = time.monotonic()

    def advance(self, nbytes: int) -> None:
        self._done += 1
        self._nbytes += nbytes
        passed = self._passed()
        if passed > self._told:
            self._told = passed
            self._say(self._line())

    def _passed(self) -> int:
        return self._done * LINES // max(1, self._tasks)

    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None:
        self._failures += 1
        if line := failure_line(self._failures, label, reason, will_retry, place):
            self._say(line)

    def end(self) -> None:
        self._stream.drain()

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")

    def _line(self) -> str:
        elapsed = time.monotonic() - self._began
        share = self._done / max(1, self._tasks)
        left = elapsed * (self._tasks - self._done) / max(1, self._done - self._before)
        rate = ""
        if elapsed:
            rate = show_rate(self._nbytes / elapsed)
        return f"{share:4.0%}  {self._done}/{self._tasks} tasks  {rate}  {show_seconds(left)} left"


class Bar:
    """A live bar with throughput and time left, for terminals."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self._stream = Listener(stream)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(file=cast(TextIO, self._stream)),
            transient=True,
        )
        self._nbytes = self._failures = 0
        self._began = time.monotonic()

    def tell(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None:
        self._began = time.monotonic()
        self._bar.start()
        self._task = self._bar.add_task("tasks", total=done + tasks, completed=done, rate="")

    def advance(self, nbytes: int) -> None:
        self._nbytes += nbytes
        elapsed = time.monotonic() - self._began
        rate = ""
        if elapsed:
            rate = show_rate(self._nbytes / elapsed)
        self._bar.update(self._task, advance=1, rate=rate)

    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None:
        self._failures += 1
        if line := failure_line(self._failures, label, reason, will_retry, place):
            self._bar.console.print(
                line, style="red", markup=False, highlight=False, soft_wrap=True
            )

    def end(self) -> None:
        self._bar.stop()
        self._stream.drain()


def failure_line(number: int, label: str, reason: str, will_retry: bool, place: str) -> str:
    """One sentence about a failed attempt, the `number`-th of another kind; '' once enough have
    been told.
    """
    if number > FAILURES_SHOWN:
        if number == FAILURES_SHOWN + 1:
            return "further failures are listed at the end and in the report"
        return ""
    more = [place] if place else []
    if will_retry:
        more.append("it will be tried again")
    line = f"failed: {label}: {reason}"
    if more:
        line += f" ({'; '.join(more)})"
    return line


def progress_for(quiet: bool, stream: TextIO | None = None) -> Progress:
    """The kind of progress that suits where the messages go, which is standard error."""
    stream = stream or sys.stderr
    if quiet or stream is None:  # as it is where it was closed at the start
        return Quiet()
    if stream.isatty():
        return Bar(stream)
    return Lines(stream)
