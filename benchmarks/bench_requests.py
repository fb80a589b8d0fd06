"""What a request of the kernel to scratch takes: on one processor, and over several.

    python -m benchmarks.bench_requests [--requests 20000] [--repeats 5]

A program that makes, writes or removes a file in scratch waits for another one, which serves it. On
one processor the kernel goes from the one to the other and back. With several it may wake the other
one on another processor, and that tells a virtual machine from one that is none: there each such
call takes a way through the host. Bytes are written to a file and its size is asked for, which are
two requests; the same in memory is none, and is taken off.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import hyperslab
from benchmarks.emulated import MEMORY
from hyperslab.units import show_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    processors = os.sched_getaffinity(0)
    placements = {"on one processor": {min(processors)}, f"over {len(processors)}": processors}
    taken: dict[str, list[float]] = {name: [] for name in placements}
    for _ in range(arguments.repeats):
        for name, allowed in placements.items():
            os.sched_setaffinity(0, allowed)
            taken[name].append(_seconds_of_a_request(arguments.requests))
    for name, seconds in taken.items():
        shown = [show_seconds(each) for each in (min(seconds), max(seconds))]
        median = show_seconds(statistics.median(seconds))
        print(f"a request to scratch {name}: {median} ({shown[0]} to {shown[1]})")


def _seconds_of_a_request(requests: int) -> float:
    """Seconds of a request to scratch that is made here, and served by a program started here."""
    with hyperslab.scratch(on=MEMORY, size="1GB") as folder:
        in_scratch = _seconds_of_calls(Path(folder), requests // 2)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        in_memory = _seconds_of_calls(Path(folder), requests // 2)
    return (in_scratch - in_memory) / 2


def _seconds_of_calls(folder: Path, times: int) -> float:
    """Seconds that it takes to write a byte to a file and to ask for its size."""
    path = folder / "file"
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(times):
            file.write(b"x")
            path.stat()
        return (time.perf_counter() - start) / times


if __name__ == "__main__":
    main()
