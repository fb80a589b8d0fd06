"""This checkout against another one: whether a change to the code has made anything slower.

    python -m benchmarks.before_after TREE [--rounds 8] [--size 256MiB] [--only NAMES]

TREE is a checkout of the version before, with its compiled core in `src/hyperslab`. Both are asked
in turns, in random order in each round, on the same files: to read regions of a NIfTI file and of
an HDF5 file of deflated chunks, in processes that stay; to run the main job and a conversion, as
whole commands; and to load matrices into Spark. Values are compared in a first round, which is not
counted. Ratios are those of a pair, after / before, below 1 where this checkout takes less; their
medians are told, with their range. Processor time is of all processes that take part. The exit
status is 1 where the median of processor time is above MOST. On a busy machine times mean little,
and processor time some percent less than it seems: let nothing else run.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hyperslab
from benchmarks import reading_data
from benchmarks.tree_process import REGIONS
from hyperslab.cli.parse import parse_size

ROOT = Path(__file__).resolve().parents[1]
ASKED = Path(__file__).with_name("tree_process.py")
SIDES = ("before", "after")
MOST = 1.03
"Median of processor time after / before, at most."
SPARK_SHARES = {"plain": 2, "gzip": 1}
"Size of the matrices for Spark, in multiples of --size."
COMMAND = "from hyperslab.cli import main; main()"
JOBS = {
    "run": ("run", "increment", "{image}", "-o", "{out}", "--blocks", "16", "--no-report", "-q"),
    "convert": ("convert", "{image}", "{out}/a.h5", "--chunks", "64,64,64", "-q"),
}
JOBS_OPTIONS = {"run": (), "convert": ("--compression", "gzip:1", "--no-report")}
GROUPS = ("reading", *JOBS, "spark")


class Took(NamedTuple):
    """What one side took for one thing."""

    wall_s: float
    cpu_s: float
    checksum: str
    "Of what came of it; '' where nobody has looked."


Ask = Callable[[str, bool], Took]
"Have a side, by its name, do a thing; and have its values looked at, too."


class Asked:
    """A process of a checkout, which does what it is told."""

    def __init__(self, tree: Path, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(ASKED), str(tree), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env=environment(tree),
        )
        self._answer()

    def ask(self, order: Mapping[str, Any]) -> Took:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return Took(**self._answer())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        """The next line that is one; Java has lines of its own."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("\t"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise SystemExit(f"a process ended with exit code {self._process.wait()}")


def main() -> None:
    arguments = parsed()
    trees = dict(zip(SIDES, (arguments.tree, ROOT), strict=True))
    nbytes = parse_size("--size", arguments.size)
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    try:
        print(f"load {os.getloadavg()[0]:.1f}; {arguments.rounds} rounds", flush=True)
        with things(trees, arguments.only, folder, nbytes) as asked:
            taken = played(asked, arguments.rounds)
    finally:
        shutil.rmtree(folder)
    slower = told(taken)
    if slower:
        raise SystemExit(f"more than {MOST:g} times the processor time: {', '.join(slower)}")


def parsed(line: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments. Raises SystemExit for a tree that cannot be compared with."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--size", default="256MiB", help="of the image; %(default)s by default")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--folder", help="where the files go; by default the system's")
    arguments = parser.parse_args(line)
    arguments.tree = arguments.tree.resolve()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: give 1 or more")
    if not (arguments.tree / "src" / "hyperslab" / "__init__.py").is_file():
        parser.error(f"{arguments.tree}: there is no src/hyperslab in it: give a checkout")
    if not list((arguments.tree / "src" / "hyperslab").glob("_native.*so")):
        parser.error(f"{arguments.tree} has no compiled core: run 'make lint' in it")
    return arguments


def environment(tree: Path) -> dict[str, str]:
    """The environment of a process that imports a checkout, and no other one."""
    paths = os.pathsep.join([str(tree / "src"), str(tree)])
    return {**os.environ, "PYTHONPATH": paths, "JAVA_TOOL_OPTIONS": ""}


@contextmanager
def things(
    trees: Mapping[str, Path], only: Sequence[str], folder: Path, nbytes: int
) -> Iterator[dict[str, Ask]]:
    """What is compared, by its name; the processes that are asked live as long."""
    image = reading_data.structure(folder, nbytes).path
    found: dict[str, Ask] = {}
    with ExitStack() as stack:
        if "reading" in only:
            found |= _reads(_processes(stack, trees, "reading"), image, nbytes)
        for job in JOBS:
            if job in only:
                found[job] = functools.partial(_job, trees, job, image, folder / "out")
        if "spark" in only:
            found |= _loads(_processes(stack, trees, "spark"), folder, nbytes)
        yield found


