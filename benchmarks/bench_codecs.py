"""Filters of HDF5: hyperslab's own decoders and h5py with hdf5plugin, each in a process of its own,
in turn.

    python -m benchmarks.bench_codecs [--size 128MiB] [--repeats 7] [--folder DIR] [WORD ...]

Prints CPU and wall seconds of one thread (medians) and their ratio for every filter, or for those
whose name has one of the words, on the project's two kinds of voxels; all values are compared. The
gate is a filter's reason to be decoded here: one thread of hyperslab takes less CPU time than it
would through the library, which is what h5py takes and about a third more, as blocks are then
copied. Several threads, which h5py keeps waiting for each other, come on top.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import h5py
import hdf5plugin

import hyperslab
from benchmarks.arguments import sized
from benchmarks.bench_read import Reader
from benchmarks.gates import Gates
from benchmarks.reader_process import closing
from benchmarks.reading_data import CHUNK, DATASET, LEVEL, Stored, grain, structure
from hyperslab.cli.parse import parse_size

NAMES = ("hyperslab", "h5py")
LEAST = 0.8
"CPU time of h5py over hyperslab's, where that is not less."
INNER: tuple[Literal["blosclz", "lz4", "lz4hc", "zlib", "zstd"], ...] = (
    "blosclz",
    "lz4",
    "lz4hc",
    "zlib",
    "zstd",
)
INSIDE: tuple[Literal["none", "lz4", "zstd"], ...] = ("none", "lz4", "zstd")
SHUFFLES = {"": 0, "shuffle+": 1, "bitshuffle+": 2}


def main() -> None:
    arguments = _arguments()
    os.environ["HDF5_PLUGIN_PATH"] = hdf5plugin.PLUGIN_PATH
    folder, gates = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder)), Gates()
    try:
        for make in (structure, grain):
            voxels = make(folder / make.__name__, parse_size("--size", arguments.size))
            for name, options in _filters():
                if not arguments.words or any(word in name for word in arguments.words):
                    _compare(
                        f"{name}, {make.__name__}",
                        _as_hdf5(voxels, options),
                        gates,
                        arguments.repeats,
                    )
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = sized(__doc__, "128MiB")
    parser.add_argument("words", nargs="*", help="words of the names of filters; all by default")
    return parser.parse_args()


def _filters() -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of filters, and how h5py asks for them."""
    yield "shuffle", {"shuffle": True}
    yield "fletcher32", {"fletcher32": True}
    for before in ("", "shuffle+"):
        packed: dict[str, Any] = {"shuffle": bool(before)}
        yield f"{before}deflate", {**packed, "compression": "gzip", "compression_opts": LEVEL}
        yield f"{before}lzf", {**packed, "compression": "lzf"}
        yield f"{before}lz4", {**packed, **hdf5plugin.LZ4()}
        yield f"{before}zstd", {**packed, **hdf5plugin.Zstd(clevel=3)}
    for inner in INNER:
        for before, number in SHUFFLES.items():
            yield f"blosc: {before}{inner}", dict(hdf5plugin.Blosc(cname=inner, shuffle=number))
    for packing in INSIDE:
        yield f"bitshuffle: {packing}", dict(hdf5plugin.Bitshuffle(cname=packing))


def _as_hdf5(of: Stored, options: dict[str, Any]) -> Stored:
    """The same values in an HDF5 file with a filter; the last such file is written over."""
    path, view = of.path.with_name("filtered.h5"), hyperslab.open(str(of.path))
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            DATASET, view.shape[::-1], view.dtype, chunks=CHUNK, **options
        )
        for first in range(0, len(dataset), CHUNK[0]):
            dataset[first : first + CHUNK[0]] = view[..., first : first + CHUNK[0]].T
    return Stored(path, DATASET, of.nbytes)


def _compare(title: str, stored: Stored, gates: Gates, repeats: int) -> None:
    with closing([Reader(name, stored) for name in NAMES]) as readers:
        assert len({reader.checksum for reader in readers}) == 1, "the readers differ"
        for _ in range(repeats):
            for reader in readers:
                reader.read()
    ours, library = readers
    left = (
        ""
        if hyperslab.open(f"{stored.path}::{DATASET}").source.chunks is not None
        else ", left to h5py"
    )
    share = stored.path.stat().st_size / stored.nbytes
    print(
        f"{title} ({share:.0%}){left}: CPU {ours.cpu:.3f} and {library.cpu:.3f} s, ratio"
        f" {library.cpu / ours.cpu:.2f};"
    )
    print(
        f"     wall {ours.wall:.3f} and {library.wall:.3f} s, ratio {library.wall / ours.wall:.2f}"
    )
    if not left:
        gates.at_least(f"{title}: CPU of h5py / hyperslab", library.cpu / ours.cpu, LEAST)


if __name__ == "__main__":
    main()
