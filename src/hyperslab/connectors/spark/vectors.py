"""Rows, points and MLlib's vectors of one block, as generators for use inside a task.

Rows run along one axis; a row is all the rest of the block at one index of that axis, flattened in
C order. Its index is the one it has in the whole array: `slab.start[axis] + k * slab.stride[axis]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError

if TYPE_CHECKING:
    from pyspark.mllib.linalg import DenseVector
    from pyspark.mllib.linalg.distributed import IndexedRow
    from pyspark.mllib.regression import LabeledPoint

PIECE_NBYTES = 1 << 20
"Bytes of rows that are brought into order at a time, so that a block is never there twice."
POINTS = 1 << 16
"Points whose indices are found at a time."


def each(
    view: Callable[..., Iterable[Any]], blocks: Iterable[tuple[Hyperslab, Array]]
) -> Iterator[Any]:
    """What a function of this module makes of every block of a partition."""
    for slab, block in blocks:
        yield from view(slab, block)


def row_axis(slab: Hyperslab, axis: int) -> int:
    """The axis counted from 0; UsageError if the block has none of this number."""
    if not -slab.ndim <= axis < slab.ndim:
        raise UsageError(
            f"axis is {axis}, and the block {slab} has {slab.ndim} axes: name one of them"
        )
    return axis % slab.ndim


def row_indices(slab: Hyperslab, axis: int = 0) -> range:
    """The indices that the rows of a block have in the whole array."""
    axis = row_axis(slab, axis)
    first = slab.start[axis]
    stride = slab.stride[axis]
    return range(first, first + slab.count[axis] * stride, stride)


def frame(slab: Hyperslab, axis: int = 0) -> tuple[int, ...]:
    """What the rows of a block hold of the other axes: the same for all blocks that are cut along
    the axis of rows.
    """
    along = row_axis(slab, axis)
    held: list[int] = []
    for part in (slab.start, slab.count, slab.stride):
        held += part[:along]
        held += part[along + 1 :]
    return tuple(held)


def uneven(caller: str, axis: int) -> UsageError:
    """The error for blocks that hold parts of rows."""
    return UsageError(
        f"{caller}: the blocks do not hold whole rows along axis {axis}: say axis=, the one along"
        " which they are cut (read_blocks cuts along the slowest one, of NIfTI the last), or cut"
        " them along this one"
    )


def row_pieces(
    slab: Hyperslab, block: Array, axis: int = 0, nbytes: int = PIECE_NBYTES
) -> Iterator[tuple[range, Array]]:
    """Runs of rows as matrices of about so many bytes, with the indices of their rows; views where
    possible.
    """
    indices = row_indices(slab, axis)
    turned = np.moveaxis(block, row_axis(slab, axis), 0)
    width = math.prod(turned.shape[1:])
    step = max(1, nbytes // max(1, width * block.itemsize))
    for first in range(0, len(turned), step):
        part = slice(first, first + step)
        piece = turned[part]
        yield indices[part], piece.reshape(len(piece), width)


def rows(slab: Hyperslab, block: Array, axis: int = 0) -> Iterator[Array]:
    """The rows of a block, in its dtype."""
    for _, piece in row_pieces(slab, block, axis):
        yield from piece


def points(slab: Hyperslab, block: Array, shape: Sequence[int]) -> Iterator[tuple[Any, int]]:
    """(value, row-major index in the whole array of this shape) of every element, the last axis
    fastest.

    Values are Python's numbers; a longdouble stays one, since Python has none that would hold it.
    """
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    along = [
        (start + np.arange(count, dtype=np.int64) * stride) * step
        for start, count, stride, step in zip(
            slab.start, slab.count, slab.stride, steps, strict=True
        )
    ]
    for first in range(0, block.size, POINTS):
        last = min(first + POINTS, block.size)
        place: tuple[Array, ...] = ()
        if block.ndim:
            place = np.unravel_index(np.arange(first, last), block.shape)
        index = sum(
            (at[k] for at, k in zip(along, place, strict=True)),
            start=np.zeros(last - first, np.int64),
        )
        yield from zip(np.atleast_1d(block[place]).tolist(), index.tolist(), strict=True)


def doubles(slab: Hyperslab, values: Array) -> Array:
    """The values as float64, in which integers beyond 2**53 are rounded; UsageError for types that
    it cannot hold.
    """
    dtype = values.dtype
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return values.astype(np.float64, copy=False)
    remedy = "convert them to float64"
    if dtype.kind == "c":
        remedy = "take the real part, the imaginary part or the magnitude"
    raise UsageError(
        f"the block {slab} holds {dtype}, and algebra is done in float64: {remedy} first"
    )


def vectors(slab: Hyperslab, block: Array, axis: int = 0) -> Iterator[DenseVector]:
    """The rows as MLlib's DenseVector; UsageError for complex numbers and longdoubles."""
    from pyspark.mllib.linalg import DenseVector

    for _, piece in row_pieces(slab, block, axis):
        yield from map(DenseVector, doubles(slab, piece))


def indexed_vectors(slab: Hyperslab, block: Array, axis: int = 0) -> Iterator[IndexedRow]:
    """The rows as MLlib's IndexedRow, with their indices in the whole array; UsageError as in
    `vectors`.
    """
    from pyspark.mllib.linalg.distributed import IndexedRow

    for indices, piece in row_pieces(slab, block, axis):
        yield from map(IndexedRow, indices, doubles(slab, piece))


def labeled_points(
    slab: Hyperslab, block: Array, label: int, axis: int = 0
) -> Iterator[LabeledPoint]:
    """The rows as MLlib's LabeledPoint: column number `label` is the label, the other columns are
    the features.

    Raises UsageError where there is no such column, and as in `vectors`.
    """
    from pyspark.mllib.regression import LabeledPoint

    for _, piece in row_pieces(slab, block, axis):
        width = piece.shape[1]
        if not -width <= label < width:
            raise UsageError(
                f"label is column {label}, and rows of the block {slab} have {width} values"
            )
        matrix = doubles(slab, piece)
        yield from map(LabeledPoint, matrix[:, label], np.delete(matrix, label, axis=1))


def finite(caller: str, indices: range, values: Array) -> Array:
    """The rows, if all their values are finite; else UsageError with the first row that holds one
    which is not.
    """
    good = np.isfinite(values).all(axis=1)
    if not good.all():
        row = int(good.argmin())
        odd = values[row][~np.isfinite(values[row])][0]
        raise UsageError(
            f"{caller}: row {indices[row]} holds {odd}: replace what is not finite, or leave its"
            " row out"
        )
    return values
