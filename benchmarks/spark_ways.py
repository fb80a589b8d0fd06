"""The ways to have a matrix in Spark, each forced to deliver every value; and how their values are
compared.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import spark_checksum as sums
from benchmarks.spark_context import Spark
from benchmarks.spark_data import DATASET, PARTITIONS, Array, Kind, Matrix
from benchmarks.spark_source import TracedSource
from benchmarks.spark_spool import streamed, watched
from hyperslab.connectors.spark import h5read, read_blocks, tables
from hyperslab.connectors.spark.analyzer import analyze
from hyperslab.connectors.spark.part import Part
from hyperslab.connectors.spark.partitioner import cuts_of
from hyperslab.connectors.spark.seeder import parts_of
from hyperslab.trace import span

BLOCKS, ROWS, H5SPARK = "read_blocks", "h5read", "H5Spark-like rows"
SOURCE, MAP_IN_ARROW, PARQUET, BINARY = "Data Source", "mapInArrow", "Parquet", "binaryFiles"
H5PY, MPI = "h5py, 1 process", "MPI, 2 processes"
SMALLER = 2
"Sizes that are loaded by the ways that are not given the largest ones."


@dataclass(frozen=True, slots=True)
class Way:
    """How a matrix is loaded in Spark."""

    name: str
    load: Callable[[Spark, Matrix, int, str], int | None]
    """(spark, matrix, partitions, folder for the records of tasks or '') -> checksum, or None where
    Java has the values.
    """
    check: Callable[[Spark, Matrix, int], int] | None = None
    "For those: the checksum of what they deliver."
    kinds: tuple[Kind, ...] = ("plain", "gzip")
    smaller: bool = False
    "True: only the SMALLER smallest sizes."
    in_python: bool = True
    "False: its tasks run in Java alone."


def blocks(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> int:
    """NumPy blocks, summed where they are."""
    found = read_blocks(spark.context, str(matrix.path), DATASET, partitions)
    return sums.total(found.mapPartitions(watched(sums.of_blocks, spool)).collect())


def rows(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> int:
    """Rows of hyperslab, summed one by one."""
    found = h5read(spark.context, str(matrix.path), DATASET, partitions)
    return sums.total(found.mapPartitions(watched(sums.of_rows, spool)).collect())


def h5spark(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> int:
    """Rows as H5Spark's Python makes them: starts of slabs are an RDD, each task reads its slabs
    through h5py.
    """
    import h5py

    with h5py.File(matrix.path, "r") as file:
        count = len(file[DATASET])
    partitions = min(partitions, count)
    step = count // partitions
    starts = spark.context.parallelize(range(0, count, step), partitions)
    found = starts.flatMap(functools.partial(slab_rows, str(matrix.path), step, count))
    return sums.total(found.mapPartitions(watched(sums.of_rows, spool)).collect())


def slab_rows(path: str, step: int, count: int, start: int) -> Iterator[Array]:
    """The rows [start, start + step), read at once."""
    import h5py

    with h5py.File(path, "r") as file:
        with span("read") as mark:
            slab = file[DATASET][start : min(start + step, count)]
            mark.nbytes = slab.nbytes
        yield from slab


def binary_files(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> int:
    """The whole file as bytes in one task, opened there, as SciSpark does."""
    found = spark.context.binaryFiles(str(matrix.path), partitions)
    return sums.total(found.mapPartitions(watched(of_files, spool)).collect())


def of_files(files: Iterable[tuple[str, bytes]]) -> Iterator[int]:
    """One sum for a partition of pairs (name, bytes of an HDF5 file)."""
    import h5py

    for _, data in files:
        with span("read") as mark, h5py.File(io.BytesIO(data), "r") as file:
            values = file[DATASET][()]
            mark.nbytes = values.nbytes
        with span("compute"):
            summed = sums.checksum(values)
        yield summed


def _source(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> Any:
    reader = spark.session.read.format("hyperslab")
    if spool:
        spark.session.dataSource.register(TracedSource)
        reader = spark.session.read.format(TracedSource.name()).option("spool", spool)
    return reader.option("dataset", DATASET).option("partitions", partitions).load(str(matrix.path))


def _mapped(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> Any:
    analysis = analyze(str(matrix.path), DATASET)
    columns = tables.columns(analysis.dtype, analysis.row_size, "array")
    parts = list(parts_of(analysis, cuts_of(analysis), partitions))
    numbers = spark.session.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(
        streamed(functools.partial(batches, parts, columns), spool), columns.spark
    )


def batches(parts: list[Part], columns: tables.Columns, numbers: Iterator[Any]) -> Iterator[Any]:
    """The Arrow batches that the Data Source makes of the same parts."""
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            part = parts[number]
            for slab, block in part:
                yield from tables.batches(columns, slab, block, part.axis)


def _parquet(spark: Spark, matrix: Matrix, partitions: int, spool: str) -> Any:
    """Its files are one partition each, which Spark would put together or cut otherwise."""
    largest = max(path.stat().st_size for path in matrix.files(is_parquet=True))
    spark.session.conf.set("spark.sql.files.maxPartitionBytes", str(largest))
    spark.session.conf.set("spark.sql.files.openCostInBytes", str(largest))
    return spark.session.read.parquet(str(matrix.parquet))


def _to_nowhere(
    table: Callable[..., Any], spark: Spark, matrix: Matrix, partitions: int, spool: str
) -> None:
    table(spark, matrix, partitions, spool).write.format("noop").mode("overwrite").save()


def _summed(table: Callable[..., Any], spark: Spark, matrix: Matrix, partitions: int) -> int:
    return sums.of_table(table(spark, matrix, partitions, ""))


def _table_way(
    name: str, table: Callable[..., Any], *, smaller: bool = False, in_python: bool = True
) -> Way:
    load, check = functools.partial(_to_nowhere, table), functools.partial(_summed, table)
    return Way(name, load, check, ("plain",), smaller, in_python)


WAYS = (
    Way(BLOCKS, blocks),
    Way(ROWS, rows),
    Way(H5SPARK, h5spark),
    _table_way(SOURCE, _source),
    _table_way(MAP_IN_ARROW, _mapped),
    _table_way(PARQUET, _parquet, smaller=True, in_python=False),
    Way(BINARY, binary_files, kinds=("plain",), smaller=True),
)
NAMES = (H5PY, MPI, *(way.name for way in WAYS))
"All of them, in the order of the tables."


def partitions_of(way: str) -> int:
    """Into how many parts a way loads a matrix."""
    return 1 if way in (H5PY, BINARY) else 2 if way == MPI else PARTITIONS
