"""What a task costs: bytes it reads, memory it needs at its peak."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hyperslab import formats
from hyperslab.arrays import DType
from hyperslab.arrays.sets import Piece
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.plan.alignment import Row
from hyperslab.plan.pipeline import Pipeline, Reduce, Write


def reading_cost(
    inputs: Mapping[str, tuple[ArraySource, ...]], reads: Sequence[Sequence[Piece]], values: Values
) -> tuple[int, int]:
    """(bytes from storage, bytes held while reading) of the pieces of a task."""
    nbytes = 0
    held = 0
    beside = 0
    for sources, pieces in zip(inputs.values(), reads, strict=True):
        for piece in pieces:
            source = sources[piece.source]
            nbytes += reading.read_nbytes(gzipindex.expected(source), piece.slab)
            result = piece.slab.size * source.dtype(values).itemsize
            peak = reading.read_peak(source, piece.slab, values)
            held += result
            beside = max(beside, peak - result)  # one is read at a time
    return nbytes, held + beside


def aligning_nbytes(row: Row, read: Hyperslab, dtypes: Sequence[DType]) -> int:
    """Memory that bringing further inputs beside the source's block takes, in bytes; `dtypes` are
    those of all inputs.
    """
    nbytes = 0
    for alignment, dtype in zip(row, dtypes, strict=True):
        if alignment is not None:
            nbytes += alignment.working_nbytes(read, dtype)
    return nbytes


def working_bytes(pipeline: Pipeline, count: Sequence[int], dtypes: Sequence[DType]) -> int:
    """Memory beside the blocks as read: padded copies, and the most demanding step with its result
    and temporaries.

    `count` is the block's shape without its halo, `dtypes` those of the inputs.
    """
    shape: tuple[int, ...] = tuple(n + 2 * h for n, h in zip(count, pipeline.halo, strict=True))
    copies = 0
    if any(pipeline.halo):
        copies = math.prod(shape) * sum(dtype.itemsize for dtype in dtypes)
    dtype = dtypes[0]
    held = 0
    needs = [0]
    block = math.prod(shape) * dtype.itemsize
    for step in pipeline.steps:
        given = block
        shapes = step.shapes(shape)
        block = 0
        for promise, made in zip(step.returns, shapes, strict=True):
            block += math.prod(made) * np.dtype(promise.dtype or dtype).itemsize
        needs.append(held + block + int(step.temporaries * max(given, block)))
        held = block
        shape = shapes[0]
        dtype = np.dtype(step.returns[0].dtype or dtype)
    if isinstance(pipeline.end, Reduce):
        needs.append(held + int(pipeline.end.temporaries * block))
    elif isinstance(pipeline.end, Write):
        suffix, _ = formats.written_as(pipeline.end.format)
        copies_of_block = 1 if suffix.is_written_in_place else 2
        needs.append(held + block * copies_of_block)
    return copies + max(needs)
