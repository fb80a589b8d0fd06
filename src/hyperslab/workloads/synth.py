"""synth: arrays of any size to try things on, the same voxels whatever the blocks, workers and order.

Every voxel depends only on the seed, the array's shape and the voxel's own indices: a sum of products of functions of
one index each (the structure), and noise from a counter-based generator, SplitMix64 (G. L. Steele, D. Lea, C. H.
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), keyed by seed and row and counted along the row.

- bigbrain: (x, y, z) uint16 with the proportions of the BigBrain at 40 micrometres, 3850 x 3025 x 3500: bright, even
  background, a folded cortex around white matter, nuclei and ventricles, each with the grain of stained cells
- climate: (time, latitude, longitude) float32, daily temperatures in kelvin: seasons, waves along the parallels, noise
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab import blockio, formats
from hyperslab.array import Array, ArraySink, Header
from hyperslab.errors import DoesNotFit, UsageError
from hyperslab.machine import Host
from hyperslab.partition import Layout, Partition, Rule, cut
from hyperslab.slab import Hyperslab
from hyperslab.workloads import scenery
from hyperslab.workloads.scenery import Scene

FORMATS = ("nii", "h5")
VOXEL_MM = 0.04
PIECE_ELEMENTS = 2**15
"Voxels computed at a time: their temporaries stay in the processor's cache."
WRITE_NBYTES = 2**24
"Bytes of a file that a worker computes and writes at a time."
_MEMORY_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be synthesised."""

    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    "Stored order: the array's axes from slowest to fastest."
    proportions: tuple[int, ...]
    most: tuple[float, ...]
    "Extent beyond which an axis does not grow."
    scene: Callable[[Sequence[Array], Sequence[int], int], Scene]
    "(indices along each stored axis, stored shape, seed) -> structure"
    finish: Callable[[Array, Array], Array]
    "(structure, uniform uint16 noise) -> values"


_FREE = math.inf
KINDS: Mapping[str, Kind] = {
    "bigbrain": Kind(np.dtype(np.uint16), (2, 1, 0), (3850, 3025, 3500), (_FREE,) * 3, scenery.brain, scenery.stain),
    "climate": Kind(
        np.dtype(np.float32), (0, 1, 2), (1461, 721, 1440), (_FREE, 721, 1440), scenery.weather, scenery.gusts
    ),
}


def shape_of(kind: str, size_bytes: int) -> tuple[int, ...]:
    """The shape of an array of about so many bytes, in the kind's proportions. Raises UsageError."""
    about = _kind(kind)
    elements = size_bytes // about.dtype.itemsize
    if elements < 1:
        raise UsageError(f"--size {size_bytes}: give at least {about.dtype.itemsize} bytes")
    scale = (elements / math.prod(about.proportions)) ** (1 / 3)
    shape = [max(1, min(most, round(p * scale))) for p, most in zip(about.proportions, about.most, strict=True)]
    first = shape[0] if math.inf in about.most[1:] else max(1, round(elements / math.prod(shape[1:])))
    return (int(first), *(int(n) for n in shape[1:]))


def block(kind: str, shape: Sequence[int], slab: Hyperslab, seed: int = 0) -> Array:
    """The region `slab` of the array of this kind, shape and seed, laid out as its files are."""
    about = _kind(kind)
    stored = slab.permute(about.axes)
    out = np.empty(stored.count, about.dtype)
    if out.size:
        _fill(out.reshape(-1, stored.count[-1]), about, [shape[a] for a in about.axes], stored, seed)
    return out.transpose(np.argsort(about.axes))


