"""Progress of a run: a bar on a terminal, a line now and then in a log, or nothing."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO, cast

from hyperslab.report.listener import Listener
from hyperslab.units import show_rate, show_seconds

LINES = 10
"Lines of a log, at most: one per 10 % of the tasks."
LINE_INTERVAL_S = 3.0
"Least time between two lines of a log; the last one comes whenever the tasks are done."
FIRST_LINE_S = 1.0
"Time after which the first line may come."
FAILURES_SHOWN = 5
"Failures of different kinds told at once; the rest are in the report."


class Progress(Protocol):
    """What the driver tells while tasks run."""

    def tell(self, text: str) -> None: ...
    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None: ...
    def advance(self, nbytes: int) -> None: ...
    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None: ...
    def named(self, done: int, files: int) -> None: ...
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

    def named(self, done: int, files: int) -> None:
        """After the last task, so many files of all have been synced and have their names."""

    def end(self) -> None:
        """No task, and no name, follows for now."""


class Count:
    """How far a run is."""

    def __init__(self) -> None:
        self.tasks = 0
        "Number of all tasks, those that an earlier run has done included."
        self.done = 0
        self.before = 0
        "Number of tasks that an earlier run has done."
        self.nbytes = 0
        "Bytes that the tasks read which this run has done."
        self.names = self.files = 0
        "Files that have got their names after the last task, and all that get one."
        self._began = time.monotonic()

    def begin(self, tasks: int, done: int) -> None:
        """Tasks left to do, and those that an earlier run has done."""
        self.tasks = done + tasks
        self.done = self.before = done
        self._began = time.monotonic()

    def advance(self, nbytes: int) -> None:
        """A task is done."""
        self.done += 1
        self.nbytes += nbytes

    def named(self, done: int, files: int) -> None:
        """Files have their names, of so many that get one after the last task."""
        self.names, self.files = done, files

    def words(self) -> str:
        """What happens now: tasks, or after the last of them the names of files."""
        if self.names < self.files:
            return f"writing names {self.names}/{self.files}"
        return self._of_tasks()

    def _of_tasks(self) -> str:
        """Share, tasks and rate so far, and, once a task is done, the time left, in one line."""
        elapsed = time.monotonic() - self._began
        share = self.done / max(1, self.tasks)
        rate = ""
        if elapsed:
            rate = show_rate(self.nbytes / elapsed)
        text = f"{share:4.0%}  {self.done}/{self.tasks} tasks  {rate}"
        since = self.done - self.before
        if not since:
            return text
        left = elapsed * (self.tasks - self.done) / since
        return f"{text}  {show_seconds(left)} left"


class Lines:
    """One line per 10 % of the tasks, and none sooner than LINE_INTERVAL_S after another, for
    logs.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = Listener(stream or sys.stderr)
        self._count = Count()
        self._failures = 0
        self._told = 0
        self._told_at = 0.0
        self._names_told = False

    def tell(self, text: str) -> None:
        self._say(text)

    def begin(self, tasks: int, nbytes: int, done: int = 0) -> None:
        self._count.begin(tasks, done)
        self._told = self._passed()
        self._told_at = time.monotonic() + FIRST_LINE_S - LINE_INTERVAL_S

    def advance(self, nbytes: int) -> None:
        self._count.advance(nbytes)
        passed = self._passed()
        now = time.monotonic()
        is_due = passed > self._told and now - self._told_at >= LINE_INTERVAL_S
        if is_due or self._count.done == self._count.tasks:
            self._told = passed
            self._told_at = now
            self._say(self._count.words())

    def _passed(self) -> int:
        return self._count.done * LINES // max(1, self._count.tasks)

    def failed(self, label: str, reason: str, will_retry: bool, place: str) -> None:
        self._failures += 1
        if line := failure_line(self._failures, label, reason, will_retry, place):
            self._say(line)

    def named(self, done: int, files: int) -> None:
        """Say it now and then, where it takes long."""
        now = time.monotonic()
        if not done:
            self._told_at = now + FIRST_LINE_S - LINE_INTERVAL_S
            self._names_told = False
        is_due = now - self._told_at >= LINE_INTERVAL_S
        if is_due or (self._names_told and done == files):
            self._told_at = now
            self._names_told = True
            self._say(f"writing names {done}/{files}")

    def end(self) -> None:
        self._stream.drain()

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")


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
        for earlier in self._bar.task_ids:  # of a submission that has ended
            self._bar.remove_task(earlier)
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

    def named(self, done: int, files: int) -> None:
        if not done:
            for earlier in self._bar.task_ids:
                self._bar.remove_task(earlier)
            self._bar.start()
            self._task = self._bar.add_task("writing names", total=files, rate="")
        self._bar.update(self._task, completed=done)

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
