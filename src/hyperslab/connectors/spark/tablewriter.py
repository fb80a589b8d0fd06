"""Table writer: the rows of a DataFrame as one array in a file, for `df.write.format("hyperslab")`.

Tasks stage Arrow batches as those of `hyperslab.connectors.spark.writing` stage elements; at commit
one process of the driver, which has no SparkContext, makes the file of them on all its processors.

- columns are promoted only to a dtype that holds all their values
  (`tests/connectors/spark/test_write_tables.py`)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from hyperslab.arrays import Array
from hyperslab.connectors.spark import assembly, fragment_files
from hyperslab.connectors.spark.destination import Destination, from_options
from hyperslab.connectors.spark.exactness import promoted
from hyperslab.connectors.spark.fragments import Staged
from hyperslab.connectors.spark.rows import Piece, recast, sort
from hyperslab.errors import UsageError
from hyperslab.machine.host import Host

if TYPE_CHECKING:
    from pyarrow import RecordBatch

INDEX = "index"
"Name of the column that says where along the first axis a row lies."
_DTYPES: dict[type[DataType], str] = {
    BooleanType: "?",
    ByteType: "i1",
    ShortType: "i2",
    IntegerType: "i4",
    LongType: "i8",
    FloatType: "f4",
    DoubleType: "f8",
}

_INT64_DIGITS = 18
"Most digits of whole numbers that int64 holds all."


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are to the array."""

    index: str
    "Name of the one that says where a row lies; '' where there is none."
    names: tuple[str, ...]
    "Names of the columns that hold values."
    is_array: bool
    "The one column holds a row each."
    dtype: np.dtype[Any] | None
    "dtype that holds the values of all columns; None where there is none."


