"""Spans of unfiltered data that lie in one piece, or in large ones, by positioned reads."""

from __future__ import annotations

import functools

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import BUFFER_NBYTES, SpanPlan, pieces, plan_spans
from hyperslab.arrays.chunksums import ChunkSums, can_be_summed
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable
from hyperslab.blocks.positioned import OpenFile, read_region
from hyperslab.blocks.reading.ways.chunks import Local, pieces_of, rows_nbytes, table_of
from hyperslab.blocks.reading.ways.way import Costs

_KEPT_PLANS = 4096
"Parts of chunks whose plans are kept."


class Spans(Local):
    """Long spans of bytes, read one after the other."""

    name = "spans"

    def fits(self, source: ArraySource) -> bool:
        return source.chunks is not None and not source.codecs

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        return sum(plan.nbytes for plan in _plans(source, region))

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        return sum(plan.spans for plan in _plans(source, region))

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        table = table_of(source)
        if not can_be_summed(table):
            return super().costs(source, boxes)
        sums = ChunkSums(table)
        nbytes = np.zeros(len(boxes), np.int64)
        operations = np.zeros(len(boxes), np.int64)
        for part in sums.parts(boxes):
            shapes, shape = np.unique(part.extents, axis=0, return_inverse=True)
            plans = [_plan_of_shape(source, tuple(count)) for count in shapes.tolist()]
            of_shape = np.array([(plan.nbytes, plan.spans) for plan in plans], np.int64)
            taken = of_shape[shape.reshape(-1)] * part.chunks[:, None]
            nbytes[part.which] += taken[:, 0]
            operations[part.which] += taken[:, 1]
        peak = rows_nbytes(source, sums.rows(boxes)) + BUFFER_NBYTES
        return Costs(nbytes, operations, peak)

    def is_even(self, source: ArraySource) -> bool:
        chunks = table_of(source)
        return chunks.chunk_shape == source.stored_shape and len(chunks) == 1

    def fill_rows(
        self,
        file: OpenFile,
        source: ArraySource,
        table: ChunkTable,
        region: Hyperslab,
        block: Array,
        threads: int,
    ) -> None:
        for piece in pieces(table, region):
            part = block[piece.place.slices()]
            read_region(file, piece.offset, table.chunk_shape, piece.part, part)

    def peak_of_rows(self, source: ArraySource, table: ChunkTable, threads: int | None) -> int:
        return BUFFER_NBYTES


def _plans(source: ArraySource, region: Hyperslab) -> list[SpanPlan]:
    shape = table_of(source).chunk_shape
    item = source.stored.itemsize
    return [_plan(shape, piece.part, item) for piece in pieces_of(source, region)]


def _plan_of_shape(source: ArraySource, count: tuple[int, ...]) -> SpanPlan:
    """The plan for a part of a chunk, wherever in it that lies."""
    return plan_spans(table_of(source).chunk_shape, Hyperslab.full(count), source.stored.itemsize)


@functools.lru_cache(maxsize=_KEPT_PLANS)
def _plan(shape: tuple[int, ...], part: Hyperslab, itemsize: int) -> SpanPlan:
    """The plan for a part of a chunk: many regions take chunks whole, or the same part of them."""
    return plan_spans(shape, part, itemsize)
