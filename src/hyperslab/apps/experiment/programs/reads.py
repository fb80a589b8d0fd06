"""Reads: rounds of reads of one file, which is opened once, or for every read.

After figure 4 of N. Chaimov, A. Malony, C. Iancu, K. Ibrahim, Scaling Spark on Lustre (2016). How
often the file is really opened is counted in a process of its own that no time is taken of.

A reader joins with a function and a line in READERS.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hyperslab import formats
from hyperslab.accesses import KNOWN
from hyperslab.apps.experiment.programs.rounds import Program, save_rounds, submission, timed
from hyperslab.apps.experiment.programs.temporary import folder_for
from hyperslab.apps.files.kept import count_kept
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.blocks import view
from hyperslab.driver.measured import Moments
from hyperslab.engines.environment import interpreted
from hyperslab.errors import RunStopped, UsageError, suggest
from hyperslab.plan.written import parse_size
from hyperslab.storage.accounting.choosing import choose_of_each
from hyperslab.workloads.synth import FORMATS

NAME = "file-reads"
Opens = Literal["once", "each"]
SUFFIX = f".{FORMATS[0]}"
"Suffix of files that synthetic arrays are in, too."
ONCE, EACH = "once", "each"
PARTS = 64
"Parts of a file, each of which a read takes as a whole."
ROW_NBYTES = 1024
"Bytes of a row of an array, of which a part has as many as it takes."
COUNTED = 100
"Reads whose opens are counted."
_PROGRAM = "from hyperslab.apps.experiment.programs.reads import main; main()"


class Layout(NamedTuple):
    """Where the parts of a file lie."""

    head_nbytes: int
    part_nbytes: int


Read = Callable[[int], Any]
"Reads the part of a number: its bytes, or an array of them."


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads files."""

    suffix: str
    "Suffix of its files."
    opened: Callable[[Path, Layout], AbstractContextManager[Read]]
    order: Literal["C", "F"] = "F"
    "Order in which a part that is an array has its bytes in the file."