@dataclass(frozen=True, slots=True)
class Message(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged


class TableWriter(DataSourceArrowWriter):
    """One write of a table: made on the driver, used by tasks, and again on the driver in the
    end.
    """

    def __init__(self, destination: Destination, columns: Columns, folder: str) -> None:
        self.destination = destination
        self.columns = columns
        self.folder = folder

    def write(self, iterator: Iterator[RecordBatch]) -> Message:
        """Stage the batches of a task."""
        context = TaskContext.get()
        if context is None:
            raise UsageError(
                "a table is written by tasks of Spark, each of which knows its partition"
            )
        partition = context.partitionId()
        found = pieces(iterator, self.columns, self.destination, partition)
        return Message(fragment_files.stage(found, self.folder, partition))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the file. Raises UsageError for what is not one array, OSError."""
        try:
            staged = [message.staged for message in messages if isinstance(message, Message)]
            made = assembly.prepare(self.destination, self.folder, staged)
            with ThreadPoolExecutor(Host.here().cpus) as threads:
                written = list(threads.map(partial(assembly.copy, made), made.regions()))
            assembly.finish(made, written, self.destination.overwrite)
        finally:
            fragment_files.end(self.folder, self.destination.path)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove all that was staged."""
        fragment_files.end(self.folder, self.destination.path)


def table_writer(schema: StructType, options: Mapping[str, str], overwrite: bool) -> TableWriter:
    """The writer of a table with these columns. Raises UsageError for what can be seen to be wrong
    before it is run.
    """
    columns = columns_of(schema)
    destination = from_options(options, overwrite, columns.dtype)
    if destination.dtype is None:
        named = ", ".join(
            f"{name} ({schema[name].dataType.simpleString()})" for name in columns.names
        )
        raise UsageError(
            f'no type holds all values of the columns {named} exactly: say option("dtype", ...), or'
            " cast one of them"
        )
    return TableWriter(destination, columns, fragment_files.begin(destination.path))


def columns_of(schema: StructType) -> Columns:
    """What the columns of a table are. Raises UsageError for columns that are no array's."""
    index = [
        field for field in schema.fields if field.name.lower() == INDEX
    ]  # Spark's names have no case
    fields = [field for field in schema.fields if field.name.lower() != INDEX]
    if len(index) > 1 or len({field.name for field in fields}) < len(fields):
        raise UsageError("two columns have one name: rename one of them")
    if index and not isinstance(index[0].dataType, ByteType | ShortType | IntegerType | LongType):
        raise UsageError(
            f"the column {INDEX} holds {index[0].dataType.simpleString()}: it has to hold whole"
            " numbers"
        )
    if not fields:
        raise UsageError(
            "the table has no column of values: give one of arrays of numbers, or columns of"
            " numbers"
        )
    arrays = [field for field in fields if isinstance(field.dataType, ArrayType)]
    if arrays and len(fields) > 1:
        raise UsageError(
            f"the column {arrays[0].name} holds arrays, and there are others: give one column of"
            f" arrays, or columns of numbers, beside {INDEX}"
        )
    types = [_element_type(field.dataType) for field in fields]
    dtypes = [_dtype(of) for of in types]
    for field, of, dtype in zip(fields, types, dtypes, strict=True):
        if dtype is None:
            hint = ""
            if "vector" in str(of):
                hint = "; pyspark.ml.functions.vector_to_array makes arrays of vectors"
            raise UsageError(
                f"the column {field.name} holds {field.dataType.simpleString()}, neither numbers"
                f" nor arrays of numbers: cast it, or leave it out{hint}"
            )
    held = promoted(dtype for dtype in dtypes if dtype is not None)
    by = ""
    if index:
        by = index[0].name
    return Columns(by, tuple(field.name for field in fields), bool(arrays), held)


def _element_type(of: DataType) -> DataType:
    if isinstance(of, ArrayType):
        return of.elementType
    return of


def _dtype(of: DataType) -> np.dtype[Any] | None:
    """What holds the numbers of a column; decimals without places are what uint64 is read as."""
    if isinstance(of, DecimalType) and of.scale == 0:
        if of.precision <= _INT64_DIGITS:
            return np.dtype(np.int64)
        return np.dtype(np.uint64)
    name = _DTYPES.get(type(of))
    if name is None:
        return None
    return np.dtype(name)


def pieces(
    batches: Iterable[RecordBatch], columns: Columns, destination: Destination, partition: int
) -> Iterator[Piece]:
    """Batches as rows. Raises UsageError for nulls, rows of different lengths and values that a
    dtype does not hold.
    """
    done = 0
    length: tuple[int, ...] | None = None
    for batch in (batch for batch in batches if batch.num_rows):
        index = None
        if columns.index:
            index = _plain(batch.column(columns.index), columns.index).astype(np.int64)
        make = _scalars
        if columns.is_array:
            make = _arrays
        block = make(batch, columns, destination.dtype, _naming(index, done, partition))
        if length not in (None, block.shape[1:]):
            raise UsageError(
                f"the column {columns.names[0]} has rows of {length} and {block.shape[1:]} elements"
            )
        length = block.shape[1:]
        block = _shaped(block, destination.shape)
        if index is None:
            yield Piece("rows", block)
        else:
            yield sort(index, block)
        done += batch.num_rows


def _naming(index: Array | None, done: int, partition: int) -> Any:
    def name(place: tuple[int, ...]) -> str:
        if index is not None:
            row = f"row {index[place[0]]}"
        else:
            row = f"row {done + place[0]} of partition {partition}"
        if len(place) > 1:
            row += f" at {place[1]}"
        return f"of {row}"

    return name


def _arrays(batch: RecordBatch, columns: Columns, dtype: np.dtype[Any] | None, name: Any) -> Array:
    """A column of arrays. What is flattened is of this batch alone, also where that is a slice of a
    larger one.
    """
    (column,) = columns.names
    found = batch.column(column)
    _require_full(found, column)
    lengths = np.diff(np.asarray(found.offsets))
    if (odd := lengths != lengths[0]).any():
        raise UsageError(
            f"the column {column} has arrays of {lengths[0]} and of {lengths[odd][0]} elements: all"
            " rows of an array have one length"
        )
    block = _plain(found.flatten(), column).reshape(len(lengths), int(lengths[0]))
    return recast(block, dtype, name)


def _scalars(batch: RecordBatch, columns: Columns, dtype: np.dtype[Any] | None, name: Any) -> Array:
    """Columns of numbers beside each other; a single one is an array of one axis."""
    if len(columns.names) == 1:
        (column,) = columns.names
        return recast(_plain(batch.column(column), column), dtype, name)
    block = np.empty((batch.num_rows, len(columns.names)), dtype)
    for number, column in enumerate(columns.names):

        def at(place: tuple[int, ...], number: int = number) -> str:
            return str(name((*place, number)))

        values = _plain(batch.column(column), column)
        block[:, number] = recast(values, dtype, at)
    return block


def _shaped(block: Array, shape: tuple[int, ...] | None) -> Array:
    """Rows that are flattened, as a table has them, in the shape that the whole array gives
    them.
    """
    if shape is None or math.prod(block.shape[1:]) != math.prod(shape[1:]):
        return block
    return block.reshape(len(block), *shape[1:])


def _plain(column: Any, name: str) -> Array:
    import pyarrow as pa

    _require_full(column, name)
    if pa.types.is_decimal(column.type):
        if column.type.precision <= _INT64_DIGITS:
            wanted = pa.int64()
        else:
            wanted = pa.uint64()
        try:
            column = column.cast(wanted)
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"the column {name} holds numbers that {wanted} does not: cast it ({error})"
            ) from None
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def _require_full(column: Any, name: str) -> None:
    if column.null_count:
        raise UsageError(
            f"the column {name} holds nulls, which numbers cannot express: fill or filter them"
            " first"
        )
