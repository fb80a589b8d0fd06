"""Runs by way of a fast tier, on a slow shared one and on a healthy one; and reads in turns.

    python -m benchmarks.bench_staging [--slow DIR] [--healthy DIR] [--fast /dev/shm] [--files 12]
    [--size 8MiB] [--iterations 10] [--repeats 3]

The slow tier is an emulated one that is made for this, or DIR. A pipeline with intermediates is a
chain of runs, each over the outputs of the one before, as in Hayot-Sasson, Dugré and Glatard
(2022): increments, whose intermediates lie on the slow tier, or on the fast one with `--stage-in`
for the first run and `--stage-out` for the last. What that gains is the place of the intermediates,
which a user chooses by `-o`; so the same chain is measured without the two flags as well, and what
they gain by themselves with a run whose tasks compute about as long as they read and write: flags
that do nothing do not pass. A single run that computes nothing tells on either tier what staging
costs where nothing is gained. Reads in turns, and first reads that are put off, are tried with
tasks that do nothing else, and with tasks that compute as long as all of them read. All ways take
turns, inputs leave the page cache before each, and the outputs of all are compared. Ratios are of
one turn; their median counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

import hyperslab
from benchmarks.emulated import emulated
from benchmarks.gates import Gates
from hyperslab.cli.parse import parse_size
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.mounts import file_system
from hyperslab.storage.tiers.file_systems import IN_MEMORY
from hyperslab.testing.functions import add
from hyperslab.units import show_bytes, show_seconds

LEAST_GAIN = 3.0
LEAST_GAIN_OF_FLAGS = 1.15
MOST_COST = 1.05
MOST_COST_SLOW = 1.3
"On a tier whose bandwidth is used up, what is tried first, and read back, takes its time there."
DEGRADED = Settings(bandwidth=60e6, latency_s=0.001, metadata_s=0.001)
"A shared tier that others use, too: for all clients, each request, each operation on names."
LONGER = 10
"Times as many files for the healthy tier, on which runs are short: what is tried first is a part."
MORE = 3
"Times as many turns there, where the difference that counts is small."
SLOTS = 4
"Slots of the runs whose reads take turns: most of the time they wait."
READERS = 1
STAGGER_S = 0.1
COMPUTING = 2
"Times as many files for the run by which the flags gain: the first blocks are not staged."
COMPUTE_S = 0.5
"Time that a task computes: about that in which the slots read a file each from the slow tier."
Way = Callable[[Path], list[Path]]
"Makes outputs below a folder, of inputs that are known to it."


def main() -> None:
    arguments = _arguments()
    _require_disk(arguments.healthy)
    gates = Gates()
    nbytes = parse_size("--size", arguments.size)
    repeats = arguments.repeats
    with _slow(arguments.slow) as place, _own_folder(place) as slow:
        inputs = _images(slow / "in", COMPUTING * arguments.files, nbytes)
        gain = _flags(inputs, slow, arguments.fast, repeats)
        what = "one run that computes, on a slow tier: without the flags / with them"
        gates.at_least(what, gain, LEAST_GAIN_OF_FLAGS)
        few = inputs[: arguments.files]
        _chain(few, slow, arguments, gates)
        cost = _single("slow", few, slow, arguments.fast, repeats)
        gates.at_most("one run on a slow tier: staged / not staged", cost, MOST_COST_SLOW)
        _turns("slow", few, slow, repeats)
    with _own_folder(arguments.healthy) as healthy:
        inputs = _images(healthy / "in", LONGER * arguments.files, nbytes)
        cost = _single("healthy", inputs, healthy, arguments.fast, MORE * repeats)
        gates.at_most("one run on a healthy tier: staged / not staged", cost, MOST_COST)
        _turns("healthy", inputs[: arguments.files], healthy, repeats)
    gates.close()


def _require_disk(place: Path) -> None:
    """End with a sentence where the healthy tier is memory: what staging costs there tells nothing
    of a disk.
    """
    kind = file_system(str(place))
    if kind in IN_MEMORY:
        raise SystemExit(f"--healthy {place} is in memory ({kind}): give a directory on a disk")


@contextmanager
def _slow(asked: Path | None) -> Iterator[Path]:
    """The directory that was asked for, or one on an emulated tier."""
    if asked is not None:
        yield asked
        return
    with emulated("throttled", DEGRADED) as place:
        yield place


@contextmanager
def _own_folder(place: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slow", type=Path, default=None)
    parser.add_argument("--healthy", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--fast", default="/dev/shm")
    parser.add_argument("--files", type=int, default=12)
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
    fast, iterations = arguments.fast, arguments.iterations

    def all_on_slow(out: Path) -> list[Path]:
        made: Sequence[Path] = inputs
        for number in range(iterations):
            made = _increment(made, out / str(number), {})
        return list(made)

    def by_hand(out: Path) -> list[Path]:
        return _between(inputs, out, fast, iterations, {}, {})

    def staged(out: Path) -> list[Path]:
        first, last = {"stage_in": fast}, {"stage_out": fast}
        return _between(inputs, out, fast, iterations, first, last)

    repeats = arguments.repeats
    ratio = _compared("chain on slow tier", inputs, slow, all_on_slow, staged, repeats)
    what = f"{iterations} runs in a chain: all on the slow tier / by way of the fast one"
    gates.at_least(what, ratio, LEAST_GAIN)
    _compared("the same chain without flags", inputs, slow, by_hand, staged, repeats)


def _between(
    inputs: Sequence[Path],
    out: Path,
    fast: str,
    iterations: int,
    first: Mapping[str, Any],
    last: Mapping[str, Any],
) -> list[Path]:
    """Runs in a chain whose intermediates lie on the fast tier, and go when they were read; the
    first and the last one have flags of their own.
    """
    made: Sequence[Path] = inputs
    with tempfile.TemporaryDirectory(prefix="hyperslab-bench-", dir=fast) as between:
        for number in range(iterations - 1):
            made = _increment(made, Path(between, str(number)), {} if number else first)
            shutil.rmtree(Path(between, str(number - 1)), ignore_errors=True)
        return _increment(made, out / str(iterations - 1), last)


def _flags(inputs: Sequence[Path], slow: Path, fast: str, repeats: int) -> float:
    """Time of one run without flags over that with both, of tasks that compute: what they read and
    write comes and goes meanwhile.
    """
    both = {"workers": 1, "stage_in": fast, "stage_out": fast}
    plain = _computing(inputs, COMPUTE_S, {"workers": 1})
    staged = _computing(inputs, COMPUTE_S, both)
    return _compared("one run that computes, slow", inputs, slow, plain, staged, repeats)


def _single(name: str, inputs: Sequence[Path], folder: Path, fast: str, repeats: int) -> float:
    """Time of one run with both flags over that without."""
    ways = {"stage_in": fast, "stage_out": fast}

    def plain(out: Path) -> list[Path]:
        return _increment(inputs, out / "plain", {})

    def staged(out: Path) -> list[Path]:
        return _increment(inputs, out / "staged", ways)

    return _compared(f"one run, {name}", inputs, folder, staged, plain, repeats)


def _turns(name: str, inputs: Sequence[Path], folder: Path, repeats: int) -> None:
    """What reading in turns, and beginning one after the other, gains or costs."""
    for seconds in (0.0, COMPUTE_S):
        for word, more in (
            (f"{READERS} reader at a time", {"readers_per_device": READERS}),
            (f"first reads {STAGGER_S:g} s apart", {"stagger": STAGGER_S}),
        ):
            what = f"{word}, {name}, computing {seconds:g} s"
            plain = _computing(inputs, seconds, {})
            in_turns = _computing(inputs, seconds, more)
            _compared(what, inputs, folder, in_turns, plain, repeats)


def _computing(inputs: Sequence[Path], seconds: float, more: Mapping[str, Any]) -> Way:
    """Runs whose tasks take so long beside their input and output."""

    def way(out: Path) -> list[Path]:
        pipeline = hyperslab.Pipeline([str(path) for path in inputs]).map(add, seconds=seconds)
        return _run(pipeline, out / "out", {"workers": SLOTS, **more})

    return way


def _increment(inputs: Sequence[Path], out: Path, more: Mapping[str, Any]) -> list[Path]:
    pipeline = hyperslab.Pipeline([str(path) for path in inputs]).map("increment")
    return _run(pipeline, out, more)


def _run(pipeline: hyperslab.Pipeline, out: Path, more: Mapping[str, Any]) -> list[Path]:
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
