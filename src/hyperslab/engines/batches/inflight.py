"""Tasks in flight: which task a batch is at, for whoever runs the batch again after its worker
died.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from hyperslab.errors import RunStopped
from hyperslab.plan.failure import DIED, Failure
from hyperslab.plan.task import Outcome
from hyperslab.trace import LOST, Phase, Slot

SIZE = 512
FOLDER = "running"
"Folder in a submission that holds the marks of each round in a folder of its own."


class Marked(NamedTuple):
    """A task under way."""

    task: int
    attempt: int
    slot: str
    start_ns: int
    "Time at which the task began, on the driver's clock."


class Mark:
    """A file that exists while a batch is being worked on; leaving the block normally removes
    it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._path = folder / name
        self.found: Marked | None = None
        "The task at which an earlier worker of the batch died."

    def __enter__(self) -> Self:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            raise RunStopped("the run has been stopped") from None
        except FileExistsError:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            self.found = _of_the_dead(_decode(os.pread(self._fd, SIZE, 0)))
        return self

    def set(self, marked: Marked) -> None:
        """Name the task that begins: a line of text, as this is done for every one."""
        line = f"{marked.task} {marked.attempt} {marked.start_ns} {marked.slot}"
        os.pwrite(self._fd, line.encode().ljust(SIZE), 0)

    def __exit__(self, *failure: object) -> None:
        os.close(self._fd)
        with suppress(FileNotFoundError):  # the run has been stopped, which takes all marks away
            self._path.unlink()


def _of_the_dead(marked: Marked | None) -> Marked | None:
    """An engine may run a batch twice at a time: whoever is seen to live has not died of its
    task.
    """
    slot = Slot.parse(marked.slot) if marked else None
    if slot is not None and is_running_here(slot):
        return None
    return marked


def _decode(data: bytes) -> Marked | None:
    try:
        task, attempt, start_ns, slot = data.decode().split(maxsplit=3)
        return Marked(int(task), int(attempt), slot.rstrip(), int(start_ns))
    except ValueError:  # it died before it had begun its first task
        return None


def lost(marked: Marked, now_ns: int, how: str = "") -> Outcome:
    """What became of the task, in the driver's time; `how` its process ended, if anybody knows."""
    reason = (
        f"the worker process that served {marked.slot} died in the middle of the task (killed,"
        " crashed, or lost)"
    )
    if how:
        reason = f"the worker process that served {marked.slot} {how} in the middle of the task"
    phase = Phase(LOST, marked.start_ns, now_ns, 0, 0, 0, marked.slot)
    failure = Failure(DIED, reason, "")
    return Outcome(marked.task, marked.attempt, "lost", failure, phases=(phase,), slot=marked.slot)


def leftovers(
    folder: Path,
    is_alive: Callable[[Slot], bool],
    how_it_ended: Callable[[str], str] = lambda batch: "",
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> Iterator[Outcome]:
    """What is left when an engine has ended a round: a mark of a dead worker becomes a lost
    attempt. `how_it_ended` says of the name of a batch how its worker did, if anybody knows;
    `now_ns` tells the driver's time.

    Batches that a living worker still runs end at their next task, since the folder of the marks is
    taken away.
    """
    for path in sorted(folder.glob("*")):
        try:
            marked = _decode(path.read_bytes())
        except FileNotFoundError:  # its batch has just ended
            continue
        if marked and not _is_served(marked, is_alive):
            yield lost(marked, now_ns(), how_it_ended(path.name))
    remove(folder)


def _is_served(marked: Marked, is_alive: Callable[[Slot], bool]) -> bool:
    slot = Slot.parse(marked.slot)
    return slot is not None and is_alive(slot)


def remove(folder: Path) -> None:
    """Take marks away: under another name first, since workers keep making marks under this
    one.
    """
    gone = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    with suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def is_running_here(slot: Slot) -> bool:
    """True while the process that a slot's thread is, or belongs to, exists on this host; False for
    other hosts.
    """
    return slot.host == socket.gethostname() and Path(f"/proc/{slot.thread}").exists()
