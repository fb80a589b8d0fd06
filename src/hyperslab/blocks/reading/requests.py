"""Regions of arrays in remote objects: byte ranges of all chunks at once, by joined requests, into
a block.

- what is fetched is what `read_nbytes` says, gaps between joined ranges included
  (`tests/remote/test_requests.py`)
- a chunk that is filtered is fetched whole and decoded by the native core; of others the spans that
  hold elements are
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.byteranges import Piece, ascending, pieces, plan_spans, span_offsets
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable
from hyperslab.blocks.reading import decoding
from hyperslab.storage.remote.file import (
    DEPTH,
    GAP_NBYTES,
    LARGEST_NBYTES,
    Range,
    RemoteFile,
    join,
    joined_nbytes,
)

_DECODED_TOGETHER_NBYTES = 16 * 1024**2
"Stored bytes of the chunks that are decoded while the next ones are being fetched."
_CLIENT_NBYTES = 32 * 1024**2
"What the client libraries of stores take for themselves, at most."


class Landing(NamedTuple):
    """A run of stored bytes and where its elements go."""

    offset: int
    nbytes: int
    place: tuple[tuple[int | slice, ...], ...]
    "Indices to apply to the block, one after the other."
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    "From element to element in the stored bytes."


def fill(
    file: RemoteFile, source: ArraySource, slab: Hyperslab, block: Array, threads: int
) -> None:
    """Read what chunks hold of a region into `block`, which has its shape and the file's dtype.

    Region and block are in stored order with strides above 0. Raises SourceChanged, Unavailable,
    UsageError, and FormatError that names a corrupt chunk.
    """
    table = _rows(source, slab)
    if source.codecs:
        _decode(file, source, table, slab, block, threads)
        return
    landings: deque[Landing] = deque()

    def ranges() -> Iterator[Range]:
        for landing in _landings(table, slab, source.stored.itemsize):
            landings.append(landing)
            yield landing.offset, landing.nbytes

    for data in file.fetch(ranges()):
        landing, target = landings.popleft(), block
        for index in landing.place:
            target = target[index]
        target[...] = np.ndarray(landing.shape, block.dtype, data, strides=landing.strides)


def read_nbytes(source: ArraySource, slab: Hyperslab) -> int:
    """Bytes that `fill` fetches."""
    return joined_nbytes(_ranges(source, slab))


def read_operations(source: ArraySource, slab: Hyperslab) -> int:
    """Requests in which `fill` fetches them."""
    return sum(1 for _ in join(_ranges(source, slab)))


def peak_nbytes(source: ArraySource, slab: Hyperslab, threads: int) -> int:
    """Upper bound of what `fill` holds beside the block: answers as they arrive, and chunks being
    decoded.
    """
    table = _rows(source, slab)
    wanted, largest = (
        read_nbytes(source, slab),
        int(table.nbytes.max(initial=0)) if source.codecs else LARGEST_NBYTES,
    )
    flying = min(wanted, DEPTH * LARGEST_NBYTES + largest)
    held = min(wanted, _DECODED_TOGETHER_NBYTES + largest) if source.codecs else 0
    decoder = decoding.peak_nbytes(source, table, threads) if source.codecs and len(table) else 0
    return 3 * flying + 2 * held + decoder + _CLIENT_NBYTES


def _rows(source: ArraySource, slab: Hyperslab) -> ChunkTable:
    """The chunks that hold elements of a region, in the order of the file."""
    assert source.chunks is not None
    table = source.chunks.overlapping(slab)
    taken = np.ones(len(table), np.bool_)
    for axis, (first, count, step) in enumerate(
        zip(slab.start, slab.count, slab.stride, strict=True)
    ):
        low = table.start[:, axis]
        reached = np.maximum(
            first, first + -(-(low - first) // step) * step
        )  # the first element in the chunk or after
        taken &= reached < np.minimum(low + table.chunk_shape[axis], first + (count - 1) * step + 1)
    rows = np.flatnonzero(taken)
    return table.take(rows[np.argsort(table.offset[rows], kind="stable")])


def _ranges(source: ArraySource, slab: Hyperslab) -> Iterator[Range]:
    table = _rows(source, slab)
    if source.codecs:
        return zip(table.offset.tolist(), table.nbytes.tolist(), strict=True)
    return (
        (landing.offset, landing.nbytes)
        for landing in _landings(table, slab, source.stored.itemsize)
    )


def _decode(
    file: RemoteFile,
    source: ArraySource,
    table: ChunkTable,
    slab: Hyperslab,
    block: Array,
    threads: int,
) -> None:
    """Fetch whole chunks; those that have arrived are decoded while others are under way."""
    first, buffers, held = 0, list[bytes](), 0
    for row, data in enumerate(file.fetch(_ranges(source, slab))):
        buffers.append(data)
        held += len(data)
        if held >= _DECODED_TOGETHER_NBYTES or row == len(table) - 1:
            _decode_rows(
                source, table.take(np.arange(first, row + 1)), buffers, slab, block, threads
            )
            first, buffers, held = row + 1, [], 0


def _decode_rows(
    source: ArraySource,
    table: ChunkTable,
    buffers: Sequence[bytes],
    slab: Hyperslab,
    block: Array,
    threads: int,
) -> None:
    assert native.core is not None
    chunks = (decoding.columns_of(table), table.chunk_shape, decoding.filters_of(source))
    try:
        native.core.decode_chunks(
            buffers, chunks, (slab.start, slab.count, slab.stride), block, threads
        )
    except native.core.ChunkError as error:
        raise decoding.chunk_fault(source, table, error) from error


def _landings(table: ChunkTable, slab: Hyperslab, itemsize: int) -> Iterator[Landing]:
    for piece in pieces(table, slab):
        yield from _landings_of(piece, table.chunk_shape, itemsize)


def _landings_of(piece: Piece, shape: Sequence[int], itemsize: int) -> Iterator[Landing]:
    """The spans of one unfiltered chunk: through the gaps where that is cheaper, or without any."""
    part = ascending(piece.part)
    plan = plan_spans(shape, part, itemsize, GAP_NBYTES)
    for position, index in span_offsets(plan, shape, part, itemsize):
        steps = index[-1]
        assert isinstance(steps, slice)
        extent = (steps.stop - steps.start, *part.count[plan.level + 1 :])
        nbytes, begin = plan.span_nbytes(extent[0]), piece.offset + position
        place = (piece.place.slices(), index)
        if nbytes > math.prod(extent) * itemsize:
            yield Landing(begin, nbytes, place, extent, plan.step_nbytes[plan.level :])
            continue
        for offset, where, shape_there in _cut(extent, itemsize):
            strides = tuple(
                itemsize * math.prod(shape_there[axis + 1 :]) for axis in range(len(shape_there))
            )
            nbytes = math.prod(shape_there) * itemsize
            yield Landing(begin + offset, nbytes, (*place, where), shape_there, strides)


def _cut(
    shape: tuple[int, ...], itemsize: int
) -> Iterator[tuple[int, tuple[Any, ...], tuple[int, ...]]]:
    """Parts of a dense run that one request can hold each: first byte, index, shape."""
    row = math.prod(shape[1:]) * itemsize
    steps = max(LARGEST_NBYTES // row, 1 if len(shape) == 1 else 0)
    if steps == 0:
        for first in range(shape[0]):
            for offset, where, inner in _cut(shape[1:], itemsize):
                yield first * row + offset, (first, *where), inner
        return
    for first in range(0, shape[0], steps):
        count = min(steps, shape[0] - first)
        yield first * row, (slice(first, first + count),), (count, *shape[1:])
