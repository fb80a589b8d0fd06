"""Blocks from files: each source is read in the first of the `ways` that fits it.

- reading by chunk table is one open, one fstat and its positioned reads
  (`tests/blocks/test_reading.py`)
- `read_nbytes` is what those reads count, `read_peak` no less than what they allocate
  (`testing.FormatTests`)
- a file that was written to after planning is SourceChanged, a short or corrupt one FormatError
- a remote object is read by range requests (`ways.requests`), whose answers say whether it is still
  the same
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from hyperslab import native
from hyperslab.arrays import Array, DType, scaling
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import ascending
from hyperslab.arrays.order import empty
from hyperslab.arrays.slab import Hyperslab, require_within
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.ways import Way, way_of
from hyperslab.errors import FormatError, UsageError
from hyperslab.trace import span

_OBJECTS_NBYTES = 4096
"Bytes of the objects that a block is beside its values."
_MANY = 8
"Regions from which on they are looked at together."
_MOST_SUMMED = 2**48
"Elements of a region up to which 64 bits hold what is summed over it."


class Cost(NamedTuple):
    """What it takes to read a region."""

    nbytes: int
    operations: int
    peak: int


def read(
    source: ArraySource,
    slab: Hyperslab,
    out: Array | None = None,
    values: Values = "real",
    threads: int | None = None,
    reader: Reader | None = None,
) -> Array:
    """Read a region: shape slab.count, dtype source.dtype(values); in Fortran order where the file
    is.

    `out`, of that shape and dtype and with any strides, receives the block if given. Up to
    `threads` threads decode chunks at a time (a task's share of the processors, unless given). A
    `reader` of the source keeps its file open and decoded chunks for the next read. Raises
    SourceChanged for a file that is not the one planned with, FormatError for one that is short or
    corrupt, UsageError for wrong arguments.
    """
    if source.broken:
        raise FormatError(source.broken)
    if threads is not None and not 1 <= threads <= native.MOST_THREADS:
        raise UsageError(f"threads is {threads}; it can be 1 to {native.MOST_THREADS}")
    _check(source, slab, out, values)
    if slab.size == 0 and out is not None:
        return out
    if slab.size == 0:
        return empty(slab.count, source.axes, source.dtype(values))
    way = way_of(source)
    room = None
    if way.fills and _fits_raw(source, values):
        room = out
    with way.opened(source, reader) as file, span("read") as mark:
        try:
            stored = way.read(file, source, slab, room, threads or native.threads(), reader)
            return _delivered(source, slab, stored, out, values, way.fills)
        finally:
            mark.nbytes = file.nbytes
            mark.helped_ns = native.helped_ns()


def _delivered(
    source: ArraySource,
    slab: Hyperslab,
    stored: Array,
    out: Array | None,
    values: Values,
    is_ours: bool,
) -> Array:
    """Stored values as they were asked for, in `out` if given: in place where that can be.

    Real values are never computed in place in the array of a library, which may keep it.
    """
    _require_truth(source, stored)
    is_scaled = _is_scaled(source, values)
    block = out
    if block is None:
        block = _block_for(stored, source.dtype(values), is_ours or not is_scaled)
    if is_scaled:
        scaling.apply(source, slab, stored, block)
    elif block is not stored:
        block[...] = stored
    return block


def _require_truth(source: ArraySource, stored: Array) -> None:
    """Raise FormatError for truth values that are other bytes than 0 and 1, of which NumPy may make
    anything.
    """
    if stored.dtype.kind == "b" and stored.view(np.uint8).max() > 1:
        raise FormatError(
            f"{source.label}: its values are said to be truth values, and are not all 0 or 1"
        )


def _block_for(stored: Array, dtype: DType, may_be_stored: bool) -> Array:
    """A block of this dtype laid out as the stored values: themselves, where that may be."""
    if may_be_stored and stored.dtype == dtype and stored.flags.writeable:
        return stored
    return np.empty_like(stored, dtype=dtype, subok=False)


def read_nbytes(source: ArraySource, slab: Hyperslab) -> int:
    """Bytes that `read` will take from storage; exact with a chunk table, a proportion of the file
    without.
    """
    if slab.size == 0:
        return 0
    return way_of(source).nbytes(source, _region(source, slab))


def read_operations(source: ArraySource, slab: Hyperslab) -> int:
    """Reads in which it takes them: of chunks, of runs, or, through a library, of the chunks that
    it has to decode.
    """
    if slab.size == 0:
        return 0
    return way_of(source).operations(source, _region(source, slab))


def read_peak(
    source: ArraySource, slab: Hyperslab, values: Values = "real", threads: int | None = None
) -> int:
    """Upper bound of the bytes that `read` holds at once, its result included."""
    if slab.size == 0:
        return _OBJECTS_NBYTES
    way = way_of(source)
    held = way.peak(source, _region(source, slab), threads)
    return held + _block_nbytes(source, way, slab.size, values)


def costs_of(
    source: ArraySource, slabs: Sequence[Hyperslab], values: Values = "real"
) -> Sequence[Cost]:
    """What `read_nbytes`, `read_operations` and `read_peak` say of each of many regions: a plan has
    no time to ask for each.
    """
    way = way_of(source)
    if way.is_even(source):
        return _each_once(source, slabs, values, key=operator.attrgetter("count", "stride"))
    if len(slabs) < _MANY or not all(map(_can_be_summed, slabs)):
        return _each_once(source, slabs, values, key=lambda slab: slab)
    boxes, which = _different(slabs)
    costs = way.costs(source, boxes.permute(source.axes))
    sizes = boxes.size.tolist()
    blocks = {size: _block_nbytes(source, way, size, values) for size in set(sizes)}
    columns = (column.tolist() for column in costs)
    different = [
        Cost(nbytes, operations, held + blocks[size])
        for size, nbytes, operations, held in zip(sizes, *columns, strict=True)
    ]
    return [different[row] for row in which]


def _each_once(
    source: ArraySource,
    slabs: Sequence[Hyperslab],
    values: Values,
    key: Callable[[Hyperslab], Hashable],
) -> list[Cost]:
    """The costs of regions, those of one key looked at once."""
    known: dict[Hashable, Cost] = {}
    costs = []
    for slab in slabs:
        kind = key(slab)
        if kind not in known:
            known[kind] = _cost(source, slab, values)
        costs.append(known[kind])
    return costs


def _can_be_summed(slab: Hyperslab) -> bool:
    """Whether a region is a box with elements that 64 bits can count."""
    return slab.ndim > 0 and slab.is_box and 0 < slab.size <= _MOST_SUMMED


def _cost(source: ArraySource, slab: Hyperslab, values: Values) -> Cost:
    nbytes = read_nbytes(source, slab)
    operations = read_operations(source, slab)
    return Cost(nbytes, operations, read_peak(source, slab, values))


def _different(slabs: Sequence[Hyperslab]) -> tuple[Boxes, list[int]]:
    """The boxes among some regions, each once, and which of them each region is."""
    boxes = Boxes.of(slabs)
    rows = np.hstack([boxes.low, boxes.count])
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return boxes.take(first), which.reshape(-1).tolist()


def _block_nbytes(source: ArraySource, way: Way, size: int, values: Values) -> int:
    """Bytes of a block of so many elements, of its stored values, and of what makes real ones of
    them.
    """
    nbytes = size * source.dtype(values).itemsize
    if not (way.fills and _fits_raw(source, values)):
        nbytes += size * source.stored.itemsize
    if _is_scaled(source, values):
        nbytes += scaling.working_nbytes(source, size)
    return nbytes


def _region(source: ArraySource, slab: Hyperslab) -> Hyperslab:
    """A region as ways are given it: in stored order, from low to high indices."""
    return ascending(slab.permute(source.axes))


def _check(source: ArraySource, slab: Hyperslab, out: Array | None, values: Values) -> None:
    """Raise UsageError for a region, a kind of values or an `out` that does not fit the source."""
    require_within(source.url, source.shape, slab)
    if values not in ("real", "stored"):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    dtype = source.dtype(values)
    if out is None:
        return
    if out.shape != slab.count or out.dtype != dtype or not out.flags.writeable:
        raise UsageError(f"out has to be a writable array of shape {slab.count} and dtype {dtype}")


def _is_scaled(source: ArraySource, values: Values) -> bool:
    return values == "real" and source.scaling is not None


def _fits_raw(source: ArraySource, values: Values) -> bool:
    """True when stored values can be read into the block itself."""
    return source.dtype(values) == source.dtype("stored")
