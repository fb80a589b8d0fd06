"""Chunks that are filtered or small: read and decoded a batch at a time, by the native core."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import (
    BUFFER_NBYTES,
    Piece,
    box_nbytes,
    covering_nbytes,
    is_covered,
    pieces,
    row_nbytes,
)
from hyperslab.arrays.chunksums import ChunkSums, can_be_summed
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading import decoding
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.ways.way import Costs, Way

_Number = TypeVar("_Number", int, npt.NDArray[np.int64])


class Local(Way):
    """Positioned reads of a file on this machine, at the places that its chunk table says."""

    words = "positioned reads"

    def fill(
        self,
        file: OpenFile,
        source: ArraySource,
        region: Hyperslab,
        block: Array,
        threads: int,
        reader: Reader | None,
    ) -> None:
        taken = None
        if reader is not None:
            taken = reader.fill(file.fd, region, block, threads)
        if taken is not None:
            file.nbytes += taken
            return
        table = table_of(source).overlapping(region)
        if not is_covered(table, region):
            block[...] = source.fill
        self.fill_rows(file, source, table, region, block, threads)

    def fill_rows(
        self,
        file: OpenFile,
        source: ArraySource,
        table: ChunkTable,
        region: Hyperslab,
        block: Array,
        threads: int,
    ) -> None:
        """Read what a region takes of the rows of a table."""
        raise NotImplementedError

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        overlapping = table_of(source).overlapping(region)
        rows = rows_nbytes(source, len(overlapping))
        return rows + self.peak_of_rows(source, overlapping, threads)

    def peak_of_rows(self, source: ArraySource, table: ChunkTable, threads: int | None) -> int:
        """Upper bound of what `fill_rows` holds."""
        raise NotImplementedError

    def part(self, source: ArraySource, region: Hyperslab) -> ArraySource:
        return with_rows(source, region)


class Chunks(Local):
    """Chunks in batches."""

    name = "chunks"

    def fits(self, source: ArraySource) -> bool:
        chunks = source.chunks
        if native.core is None or chunks is None:
            return False
        if source.codecs:
            return True
        chunk_nbytes = math.prod(chunks.chunk_shape) * source.stored.itemsize
        return chunks.chunk_shape != source.stored_shape and chunk_nbytes <= BUFFER_NBYTES

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        if source.codecs and region.is_box:
            return int(table_of(source).overlapping(region).nbytes.sum())
        found = pieces_of(source, region)
        if source.codecs:
            return sum(piece.nbytes for piece in found)
        shape = table_of(source).chunk_shape
        item = source.stored.itemsize
        if region.is_box:
            return box_nbytes(table_of(source).overlapping(region), region, item)
        return sum(covering_nbytes(shape, piece.part, item) for piece in found)

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        if region.is_box:
            return len(table_of(source).overlapping(region))
        return sum(1 for _ in pieces_of(source, region))

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        table = table_of(source)
        if not can_be_summed(table):
            return super().costs(source, boxes)
        sums = ChunkSums(table)
        rows = sums.rows(boxes)
        stored = sums.nbytes(boxes)
        nbytes = stored
        if not source.codecs:
            nbytes = np.zeros_like(stored)
            steps = np.array(row_nbytes(table.chunk_shape, source.stored.itemsize))
            for part in sums.parts(boxes):
                covering = (part.extents - 1) @ steps + source.stored.itemsize
                nbytes[part.which] += part.chunks * covering
        held = decoding.peak_nbytes(source, rows, stored, _most_threads())
        return Costs(nbytes, rows, rows_nbytes(source, rows) + held)

    def fill_rows(
        self,
        file: OpenFile,
        source: ArraySource,
        table: ChunkTable,
        region: Hyperslab,
        block: Array,
        threads: int,
    ) -> None:
        decoding.fill(file, source, table, region, block, threads)

    def peak_of_rows(self, source: ArraySource, table: ChunkTable, threads: int | None) -> int:
        return decoding.peak_of(source, table, threads or _most_threads())


def _most_threads() -> int:
    """Threads that may decode, where it is not known how many there will be."""
    return max(native.threads(), native.DEPTH)


def table_of(source: ArraySource) -> ChunkTable:
    """The chunk table of a source that has one."""
    assert source.chunks is not None
    return source.chunks


def pieces_of(source: ArraySource, region: Hyperslab) -> Iterator[Piece]:
    """What every chunk gives to a region."""
    return pieces(table_of(source).overlapping(region), region)


def rows_nbytes(source: ArraySource, rows: _Number) -> _Number:
    """Upper bound of the bytes that it takes to find so many rows, which overlap a region."""
    searched = (3 * source.ndim + 16) * len(table_of(source))
    return searched + 32 * (source.ndim + 2) * rows


def with_rows(source: ArraySource, region: Hyperslab) -> ArraySource:
    """The source with those rows of its chunk table that a region needs."""
    table = table_of(source)
    if len(table) <= 1:
        return source
    return replace(source, chunks=table.overlapping(region))
