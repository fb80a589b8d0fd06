"""Runs by way of a fast tier, on a slow shared one and on a healthy one; and reads in turns.

    python -m benchmarks.bench_staging --slow DIR [--healthy DIR] [--fast /dev/shm] [--files 24]
    [--size 8MiB] [--iterations 10] [--repeats 3]

DIR is a folder on an emulated tier (`hyperslab tiers emulate`), or on a real one. A pipeline with
intermediates is a chain of runs, each over the outputs of the one before, as in Hayot-Sasson,
Dugré and Glatard (2022): increments, whose intermediates lie on the slow tier, or on the fast one
with `--stage-in` for the first run and `--stage-out` for the last. A single run on a healthy tier
tells what staging costs where nothing is gained. All ways take turns, inputs leave the page cache
before each, and the outputs of all are compared. Ratios are of one turn; their median counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

import hyperslab
from benchmarks.gates import Gates
from hyperslab.cli.parse import parse_size
from hyperslab.units import show_bytes, show_seconds

LEAST_GAIN = 3.0
MOST_COST = 1.05
LONGER = 5
"Times as many files for the healthy tier, on which runs are short: what is tried first is a part."
READERS = 1
STAGGER_S = 0.1
Way = Callable[[Path], list[Path]]
"Makes outputs below a folder, of inputs that are known to it."


def main() -> None:
    arguments = _arguments()
    gates = Gates()
    nbytes = parse_size("--size", arguments.size)
    slow = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.slow))
    healthy = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.healthy))
    try:
        _chain(_images(slow / "in", arguments.files, nbytes), slow, arguments, gates)
        _single(
            _images(healthy / "in", LONGER * arguments.files, nbytes), healthy, arguments, gates
        )
        for name, folder in (("slow", slow), ("healthy", healthy)):
            _turns(name, sorted((folder / "in").iterdir()), folder, arguments)
    finally:
        shutil.rmtree(slow)
        shutil.rmtree(healthy)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slow", required=True)
    parser.add_argument("--healthy", default=None)
    parser.add_argument("--fast", default="/dev/shm")
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--size", default="8MiB")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def _images(folder: Path, number: int, nbytes: int) -> list[Path]:
    """Images of uint16 that do not compress."""
    folder.mkdir()
    rng = np.random.default_rng(number)
    side = 128
    paths = []
    for n in range(number):
        values = rng.integers(0, 2**15, (side, side, nbytes // 2 // side**2), dtype=np.uint16)
        paths.append(folder / f"in{n:03}.nii")
        nib.save(nib.Nifti1Image(values, np.eye(4)), paths[-1])  # type: ignore[no-untyped-call]
    return paths


def _chain(inputs: Sequence[Path], slow: Path, arguments: argparse.Namespace, gates: Gates) -> None:
    """A pipeline whose intermediates are files."""

    def all_on_slow(out: Path) -> list[Path]:
        made: Sequence[Path] = inputs
        for number in range(arguments.iterations):
            made = _increment(made, out / str(number), {})
        return list(made)

    def staged(out: Path) -> list[Path]:
        between = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.fast))
        last = arguments.iterations - 1
        made: Sequence[Path] = inputs
        try:
            for number in range(arguments.iterations):
                more: dict[str, Any] = {}
                place = between / str(number)
                if number == 0:
                    more["stage_in"] = arguments.fast
                if number == last:
                    more["stage_out"] = arguments.fast
                    place = out / str(number)
                made = _increment(made, place, more)
                if number:
                    shutil.rmtree(between / str(number - 1))
        finally:
            shutil.rmtree(between)
        return list(made)

    ratios = _compared("chain on slow tier", inputs, slow, all_on_slow, staged, arguments.repeats)
    what = f"{arguments.iterations} runs in a chain: all on the slow tier / by way of the fast one"
    gates.at_least(what, ratios, LEAST_GAIN)


def _single(
    inputs: Sequence[Path], folder: Path, arguments: argparse.Namespace, gates: Gates
) -> None:
    """One run where nothing is to be gained."""
    ways = {"stage_in": arguments.fast, "stage_out": arguments.fast}

    def plain(out: Path) -> list[Path]:
        return _increment(inputs, out / "plain", {})

    def staged(out: Path) -> list[Path]:
        return _increment(inputs, out / "staged", ways)

    ratio = _compared("one run, healthy", inputs, folder, staged, plain, arguments.repeats)
    gates.at_most("one run on a healthy tier: staged / not staged", ratio, MOST_COST)


def _turns(name: str, inputs: Sequence[Path], folder: Path, arguments: argparse.Namespace) -> None:
    """What reading in turns, and beginning one after the other, gains or costs."""

    def plain(out: Path) -> list[Path]:
        return _increment(inputs, out / "plain", {})

    for word, more in (
        (f"{READERS} reader at a time", {"readers_per_device": READERS}),
        (f"first reads {STAGGER_S:g} s apart", {"stagger": STAGGER_S}),
    ):

        def in_turns(out: Path, more: Mapping[str, Any] = more) -> list[Path]:
            return _increment(inputs, out / "turns", more)

        _compared(f"{word}, {name}", inputs, folder, in_turns, plain, arguments.repeats)


def _increment(inputs: Sequence[Path], out: Path, more: Mapping[str, Any]) -> list[Path]:
    pipeline = hyperslab.Pipeline([str(path) for path in inputs]).map("increment")
    result = hyperslab.run(pipeline.write(out), blocks=1, report=False, **more)
    return sorted(Path(path) for path in result.outputs)


def _compared(
    word: str, inputs: Sequence[Path], folder: Path, first: Way, second: Way, repeats: int
) -> float:
    """The median ratio of two ways that take turns, after one that is not counted; who begins
    changes, too.
    """
    ratios = []
    ways = {"first": first, "second": second}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        times = {}
        contents = {}
        for name in sorted(ways, reverse=turn % 2 == 0):
            times[name], contents[name] = _timed(ways[name], inputs, folder / "out")
        assert contents["first"] == contents["second"], f"{word}: the outputs differ"
        if turn:
            ratios.append(times["first"] / times["second"])
            for name, seconds in times.items():
                taken[name].append(seconds)
    ratio = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    shown = [show_seconds(statistics.median(each)) for each in taken.values()]
    total = show_bytes(sum(path.stat().st_size for path in inputs))
    print(f"{word} ({total}): {shown[0]} / {shown[1]} = {ratio:.2f} ({spread})", flush=True)
    return ratio


def _timed(way: Way, inputs: Sequence[Path], out: Path) -> tuple[float, list[int]]:
    """Seconds that a way takes, and checksums of what it made."""
    out.mkdir()
    for path in inputs:
        _forget(path)
    os.sync()
    began = time.perf_counter()
    made = way(out)
    seconds = time.perf_counter() - began
    content = [hash(path.read_bytes()) for path in made]
    shutil.rmtree(out)
    return seconds, content


def _forget(path: Path) -> None:
    """Drop a file from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
