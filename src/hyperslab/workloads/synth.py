"""synth: files of synthetic arrays, written in parallel: the same voxels whatever the blocks and
workers.
"""

from __future__ import annotations

import itertools
import math
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.partition import Layout, Partition, Rule, cut
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.errors import DoesNotFit, RunStopped, UsageError
from hyperslab.storage.location import local_folder
from hyperslab.workloads.volume import block, kind_of, shape_of

Format = Literal["nii", "h5"]
FORMATS: tuple[Format, ...] = get_args(Format)
VOXEL_MM = 0.04
WRITE_NBYTES = 2**24
"Bytes of a file that a worker computes and writes at a time."
WORKER_NBYTES = 2**26
"Bytes that make it worth to start a worker process."
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Part:
    """What one worker computes and writes at a time: part of a file."""

    kind: str
    shape: tuple[int, ...]
    seed: int
    region: Hyperslab
    "Region of the array."
    sink: ArraySink
    place: Hyperslab
    "Place in the file."
    partial: str
    "Path of the unfinished file."


def synth(
    kind: str,
    dest: str | os.PathLike[str],
    size_bytes: int,
    blocks: int | None = None,
    format: str = "nii",
    workers: int = 1,
    seed: int = 0,
) -> list[Path]:
    """Write an array of about `size_bytes` into the directory `dest`, as one file or cut into
    `blocks` of them.

    A block's name holds its first voxel, its header its place (0.04 mm voxels for bigbrain), so
    that the files make a mosaic. Raises UsageError for wrong arguments, for a directory that holds
    arrays already and for what does not fit, RunStopped when writing fails; what that has left is
    removed.
    """
    shape = shape_of(kind, size_bytes)
    if format not in FORMATS:
        raise UsageError(f"--format {format}: choose one of {', '.join(FORMATS)}")
    if workers < 1:
        raise UsageError(f"--workers {workers}: give 1 or more")
    folder = Path(local_folder(dest)).absolute()
    if blocks is None:
        blocks = 1
    partition = _partition(kind, shape, blocks)
    _require_room(folder, kind, partition)
    folder.mkdir(parents=True, exist_ok=True)
    files = {slab: _sink(kind, shape, slab, folder, format, len(partition)) for slab in partition}
    parts = [part for slab, sink in files.items() for part in _parts(kind, shape, seed, slab, sink)]
    _write_files(parts, workers)
    return [Path(sink.path) for sink in files.values()]


def _parts(
    kind: str, shape: tuple[int, ...], seed: int, slab: Hyperslab, sink: ArraySink
) -> Iterator[Part]:
    """The parts of a file, of bounded size where its format allows."""
    path = Path(sink.path)
    partial = str(path.with_name(f".{path.name}.synth.part"))
    layout = Layout(sink.shape, sink.axes, sink.dtype.itemsize, None)
    for place in cut(layout, Rule("bytes", (WRITE_NBYTES,)), 0):
        yield Part(kind, shape, seed, place.shift(slab.start), sink, place, partial)


def _write_files(parts: Sequence[Part], workers: int) -> None:
    """Write all files, or none."""
    unfinished = {part.partial: part.sink for part in parts}
    try:
        for partial, sink in unfinished.items():
            writing.allocate(sink, partial)
        _write_parts(parts, workers)
        for partial, sink in unfinished.items():
            writing.commit(sink, partial, [])
    except BaseException as error:
        for path in {path for part in parts for path in (part.partial, part.sink.path)}:
            Path(path).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RunStopped(f"writing stopped: {error}; what was written is removed") from error
        raise


def _write_parts(parts: Sequence[Part], workers: int) -> None:
    nbytes = sum(part.region.size * part.sink.dtype.itemsize for part in parts)
    workers = min(workers, len(parts), math.ceil(nbytes / WORKER_NBYTES))
    if workers == 1:
        _write_all(parts)
        return
    shares = [parts[number::workers] for number in range(workers)]
    running: list[subprocess.Popen[bytes]] = []
    try:
        running += (_start() for _ in shares)
        for process, share in zip(running, shares, strict=True):
            _hand_over(process, share)
        _await(running)
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _write_all(parts: Iterable[Part]) -> None:
    for part in parts:
        values = block(part.kind, part.shape, part.region, part.seed)
        writing.write_region(part.sink, part.partial, part.place, values)


