"""Splitting, rechunking and joining: `hyperslab convert` and what is done without it, in turn.

    python -m benchmarks.bench_split [--size 1GiB] [--blocks 5x5x5] [--memory 1GiB] [--files 500]
    [--repeats 5]

Every way is a process of its own, from the start of its interpreter until its files are on storage
(fsync). What it wrote is compared with the source through nibabel or h5py before anything is timed.
The ways take turns, A B C A B C; ratios are of one turn, their median is printed. Memory is that of
the largest process. Files are joined at three numbers of them (100,000 with --files 6250): where
time per file does not grow with the number, time is linear.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np

import hyperslab
from benchmarks.arguments import sized
from benchmarks.gates import Gates
from benchmarks.reading_data import DATASET, as_hdf5, grain, structure
from benchmarks.writer import numbers
from hyperslab.cli.parse import parse_size

CONVERT = [sys.executable, "-c", "from hyperslab.cli import main; main()", "convert", "--quiet"]
TIMED = [sys.executable, "-m", "benchmarks.timed_command"]
BY_HAND = [sys.executable, "-m", "benchmarks.writer"]
OUT = object()
"Stands in a command for the path of what it makes."
CHUNKS, LEVEL = "32x128x128", 1
PLANE = (1, 128, 128)
"Shape of one of the tiny files, 32 KiB."
GROWTH = 4
LEAST_LINEARITY = 0.8
"""Time per file of a quarter of the files over that of all: 1 where time is linear, a quarter where
it is quadratic.
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run of a command took; seconds and bytes."""

    wall_s: float
    cpu_s: float
    peak_nbytes: int


@dataclass(slots=True)
class Way:
    """A command that makes a file, or a directory of files, in a folder of its own."""

    name: str
    out: Path
    command: Sequence[object]
    taken: list[Taken] = field(default_factory=list)

    def once(self) -> None:
        """Run it in a fresh folder. Raises SystemExit with what it said when it fails."""
        shutil.rmtree(self.out.parent, ignore_errors=True)
        self.out.parent.mkdir(parents=True)
        os.sync()  # no write-back of the turn before is under way
        command = [*TIMED, self.out, *(self.out if part is OUT else part for part in self.command)]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.name} ended with status {done.returncode}:\n{done.stderr}")
        self.taken.append(Taken(**json.loads(done.stdout)))

    def median(self, what: str) -> float:
        return float(statistics.median(getattr(taken, what) for taken in self.taken))


def main() -> None:
    arguments = _arguments()
    folder, gates = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder)), Gates()
    nbytes, repeats = parse_size("--size", arguments.size), arguments.repeats
    print(f"h5py {h5py.__version__}, nibabel {nib.__version__}, load {os.getloadavg()[0]:.1f}")
    try:
        _split(folder / "split", nbytes, arguments.blocks, arguments.memory, repeats)
        _rechunk(folder / "rechunk", nbytes, arguments.memory, repeats)
        _join(
            folder / "join",
            [arguments.files * GROWTH**n for n in range(3)],
            arguments.memory,
            repeats,
            gates,
        )
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = sized(__doc__, "1GiB", repeats=5)
    parser.add_argument("--blocks", default="5x5x5")
    parser.add_argument("--memory", default="1GiB", help="that hyperslab may use for blocks")
    parser.add_argument(
        "--files", type=int, default=500, help="tiny files to join; then 4 and 16 times as many"
    )
    return parser.parse_args()


def _split(folder: Path, nbytes: int, blocks: str, memory: str, repeats: int) -> None:
    volume = grain(folder, nbytes).path
    flags = ("--blocks", blocks, "--format", "nii", "--memory", memory)
    ways = [
        Way("hyperslab", folder / "ours" / "blocks", (*CONVERT, volume, OUT, *flags)),
        Way(
            "nibabel slicer",
            folder / "slicer" / "blocks",
            (*BY_HAND, "split-slicer", volume, OUT, blocks),
        ),
        Way(
            "nibabel dataobj",
            folder / "dataobj" / "blocks",
            (*BY_HAND, "split-dataobj", volume, OUT, blocks),
        ),
    ]
    title = f"split {volume.stat().st_size / 1e6:.0f} MB of NIfTI into {blocks} blocks"
    _compare(title, ways, lambda out: _check_blocks(volume, out, numbers(blocks)), repeats)


def _rechunk(folder: Path, nbytes: int, memory: str, repeats: int) -> None:
    source = as_hdf5(structure(folder, nbytes), "shuffle+gzip").path
    flags = (
        "--chunks",
        CHUNKS.replace("x", ","),
        "--compression",
        f"gzip:{LEVEL}",
        "--memory",
        memory,
    )
    ways = [
        Way("hyperslab", folder / "ours" / "new.h5", (*CONVERT, source, OUT, *flags)),
        Way("h5py", folder / "h5py" / "new.h5", (*BY_HAND, "rechunk", source, OUT, CHUNKS, LEVEL)),
    ]
    if shutil.which("h5repack"):
        how = (
            "-l",
            f"{DATASET}:CHUNK={CHUNKS}",
            "-f",
            f"{DATASET}:SHUF",
            "-f",
            f"{DATASET}:GZIP={LEVEL}",
        )
        ways.append(
            Way("h5repack", folder / "h5repack" / "new.h5", ("h5repack", *how, source, OUT))
        )
    else:
        print(
            "h5repack is not installed (Debian's package hdf5-tools): rechunking is compared with"
            " h5py alone"
        )
    title = (
        f"rechunk {hyperslab.open(str(source)).nbytes / 1e6:.0f} MB of HDF5 from 64x64x64 to"
        f" {CHUNKS}, gzip:{LEVEL}"
    )
    _compare(title, ways, lambda out: _check_dataset(source, out), repeats)


def _join(folder: Path, counts: Sequence[int], memory: str, repeats: int, gates: Gates) -> None:
    ours, others = [], []
    for count in counts:
        parts, file = _make_files(folder / "parts" / str(count), count), f"all_{count}.h5"
        command = (*CONVERT, parts, OUT, "--axis", 0, "--memory", memory)
        ours.append(Way(f"hyperslab {count:,}", folder / f"ours {count}" / file, command))
        others.append(
            Way(f"h5py {count:,}", folder / f"h5py {count}" / file, (*BY_HAND, "join", parts, OUT))
        )
    numbers_of = ", ".join(f"{count:,}" for count in counts)
    _take_turns(f"join {numbers_of} files of 32 KiB", [*ours, *others], _check_joined, repeats)
    for way, other, count in zip(ours, others, counts, strict=True):
        print(
            f"     {count:,} files: {way.median('wall_s') / count * 1e3:.3f} ms a file;"
            f" {_ratios(way, other)}"
        )
    for (few, many), count in zip(itertools.pairwise(ours), counts, strict=False):
        turns = zip(few.taken, many.taken, strict=True)
        linearity = statistics.median(GROWTH * one.wall_s / more.wall_s for one, more in turns)
        gates.at_least(
            f"time per file of {count:,} / of {GROWTH * count:,}", linearity, LEAST_LINEARITY
        )
        more_s = many.median("wall_s") - few.median("wall_s")
        print(
            f"     {more_s / (GROWTH - 1) / count * 1e3:.3f} ms for each file more than {count:,}"
        )


def _compare(title: str, ways: Sequence[Way], check: Callable[[Path], None], repeats: int) -> None:
    ours, *others = ways
    _take_turns(title, ways, check, repeats)
    for other in others:
        print(f"     {_ratios(ours, other)}")


def _take_turns(
    title: str, ways: Sequence[Way], check: Callable[[Path], None], repeats: int
) -> None:
    """The first turn is checked and not counted."""
    print(f"\n{title}:")
    for way in ways:
        way.once()
        check(way.out)
        way.taken.clear()
    for _ in range(repeats):
        for way in ways:
            way.once()
    for way in ways:
        best, peak = (
            min(taken.wall_s for taken in way.taken),
            max(taken.peak_nbytes for taken in way.taken),
        )
        print(
            f"     {way.name:<16} CPU {way.median('cpu_s'):7.3f} s  wall"
            f" {way.median('wall_s'):7.3f} s (best {best:.3f} s), {peak / 1e6:5.0f} MB, files of"
            f" {_size(way.out) / 1e6:.1f} MB"
        )


def _ratios(ours: Way, other: Way) -> str:
    """How much longer the other takes, turn by turn."""
    pairs = list(zip(ours.taken, other.taken, strict=True))
    wall = statistics.median(theirs.wall_s / own.wall_s for own, theirs in pairs)
    cpu = statistics.median(theirs.cpu_s / own.cpu_s for own, theirs in pairs)
    return f"{other.name} / {ours.name}: wall {wall:.2f}, CPU {cpu:.2f}"


def _size(path: Path) -> int:
    files = path.glob("*.*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _check_blocks(volume: Path, out: Path, parts: Sequence[int]) -> None:
    """Every voxel is in one block, at its millimetres."""
    whole: Any = nib.load(volume)
    inverse, found = np.linalg.inv(whole.affine), set()
    for path in out.glob("*.nii"):
        block: Any = nib.load(path)
        corner = np.rint((inverse @ block.affine[:, 3])[:3]).astype(int)
        assert np.allclose((whole.affine @ [*corner, 1])[:3], block.affine[:3, 3], atol=1e-3), path
        box = tuple((int(a), int(a) + n) for a, n in zip(corner, block.shape, strict=True))
        expected = whole.dataobj[tuple(slice(*ends) for ends in box)]
        assert block.get_data_dtype() == whole.get_data_dtype(), path
        assert np.array_equal(np.asarray(block.dataobj), expected), f"{path} differs"
        found.add(box)
    axes = [sorted({box[axis] for box in found}) for axis in range(3)]
    assert tuple(map(len, axes)) == tuple(parts), "there are other blocks than asked for"
    assert found == set(itertools.product(*axes)), "a block is missing"
    for intervals, extent in zip(axes, whole.shape, strict=True):
        edges = [0, *(end for _, end in intervals)]
        assert [start for start, _ in intervals] == edges[:-1], "blocks overlap or leave a gap"
        assert edges[-1] == extent, "a block is missing"


def _check_dataset(source: Path, out: Path) -> None:
    with h5py.File(source, "r") as old, h5py.File(out, "r") as new:
        a, b = old[DATASET], _only_dataset(new)
        assert (b.shape, b.dtype, b.chunks) == (a.shape, a.dtype, numbers(CHUNKS)), out
        assert (b.compression, b.compression_opts) == ("gzip", LEVEL), out
        for first in range(0, len(a), 64):
            assert np.array_equal(a[first : first + 64], b[first : first + 64]), f"{out} differs"


def _check_joined(out: Path) -> None:
    with h5py.File(out, "r") as file:
        joined = _only_dataset(file)
        assert joined.shape == (int(out.stem.rpartition("_")[2]), *PLANE[1:]), out
        for number, plane in enumerate(joined):
            assert np.array_equal(plane, _plane(number)[0]), f"{out} differs at {number}"


def _only_dataset(file: Any) -> Any:
    (found,) = (item for item in file.values() if isinstance(item, h5py.Dataset))
    return found


def _make_files(folder: Path, count: int) -> Path:
    """Tiny HDF5 files that differ in their values alone: one is made by h5py, the others are that
    with other bytes.
    """
    folder.mkdir(parents=True)
    first = folder / "frame_0.h5"
    with h5py.File(first, "w") as file:
        file[DATASET] = _plane(0)
        offset = file[DATASET].id.get_offset()
    data = bytearray(first.read_bytes())
    for number in range(1, count):
        plane = _plane(number).tobytes()
        data[offset : offset + len(plane)] = plane
        (folder / f"frame_{number}.h5").write_bytes(data)
    return folder


def _plane(number: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    size = PLANE[1] * PLANE[2]
    return (
        ((np.arange(size, dtype=np.uint64) * 7 + number * 31) % 65521)
        .astype(np.uint16)
        .reshape(PLANE)
    )


if __name__ == "__main__":
    main()
