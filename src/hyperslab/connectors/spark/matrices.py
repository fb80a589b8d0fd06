"""MLlib's distributed matrices of a block RDD; rows run along one axis, what is left is flattened
in C order.

- no Spark job is run to make a matrix: its extents are given, and so are the types of the
  DataFrames through which PySpark hands values to the JVM, which it would else look for in the
  first row (`tests/connectors/spark/test_matrices.py::test_no_job`)
- a matrix holds float64: complex numbers and longdoubles are UsageError, in the task that meets
  them
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.mllib.common import callMLlibFunc
from pyspark.mllib.linalg import DenseMatrix, DenseVector, MatrixUDT, VectorUDT
from pyspark.mllib.linalg.distributed import (
    BlockMatrix,
    CoordinateMatrix,
    IndexedRowMatrix,
    RowMatrix,
)
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.vectors import doubles, row_indices, row_pieces
from hyperslab.errors import UsageError

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

    Block = tuple[Hyperslab, Array]

MOST_COLUMNS = 2**31 - 1
"MLlib counts columns, and blocks of a BlockMatrix, in Java's int."


def indexed_row_matrix(blocks: RDD[Block], axis: int, rows: int, cols: int) -> IndexedRowMatrix:
    """The array as a matrix whose rows have the indices that they have in the array.

    `rows` is the extent along `axis`, `cols` the number of values in a row. Raises UsageError for
    an empty matrix.
    """
    _check_extents(rows, cols)
    entries = blocks.flatMap(partial(_indexed, axis, rows, cols))
    schema = _schema(index=LongType(), vector=VectorUDT())
    return IndexedRowMatrix(
        callMLlibFunc("createIndexedRowMatrix", _frame(entries, schema), rows, cols), rows, cols
    )


def row_matrix(blocks: RDD[Block], axis: int, rows: int, cols: int) -> RowMatrix:
    """The array as a matrix of rows without indices, in the order of the blocks; else as
    `indexed_row_matrix`.
    """
    _check_extents(rows, cols)
    return RowMatrix(blocks.flatMap(partial(_rows, axis, rows, cols)), rows, cols)


def coordinate_matrix(blocks: RDD[Block], axis: int, rows: int, cols: int) -> CoordinateMatrix:
    """The array as a matrix of its entries that are not zero (NaN is not); else as
    `indexed_row_matrix`.
    """
    _check_extents(rows, cols)
    entries = blocks.flatMap(partial(_entries, axis, rows, cols))
    schema = _schema(i=LongType(), j=LongType(), value=DoubleType())
    return CoordinateMatrix(
        callMLlibFunc("createCoordinateMatrix", _frame(entries, schema), rows, cols), rows, cols
    )


def block_matrix(
    blocks: RDD[Block], axis: int, rows: int, cols: int, rows_per_block: int, cols_per_block: int
) -> BlockMatrix:
    """The array as a matrix of dense blocks; else as `indexed_row_matrix`.

    No values move between tasks: blocks of the RDD must begin at multiples of `rows_per_block` and
    end there or with the array. One that does not is UsageError in its task.
    """
    _check_extents(rows, cols)
    for name, extent in (("rows_per_block", rows_per_block), ("cols_per_block", cols_per_block)):
        if not 1 <= extent <= MOST_COLUMNS:
            raise UsageError(f"{name} is {extent}; it can be 1 to {MOST_COLUMNS}")
    if -(-rows // rows_per_block) > MOST_COLUMNS:
        raise UsageError(
            f"{rows} rows make more than {MOST_COLUMNS} blocks of {rows_per_block}: raise"
            " rows_per_block"
        )
    entries = blocks.flatMap(
        partial(_sub_matrices, axis, rows, cols, (rows_per_block, cols_per_block))
    )
    place = _schema(i=LongType(), j=LongType())
    frame = _frame(entries, _schema(place=place, matrix=MatrixUDT()))
    made = callMLlibFunc("createBlockMatrix", frame, rows_per_block, cols_per_block, rows, cols)
    return BlockMatrix(made, rows_per_block, cols_per_block, rows, cols)


def _check_extents(rows: int, cols: int) -> None:
    """MLlib takes 0 for an extent that is not known, and finds none in a matrix without entries."""
    if rows < 1 or cols < 1:
        raise UsageError(
            f"a matrix of {rows} rows and {cols} columns is empty, and MLlib has none: select some"
            " values"
        )
    if cols > MOST_COLUMNS:
        raise UsageError(
            f"a row of {cols} values is longer than MLlib's {MOST_COLUMNS}: let rows run along"
            " another axis"
        )


def _schema(**types: Any) -> StructType:
    return StructType([StructField(name, type_, nullable=False) for name, type_ in types.items()])


def _frame(entries: RDD[Any], schema: StructType) -> DataFrame:
    """The tuples as a DataFrame; the session is the one of the RDD's context, of which a process
    has one.
    """
    return SparkSession.builder.getOrCreate().createDataFrame(entries, schema, verifySchema=False)


def _check_block(slab: Hyperslab, block: Array, axis: int, rows: int, cols: int) -> range:
    """The indices of the block's rows, if they are whole rows of such a matrix."""
    indices = row_indices(slab, axis)
    width = block.size // max(1, len(indices))
    if indices and (width != cols or max(indices[0], indices[-1]) >= rows):
        last = max(indices[0], indices[-1])
        raise UsageError(
            f"the block {slab} has rows of {width} values up to row {last}, the matrix {rows} rows"
            f" of {cols}: cut the array along axis {axis} only, and give its extents"
        )
    return indices


def _indexed(axis: int, rows: int, cols: int, item: Block) -> Iterator[tuple[int, DenseVector]]:
    slab, block = item
    _check_block(slab, block, axis, rows, cols)
    for indices, piece in row_pieces(slab, block, axis):
        yield from zip(indices, map(DenseVector, doubles(slab, piece)), strict=True)


def _rows(axis: int, rows: int, cols: int, item: Block) -> Iterator[DenseVector]:
    return (vector for _, vector in _indexed(axis, rows, cols, item))


def _entries(axis: int, rows: int, cols: int, item: Block) -> Iterator[tuple[int, int, float]]:
    slab, block = item
    _check_block(slab, block, axis, rows, cols)
    for indices, piece in row_pieces(slab, block, axis):
        values = doubles(slab, piece)
        at, j = values.nonzero()
        yield from zip(
            (indices[k] for k in at.tolist()), j.tolist(), values[at, j].tolist(), strict=True
        )


def _sub_matrices(
    axis: int, rows: int, cols: int, extents: tuple[int, int], item: Block
) -> Iterator[tuple[tuple[int, int], DenseMatrix]]:
    """((row of blocks, column of blocks), block), with values by columns, as MLlib has them."""
    slab, block = item
    high, wide = extents
    indices = _check_block(slab, block, axis, rows, cols)
    if not indices:
        return
    ends_within = indices.stop % high and indices.stop != rows
    if indices.step != 1 or indices.start % high or ends_within:
        raise UsageError(
            f"the block {slab} has rows {indices.start} to {indices.stop} in steps of"
            f" {indices.step}, which are not whole blocks of {high} rows: cut the array at"
            " multiples of rows_per_block"
        )
    turned = np.moveaxis(block, axis, 0)
    for first in range(0, len(indices), high):
        stripe = turned[first : first + high].reshape(-1, cols)
        for left in range(0, cols, wide):
            values = doubles(slab, stripe[:, left : left + wide])
            height, width = values.shape
            matrix = DenseMatrix(height, width, values.ravel(order="F"))
            place = (indices[first] // high, left // wide)
            yield place, matrix