def _start() -> subprocess.Popen[bytes]:
    """Start a worker: a program of its own, so that a script that calls us needs no `if __name__ ==
    "__main__"`.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    program = f"from {__name__} import work; work({os.getpid()})"
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


def _hand_over(process: subprocess.Popen[bytes], share: Sequence[Part]) -> None:
    try:
        with _pipe(process.stdin) as pipe:
            pickle.dump(list(share), pipe)
    except BrokenPipeError:
        pass  # it died, which waiting for it reports
    process.stdin = None


def _await(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for all workers; raise what the first failing one has raised."""
    waiting = list(running)
    while waiting:
        ended = [process for process in waiting if process.poll() is not None]
        for process in ended:
            if process.returncode:
                said = _pipe(process.stdout).read()
                if said:
                    raise pickle.loads(said)
                raise RunStopped(f"a worker ended with status {process.returncode}")
        waiting = [process for process in waiting if process not in ended]
        time.sleep(_POLL_S if waiting else 0)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def work(parent: int) -> None:
    """What a worker process runs: write the parts that come on standard input, as long as the
    parent lives.
    """
    try:
        parts = pickle.load(sys.stdin.buffer)
        _write_all(itertools.takewhile(lambda _: os.getppid() == parent, parts))
    except Exception as error:  # noqa: BLE001  # it is raised again by the parent
        sys.stdout.buffer.write(pickle.dumps(error))
        sys.exit(1)


def _partition(kind: str, shape: Sequence[int], blocks: int) -> Partition:
    """Nearly equal blocks, as near to cubes as their number allows. Raises UsageError when there
    are too few voxels.
    """
    if blocks < 1:
        raise UsageError(f"--blocks {blocks}: give 1 or more")
    grids = [
        grid
        for grid in _grids(blocks)
        if all(n <= extent for n, extent in zip(grid, shape, strict=True))
    ]
    if not grids:
        raise UsageError(
            f"--blocks {blocks}: an array of {' x '.join(map(str, shape))} cannot be cut into a"
            " grid of so many"
        )
    best = min(
        grids, key=lambda grid: sum(n / extent for n, extent in zip(grid, shape, strict=True))
    )
    about = kind_of(kind)
    return cut(
        Layout(tuple(shape), about.axes, about.dtype.itemsize, None), Rule("blocks", best), 0
    )


def _grids(blocks: int) -> Iterator[tuple[int, int, int]]:
    """All ways to write a number as a product of three."""
    small = [n for n in range(1, math.isqrt(blocks) + 1) if blocks % n == 0]
    divisors = sorted({*small, *(blocks // n for n in small)})
    for a, b in itertools.product(divisors, divisors):
        if blocks % (a * b) == 0:
            yield a, b, blocks // (a * b)


def _sink(
    kind: str, shape: Sequence[int], slab: Hyperslab, folder: Path, format: str, files: int
) -> ArraySink:
    """Where a block goes: its name holds its first voxel, padded so that names sort, its header its
    place.
    """
    corner = [
        f"{first:0{len(str(extent))}d}" for first, extent in zip(slab.start, shape, strict=True)
    ]
    name = kind
    if files > 1:
        name = "_".join([kind, *corner])
    path = str(folder / f"{name}.{format}")
    header = Header()
    if kind == "bigbrain":
        header = Header(base_affine=_affine(shape))
    module = formats.module(formats.format_of_name(path))
    return module.sink(path, slab.count, kind_of(kind).dtype, header.for_slab(slab))


def _affine(shape: Sequence[int]) -> Array:
    """Voxels of 0.04 mm with the middle of the array at the origin."""
    affine = np.diag([VOXEL_MM, VOXEL_MM, VOXEL_MM, 1.0])
    affine[:3, 3] = [-VOXEL_MM * (n // 2) for n in shape]
    return affine


def _require_room(folder: Path, kind: str, partition: Partition) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; name a directory")
    if folder.is_dir() and any(formats.is_array_file(str(path)) for path in folder.iterdir()):
        raise UsageError(
            f"--out {folder} holds arrays already, which would mix with new ones; name another"
            " directory"
        )
    parent = next(path for path in (folder, *folder.parents) if path.is_dir())
    nbytes = math.prod(partition.shape) * kind_of(kind).dtype.itemsize
    free = shutil.disk_usage(parent).free
    if nbytes > free:
        raise DoesNotFit(
            f"--size: {nbytes} bytes to write, {free} free at {parent}; give a smaller size or"
            " another --out"
        )
