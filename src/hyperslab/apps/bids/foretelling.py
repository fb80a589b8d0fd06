"""Foretelling: the memory, disk and time that a run will take, as far as anybody knows.

A command does not say what it needs. What is known is the limit of a container, what there is here,
and what was measured of tasks that earlier runs into the same directory have done. Held by
tests/apps/bids/test_foretelling.py.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.containers.runtimes import Container
from hyperslab.apps.bids.unit import Unit
from hyperslab.apps.commands.running import run_here
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import slots_of
from hyperslab.machine.host import Host
from hyperslab.plan.journal import Tail
from hyperslab.units import show_bytes, show_count, show_seconds

UNKNOWN = "not known before a task is done"


@dataclass(frozen=True, slots=True)
class Done:
    """What one task has taken that is done."""

    label: str
    real_s: float
    max_rss: int
    "Peak memory of the largest of its processes, bytes."
    nbytes: int
    "Bytes that it has made."


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known before a run begins."""

    left: int
    "Tasks that are not done."
    done: Sequence[Done]
    "Tasks that are done, with what was measured of them."
    read_nbytes: int
    "Bytes of all images that have content here."
    slots: int
    "Tasks at a time, at most; 0 where nobody knows."
    memory_nbytes: int
    "Memory available here; 0 where tasks run elsewhere."
    disk_nbytes: int
    "Bytes that are free for what is made."
    limit_nbytes: int = 0
    "Memory that a container may use; 0 without a limit."
    is_contained: bool = False
    "Whether commands start what does their work outside of their own processes."

    @property
    def at_a_time(self) -> int:
        """Tasks that will run at the same time, at most; 0 where nobody knows."""
        return min(self.slots, self.left)

    def lines(self) -> list[str]:
        """What people read of it."""
        lines = []
        if self.read_nbytes:
            lines.append(f"reads      {show_bytes(self.read_nbytes)} of images")
        lines.append(f"memory     {self._memory()}")
        lines.append(f"disk       {self._disk()}")
        lines.append(f"time       {self._time()}")
        return lines

    def _memory(self) -> str:
        return self._of_task() + self._here()

    def _of_task(self) -> str:
        if self.limit_nbytes:
            limit = show_bytes(self.limit_nbytes)
            return f"{limit} for a container at most{self._times(self.limit_nbytes)}"
        if self.is_contained:
            return "not known: --container-memory limits it"
        if not self.done:
            return UNKNOWN
        most = max(one.max_rss for one in self.done)
        return f"{show_bytes(most)} for the largest process of {self._those}{self._times(most)}"

    def _here(self) -> str:
        if not self.memory_nbytes:
            return ""
        return f"; {show_bytes(self.memory_nbytes)} are available"

    def _times(self, nbytes: int) -> str:
        """The memory of all tasks at a time."""
        if self.at_a_time < 2:
            return ""
        return f", {show_bytes(self.at_a_time * nbytes)} for {self.at_a_time} at a time"

    def _disk(self) -> str:
        free = f"; {show_bytes(self.disk_nbytes)} are free"
        if not self.done:
            return UNKNOWN + free
        mean = statistics.fmean(one.nbytes for one in self.done)
        all_of_them = show_bytes(self.left * mean)
        return f"{show_bytes(mean)} for {self._those}, {all_of_them} for {self._rest}{free}"

    def _time(self) -> str:
        if not self.done:
            return UNKNOWN
        mean_s = statistics.fmean(one.real_s for one in self.done)
        told = f"{show_seconds(mean_s)} for {self._those}"
        if not self.slots:
            return told
        rounds = -(-self.left // self.slots)
        return f"{told}, about {show_seconds(rounds * mean_s)} for {self._rest}"

    @property
    def _those(self) -> str:
        if len(self.done) == 1:
            return "the task that is done"
        return f"each of {len(self.done):,} tasks that are done"

    @property
    def _rest(self) -> str:
        return f"{show_count(self.left, 'task')} to do"


def outlook(
    units: Sequence[Unit], out: Path, options: Options, contained: Container | None = None
) -> Outlook:
    """What is known before a run over some units. Raises UsageError, DamagedRecord."""
    done = list(_done(out))
    labels = {one.label for one in done}
    left = len(units)
    if options.resume:
        left = sum(unit.label not in labels for unit in units)
    slots = 0
    memory_nbytes = 0
    if run_here(options):
        host = Host.here()
        workers, threads = slots_of(options, host)
        slots = workers * threads
        memory_nbytes = host.memory_bytes
    limit_nbytes = 0
    if contained is not None:
        limit_nbytes = contained.memory_nbytes or 0
    return Outlook(
        left,
        done,
        sum(map(_nbytes, units)),
        slots,
        memory_nbytes,
        _free(out),
        limit_nbytes,
        contained is not None and not contained.facts.takes_files,
    )


def _done(out: Path) -> Iterator[Done]:
    """What earlier runs have measured of units that they have done. Raises DamagedRecord."""
    found: dict[str, Done] = {}
    for folder, plan in RunDirectory(out.absolute()).plans():
        labels = {whole["first"]: whole["name"] for whole in plan["wholes"]}
        for outcome in Tail(folder).poll():
            label = labels.get(outcome.task, "")
            if label and outcome.status == "done" and outcome.ran is not None:
                nbytes = sum(written.nbytes for written in outcome.outputs)
                found[label] = Done(label, outcome.ran.real_s, outcome.ran.max_rss, nbytes)
    return iter(found.values())


def _nbytes(unit: Unit) -> int:
    """Bytes of the images of a unit, but for those whose content is elsewhere."""
    nbytes = 0
    for image in unit.images:
        with suppress(FileNotFoundError):
            nbytes += os.stat(image.path).st_size
    return nbytes


def _free(out: Path) -> int:
    place = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize
