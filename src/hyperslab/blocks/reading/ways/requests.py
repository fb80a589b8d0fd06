"""Regions of arrays in remote objects: byte ranges of all chunks at once, by joined requests, into
a block.

- what is fetched is what `read_nbytes` says, gaps between joined ranges included
  (`tests/storage/remote/test_requests.py`)
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
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import (
    Piece,
    ascending,
    is_covered,
    pieces,
    plan_spans,
    span_offsets,
)
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable
from hyperslab.blocks.reading import decoding
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.ways.chunks import rows_nbytes, table_of, with_rows
from hyperslab.blocks.reading.ways.way import Costs, Way
from hyperslab.storage.location import Remote
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
    "Distances between elements in the stored bytes, bytes."


class Requests(Way):
    """Byte ranges of all chunks at once, by joined requests."""

    name = "requests"
    words = "range requests"

    def fits(self, source: ArraySource) -> bool:
        return isinstance(source.url, Remote)

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        return joined_nbytes(_ranges(source, region))

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        return sum(1 for _ in join(_ranges(source, region)))

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        """Answers as they arrive, and chunks being decoded."""
        return _peak(source, region, self.nbytes(source, region), threads)

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        nbytes = []
        operations = []
        peak = []
        for region in boxes:
            ranges = list(_ranges(source, region))
            nbytes.append(joined_nbytes(ranges))
            operations.append(sum(1 for _ in join(ranges)))
            peak.append(_peak(source, region, nbytes[-1], None))
        return Costs(np.array(nbytes), np.array(operations), np.array(peak))

    def fill(
        self,
        file: RemoteFile,
        source: ArraySource,
        region: Hyperslab,
        block: Array,
        threads: int,
        reader: Reader | None,
    ) -> None:
        """Raises SourceChanged, Unavailable, UsageError, and FormatError that names a corrupt
        chunk.
        """
        if not is_covered(table_of(source).overlapping(region), region):
            block[...] = source.fill
        table = _rows(source, region)
        if source.codecs:
            _decode(file, source, table, region, block, threads)
        else:
            _land(file, source, table, region, block)

    def part(self, source: ArraySource, region: Hyperslab) -> ArraySource:
        return with_rows(source, region)


def _peak(source: ArraySource, region: Hyperslab, fetched: int, threads: int | None) -> int:
    """Upper bound of what is held beside the block of a region while so many bytes are fetched."""
    overlapping = table_of(source).overlapping(region)
    searched = 2 * rows_nbytes(source, len(overlapping))
    if not region.size:
        return searched
    return searched + _fetching_nbytes(source, region, fetched, threads or native.threads())


def _fetching_nbytes(source: ArraySource, slab: Hyperslab, fetched: int, threads: int) -> int:
    """Upper bound of what is held beside the block while so many bytes are fetched."""
    if not source.codecs:
        flying = min(fetched, DEPTH * LARGEST_NBYTES + LARGEST_NBYTES)
        return 3 * flying + _CLIENT_NBYTES
    table = _rows(source, slab)
    largest = int(table.nbytes.max(initial=0))
    flying = min(fetched, DEPTH * LARGEST_NBYTES + largest)
    held = min(fetched, _DECODED_TOGETHER_NBYTES + largest)
    decoder = 0
    if len(table):
        decoder = decoding.peak_of(source, table, threads)
    return 3 * flying + 2 * held + decoder + _CLIENT_NBYTES


def _land(
    file: RemoteFile, source: ArraySource, table: ChunkTable, slab: Hyperslab, block: Array
) -> None:
    """Fetch the spans of unfiltered chunks that hold elements, and put these where they go."""
    landings: deque[Landing] = deque()

    def ranges() -> Iterator[Range]:
        for landing in _landings(table, slab, source.stored.itemsize):
            landings.append(landing)
            yield landing.offset, landing.nbytes

    for data in file.fetch(ranges()):
        landing = landings.popleft()
        target = block
        for index in landing.place:
            target = target[index]
        target[...] = np.ndarray(landing.shape, block.dtype, data, strides=landing.strides)


def _rows(source: ArraySource, slab: Hyperslab) -> ChunkTable:
    """The chunks that hold elements of a region, in the order of the file."""
    table = table_of(source).overlapping(slab)
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
    first = 0
    buffers: list[bytes] = []
    held = 0
    for row, data in enumerate(file.fetch(_ranges(source, slab))):
        buffers.append(data)
        held += len(data)
        if held >= _DECODED_TOGETHER_NBYTES or row == len(table) - 1:
            _decode_rows(
                source, table.take(np.arange(first, row + 1)), buffers, slab, block, threads
            )
            first = row + 1
            buffers = []
            held = 0


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
        nbytes = plan.span_nbytes(extent[0])
        begin = piece.offset + position
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
    steps = LARGEST_NBYTES // row
    if len(shape) == 1:
        steps = max(1, steps)
    if steps == 0:
        for first in range(shape[0]):
            for offset, where, inner in _cut(shape[1:], itemsize):
                yield first * row + offset, (first, *where), inner
        return
    for first in range(0, shape[0], steps):
        count = min(steps, shape[0] - first)
        yield first * row, (slice(first, first + count),), (count, *shape[1:])
