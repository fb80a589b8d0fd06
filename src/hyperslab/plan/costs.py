"""What a task costs: shape and dtype of its result, bytes it reads and writes, memory it needs at
its peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hyperslab import formats
from hyperslab.arrays import DType
from hyperslab.arrays.sets import Piece
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import PRIMARY, Pipeline, Reduce, Write


def output_dtype(pipeline: Pipeline, index: int | None = None) -> DType:
    """dtype of the blocks of one whole after the last step; without an index, of all, which must
    have the same.

    Raises UsageError where sources that must have one dtype differ.
    """
    named = [np.dtype(step.dtype) for step in pipeline.steps if step.dtype]
    return named[-1] if named else input_dtype(pipeline, PRIMARY, index)


def input_dtype(pipeline: Pipeline, name: str, index: int | None = None) -> DType:
    """dtype of the blocks of an input, of one whole or of all."""
    inputs = pipeline.inputs[name]
    wholes = inputs.wholes if index is None else inputs.wholes[index : index + 1]
    dtypes = {
        inputs.sources[m.source].dtype(pipeline.values) for whole in wholes for m in whole.members
    }
    if len(dtypes) > 1:
        listed = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise UsageError(
            f"the files of {name or 'the source'} have different dtypes ({listed}): run them one"
            " by one"
        )
    return dtypes.pop()


def output_shape(pipeline: Pipeline, shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of a block of this shape after the last step."""
    for step in pipeline.steps:
        shape = step.shape(shape)
    return tuple(shape)


def reading_cost(
    inputs: Mapping[str, tuple[ArraySource, ...]], reads: Sequence[Sequence[Piece]], values: Values
) -> tuple[int, int]:
    """(bytes from storage, bytes held while reading) of the pieces of a task."""
    nbytes = held = beside = 0
    for sources, pieces in zip(inputs.values(), reads, strict=True):
        for piece in pieces:
            source = sources[piece.source]
            nbytes += reading.read_nbytes(gzipindex.expected(source), piece.slab)
            result = piece.slab.size * source.dtype(values).itemsize
            held += result
            beside = max(
                beside, reading.read_peak(source, piece.slab, values) - result
            )  # one is read at a time
    return nbytes, held + beside


def working_bytes(pipeline: Pipeline, count: Sequence[int], dtypes: Sequence[DType]) -> int:
    """Memory beside the blocks as read: padded copies, and the most demanding step with its result
    and temporaries.

    `count` is the block's shape without its halo, `dtypes` those of the inputs.
    """
    shape: tuple[int, ...] = tuple(n + 2 * h for n, h in zip(count, pipeline.halo, strict=True))
    copies = math.prod(shape) * sum(dtype.itemsize for dtype in dtypes) if any(pipeline.halo) else 0
    dtype, held, needs = dtypes[0], 0, [0]
    for step in pipeline.steps:
        given = math.prod(shape) * dtype.itemsize
        dtype = np.dtype(step.dtype) if step.dtype else dtype
        shape = step.shape(shape)
        made = math.prod(shape) * dtype.itemsize
        needs.append(held + made + int(step.temporaries * max(given, made)))
        held = made
    block = math.prod(shape) * dtype.itemsize
    if isinstance(pipeline.end, Reduce):
        needs.append(held + int(pipeline.end.temporaries * block))
    elif isinstance(pipeline.end, Write):
        suffix, _ = formats.written_as(pipeline.end.format)
        copies_of_block = 1 if suffix.is_written_in_place else 2
        needs.append(held + block * copies_of_block)
    return copies + max(needs)