@contextmanager
def _plain(path: Path, layout: Layout) -> Iterator[Read]:
    """Read as the system does."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield lambda number: os.pread(
            fd, layout.part_nbytes, layout.head_nbytes + number * layout.part_nbytes
        )
    finally:
        os.close(fd)


@contextmanager
def _hyperslab(path: Path, _: Layout) -> Iterator[Read]:
    """Read by a view of an array."""
    opened = view.open(path)
    yield lambda number: opened[:, :, number]


READERS: Mapping[str, Reader] = {
    "plain": Reader(SUFFIX, _plain),
    "hyperslab": Reader(SUFFIX, _hyperslab),
}
"All of them."


@dataclass(frozen=True, slots=True)
class Reads:
    """What is read, and how often."""

    workload: str
    "Name of the reader."
    opens: str = EACH
    read_size: str = "4KiB"
    reads: int = 500
    "Number of reads of a round."
    rounds: int = 5
    warmups: int = 1


class Task(NamedTuple):
    """Reads of a file by a reader."""

    path: Path
    layout: Layout
    opens: str
    reads: int

    def run(self, reader: Reader) -> None:
        """Read as often as asked for."""
        if self.opens == ONCE:
            with reader.opened(self.path, self.layout) as read:
                for number in range(self.reads):
                    read(number % PARTS)
            return
        for number in range(self.reads):
            with reader.opened(self.path, self.layout) as read:
                read(number % PARTS)


def run_rounds(asked: Reads, out: Path, began_ns: int, scratch: str) -> None:
    """Read in rounds a file where `scratch` says, as --scratch does. Raises UsageError, and
    RunStopped for a read that is wrong.
    """
    reader = _reader(asked)
    program = Program(NAME, asked.workload)
    with submission(program, out, asked.rounds) as folder, folder_for(scratch) as place:
        path = place / f"parts{reader.suffix}"
        data = contents(parse_size("read_size", str(asked.read_size)))
        task = Task(path, make(path, data), asked.opens, asked.reads)
        require_right(reader, task, data)
        for _ in range(asked.warmups):
            task.run(reader)
        ready_ns = time.monotonic_ns()
        outcomes = [timed(number, lambda: task.run(reader)) for number in range(asked.rounds)]
        moments = Moments(began_ns, ready_ns, time.monotonic_ns())
        numbers = _opened(asked.workload, task)
        save_rounds(folder, program, outcomes, moments, numbers)


def require_reader(name: str) -> None:
    """Raise UsageError where there is no such reader."""
    if name not in READERS:
        raise UsageError(
            f"{name}: there is no such reader{suggest(name, READERS)}; choose one of"
            f" {', '.join(READERS)}"
        )


def _reader(asked: Reads) -> Reader:
    require_reader(asked.workload)
    if asked.opens not in (ONCE, EACH) or min(asked.reads, asked.rounds) < 1:
        raise UsageError(f"opens, reads, rounds: give {ONCE} or {EACH}, and 1 or more of each")
    return READERS[asked.workload]


def contents(nbytes: int) -> Array:
    """Parts of so many bytes, a row for each; of whole KiB where they are larger than one."""
    width = min(nbytes, ROW_NBYTES)
    random = np.random.default_rng(nbytes)
    return random.integers(256, size=(PARTS, nbytes // width * width), dtype=np.uint8)


def make(path: Path, data: Array) -> Layout:
    """Write a file that holds these parts one after the other, as its name says."""
    part_nbytes = data.shape[1]
    width = min(part_nbytes, ROW_NBYTES)
    stored = (PARTS, part_nbytes // width, width)
    axes = _sink(path, stored).axes
    sink = _sink(path, tuple(stored[axes.index(axis)] for axis in range(len(axes))))
    assert sink.head is not None
    path.write_bytes(sink.head + data.tobytes())
    return Layout(len(sink.head), part_nbytes)


def _sink(path: Path, shape: tuple[int, ...]) -> ArraySink:
    module = formats.module(formats.format_of_name(str(path)))
    return module.sink(str(path), shape, np.dtype(np.uint8), Header())


def require_right(reader: Reader, task: Task, data: Array) -> None:
    """Raise RunStopped for a part that is read otherwise than it was written."""
    with reader.opened(task.path, task.layout) as read:
        for number, expected in enumerate(data):
            found = read(number)
            if isinstance(found, np.ndarray):
                found = found.tobytes(reader.order)
            if bytes(found) != expected.tobytes():
                raise RunStopped(f"{task.path}: part {number} is read otherwise than written")


def _opened(name: str, task: Task) -> dict[str, float]:
    """How often the file is opened, over the number of reads; nothing where nobody can count it."""
    try:
        way = choose_of_each().way
    except UsageError:
        return {}
    fewer = task._replace(reads=COUNTED)
    words = [*interpreted(_PROGRAM), name, told(fewer)]
    return {"opens_per_read": opens_of(words, task.path, way) / COUNTED}


def told(task: Task) -> str:
    """A task as text, for another process."""
    return json.dumps([str(task.path), *task[1:]])


def task_of(text: str) -> Task:
    """The task of a text that another process has written."""
    path, layout, *rest = json.loads(text)
    return Task(Path(path), Layout(*layout), *rest)


def opens_of(command: Sequence[str], path: Path, way: str) -> int:
    """Number of times that a command opens a file, counted by a way that knows each. Raises
    RunStopped where it fails.
    """
    status, accesses = count_kept(command, os.environ, way)
    if status:
        raise RunStopped(f"reads that were counted have ended with exit status {status}")
    each = accesses.columns
    named = [place for place, name in enumerate(accesses.paths) if Path(name).name == path.name]
    rows = np.isin(each["path"], named) & (each["operation"] == KNOWN["open"])
    return int(np.count_nonzero(rows & (each["has_failed"] == 0)))


def main() -> None:
    """Read as the second argument says, by the reader that the first one names."""
    name, text = sys.argv[1:]
    task_of(text).run(READERS[name])
