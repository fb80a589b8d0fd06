"""Glimpse: some values of an array, as far as these are quick to read.

Held by tests/blocks/test_glimpse.py.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from hyperslab.arrays import Array, scaling
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.reading.gzipindex import is_one_gzip_stream
from hyperslab.errors import HyperslabError
from hyperslab.formats import facts_of
from hyperslab.storage.location import is_remote

MOST_NBYTES = 8 * 2**20
"Bytes that are read from storage, at most: a gzip stream of so many takes about 0.1 s."
MOST_OPERATIONS = 64
MOST_VALUES = 2**22
"Values that are looked at, at most."
_MOST_PEAK_NBYTES = 256 * 2**20
_PLACES = (0.5, 0.25, 0.75, 0.375, 0.625)
"Where the regions lie along an axis that is not whole, as parts of its extent."


def glimpse(source: ArraySource, values: Values = "real") -> list[Array]:
    """Regions all over an array: of the whole, or of planes, rows or parts of rows in its middle,
    as much of it as is quick to read, or the front of a gzip stream. [] where nothing is, as of an
    array elsewhere, and where it cannot be read, which those will tell that need it.
    """
    if is_remote(source.url) or source.broken or not source.size:
        return []
    try:
        for slabs in _choices(source):
            if _is_quick(source, slabs, values):
                return [reading.read(source, slab, values=values, threads=1) for slab in slabs]
        if is_one_gzip_stream(source) and facts_of(source.format).is_stream:
            return _front(source, values)
    except (HyperslabError, OSError, zlib.error):
        return []
    return []


def glimpse_box(
    source: ArraySource, extents: Sequence[int], values: Values = "real"
) -> tuple[Hyperslab, Array] | None:
    """A region in the middle of an array, which is at least so long along each axis as far as the
    array is, and where it lies. None where that is not quick to read, or cannot be read.
    """
    if is_remote(source.url) or source.broken or not source.size:
        return None
    try:
        for cut in range(source.ndim + 1):
            slab = _middle(source.shape, source.axes[:cut], extents)
            if _is_quick(source, [slab], values):
                return slab, reading.read(source, slab, values=values, threads=1)
    except (HyperslabError, OSError):
        return None
    return None


def _middle(shape: Sequence[int], slow: Sequence[int], extents: Sequence[int]) -> Hyperslab:
    """The middle of an array along its slow axes, and all of the others."""
    count = [min(extents[axis], n) if axis in slow else n for axis, n in enumerate(shape)]
    start = [(n - c) // 2 for n, c in zip(shape, count, strict=True)]
    return Hyperslab(tuple(start), tuple(count))


def _choices(source: ArraySource) -> Iterator[list[Hyperslab]]:
    """Regions of fewer and fewer values: the slower axes are no longer whole, one after the
    other.
    """
    for cut in range(source.ndim + 1):
        slow = source.axes[:cut]
        places = _PLACES[: len(_PLACES) if cut else 1]
        yield [_region(source.shape, slow, place) for place in places]


def _region(shape: Sequence[int], slow: Sequence[int], place: float) -> Hyperslab:
    start = [0] * len(shape)
    count = list(shape)
    for axis in slow:
        start[axis] = int(place * shape[axis])
        count[axis] = 1
    return Hyperslab(tuple(start), tuple(count))


def _is_quick(source: ArraySource, slabs: Sequence[Hyperslab], values: Values) -> bool:
    nbytes = sum(reading.read_nbytes(source, slab) for slab in slabs)
    operations = sum(reading.read_operations(source, slab) for slab in slabs)
    peak = max(reading.read_peak(source, slab, values) for slab in slabs)
    size = sum(slab.size for slab in slabs)
    is_little = nbytes <= MOST_NBYTES and size <= MOST_VALUES
    return is_little and operations <= MOST_OPERATIONS and peak <= _MOST_PEAK_NBYTES


def _front(source: ArraySource, values: Values) -> list[Array]:
    """The first rows along the slowest axis of a gzip stream, as many as its first MOST_NBYTES
    hold, and MOST_VALUES are; [] where that is none.
    """
    most = MOST_VALUES // math.prod(_row(source))
    block = front(source, most, MOST_NBYTES, values)
    if block is None:
        return []
    return [block]


def front(source: ArraySource, most: int, most_nbytes: int, values: Values) -> Array | None:
    """The first rows along the slowest axis of a gzip stream, at most so many, as far as its first
    `most_nbytes` hold them whole; None where they hold none.

    Nothing is compared with the checksum, which stands at the end of the stream. Raises OSError and
    zlib.error.
    """
    row = _row(source)
    row_nbytes = math.prod(row) * source.stored.itemsize
    offset = gzipindex.offset_of(source)
    with open(source.url, "rb") as file:
        start = file.read(most_nbytes)
    plain = zlib.decompressobj(wbits=31).decompress(start, offset + max(1, most * row_nbytes))
    slow = _slowest(source)
    rows = min((len(plain) - offset) // row_nbytes, source.stored_shape[slow], most)
    if rows < 1:
        return None
    count = list(source.shape)
    count[source.axes[slow]] = rows
    slab = Hyperslab((0,) * source.ndim, tuple(count))
    stored = np.frombuffer(plain, source.stored, rows * math.prod(row), offset)
    stored = stored.reshape(*source.stored_shape[:slow], rows, *row)
    stored = stored.transpose(np.argsort(source.axes))
    if values == "stored" or source.scaling is None:
        return stored
    block = np.empty(slab.count, source.dtype(values))
    scaling.apply(source, slab, stored, block)
    return block


def _slowest(source: ArraySource) -> int:
    """The slowest axis of the file that is longer than one."""
    return next((place for place, n in enumerate(source.stored_shape) if n > 1), 0)


def _row(source: ArraySource) -> tuple[int, ...]:
    """Shape of what the file stores behind its slowest axis."""
    return source.stored_shape[_slowest(source) + 1 :]
