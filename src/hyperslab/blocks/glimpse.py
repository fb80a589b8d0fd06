"""Glimpse: some values of an array, as far as these are quick to read.

Those of the front of a long gzip stream have not been compared with its checksum (`ways.front`):
what is made of a glimpse is a guess, and no result.

Held by tests/blocks/test_glimpse.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.errors import HyperslabError
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
        return _front(source, values)
    except (HyperslabError, OSError):
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
    from hyperslab.blocks.reading.ways import front  # which few runs need

    if not front.has_front(source):
        return []
    most = MOST_VALUES // front.front_region(source, 1).size
    block = front.read_front(source, most, MOST_NBYTES, values)
    if block is None:
        return []
    return [block]
