"""Prefetching: input files on their way to a fast tier, ahead of the tasks that read them.

Whole files are copied, not the ranges that tasks need: every way of reading works on a whole file,
libraries that look where they like as well, and a hole in a copy of ranges would read as zeros
without a word. A file is copied if

- it is one file of this machine, and its tasks need most of it
- its first task is not about to begin, or it is read more than once: a task that waits for a copy
  is no faster than one that reads
- the tier admits it: copies go when no task needs them any more

What is not copied is read where it lies.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading.gzipindex import is_one_gzip_stream
from hyperslab.errors import RunStopped
from hyperslab.plan.compile import Plan
from hyperslab.plan.journal import SlotJournal
from hyperslab.storage.staging import copies
from hyperslab.storage.staging.copies import Took
from hyperslab.storage.staging.room import Room
from hyperslab.trace import STAGE_IN, recording, span

THREADS = 2
"Files that are copied at a time, so that one waits while another one comes."
POLL_S = 0.02
TRIED = 2
"Copies that are there at a time until it is known whether they pay."
Copying = Literal["now", "some", "later", "never"]
_NEEDED = 0.5
"Share of a file that tasks have to read for a copy of all of it."
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_TWICE = 1.5
"Times that a file has to be read for a copy of it though its tasks have begun."


@dataclass(slots=True)
class Wanted:
    """A file that tasks read."""

    source: ArraySource
    copy: str
    first: int
    "Place of its first task among all."
    tasks: set[int] = field(default_factory=set)
    nbytes: int = 0
    "Bytes that tasks take from it, about."

    @property
    def is_worth_it(self) -> bool:
        return self.nbytes >= _NEEDED * self.source.file_size

    @property
    def is_read_again(self) -> bool:
        return self.nbytes >= _TWICE * self.source.file_size


@dataclass(slots=True)
class Prefetched:
    """What prefetching has come to."""

    took: Took = field(default_factory=Took)
    files: int = 0
    evicted_files: int = 0
    evicted_nbytes: int = 0
    late_files: int = 0
    "Files whose tasks had begun before their turn came."
    full_files: int = 0
    "Files that were not admitted before their tasks began."
    refused_files: int = 0
    "Files that the tier did not take though there was room."


def is_one_file(source: ArraySource) -> bool:
    """Whether all that a source says is in one file of this machine, and in no other one."""
    if source.broken or source.document or not source.is_here:
        return False
    return source.chunks is not None or is_one_gzip_stream(source)


def with_copies(plan: Plan, folder: Path) -> Plan:
    """The plan over sources whose copies may lie in a folder."""
    names: dict[str, str] = {}

    def copied(source: ArraySource) -> ArraySource:
        if not is_one_file(source):
            return source
        name = names.setdefault(source.url, str(folder / f"{len(names)}"))
        return replace(source, copy=name)

    stages = []
    for stage in plan.stages:
        inputs = {name: tuple(map(copied, sources)) for name, sources in stage.job.inputs.items()}
        stages.append(replace(stage, job=replace(stage.job, inputs=inputs)))
    return replace(plan, stages=tuple(stages))


def wanted(plan: Plan, done: Collection[int]) -> list[Wanted]:
    """The files to copy, in the order in which tasks need them."""
    found: dict[str, Wanted] = {}
    place = 0
    for stage in plan.stages:
        inputs = list(stage.job.inputs.values())
        for task in stage.tasks:
            if task.id in done:
                continue
            read = [
                inputs[number][piece.source]
                for number, pieces in enumerate(task.reads)
                for piece in pieces
            ]
            nbytes = task.bytes_read // max(1, len(read))
            for source in read:
                if source.copy:
                    one = found.setdefault(source.copy, Wanted(source, source.copy, place))
                    one.tasks.add(task.id)
                    one.nbytes += nbytes
            place += 1
    return [one for one in found.values() if one.is_worth_it]


class Prefetcher:
    """Threads that copy files, and remove the copies that no task needs."""

    def __init__(
        self,
        folder: Path,
        host: str,
        order: Sequence[Wanted],
        room: Room,
        slots: int,
        done: Callable[[], Collection[int]],
        copying: Callable[[Took], Copying],
        turn: Callable[[ArraySource], AbstractContextManager[None]],
    ) -> None:
        """`done` are the tasks that need nothing any more; so many slots run the others.

        `copying` says of what copies took whether to go on with files that are read once, `turn`
        is a block in which a source may be read.
        """
        self.prefetched = Prefetched()
        self._room = room
        self._slots = slots
        self._done = done
        self._begun = len(done())
        self._copying = copying
        self._turn = turn
        self._left = iter(order)
        self._there: list[Wanted] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._serve, args=(folder, f"{host}/{STAGE_IN}/{n}"), daemon=True
            )
            for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def record(self) -> Mapping[str, Any]:
        """What it has come to, for the trace."""
        told = asdict(self.prefetched)
        took = told.pop("took")
        return {
            **told,
            "nbytes": took["nbytes"],
            "read_s": took["read_ns"] / 1e9,
            "write_s": took["write_ns"] / 1e9,
        }

    def stop(self) -> None:
        """Give up the copies under way and end the threads."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _serve(self, folder: Path, slot: str) -> None:
        with suppress(_Stopped, RunStopped):  # the driver finds out itself why it cannot go on
            for one in self._in_turn():
                if not self._is_admitted(one):
                    continue
                with recording() as phases:
                    self._bring(one)
                journal = SlotJournal(folder, slot, "0")
                journal.note([phase for phase in phases if phase.kind == STAGE_IN])
                journal.close()

    def _in_turn(self) -> Iterator[Wanted]:
        while True:
            with self._lock:
                one = next(self._left, None)
            if one is None:
                break
            yield one
        while not self._stopped.wait(POLL_S) and self._there:
            self.evict()

    def _is_admitted(self, one: Wanted) -> bool:
        """Whether a file is to be copied; waits for room as long as its tasks are still to come."""
        was_full = False
        while not self._stopped.is_set():
            self.evict()
            copying = self._now_or_never(one)
            if copying == "never":
                return False
            if self._is_late(one):
                with self._lock:
                    self.prefetched.full_files += was_full
                    self.prefetched.late_files += not was_full
                return False
            if copying == "now":
                if self._room.holds(one.source.file_size):
                    return True
                was_full = True
            self._stopped.wait(POLL_S)
        return False

    def _now_or_never(self, one: Wanted) -> Copying:
        """Whether a file is to be copied, as far as tiers are concerned that may not pay."""
        if one.is_read_again:
            return "now"
        copying = self._copying(self.prefetched.took)
        if copying != "some":
            return copying
        if len(self._there) < TRIED:
            return "now"
        return "later"

    def _is_late(self, one: Wanted) -> bool:
        done = self._done()
        if one.tasks <= set(done):
            return True
        if copies.is_declined(one.copy) and not one.is_read_again:
            return True
        ahead = one.first - (len(done) - self._begun)
        return ahead < self._slots and not one.is_read_again

    def _bring(self, one: Wanted) -> None:
        source = one.source
        identity = (source.file_size, source.mtime_ns)
        try:
            with self._turn(source), span(STAGE_IN) as mark:
                took = copies.bring(source.url, identity, one.copy, self._look)
                mark.nbytes = took.nbytes
        except (OSError, ValueError) as error:
            # no room, no tier, or another file: its tasks read it, and say what is wrong
            if isinstance(error, OSError) and error.errno in _REFUSED:
                with self._lock:
                    self.prefetched.refused_files += 1
            return
        with self._lock:
            self.prefetched.took.include(took)
            self.prefetched.files += 1
            self._there.append(one)

    def _look(self) -> None:
        if self._stopped.is_set():
            raise _Stopped

    def evict(self) -> None:
        """Remove copies whose tasks are done."""
        done = set(self._done())
        with self._lock:
            over = [one for one in self._there if one.tasks <= done]
            self._there = [one for one in self._there if not one.tasks <= done]
        for one in over:
            with suppress(OSError):
                os.unlink(one.copy)
                self.prefetched.evicted_files += 1
                self.prefetched.evicted_nbytes += one.source.file_size


class _Stopped(Exception):
    """Raised where a copy is given up because the run ends."""
