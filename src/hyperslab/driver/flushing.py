"""Flushing: blocks on their way from a fast tier to their files, and what commands have made on its
way to its names, behind the tasks that made them.

Some threads of the driver deliver what tasks have staged, read back what has arrived, and only then
record the tasks as done, in a journal that is theirs. What is lost on the way is recorded by
nobody: its task is done again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from hyperslab.blocks.writing import Written
from hyperslab.plan import delivery
from hyperslab.plan.failure import describe_failure
from hyperslab.plan.journal import SlotJournal
from hyperslab.plan.task import Job, Outcome, Task
from hyperslab.storage import fence
from hyperslab.trace import FLUSH, VERIFY, Phase, recording, span

THREADS = 4
"Blocks that are flushed at a time: enough to wait for a slow server several times at once."
MOST_THREADS = 32
_SHOWN = (FLUSH, "write", VERIFY)
"Kinds of phases of a flush that a trace has: what it reads back are no inputs."


Deliver = Callable[[Job, Task, Outcome], tuple[Written, ...]]
"Function that brings what an attempt has staged to its files; it raises delivery.Lost, OSError."
Drop = Callable[[Outcome], None]
IsThere = Callable[[Outcome], bool]


def _may_be(_: Outcome) -> bool:
    """What is staged may be there: whoever delivers it finds out."""
    return True


class _Staged(NamedTuple):
    job: Job
    task: Task
    outcome: Outcome


@dataclass(slots=True)
class Flushed:
    """What flushing has come to."""

    blocks: int = 0
    nbytes: int = 0
    write_ns: int = 0
    "Time of writing to the files, over all threads, without what follows to be sure of it."
    flush_ns: int = 0
    "Time of all that blocks take on their way, over all threads."
    lost: int = 0
    "Tasks whose blocks were no longer on the tier."

    @property
    def ns_per_byte(self) -> float:
        """Time of a thread for a byte."""
        return self.flush_ns / max(1, self.nbytes)


class Flusher:
    """Threads that flush."""

    def __init__(
        self,
        folder: Path,
        host: str,
        limit_nbytes: int,
        deliver: Deliver = delivery.flush,
        drop: Drop = delivery.drop,
        is_there: IsThere = _may_be,
        is_shown: bool = True,
        slots: int = 0,
    ) -> None:
        """`folder` is that of the submission; blocks of up to `limit_nbytes` are in memory at a
        time, or one. `deliver` brings what an attempt has staged to its files, `drop` removes it,
        and `is_there` says whether it is there at all; `is_shown` says whether the trace has what
        that takes; `slots` is the number of those that leave waiting for storage to these threads,
        which are as many then.
        """
        self.flushed = Flushed()
        self._deliver = deliver
        self._drop = drop
        self._is_there = is_there
        self._kinds = _SHOWN * is_shown
        self._folder = folder
        self._waiting: queue.SimpleQueue[_Staged | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending: set[int] = set()
        self._loaded_nbytes = 0
        self._limit_nbytes = limit_nbytes
        self._failure: BaseException | None = None
        self._ended = False
        self._threads = [
            threading.Thread(target=self._serve, args=(f"{host}/{FLUSH}/{n}",), daemon=True)
            for n in range(max(THREADS, min(slots, MOST_THREADS)))
        ]
        for thread in self._threads:
            thread.start()

    def take(self, job: Job, task: Task, outcome: Outcome) -> None:
        """Deliver what a task has staged, unless an earlier attempt of it is on its way."""
        if not self._is_there(outcome):  # and no other attempt is to wait behind it
            self.flushed.lost += 1
            return
        with self._changed:
            is_known = task.id in self._pending
            self._pending.add(task.id)
        if is_known:  # an engine may run a batch twice
            self._drop(outcome)
            return
        self._waiting.put(_Staged(job, task, outcome))

    @property
    def is_busy(self) -> bool:
        """Whether something is on its way. Raises what ended a thread."""
        if self._failure is not None:
            raise self._failure
        return bool(self._pending)

    def stop(self) -> None:
        """End the threads, after what they are at; what waits stays where it is."""
        self._ended = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, slot: str) -> None:
        try:
            journal = SlotJournal(self._folder, slot, "0")
            try:
                with fence.working(self._folder):
                    while not self._ended and (staged := self._waiting.get()) is not None:
                        self._flush(staged, journal)
            finally:
                journal.close()
        except BaseException as error:  # noqa: BLE001  # raised where the driver looks
            self._failure = error

    def _flush(self, staged: _Staged, journal: SlotJournal) -> None:
        nbytes = sum(each.nbytes for each in staged.outcome.outputs)
        self._await_memory(nbytes)
        try:
            outcome = self._delivered(staged)
            if outcome is not None:
                journal.record(outcome)
                journal.flush()
        finally:
            self._drop(staged.outcome)
            with self._changed:
                self._pending.discard(staged.task.id)
                self._loaded_nbytes -= nbytes
                self._changed.notify_all()

    def _await_memory(self, nbytes: int) -> None:
        with self._changed:
            while self._loaded_nbytes and self._loaded_nbytes + nbytes > self._limit_nbytes:
                self._changed.wait()
            self._loaded_nbytes += nbytes

    def _delivered(self, staged: _Staged) -> Outcome | None:
        """What has become of a task; None where its blocks are lost."""
        job, task, outcome = staged
        done = replace(outcome, status="done", outputs=(), phases=(), slot="", max_rss=0)
        with recording() as phases:
            try:
                with span(FLUSH) as mark:
                    outputs = self._deliver(job, task, outcome)
                    mark.nbytes = sum(each.nbytes for each in outputs)
                done = replace(done, outputs=outputs)
            except delivery.Lost:
                self.flushed.lost += 1
                return None
            # of the files: a failure of the task, as data
            except Exception as error:  # noqa: BLE001
                failure = describe_failure(error, job.label(task))
                done = replace(done, status="failed", failure=failure)
        self._count(phases, len(outcome.outputs))
        return replace(done, phases=tuple(p for p in phases if p.kind in self._kinds))

    def _count(self, phases: Sequence[Phase], blocks: int) -> None:
        with self._changed:
            self.flushed.blocks += blocks
            flushes = [p for p in phases if p.kind == FLUSH]
            self.flushed.nbytes += sum(p.nbytes for p in flushes)
            self.flushed.flush_ns += sum(p.end_ns - p.start_ns for p in flushes)
            self.flushed.write_ns += _writing_ns(phases)


def _writing_ns(phases: Sequence[Phase]) -> int:
    """Time of writing, without that of reading back, which lies within it where a file has to be
    right before it has its name.
    """
    writes = [p for p in phases if p.kind == "write"]
    checks = [p for p in phases if p.kind == VERIFY]
    taken = sum(p.end_ns - p.start_ns for p in writes)
    for check in checks:
        if any(p.start_ns <= check.start_ns and check.end_ns <= p.end_ns for p in writes):
            taken -= check.end_ns - check.start_ns
    return taken