def _fill(rows: Array, about: Kind, shape: Sequence[int], stored: Hyperslab, seed: int) -> None:
    """Compute rows along the fastest axis, as many at a time as make a piece."""
    *slow, fast = (a + s * np.arange(n) for a, n, s in zip(stored.start, stored.count, stored.stride, strict=True))
    scene = about.scene([*slow, fast], shape, seed)
    counts, step = stored.count[:-1], max(1, PIECE_ELEMENTS // len(fast))
    for first in range(0, len(rows), step):
        chosen = np.unravel_index(np.arange(first, min(first + step, len(rows))), counts)
        row_numbers = np.ravel_multi_index([axis[i] for axis, i in zip(slow, chosen, strict=True)], shape[:-1])
        noise = _noise(row_numbers, fast, seed)
        rows[first : first + step] = about.finish(scene.rows(chosen), noise)


def _noise(rows: Array, columns: Array, seed: int) -> Array:
    """(rows, columns) uniform uint16: four columns share a 64-bit number, so that any part can be computed alone."""
    low, high = int(columns.min()) // 4, int(columns.max()) // 4 + 1
    keys = scenery.mix(rows.astype(np.uint64) * scenery.GAMMA + scenery.mix(np.array([seed % 2**64], np.uint64)))
    counters = np.arange(low, high, dtype=np.uint64) * scenery.GAMMA
    numbers = scenery.mix(np.add.outer(keys, counters))
    noise = numbers.astype("<u8", copy=False).view("<u2")
    stride = int(columns[1] - columns[0]) if len(columns) > 1 else 1
    return noise[:, Hyperslab((int(columns[0]) - 4 * low,), (len(columns),), (stride,)).slices()[0]]


def synth(
    kind: str,
    dest: str | os.PathLike[str],
    size_bytes: int,
    blocks: int | None = None,
    format: str = "nii",
    workers: int = 1,
    seed: int = 0,
) -> list[Path]:
    """Write an array of about `size_bytes` into the directory `dest`, as one file or cut into `blocks` of them.

    A block's name holds its first voxel, its header its place (0.04 mm voxels for bigbrain), so that the files make a
    mosaic. Workers are threads: what takes time here runs outside the interpreter's lock. Raises UsageError for wrong
    arguments, a directory that holds arrays already, or what does not fit; what a failure has left is removed.
    """
    about, shape = _kind(kind), shape_of(kind, size_bytes)
    if format not in FORMATS:
        raise UsageError(f"--format {format}: choose one of {', '.join(FORMATS)}")
    folder = Path(dest).absolute()
    partition = _partition(about, shape, blocks or 1)
    nbytes = math.prod(shape) * about.dtype.itemsize
    _require_room(folder, nbytes, partition, about, format, workers)
    folder.mkdir(parents=True, exist_ok=True)
    files = [(slab, _sink(kind, shape, slab, folder, format, len(partition))) for slab in partition]
    _write_all(files, functools.partial(block, kind, shape, seed=seed), workers)
    return [Path(sink.path) for _, sink in files]


Compute = Callable[[Hyperslab], Array]


def _write_all(files: Sequence[tuple[Hyperslab, ArraySink]], compute: Compute, workers: int) -> None:
    """Write files in parallel, or the parts of one file; all of them or none."""
    pool = ThreadPoolExecutor(max(1, workers))
    try:
        if len(files) == 1:
            _write(*files[0], compute, pool)
        else:
            list(pool.map(lambda file: _write(*file, compute), files))
    except BaseException:
        pool.shutdown(cancel_futures=True)
        for _, sink in files:
            Path(sink.path).unlink(missing_ok=True)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _write(slab: Hyperslab, sink: ArraySink, compute: Compute, pool: ThreadPoolExecutor | None = None) -> None:
    """Write one file: by parts of bounded size where its format allows, else from memory."""
    if sink.head is None:
        blockio.write(sink, compute(slab))
        return
    partial = str(Path(sink.path).with_name(f".{Path(sink.path).name}.synth.part"))
    layout = Layout(sink.shape, sink.axes, sink.dtype.itemsize, None)

    def write_part(part: Hyperslab) -> None:
        blockio.write_region(sink, partial, part, compute(part.shift(slab.start)))

    try:
        blockio.allocate(sink, partial)
        for _ in (pool.map if pool else map)(write_part, cut(layout, Rule("bytes", (WRITE_NBYTES,)), 0)):
            pass
        blockio.commit(sink, partial)
    except BaseException:
        if pool:
            pool.shutdown(cancel_futures=True)  # so that no part is written once its file is gone
        Path(partial).unlink(missing_ok=True)
        raise


def _partition(about: Kind, shape: Sequence[int], blocks: int) -> Partition:
    """Nearly equal blocks, as near to cubes as their number allows. Raises UsageError when there are too few voxels."""
    if blocks < 1:
        raise UsageError(f"--blocks {blocks}: give 1 or more")
    grids = [grid for grid in _grids(blocks) if all(n <= extent for n, extent in zip(grid, shape, strict=True))]
    if not grids:
        raise UsageError(f"--blocks {blocks}: an array of shape {'x'.join(map(str, shape))} has no such grid of blocks")
    best = min(grids, key=lambda grid: sum((extent / n) ** -1 for n, extent in zip(grid, shape, strict=True)))
    return cut(Layout(tuple(shape), about.axes, about.dtype.itemsize, None), Rule("blocks", best), 0)


def _grids(blocks: int) -> Iterator[tuple[int, int, int]]:
    """All ways to write a number as a product of three."""
    divisors = [n for n in range(1, math.isqrt(blocks) + 1) if blocks % n == 0]
    divisors = sorted({*divisors, *(blocks // n for n in divisors)})
    for a, b in itertools.product(divisors, divisors):
        if blocks % (a * b) == 0:
            yield a, b, blocks // (a * b)


def _sink(kind: str, shape: Sequence[int], slab: Hyperslab, folder: Path, format: str, files: int) -> ArraySink:
    """Where a block goes: its name holds its first voxel, padded so that names sort, its header its place."""
    corner = [f"{first:0{len(str(extent))}d}" for first, extent in zip(slab.start, shape, strict=True)]
    path = str(folder / f"{'_'.join([kind, *(corner if files > 1 else [])])}.{format}")
    header = Header(base_affine=_affine(shape) if kind == "bigbrain" else None).for_slab(slab)
    return formats.module(formats.format_of_name(path)).sink(path, slab.count, KINDS[kind].dtype, header)


def _affine(shape: Sequence[int]) -> Array:
    """Voxels of 0.04 mm with the middle of the array at the origin."""
    affine = np.diag([VOXEL_MM, VOXEL_MM, VOXEL_MM, 1.0])
    affine[:3, 3] = [-VOXEL_MM * (n // 2) for n in shape]
    return affine


def _require_room(folder: Path, nbytes: int, partition: Partition, about: Kind, format: str, workers: int) -> None:
    if workers < 1:
        raise UsageError(f"--workers {workers}: give 1 or more")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder}: is a file; name a directory")
    if folder.is_dir() and any(formats.is_array_file(str(path)) for path in folder.iterdir()):
        raise UsageError(f"--out {folder}: holds arrays already, which would mix with new ones; name another directory")
    parent = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(parent).free
    if nbytes > free:
        raise DoesNotFit(
            f"--size {nbytes}: only {free} bytes are free at {parent}; choose a smaller size or another place"
        )
    at_a_time = min(workers, len(partition))
    needed = 2 * at_a_time * math.prod(partition.largest) * about.dtype.itemsize
    allowed = int(_MEMORY_SHARE * Host.here().memory_bytes)
    if format == "h5" and needed > allowed:
        raise DoesNotFit(
            f"--format h5 writes each file from memory: {needed} bytes for {at_a_time} at a time, {allowed} allowed; "
            "give more --blocks, fewer --workers, or --format nii"
        )


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise UsageError(f"KIND '{name}': choose one of {', '.join(KINDS)}")
    return KINDS[name]
