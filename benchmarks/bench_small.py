"""Small slabs at random places: a view that keeps its file open against h5py, opened once and
opened for every read.

    python -m benchmarks.bench_small [--size 256MiB] [--reads 1000] [--repeats 7] [--folder DIR]

Each slab is 4 KiB, 2 x 2 x 512 voxels of uint16. The three take turns over the same slabs in one
process; CPU time per read is the median over the repeats. All values are compared first.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import hyperslab
from benchmarks.arguments import sized
from benchmarks.gates import Gates
from benchmarks.reading_data import DATASET, Stored, as_hdf5, structure
from hyperslab.cli.parse import parse_size

BOX = (2, 2, 512)
Slab = tuple[slice, ...]
Read = Callable[[Slab], Any]


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    gates = Gates()
    try:
        tissue = structure(folder, parse_size("--size", arguments.size))
        for kind in ("contiguous", "chunked", "shuffle+gzip"):
            _compare(kind, as_hdf5(tissue, kind), arguments.reads, arguments.repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = sized(__doc__, "256MiB")
    parser.add_argument("--reads", type=int, default=1000)
    return parser.parse_args()


def _compare(kind: str, stored: Stored, reads: int, repeats: int, gates: Gates) -> None:
    url = f"{stored.path}::{DATASET}"
    with h5py.File(stored.path, "r") as file:
        dataset, view = file[DATASET], hyperslab.open(url, values="stored")
        slabs = _slabs(dataset.shape, reads if kind != "shuffle+gzip" else max(1, reads // 10))
        ways: dict[str, Read] = {
            "hyperslab": lambda slab: view[slab],
            "h5py": lambda slab: dataset[slab],
            "h5py reopened": lambda slab: _reopened(stored.path, slab),
        }
        for slab in slabs[:50]:
            assert len({way(slab).tobytes() for way in ways.values()}) == 1, "the readers differ"
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, way in ways.items():
                taken[name].append(_per_read(way, slabs))
    ours, once, again = (statistics.median(times) for times in taken.values())
    print(
        f"{kind}: hyperslab {ours * 1e6:.0f} us, h5py {once * 1e6:.0f} us, h5py reopened"
        f" {again * 1e6:.0f} us a read"
    )
    gates.at_least(f"4 KiB of {kind}: h5py opened once / hyperslab", once / ours, 0.5)
    if kind != "shuffle+gzip":  # there the chunk is what costs
        gates.at_least(
            f"4 KiB of {kind}: h5py reopened for every read / hyperslab", again / ours, 5
        )


def _slabs(shape: tuple[int, ...], reads: int) -> list[Slab]:
    random = np.random.default_rng(1)
    starts = zip(
        *(random.integers(0, n - size + 1, reads) for n, size in zip(shape, BOX, strict=True)),
        strict=True,
    )
    return [
        tuple(slice(int(a), int(a) + size) for a, size in zip(start, BOX, strict=True))
        for start in starts
    ]


def _reopened(path: Path, slab: Slab) -> Any:
    with h5py.File(path, "r") as file:
        return file[DATASET][slab]


def _per_read(way: Read, slabs: list[Slab]) -> float:
    began = time.process_time()
    for slab in slabs:
        way(slab)
    return (time.process_time() - began) / len(slabs)


if __name__ == "__main__":
    main()
