"""Assembly: a file from the fragments that tasks have staged, region by region, by whoever has
time.

A region is read from the files that hold parts of it, and written by the same sinks as any run's.
So it may be done by tasks of Spark, or by threads of one process, and twice.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.byteranges import BUFFER_NBYTES, PREAD_COST_NBYTES
from hyperslab.arrays.order import empty
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.blocks.positioned import OpenFile, opened, read_region
from hyperslab.blocks.writing import Written
from hyperslab.connectors.spark import fragment_files
from hyperslab.connectors.spark.destination import Destination
from hyperslab.connectors.spark.fragments import (
    Numbers,
    Staged,
    extent,
    first_of_each,
    gathered,
    require_alike,
    require_tiled,
)
from hyperslab.errors import BlockError, UsageError

REGION_NBYTES = 64 * 1024**2
"Bytes of values that one task gathers and writes, unless a chunk of the file has more."
_SHORT_NBYTES = 16 * 1024
"Runs of rows that are shorter are read with what lies between them."
_TABLE_NBYTES = 512
"""Runs of rows that are shorter make a region smaller: the table of them would be a large part of
what it takes.
"""
_LEAST_NBYTES = 4 * 1024**2
_TABLE, _UNFINISHED = "fragments.npy", ".part"


@dataclass(frozen=True, slots=True)
class Assembly:
    """What a task has to know to write a region."""

    sink: ArraySink
    partial: str
    "The allocation."
    folder: str
    files: tuple[str, ...]
    is_reversed: tuple[bool, ...]
    longest: int
    "Extent of the longest fragment along the first axis."
    run_nbytes: int
    "What usually lies together of rows; 0 where fragments are blocks."

    @property
    def is_short(self) -> bool:
        """Fragments are rows, few of which lie together."""
        return 0 < self.run_nbytes < _SHORT_NBYTES

    def regions(self) -> list[Hyperslab]:
        """What there is to write, each whole chunks of the file; less at a time where there is more
        to know of it.
        """
        sink = self.sink
        nbytes = REGION_NBYTES
        if 0 < self.run_nbytes < _TABLE_NBYTES:
            least = min(REGION_NBYTES, _LEAST_NBYTES)
            nbytes = max(least, REGION_NBYTES * self.run_nbytes // _TABLE_NBYTES)
        layout = Layout(sink.shape, sink.axes, sink.dtype.itemsize, sink.unit or None)
        return list(cut(layout, Rule("bytes", (nbytes,)), nbytes, sink.unit))


def prepare(destination: Destination, folder: str, outcomes: Sequence[Staged]) -> Assembly:
    """Describe and allocate the file of all that was staged.

    Raises UsageError unless that is one array, each element given once, that the format can hold;
    OSError.
    """
    staged = first_of_each(outcomes)
    where = destination.path
    require_alike(staged)
    if not staged:
        shape = destination.shape
        dtype = destination.dtype
        if shape is None or dtype is None or np.prod(shape):
            raise UsageError(
                f"{where}: the data have no rows: say shape= and dtype= of an array without"
                " elements"
            )
        return _allocated(destination.sink(shape, dtype), folder, (), (), 1, 0)
    fragments = gathered(staged, [fragment_files.table_of(folder, one) for one in staged])
    shape = destination.shape or extent(fragments)
    require_tiled(where, fragments, shape, staged[0].kind)
    order = np.argsort(fragments.start[:, 0], kind="stable")
    columns = [fragments.start.T, fragments.count.T, fragments.offset[None], fragments.file[None]]
    np.save(os.path.join(folder, _TABLE), np.concatenate(columns)[:, order])
    dtype = np.dtype(staged[0].dtype)
    rows = np.maximum(fragments.count[:, 0], 1)
    nbytes = dtype.itemsize * int(np.prod(staged[0].row))
    run_nbytes = 0
    if staged[0].kind != "blocks":
        run_nbytes = int(nbytes * rows.mean())
    names = tuple(one.name for one in staged)
    turned = tuple(one.is_reversed for one in staged)
    return _allocated(
        destination.sink(shape, dtype), folder, names, turned, int(rows.max()), run_nbytes
    )


def _allocated(
    sink: ArraySink,
    folder: str,
    files: tuple[str, ...],
    is_reversed: tuple[bool, ...],
    longest: int,
    run_nbytes: int,
) -> Assembly:
    partial = os.path.join(folder, f".whole-{secrets.token_hex(6)}{_UNFINISHED}")
    writing.allocate(sink, partial)
    return Assembly(sink, partial, folder, files, is_reversed, longest, run_nbytes)


def copy(assembly: Assembly, slab: Hyperslab) -> Written | str:
    """Write a region; of values that the format cannot hold, which no other attempt can write, a
    sentence.
    """
    sink = assembly.sink
    block = empty(slab.count, sink.axes, sink.dtype.newbyteorder("="))
    fill(assembly, slab, block)
    try:
        return writing.write_region(sink, assembly.partial, slab, block)
    except BlockError as error:
        return str(error)


def finish(assembly: Assembly, written: Sequence[Written | str], overwrite: bool) -> None:
    """Let the file appear, all of whose regions are written. Raises UsageError, OSError,
    FormatError.
    """
    if refused := next((one for one in written if isinstance(one, str)), ""):
        raise UsageError(refused)
    done = [one for one in written if isinstance(one, Written)]
    try:
        writing.commit(assembly.sink, assembly.partial, done, overwrite)
    except FileExistsError as error:
        raise UsageError(
            f"{assembly.sink.path} has appeared since the start, and stays: choose another name,"
            " or overwrite=True (mode 'overwrite')"
        ) from error


def fill(assembly: Assembly, slab: Hyperslab, block: Array) -> None:
    """Read a region from the files of its fragments; the block has the region's shape and the
    data's dtype.
    """
    if not block.size:
        return
    start, count, offset, file = _overlapping(assembly, slab)
    for number in np.unique(file).tolist():
        rows = np.flatnonzero(file == number)
        rows = rows[np.argsort(offset[rows], kind="stable")]
        path = os.path.join(assembly.folder, assembly.files[number])
        with opened(path, os.O_RDONLY) as fd:
            source = OpenFile(fd, path)
            if assembly.is_short:
                _fill_rows(source, start[rows], count[rows], offset[rows], slab, block)
                continue
            axes = tuple(range(slab.ndim))
            if assembly.is_reversed[number]:
                axes = axes[::-1]
            firsts = start[rows].tolist()
            extents = count[rows].tolist()
            offsets = offset[rows].tolist()
            for first, extent, at in zip(firsts, extents, offsets, strict=True):
                box = Hyperslab(tuple(first), tuple(extent))
                _fill_box(source, box, at, axes, slab, block)


def _overlapping(assembly: Assembly, slab: Hyperslab) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """The fragments that a region touches, of a table sorted by their first axis."""
    table = np.load(os.path.join(assembly.folder, _TABLE), mmap_mode="r")
    ndim = slab.ndim
    low, high = slab.bounds
    earliest = low[0] - assembly.longest + 1
    first, last = np.searchsorted(table[0], (earliest, high[0]))
    near: Numbers = np.array(table[:, first:last])
    start = near[:ndim].T
    count = near[ndim : 2 * ndim].T
    offset = near[-2]
    file = near[-1]
    end = start + count
    touches = ((start < high) & (end > low) & (count > 0)).all(axis=1)
    return start[touches], count[touches], offset[touches], file[touches]


def _fill_box(
    file: OpenFile,
    box: Hyperslab,
    offset: int,
    axes: tuple[int, ...],
    slab: Hyperslab,
    block: Array,
) -> None:
    """What a box in a file, whose axes lie there in this order, has of a region."""
    taken = slab.clip(box)
    assert taken is not None
    part, place = taken
    inner = part.shift([-first for first in box.start])
    target = block[place.slices()].transpose(axes)
    read_region(file, offset, box.permute(axes).count, inner.permute(axes), target)


def _fill_rows(
    file: OpenFile, start: Numbers, count: Numbers, offset: Numbers, slab: Hyperslab, block: Array
) -> None:
    """What short runs of whole rows have of a region: those near each other in the file are read
    together.
    """
    row_shape = tuple(count[0, 1:].tolist())
    nbytes = block.dtype.itemsize * int(np.prod(row_shape))
    low, high = slab.bounds
    begins = start[:, 0]
    ends = begins + count[:, 0]
    first = np.maximum(begins, low[0])
    last = np.minimum(ends, high[0])
    rows = last - first
    at = offset + (first - begins) * nbytes
    until = at + rows * nbytes
    is_far = at[1:] - until[:-1] > PREAD_COST_NBYTES
    is_in_another_buffer = np.diff(at // BUFFER_NBYTES) != 0
    breaks = is_far | is_in_another_buffer
    inner = slab.slices()[1:]
    groups = np.split(np.arange(len(at)), np.flatnonzero(breaks) + 1)
    for group in groups:
        begin = int(at[group[0]])
        end = int(until[group[-1]])
        buffer = np.empty(end - begin, np.uint8)
        file.read_into(buffer, begin)
        values = buffer.view(block.dtype).reshape(-1, *row_shape)
        taken = _expanded((at[group] - begin) // nbytes, rows[group])
        places = _expanded(first[group] - low[0], rows[group])
        block[places] = values[taken][(slice(None), *inner)]


def _expanded(first: Numbers, count: Numbers) -> Numbers:
    """The numbers of runs, each of so many from its first."""
    before = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(before, count)
    return np.repeat(first, count) + within
