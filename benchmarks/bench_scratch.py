"""Spark's shuffle on a storage whose metadata server is busy: its files there, in one file there,
and in memory.

    python -m benchmarks.bench_scratch [--tasks 50] [--metadata 300us] [--repeats 3]
                                       [--also loop several] [--without-raw] [--clients 1]
                                       [--processors 1]

The storage is an emulated tier on which operations on names take their time one after the other.
M map tasks hold every key of R reducers, which is the worst case: Spark makes M x R files and opens
3 x M x R, by its defaults; with M = R = 200 each turn on the tier as it is takes minutes. Three
Sparks of a user without rights take turns, whose files are: on the tier as it is; in scratch on the
tier, by a user namespace; and in memory. `--also` adds one of root, whose files are on a loop
device over an image on the tier, and one whose files are in two directories, in memory and on the
tier; `--without-raw` leaves out the one on the tier as it is, whose turns take longest. With
`--clients` so many Sparks shuffle at a time, until the last of them is done; with `--processors`
all is done on so many. Each has a turn that does not count; the ratio is that of medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from benchmarks.emulated import MEMORY, emulated
from benchmarks.gates import Gates
from benchmarks.nobody import NOBODY, as_nobody
from hyperslab.cli.parse import parse_duration
from hyperslab.storage.emulation.program import names_served
from hyperslab.storage.emulation.settings import Settings
from hyperslab.units import show_count, show_seconds

LEAST_SLOWDOWN = 5.0
MOST_SLOWDOWN = 1.3
MOST_BY_LOOP = 1.15
SIZE = "1GB"
RAW, SCRATCH, IN_MEMORY = "on the tier", "in scratch on the tier", "in memory"
LOOP, SEVERAL = "on a loop device on the tier", "in memory and on the tier"
_PLACES = (RAW, SCRATCH, IN_MEMORY)
_MORE = {"loop": LOOP, "several": SEVERAL}
_EXEC = "from hyperslab.cli import main; main()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, nargs="+", default=[50])
    parser.add_argument("--metadata", default="300us")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--also", nargs="+", choices=_MORE, default=[])
    parser.add_argument("--without-raw", action="store_true")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--processors", type=int)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.processors])
    usual = [name for name in _PLACES if not (name == RAW and arguments.without_raw)]
    places = (*usual, *(_MORE[name] for name in arguments.also))
    gates = Gates()
    settings = Settings(metadata_s=parse_duration("--metadata", arguments.metadata))
    with emulated("metadata", settings) as tier:
        tier.parent.chmod(0o755)  # nobody is to get there
        for tasks in arguments.tasks:
            _compare(tier, places, tasks, arguments, gates)
    gates.close()


def _compare(
    tier: Path, places: Sequence[str], tasks: int, given: argparse.Namespace, gates: Gates
) -> None:
    taken: dict[str, list[float]] = {}
    with ExitStack() as stack:
        sparks = {
            name: [stack.enter_context(_spark(name, tier, tasks)) for _ in range(given.clients)]
            for name in places
        }
        for spark in chain.from_iterable(sparks.values()):
            _require_ready(spark)
        for turn in range(given.repeats + 1):
            for name, clients in sparks.items():
                before = _operations(tier)
                seconds = _turn(clients)
                if turn:
                    taken.setdefault(name, []).append(seconds)
                else:
                    served = _operations(tier) - before
                    print(f"{name}: {served} operations on names of the tier", flush=True)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    shown = ", ".join(f"{name} {show_seconds(median)}" for name, median in medians.items())
    what = f"shuffle of M = R = {tasks}, {show_count(given.clients, 'client')}"
    print(f"{what}, {given.repeats} turns: {shown}", flush=True)
    memory = medians[IN_MEMORY]
    if RAW in medians:
        gates.at_least(f"{what}, {RAW} / {IN_MEMORY}", medians[RAW] / memory, LEAST_SLOWDOWN)
    gates.at_most(f"{what}, {SCRATCH} / {IN_MEMORY}", medians[SCRATCH] / memory, MOST_SLOWDOWN)
    if LOOP in medians:
        gates.at_most(f"{what}, {LOOP} / {IN_MEMORY}", medians[LOOP] / memory, MOST_BY_LOOP)
    if SEVERAL in medians:
        print(f"{what}, {SEVERAL} / {IN_MEMORY}: {medians[SEVERAL] / memory:.2f}", flush=True)


def _operations(tier: Path) -> int:
    """Operations on names and attributes that the tier has served so far."""
    served = names_served(str(tier))
    assert served is not None
    return served


@contextmanager
def _spark(name: str, tier: Path, tasks: int) -> Iterator[subprocess.Popen[str]]:
    """A Spark that starts, and waits for its turns; its temporary files go there."""
    program = [sys.executable, "-m", "benchmarks.shuffle_process", str(tasks), str(tasks)]
    with _folder(MEMORY) as fast, _folder(tier) as slow, _folder(Path("/run")) as runtime:
        words = ["env", f"XDG_RUNTIME_DIR={runtime}", *_directing(name, fast, slow), *program]
        start = _as_root if name == LOOP else as_nobody
        spark = start(words, stdin=subprocess.PIPE)
        try:
            yield spark
        finally:
            spark.communicate()


def _directing(name: str, fast: Path, slow: Path) -> Sequence[str]:
    """Words before a command that direct its temporary files to a place."""
    if name == SCRATCH:
        return _scratch(slow, "namespace")
    if name == LOOP:
        return _scratch(slow, "loop")
    folders = {RAW: [slow], IN_MEMORY: [fast], SEVERAL: [fast, slow]}
    return [f"SPARK_LOCAL_DIRS={','.join(map(str, folders[name]))}"]


def _as_root(words: Sequence[str], stdin: int) -> subprocess.Popen[str]:
    """Start a command of root."""
    return subprocess.Popen(
        words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _scratch(folder: Path, way: str) -> Sequence[str]:
    """Words before a command that has scratch on a storage, made in such a way."""
    given = ["--on", str(folder), "--size", SIZE, "--way", way]
    return [sys.executable, "-c", _EXEC, "scratch", "exec", *given, "--"]


@contextmanager
def _folder(above: Path) -> Iterator[Path]:
    """A folder of nobody, for a block."""
    place = Path(tempfile.mkdtemp(prefix="hyperslab-", dir=above))
    shutil.chown(place, NOBODY, NOBODY)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _require_ready(spark: subprocess.Popen[str]) -> None:
    assert spark.stdout is not None
    if spark.stdout.readline() != "ready\n":
        _, said = spark.communicate()
        raise SystemExit(f"Spark did not start: {said.splitlines()[-1]}")


def _turn(clients: Sequence[subprocess.Popen[str]]) -> float:
    """Seconds that a shuffle takes, of each at the same time: those of the last one."""
    for spark in clients:
        assert spark.stdin is not None
        spark.stdin.write("\n")
        spark.stdin.flush()
    return max(_seconds(spark) for spark in clients)


def _seconds(spark: subprocess.Popen[str]) -> float:
    """Seconds that a Spark says that it has taken."""
    assert spark.stdout is not None
    return float(spark.stdout.readline())


if __name__ == "__main__":
    main()
