"""Tables: blocks of an array as Arrow batches of an index column and the values, exact in a type
that Spark has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.vectors import row_pieces
from hyperslab.errors import UsageError

Layout = Literal["array", "scalars"]
"Layout of the values of a row: one column of arrays, or a column for each element."
BATCH_NBYTES = 4 * 1024**2
MOST_SCALARS = 10_000
"Columns of a table; Spark's own plans of more take minutes."


class _Kind(NamedTuple):
    """How Spark holds a dtype."""

    spark: types.DataType
    arrow: pa.DataType


_KINDS = {
    "bool": _Kind(types.BooleanType(), pa.bool_()),
    "int8": _Kind(types.ByteType(), pa.int8()),
    "int16": _Kind(types.ShortType(), pa.int16()),
    "int32": _Kind(types.IntegerType(), pa.int32()),
    "int64": _Kind(types.LongType(), pa.int64()),
    "uint8": _Kind(types.ShortType(), pa.int16()),
    "uint16": _Kind(types.IntegerType(), pa.int32()),
    "uint32": _Kind(types.LongType(), pa.int64()),
    "uint64": _Kind(types.DecimalType(20, 0), pa.decimal128(20, 0)),
    "float16": _Kind(types.FloatType(), pa.float32()),
    "float32": _Kind(types.FloatType(), pa.float32()),
    "float64": _Kind(types.DoubleType(), pa.float64()),
}
"Spark has no unsigned numbers: those are held by the next wider type."


class Columns(NamedTuple):
    """The columns of a table."""

    dtype: np.dtype[Any]
    row_size: int
    layout: Layout

    @property
    def names(self) -> list[str]:
        """Names of the columns of values."""
        if self.layout == "array":
            return ["values"]
        if self.row_size == 1:
            return ["value"]
        return [f"c{number}" for number in range(self.row_size)]

    @property
    def spark(self) -> types.StructType:
        kind = _KINDS[self.dtype.name].spark
        column = kind
        if self.layout != "scalars":
            column = types.ArrayType(kind, containsNull=False)
        index = types.StructField("index", types.LongType(), nullable=False)
        return types.StructType(
            [index, *(types.StructField(name, column, nullable=False) for name in self.names)]
        )

    @property
    def arrow(self) -> pa.Schema:
        """Schema that Spark makes of the one above, which batches have to equal."""
        kind = _KINDS[self.dtype.name].arrow
        column = kind
        if self.layout != "scalars":
            column = pa.list_(pa.field("element", kind, nullable=False))
        fields = [pa.field(name, column, nullable=False) for name in self.names]
        return pa.schema([pa.field("index", pa.int64(), nullable=False), *fields])


def columns(dtype: np.dtype[Any], row_size: int, layout: str) -> Columns:
    """The columns for rows of so many numbers. Raises UsageError for what a table cannot hold."""
    if layout not in get_args(Layout):
        raise UsageError(f"option layout: {layout!r}; it can be {' or '.join(get_args(Layout))}")
    if dtype.name not in _KINDS:
        raise UsageError(
            f"the array holds {dtype}, which no column of Spark can: use read_blocks or h5read"
        )
    if layout == "scalars" and not 0 < row_size <= MOST_SCALARS:
        raise UsageError(
            f"option layout: a row has {row_size} numbers, scalar columns are for 1 to"
            f" {MOST_SCALARS}: use array"
        )
    return Columns(dtype, row_size, layout)  # type: ignore[arg-type]  # it was looked up


def batches(columns: Columns, slab: Hyperslab, block: Array, axis: int) -> Iterator[pa.RecordBatch]:
    """The rows of a block, about BATCH_NBYTES at a time."""
    for indices, rows in row_pieces(slab, block, axis, BATCH_NBYTES):
        index = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
        yield pa.RecordBatch.from_arrays(
            [pa.array(index), *_values(columns, rows)], schema=columns.arrow
        )


def _values(columns: Columns, rows: Array) -> list[pa.Array]:
    kind = _KINDS[columns.dtype.name].arrow
    if columns.layout == "scalars":
        return [_flat(np.ascontiguousarray(column), kind) for column in rows.T]
    ends = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    flat = _flat(np.ascontiguousarray(rows).reshape(-1), kind)
    of = columns.arrow.field("values").type
    return [pa.ListArray.from_arrays(pa.array(ends), flat, type=of)]


def _flat(values: Array, kind: pa.DataType) -> pa.Array:
    """One-dimensional numbers as Arrow has them: without a copy where the types are the same."""
    if values.dtype.name == "float16":
        values = values.astype(np.float32)
    found = pa.array(values)
    if found.type == kind:
        return found
    return found.cast(kind)
