"""Writers: hyperslab's and those of the formats' own libraries, in turn, on the project's two kinds
of voxels.

    python -m benchmarks.bench_write [--size 256MiB] [--repeats 7] [--folder DIR]

Every file is read back by its own library and compared before anything is timed. Every writer ends
with the file's bytes on storage (fsync), and writes a new file, in a new process that has the
values in memory: what one of them has taught the process's allocator of memory is not for the
other. Pairs in turn, medians.

Compressed: CPU seconds of one thread, and the sizes. Uncompressed: wall seconds of all regions,
allocation and commit included, against a loop of pwrite with fsync that writes the same bytes in
pieces of the same size.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np

import hyperslab
from benchmarks.arguments import sized
from benchmarks.gates import Gates
from benchmarks.reading_data import CHUNK, grain, structure
from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.cli.parse import parse_size

LEVEL = 1
LEAST_CPU_RATIO = 4.0
MOST_SIZE_RATIO = 1.01
LEAST_SPEED = 0.9
BLOCK_NBYTES = 32 * 2**20
Block = tuple[Hyperslab, Array]
Prepare = Callable[[Array], Callable[[], None]]
"From the values in memory to what writes them."
COMPRESSED = Encoding(chunks=CHUNK, compression="gzip", level=LEVEL)


@dataclass
class Writer:
    """One way to write a file, and what it took."""

    name: str
    path: Path
    prepare: Prepare
    values: Path
    "A .npy file."
    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    def once(self) -> None:
        self.path.unlink(missing_ok=True)
        os.sync()
        with get_context("spawn").Pool(1) as pool:
            cpu, wall = pool.apply(_timed, (self.prepare, self.values))
        self.cpu_s.append(cpu)
        self.wall_s.append(wall)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_s)

    @property
    def wall(self) -> float:
        return statistics.median(self.wall_s)


def main() -> None:
    arguments = _arguments()
    folder, gates = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder)), Gates()
    try:
        for make in (structure, grain):
            made = hyperslab.open(
                str(make(folder / make.__name__, parse_size("--size", arguments.size)).path)
            )
            voxels = np.asarray(made)
            _compressed(make.__name__, voxels, folder, arguments.repeats, gates)
            _gzipped(make.__name__, voxels, folder, arguments.repeats)
            if make is structure:
                _uncompressed(voxels, folder, arguments.repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    return sized(__doc__, "256MiB").parse_args()


def _compressed(kind: str, voxels: Array, folder: Path, repeats: int, gates: Gates) -> None:
    """HDF5 with shuffle and gzip."""
    values = np.ascontiguousarray(voxels.T)
    sink = formats.module("hdf5").sink(
        str(folder / "ours.h5"), values.shape, values.dtype, Header(), None, COMPRESSED
    )
    held = _saved(folder, values)
    ours = Writer("hyperslab", Path(sink.path), partial(_regions, sink), held)
    library = Writer("h5py", folder / "library.h5", partial(_h5py, folder / "library.h5"), held)
    _check([ours, library], _read_hdf5, values)
    _alternate([ours, library], repeats)
    sizes = ours.path.stat().st_size, library.path.stat().st_size
    title = f"HDF5, shuffle and gzip:{LEVEL}, {kind}"
    print(
        f"{title}: CPU {ours.cpu:.3f} and {library.cpu:.3f} s, wall {ours.wall:.3f} and"
        f" {library.wall:.3f} s"
    )
    print(f"     {sizes[0]:,} and {sizes[1]:,} bytes, ratio {sizes[0] / sizes[1]:.4f}")
    gates.at_least(
        f"{title}: CPU of h5py / hyperslab", _ratio(library.cpu_s, ours.cpu_s), LEAST_CPU_RATIO
    )
    gates.at_most(
        f"{title}: size of hyperslab's / h5py's file", sizes[0] / sizes[1], MOST_SIZE_RATIO
    )


def _gzipped(kind: str, voxels: Array, folder: Path, repeats: int) -> None:
    """A .nii.gz, against nibabel, at the same level."""
    sink = formats.module("nifti").sink(
        str(folder / "ours.nii.gz"), voxels.shape, voxels.dtype, Header(np.eye(4))
    )
    held = _saved(folder, voxels)
    ours = Writer("hyperslab", Path(sink.path), partial(_regions, sink), held)
    library = Writer(
        "nibabel", folder / "library.nii.gz", partial(_nibabel, folder / "library.nii.gz"), held
    )
    _check([ours, library], _read_nifti, voxels)
    _alternate([ours, library], repeats)
    sizes = ours.path.stat().st_size, library.path.stat().st_size
    ratio = _ratio(library.cpu_s, ours.cpu_s)
    print(f".nii.gz, {kind}: CPU {ours.cpu:.3f} and {library.cpu:.3f} s, ratio {ratio:.2f};")
    print(f"     {sizes[0]:,} and {sizes[1]:,} bytes, ratio {sizes[0] / sizes[1]:.4f}")


def _ratio(peer: list[float], ours: list[float]) -> float:
    """Of what two writers took, pair by pair; the median."""
    return statistics.median(a / b for a, b in zip(peer, ours, strict=True))


def _uncompressed(voxels: Array, folder: Path, repeats: int, gates: Gates) -> None:
    for suffix, kind, values in (
        ("nii", "nifti", voxels),
        ("h5", "hdf5", np.ascontiguousarray(voxels.T)),
    ):
        sink = formats.module(kind).sink(
            str(folder / f"ours.{suffix}"), values.shape, values.dtype, Header(np.eye(4))
        )
        held = _saved(folder, values)
        ours = Writer("hyperslab", Path(sink.path), partial(_regions, sink), held)
        plain = Writer("pwrite", folder / "plain.bin", partial(_pwrite, folder / "plain.bin"), held)
        ours.once()
        if not np.array_equal(np.asarray(hyperslab.open(sink.path)), values):
            raise AssertionError(f"{sink.path}: other values")
        ours.wall_s.clear()
        _alternate([ours, plain], 2 * repeats)
        ratio = _ratio(plain.wall_s, ours.wall_s)
        print(f".{suffix}: wall {ours.wall:.3f} s, pwrite with fsync {plain.wall:.3f} s")
        gates.at_least(f".{suffix}: speed of hyperslab / pwrite with fsync", ratio, LEAST_SPEED)


def _timed(prepare: Prepare, values: Path) -> tuple[float, float]:
    """In a process of its own: CPU and wall seconds of a write."""
    write = prepare(np.load(values))
    wall, cpu = time.perf_counter(), time.process_time()
    write()
    return time.process_time() - cpu, time.perf_counter() - wall


def _alternate(writers: list[Writer], repeats: int) -> None:
    for number in range(repeats):
        for writer in writers if number % 2 else writers[::-1]:
            writer.once()


def _check(writers: list[Writer], read: Callable[[Path], Array], values: Array) -> None:
    for writer in writers:
        writer.once()
        if not np.array_equal(read(writer.path), values):
            raise AssertionError(f"{writer.name} wrote other values")
        writer.cpu_s.clear()
        writer.wall_s.clear()


def _blocks(sink: ArraySink, values: Array) -> list[Block]:
    """The regions of tasks, and their values as tasks have them: in memory of their own, in the
    order of the file.
    """
    layout = Layout(sink.shape, sink.axes, sink.dtype.itemsize, sink.unit or None)
    slabs = cut(layout, Rule("bytes", (BLOCK_NBYTES,)), 0, sink.unit or (1,) * len(sink.shape))
    back = np.argsort(sink.axes)
    return [
        (slab, values[slab.slices()].transpose(sink.axes).copy(order="C").transpose(back))
        for slab in slabs
    ]


def _saved(folder: Path, values: Array) -> Path:
    np.save(folder / "values.npy", values)
    return folder / "values.npy"


def _regions(sink: ArraySink, values: Array) -> Callable[[], None]:
    return partial(_by_regions, sink, _blocks(sink, values))


def _h5py(path: Path, values: Array) -> Callable[[], None]:
    return partial(_by_h5py, path, values)


def _nibabel(path: Path, values: Array) -> Callable[[], None]:
    return partial(_by_nibabel, nib.Nifti1Image(values, np.eye(4)), path)  # type: ignore[no-untyped-call]


def _pwrite(path: Path, values: Array) -> Callable[[], None]:
    return partial(_by_pwrite, path, values)


def _by_regions(sink: ArraySink, blocks: list[Block]) -> None:
    """As tasks do, one after the other."""
    partial = f"{sink.path}.part"
    writing.allocate(sink, partial)
    writing.commit(
        sink, partial, [writing.write_region(sink, partial, slab, block) for slab, block in blocks]
    )


def _by_h5py(path: Path, values: Array) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "data",
            data=values,
            chunks=CHUNK,
            compression="gzip",
            compression_opts=LEVEL,
            shuffle=True,
        )
    _to_storage(path)


def _by_nibabel(image: nib.Nifti1Image, path: Path) -> None:
    nib.openers.Opener.default_compresslevel = LEVEL
    nib.save(image, path)
    _to_storage(path)


def _by_pwrite(path: Path, values: Array) -> None:
    data = (values if values.flags.c_contiguous else values.T).reshape(-1).view(np.uint8).data
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        for first in range(0, len(data), BLOCK_NBYTES):
            os.pwrite(fd, data[first : first + BLOCK_NBYTES], first)
        os.fsync(fd)
    finally:
        os.close(fd)


def _to_storage(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_nifti(path: Path) -> Array:
    image: Any = nib.load(path)
    return np.asarray(image.dataobj)


def _read_hdf5(path: Path) -> Array:
    with h5py.File(path) as file:
        return np.asarray(file["data"])


if __name__ == "__main__":
    main()
