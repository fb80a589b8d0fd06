"""Touched: inputs of commands that have other times than when they were read, and the same sizes.

What is in them is compared with the checksum that was taken when their task had ended, so that a
file which was copied, fetched again or touched repeats nothing, and one with other content does.
Each is read once, however many submissions there are and tasks that share it, and several at a
time, before the tasks are matched. Held by tests/apps/commands/test_touched.py.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hyperslab.blocks.gathering import FIRST_TOLD_S, Tell
from hyperslab.machine.host import Host
from hyperslab.plan.command import CommandTask
from hyperslab.plan.contents import Patience, checksum, digest_of
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.units import show_count, show_seconds

THREADS = 4
"Inputs that are read at a time, at least: a slow server is waited for several times at once."
Question = tuple[Path, int, CommandTask]
"Whether a task, by its number in the submission with this folder, would read what it has read."


class Touched:
    """Inputs that are compared with what earlier submissions have recorded."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._digests: dict[str, str | None] = {}
        "Checksums of inputs; None of those that cannot be read."
        self._recorded = cache(_recorded)

    def read(self, questions: Iterable[Question]) -> None:
        """Read the inputs that questions are about, several at a time, and tell how far that is.
        Ctrl-C ends it.
        """
        asked = (task for folder, there, task in questions if self._known(folder, there))
        paths = dict.fromkeys(path for task in asked for path in task.inputs)
        self._read([path for path in paths if path not in self._digests])

    def holds(self, folder: Path, there: int, command: CommandTask) -> bool:
        """Whether the inputs of a task, with its number in an earlier submission, are what they
        were then.
        """
        before = self._recorded(folder)
        if there not in before.checksums:
            return not before.is_damaged  # it has made nothing there
        known = self._known(folder, there)
        if not known:
            return False
        self._read([path for path in command.inputs if path not in self._digests])
        return known == checksum(command.inputs, self._digest)

    def _known(self, folder: Path, there: int) -> str:
        """The checksum of what a task has read; '' where nobody knows."""
        return self._recorded(folder).checksums.get(there, "")

    def _digest(self, path: str) -> str:
        """The checksum of an input that was read. Raises OSError for one that cannot be."""
        digest = self._digests[path]
        if digest is None:
            raise FileNotFoundError(path)
        return digest

    def _read(self, paths: list[str]) -> None:
        if not paths:
            return
        if not self._digests:
            self._tell("reading    inputs that have another time than when they were read before")
        told = _Told(len(paths), self._tell)
        with closing(_digests_of(paths)) as digests:  # or threads would read on
            for path, digest in digests:
                self._digests[path] = digest
                told.advance()


class _Told:
    """How far the reading of inputs is, told after a while, then after twice as long, and so on."""

    def __init__(self, count: int, tell: Tell) -> None:
        self._count = count
        self._tell = tell
        self._done = 0
        self._began_s = time.monotonic()
        self._next_s = FIRST_TOLD_S

    def advance(self) -> None:
        """One more was read."""
        self._done += 1
        passed_s = time.monotonic() - self._began_s
        if passed_s < self._next_s or self._done == self._count:
            return
        self._next_s = 2 * passed_s
        left = show_seconds(passed_s * (self._count - self._done) / self._done)
        of_all = f"{self._done:,} of {show_count(self._count, 'input')}"
        self._tell(f"reading    {of_all}, {left} left")


class _Until(Patience):
    """Patience that somebody ends."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__(math.inf)
        self._ended = ended

    def took(self, nbytes: int) -> None:
        if self._ended.is_set():
            raise TimeoutError


def _digests_of(paths: list[str]) -> Generator[tuple[str, str | None], None, None]:
    """Inputs and their checksums, as they become known; whatever ends this ends all reading."""
    ended = threading.Event()
    threads = max(THREADS, Host.here().cpus)
    with ThreadPoolExecutor(min(threads, len(paths))) as pool:
        try:
            waiting = {pool.submit(_digest_until, path, ended): path for path in paths}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _digest_until(path: str, ended: threading.Event) -> str | None:
    """The checksum of an input; None where it cannot be read."""
    try:
        return digest_of(path, _Until(ended))
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a submission has recorded of what its tasks have read."""

    checksums: dict[int, str]
    """Checksums of the inputs of all tasks that have made something; '' where it is not known what
    they have read.
    """
    is_damaged: bool
    "Whether more tasks may have made something."


def _recorded(folder: Path) -> _Recorded:
    tail = Tail(folder)
    found: dict[int, str] = {}
    for outcome in sorted(tail.poll(), key=_rank):
        if outcome.ran is not None and outcome.status in ("done", "staged"):
            found[outcome.task] = outcome.ran.inputs
    return _Recorded(found, tail.damaged > 0)


def _rank(outcome: Outcome) -> tuple[bool, int]:
    """The attempt that ranks highest is the one whose files are there."""
    return outcome.status == "done", outcome.attempt
