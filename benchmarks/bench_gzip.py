"""Slabs of a .nii.gz: hyperslab and rapidgzip with an index each, and nibabel, each in a process of
its own, in turn.

    python -m benchmarks.bench_gzip [--size 256MiB] [--slab 8MiB] [--repeats 7] [--folder DIR]

Prints seconds of wall and CPU time (median and best) for slabs at places in the middle and for the
whole array, with one thread and with two, and the gates: medians of the ratios of one turn.
hyperslab opens file and index for every read, as a task does; rapidgzip has opened them before the
clock runs. All values are compared.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arguments import sized
from benchmarks.gates import Gates
from benchmarks.reader_process import ReaderProcess, closing
from benchmarks.reading_data import grain, structure
from hyperslab import formats
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading import gzipindex
from hyperslab.cli.parse import parse_size

LEVEL = 6
ALLOWED = 1.25
"Times of rapidgzip that hyperslab may take."
OURS, THEIRS, REFERENCE = "hyperslab", "rapidgzip", "nibabel"


@dataclass(frozen=True, slots=True)
class Image:
    """A compressed image and the indexes of it."""

    source: ArraySource
    indexes: dict[str, str]

    @property
    def planes_nbytes(self) -> int:
        return self.source.nbytes // self.source.shape[2]


class Reader(ReaderProcess):
    """A process that reads the planes it is told to."""

    def __init__(self, name: str, image: Image, threads: int) -> None:
        arguments = (name, image.source.url, image.indexes[name], threads)
        super().__init__(f"{name} {threads}T", "benchmarks.gzip_reader", *arguments)

    def read(self, first: int, count: int, counts: bool) -> str:
        """Read planes and keep the times, if they count; the checksum of the values."""
        return str(self.ask(f"{first} {count}", counts=counts)["checksum"])


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    gates, nbytes = Gates(), parse_size("--size", arguments.size)
    try:
        for kind, make in (("structure", structure), ("grain", grain)):
            image = _image(kind, make(folder / kind, nbytes).path, gates)
            slab = max(1, parse_size("--slab", arguments.slab) // image.planes_nbytes)
            _compare(f"{kind}, {slab} planes in the middle", image, slab, arguments.repeats, gates)
            _compare(f"{kind}, whole", image, image.source.shape[2], arguments.repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = sized(__doc__, "256MiB")
    parser.add_argument("--slab", default="8MiB")
    return parser.parse_args()


def _image(kind: str, plain: Path, gates: Gates) -> Image:
    """Compress an image, index it with both, and say what that takes beside one pass of Python's
    gzip.
    """
    packed = plain.with_name(f"{kind}.nii.gz")
    with plain.open("rb") as file, gzip.open(packed, "wb", LEVEL) as stream:
        shutil.copyfileobj(file, stream, 1024**2)
    plain.unlink()
    own, other = packed.with_name("hyperslab.index"), packed.with_name("rapidgzip.index")
    began = time.process_time()
    source = gzipindex.index(formats.open_source(str(packed)), own)
    ours_s = time.process_time() - began
    passes_s = _one_pass(packed)
    _export(packed, other)
    print(
        f"\n{kind}: {source.nbytes / 1e6:.0f} MB in {source.file_size / 1e6:.0f} MB, load"
        f" {os.getloadavg()[0]:.1f}; index {own.stat().st_size / 1e6:.1f} MB in {ours_s:.2f} s of"
        f" CPU, Python's gzip {passes_s:.2f} s"
    )
    gates.at_least(f"{kind}: CPU of one pass of Python's gzip / of indexing", passes_s / ours_s, 1)
    return Image(source, {OURS: str(own), THEIRS: str(other), REFERENCE: ""})


def _one_pass(packed: Path) -> float:
    began = time.process_time()
    with gzip.open(packed) as stream:
        while stream.read(1024**2):
            pass
    return time.process_time() - began


def _export(packed: Path, index: Path) -> None:
    import rapidgzip

    with rapidgzip.open(str(packed), parallelization=1) as file:
        while file.read(16 * 1024**2):
            pass
        file.export_index(str(index))


def _compare(title: str, image: Image, count: int, repeats: int, gates: Gates) -> None:
    """Read in turn, A B C A B C ..., all the same planes; the first turn warms up and is not
    counted.
    """
    names = [(OURS, 1), (THEIRS, 1), (OURS, 2), (THEIRS, 2), (REFERENCE, 1)]
    print(f"{title}:")
    places, last = random.Random(0), image.source.shape[2] - count  # the same in every run
    with closing([Reader(name, image, threads) for name, threads in names]) as readers:
        for turn in range(repeats + 1):
            first = places.randint(last // 4, 3 * last // 4)
            assert len({reader.read(first, count, turn > 0) for reader in readers}) == 1, (
                "the readers differ"
            )
    _report(title, readers, count * image.planes_nbytes, gates)


def _report(title: str, readers: Sequence[Reader], nbytes: int, gates: Gates) -> None:
    print("\n".join(reader.line(nbytes) for reader in readers))
    for threads, ours, theirs in ((1, readers[0], readers[1]), (2, readers[2], readers[3])):
        for kind in ("cpu_s", "wall_s"):
            ratio = _ratio(getattr(theirs, kind), getattr(ours, kind))
            name = "CPU" if kind == "cpu_s" else "wall"
            gates.at_least(f"{title}: {name} of {THEIRS} / {OURS}, {threads}T", ratio, 1 / ALLOWED)
    print(f"     {REFERENCE} / {OURS}, CPU, 1T: {_ratio(readers[4].cpu_s, readers[0].cpu_s):.2f}")


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the ratios turn by turn."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


if __name__ == "__main__":
    main()
