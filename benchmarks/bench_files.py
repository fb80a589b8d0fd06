"""The cost of counting operations on files: programs alone and counted in every way, in turns.

    python -m benchmarks.bench_files [--files 2000] [--repeats 5] [--folder DIR]

`nothing` ends as soon as it has started: it is what a way takes to begin and to end. `names` makes,
looks at, reads and removes so many small files one after the other, and nothing else: no program
asks for more. `reader` reads 64 MB in blocks of 64 KiB, `python` starts and imports NumPy,
`computing` adds numbers up. Of each repetition the ratio of the time counted to the time alone is
taken, and of these the median; of `names` also the processor time that each operation takes more,
the counter's and this program's with it, without what the way takes to begin and to end.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.arguments import sized
from benchmarks.gates import Gates
from hyperslab.apps.files.counting import count_files
from hyperslab.errors import UsageError
from hyperslab.storage.accounting import bpf, strace
from hyperslab.storage.accounting.choosing import OF_EACH, WAYS, Chosen, choose
from hyperslab.units import show_seconds

MOST_COST = {"computing": 1.1, "python": 3.0}
"Programs that do little with files, and what counting each operation may make of their time."
MOST_SHARE = 0.5
"What counting an operation in the kernel may take of a processor, over what it takes by strace."
NAMES = """
import os, sys
for number in range(int(sys.argv[1])):
    file = os.open(f"f{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.write(file, b"x" * 100)
    os.pread(file, 100, 0)
    os.close(file)
    os.stat(f"f{number}")
    os.unlink(f"f{number}")
"""
OPERATIONS = 6
"Operations of `names` on each file."
READER = """
import os
file = os.open("data", os.O_RDONLY)
while os.read(file, 65536):
    pass
"""
COMPUTING = "sum(number * number for number in range(40_000_000))"


class Taken(NamedTuple):
    """What a program has taken."""

    wall_s: float
    processor_s: float
    "Of the program, of who counts, and of what puts the counts together."


def main() -> None:
    """Measure, print, and end with status 1 where a gate does not hold."""
    parser = sized(__doc__, "64MB", repeats=5)
    parser.add_argument("--files", type=int, default=2000)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=asked.folder))
    gates = Gates()
    try:
        (folder / "data").write_bytes(random.Random(1).randbytes(64_000_000))
        ways = _ways(folder)
        begins: dict[str, float] = {}
        for name, code in _programs(asked.files).items():
            times = _measured(code, folder, ways, asked.repeats)
            _tell(name, times, gates)
            longer = _longer(times)
            if name == "nothing":
                begins = longer
                _tell_each("of a processor to begin and to end", longer)
            if name == "names":
                operations = asked.files * OPERATIONS
                each = {way: (longer[way] - begins[way]) / operations for way in longer}
                _tell_each("of a processor for each operation", each)
                if all(way in each for way in OF_EACH):
                    share = each[bpf.WAY] / each[strace.WAY]
                    gates.at_most("an operation by bpf, over strace", share, MOST_SHARE)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _programs(files: int) -> Mapping[str, list[str]]:
    return {
        "nothing": [sys.executable, "-I", "-S", "-c", "pass"],
        "names": [sys.executable, "-I", "-S", "-c", NAMES, str(files)],
        "reader": [sys.executable, "-I", "-S", "-c", READER],
        "python": [sys.executable, "-c", "import numpy"],
        "computing": [sys.executable, "-I", "-S", "-c", COMPUTING],
    }


def _ways(folder: Path) -> dict[str, Chosen]:
    """The ways that work here."""
    found = {}
    for way in WAYS:
        try:
            found[way] = choose(way, folder if way == "fuse" else None)
        except UsageError as why:
            print(f"left out: {why}")
    return found


def _measured(
    command: list[str], folder: Path, ways: Mapping[str, Chosen], repeats: int
) -> dict[str, list[Taken]]:
    """What a program takes alone and by every way, in turns whose order is drawn."""
    before = Path.cwd()
    os.chdir(folder)
    runs: dict[str, Callable[[], object]] = {"alone": partial(subprocess.run, command, check=True)}
    runs |= {way: partial(count_files, command, chosen) for way, chosen in ways.items()}
    times: dict[str, list[Taken]] = {name: [] for name in runs}
    try:
        for turn in range(repeats + 1):
            for name in random.sample(list(runs), len(runs)):
                taken = _timed(runs[name])
                if turn:  # the first one fills caches
                    times[name].append(taken)
    finally:
        os.chdir(before)
    return times


def _timed(run: Callable[[], object]) -> Taken:
    began, before = time.perf_counter(), sum(os.times()[:4])
    run()
    return Taken(time.perf_counter() - began, sum(os.times()[:4]) - before)


def _longer(times: Mapping[str, list[Taken]]) -> dict[str, float]:
    """Seconds of a processor that a program takes more in each way."""
    medians = {way: statistics.median(one.processor_s for one in times[way]) for way in times}
    alone = medians.pop("alone")
    return {way: seconds - alone for way, seconds in medians.items()}


def _tell_each(what: str, seconds: Mapping[str, float]) -> None:
    for way, one in seconds.items():
        print(f"  {way}: {show_seconds(max(one, 0.0))} {what}")


def _tell(name: str, times: Mapping[str, list[Taken]], gates: Gates) -> None:
    alone = statistics.median(one.wall_s for one in times["alone"])
    print(f"{name}: alone {show_seconds(alone)}")
    for way, taken in times.items():
        if way == "alone":
            continue
        pairs = zip(taken, times["alone"], strict=True)
        ratio = statistics.median(one.wall_s / other.wall_s for one, other in pairs)
        print(f"  {way}: {ratio:.2f} times as long")
        if way in OF_EACH and name in MOST_COST:
            gates.at_most(f"{name} counted by {way}", ratio, MOST_COST[name])


if __name__ == "__main__":
    main()
