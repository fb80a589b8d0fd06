"""Spark's Data Source "hyperslab": arrays in files as tables, read, written and listed.

- found by name where this package is installed on the driver (`pyspark_hyperslab`), over Spark Connect too
- one task per hyperslab, and only its own part of a file's tables goes to a task
- bounds on the index column narrow what is planned, with the option `pushdown` and Spark's setting of that name
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession, types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from hyperslab.connectors.spark import catalogue, tables
from hyperslab.connectors.spark.analyzer import Analysis, analyze
from hyperslab.connectors.spark.options import Options
from hyperslab.connectors.spark.partitioner import cuts_of, rows_of, share
from hyperslab.connectors.spark.seeder import Part, parts_of
from hyperslab.errors import UsageError
from hyperslab.gathering import expand
from hyperslab.slab import Hyperslab

FILES_A_TASK = 100
"Of a catalogue."


class HyperslabSource(DataSource):
    """`spark.read.format("hyperslab").option("dataset", NAME).load(PATH)`, and the same for `df.write`."""

    @classmethod
    def name(cls) -> str:
        return "hyperslab"

    @functools.cached_property
    def _settings(self) -> Options:
        return Options(self.options)

    def schema(self) -> types.StructType:
        if self._settings.truth("catalogue"):
            return catalogue.SCHEMA
        return self._columns(self._analysis).spark

    def reader(self, schema: types.StructType) -> DataSourceReader:
        settings = self._settings
        if settings.truth("catalogue"):
            return CatalogueReader(settings.paths())
        columns = self._columns(self._analysis)
        if schema != columns.spark:
            known = columns.spark.simpleString()
            raise UsageError(f"the table is {known}: leave schema() out, and use select and cast")
        kind = BoundedReader if settings.truth("pushdown") else TableReader
        return kind(self._analysis, columns, settings.number("partitions"))

    def writer(self, schema: types.StructType, overwrite: bool) -> DataSourceWriter:
        from hyperslab.connectors.spark.tablewriter import table_writer

        return table_writer(schema, dict(self.options), overwrite)

    @functools.cached_property
    def _analysis(self) -> Analysis:
        settings = self._settings
        return analyze(settings.paths(), settings.text("dataset"), **settings.selection())

    def _columns(self, analysis: Analysis) -> tables.Columns:
        return tables.columns(analysis.dtype, analysis.row_size, self._settings.text("layout", "array"))

    def __getstate__(self) -> dict[str, Any]:
        """Spark sends the source to tasks together with its reader: without what it has found out."""
        return {name: value for name, value in vars(self).items() if name not in ("_analysis", "_settings")}


class TableReader(DataSourceReader):
    """Tables of an index column and the values, a task for each partition of the array."""

    def __init__(self, analysis: Analysis, columns: tables.Columns, partitions: int | None) -> None:
        self._analysis: Analysis | None = analysis
        self._partitions = partitions
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        analysis = self._analysis
        assert analysis is not None
        cuts = cuts_of(analysis)
        count, _ = share(analysis, cuts, self._partitions, len(os.sched_getaffinity(0)))
        return [InputPartition(part) for part in parts_of(analysis, cuts, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        part: Part = partition.value
        for slab, block in part:
            yield from tables.batches(self.columns, slab, block, part.axis)

    def __getstate__(self) -> dict[str, Any]:
        """What tasks need: their partitions bring the rest."""
        return vars(self) | {"_analysis": None}


class BoundedReader(TableReader):
    """Takes what filters say of the index: regions outside are not planned."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        assert self._analysis is not None
        low, high = -math.inf, math.inf
        for filter_ in filters:
            bounds = _bounds(filter_)
            if bounds is None:
                yield filter_
            else:
                low, high = max(low, bounds[0]), min(high, bounds[1])
        self._analysis = _narrowed(self._analysis, low, high)


class CatalogueReader(DataSourceReader):
    """A row for every array of every file."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def partitions(self) -> Sequence[InputPartition]:
        urls = [url for path in self._paths for url in expand(path)]
        return [InputPartition(urls[first : first + FILES_A_TASK]) for first in range(0, len(urls), FILES_A_TASK)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for url in partition.value:
            yield from catalogue.entries(url)


def register(spark: SparkSession) -> None:
    """Make the source known to a session whose Spark does not find it by name."""
    spark.dataSource.register(HyperslabSource)


def _bounds(filter_: Filter) -> tuple[float, float] | None:
    """The first and one past the last index that a filter on the index lets pass; None for other filters."""
    if getattr(filter_, "attribute", None) != ("index",):
        return None
    value = getattr(filter_, "value", None)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    match filter_:
        case EqualTo():
            return value, value + 1
        case GreaterThan():
            return value + 1, math.inf
        case GreaterThanOrEqual():
            return value, math.inf
        case LessThan():
            return -math.inf, value
        case LessThanOrEqual():
            return -math.inf, value + 1
        case _:
            return None


def _narrowed(analysis: Analysis, low: float, high: float) -> Analysis:
    """What of a selection has its index within bounds."""
    region, axis = analysis.region, analysis.axis
    first = int(min(max(low, 0), analysis.index_bound))
    last = int(max(first, min(high, analysis.index_bound)))
    part = region.clip(rows_of(Hyperslab.full(analysis.whole.shape), axis, first, last))
    return replace(analysis, region=region.compose(rows_of(region, axis, 0, 0)) if part is None else part[0])