def _processes(stack: ExitStack, trees: Mapping[str, Path], kind: str) -> dict[str, Asked]:
    found = {side: Asked(tree, kind) for side, tree in trees.items()}
    for process in found.values():
        stack.callback(process.close)
    return found


def _reads(processes: Mapping[str, Asked], image: Path, nbytes: int) -> dict[str, Ask]:
    packed = reading_data.as_hdf5(reading_data.Stored(image, "", nbytes), "shuffle+gzip")
    places = {
        "NIfTI": (image, str(image)),
        "HDF5": (packed.path, f"{packed.path}::{packed.dataset}"),
    }
    found: dict[str, Ask] = {}
    for name, (path, url) in places.items():
        for what in REGIONS:
            order = {"what": what, "path": str(path), "url": url}
            found[f"read {what} {name}"] = functools.partial(_asked, processes, order)
    return found


def _loads(processes: Mapping[str, Asked], folder: Path, nbytes: int) -> dict[str, Ask]:
    from benchmarks import spark_data
    from benchmarks.spark_ways import BLOCKS, ROWS, SOURCE

    matrices = {
        "plain": spark_data.plain(folder, SPARK_SHARES["plain"] * nbytes, False),
        "gzip": spark_data.gzip(folder, SPARK_SHARES["gzip"] * nbytes),
    }
    loads = [
        (BLOCKS, "plain"),
        (BLOCKS, "gzip"),
        (ROWS, "plain"),
        (SOURCE, "plain"),
        (SOURCE, "gzip"),
    ]
    found: dict[str, Ask] = {}
    for way, kind in loads:
        told = {**dataclasses.asdict(matrices[kind]), "path": "", "parquet": None}
        order = {"what": way, "path": str(matrices[kind].path), "matrix": told}
        found[f"Spark {way} {kind}"] = functools.partial(_asked, processes, order)
    return found


def _asked(
    processes: Mapping[str, Asked], order: Mapping[str, Any], side: str, checks: bool
) -> Took:
    return processes[side].ask({**order, "checks": checks})


def _job(
    trees: Mapping[str, Path], job: str, image: Path, out: Path, side: str, checks: bool
) -> Took:
    """A command from its start to its end, with all processes that it has waited for."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = [word.format(image=image, out=out) for word in (*JOBS[job], *JOBS_OPTIONS[job])]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], env=environment(trees[side]), cwd=trees[side]
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{side}: {' '.join(words)} ended with {process.returncode}")
    return Took(wall_s, used.ru_utime + used.ru_stime, _sum_of(out) if checks else "")


def _sum_of(out: Path) -> str:
    """The sum of all values of all files that a command has made."""
    files = sorted(path for path in out.iterdir() if path.suffix in (".nii", ".h5"))
    views = [hyperslab.open(str(path)) for path in files]
    return str(sum(int(np.sum(view[...], dtype=np.int64)) for view in views))


Taken = dict[str, dict[str, list[Took]]]
"What was taken in each round, by the name of a thing and by side."


def played(asked: Mapping[str, Ask], rounds: int) -> Taken:
    """Every thing on both sides in each round, after one in which their values are compared."""
    for name, ask in asked.items():
        before, after = (ask(side, True).checksum for side in SIDES)
        if not before or before != after:
            raise SystemExit(f"{name}: the values differ: {before} before, {after} after")
    taken: Taken = {name: {side: [] for side in SIDES} for name in asked}
    for number in range(rounds):
        for name in random.sample(list(asked), len(asked)):
            for side in random.sample(SIDES, len(SIDES)):
                taken[name][side].append(asked[name](side, False))
        print(f"round {number + 1} of {rounds}", flush=True)
    return taken


def told(taken: Taken) -> list[str]:
    """Print what was found. Returns the names of what takes more processor time than before."""
    slower = []
    print(f"{'':<28} {'before':>9} {'after':>9}   after / before, of pairs")
    for name, sides in taken.items():
        _tell(f"{name:<28}", "time", {side: [one.wall_s for one in sides[side]] for side in SIDES})
        used = {side: [one.cpu_s for one in sides[side]] for side in SIDES}
        if _tell(f"{name:<28}", "processor", used) > MOST:
            slower.append(name)
    return slower


def _tell(name: str, what: str, seconds: Mapping[str, Sequence[float]]) -> float:
    """Print what both sides took in each round. Returns the median of after / before."""
    before, after = (seconds[side] for side in SIDES)
    ratios = [late / early for early, late in zip(before, after, strict=True)]
    usual = statistics.median(ratios)
    print(
        f"{name} {statistics.median(before):8.3f}s {statistics.median(after):8.3f}s"
        f"   {usual:.3f} ({min(ratios):.3f} to {max(ratios):.3f}) {what}"
    )
    return usual


if __name__ == "__main__":
    main()
