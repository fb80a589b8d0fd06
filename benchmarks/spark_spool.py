"""What Spark's tasks record of themselves: their phases and peak memory, in a file each, where a
folder is named.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperslab.machine.host import lines_of
from hyperslab.trace import Phase, recording, span

Function = Callable[[Any], Iterable[Any]]
"Of an iterator over a partition's elements."


def watched(function: Function, spool: str) -> Function:
    """The function, which writes its record into the folder `spool`; itself where that is ''."""
    return functools.partial(_whole, spool, function) if spool else function


def streamed(function: Function, spool: str) -> Function:
    """The same for a function whose results are taken one by one; what takes them is the phase
    `send`.
    """
    return functools.partial(_one_by_one, spool, function) if spool else function


def _whole(spool: str, function: Function, elements: Iterator[Any]) -> Iterator[Any]:
    with _record(spool):
        results = list(function(elements))
    return iter(results)


def _one_by_one(spool: str, function: Function, elements: Iterator[Any]) -> Iterator[Any]:
    with _record(spool):
        for result in function(elements):
            with span("send"):
                yield result


@contextmanager
def _record(spool: str) -> Iterator[list[Phase]]:
    from pyspark import TaskContext

    forget_peak()
    with recording() as phases:
        yield phases
    context = TaskContext.get()
    partition, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
    about = {"partition": partition, "attempt": attempt, "process": os.getpid(), "phases": phases}
    path = Path(spool) / f"{partition}-{attempt}-{os.getpid()}-{time.monotonic_ns()}.json"
    path.write_text(json.dumps({**about, "peak_nbytes": peak_nbytes()}), encoding="utf-8")


def forget_peak(process: int | str = "self") -> None:
    """Have the system count a process's peak of resident memory from now on (proc(5),
    clear_refs).
    """
    Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")


def peak_nbytes(process: int | str = "self") -> int:
    """The largest resident set of a process."""
    return _memory(process, "VmHWM:")


def resident_nbytes(process: int | str = "self") -> int:
    """The resident set of a process now."""
    return _memory(process, "VmRSS:")


def _memory(process: int | str, name: str) -> int:
    found = [line for line in lines_of(Path(f"/proc/{process}/status")) if line.startswith(name)]
    if not found and process == "self":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if not found:
        raise OSError(f"/proc/{process}/status has no {name}: the process has ended")
    return int(found[0].split()[1]) * 1024
