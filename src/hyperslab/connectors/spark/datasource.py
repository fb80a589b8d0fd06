"""Spark's Data Source "hyperslab": arrays in files as tables, read, written and listed.

- found by name where this package is installed on the driver (`pyspark_hyperslab`), over Spark
  Connect too
- one task per hyperslab, and only its own part of a file's tables goes to a task
- bounds on the index are not pushed down: Spark 4.3 keeps the partitions that one query has
  narrowed for all others of the same DataFrame, whose rows would be missing
  (`tests/connectors/spark/test_table.py`); `region` narrows
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession, types
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition

from hyperslab.blocks.gathering import expand
from hyperslab.connectors.spark import catalogue, tables
from hyperslab.connectors.spark.analyzer import Analysis, analyze
from hyperslab.connectors.spark.options import Options
from hyperslab.connectors.spark.part import Part
from hyperslab.connectors.spark.partitioner import cuts_of, share
from hyperslab.connectors.spark.seeder import parts_of
from hyperslab.errors import UsageError
from hyperslab.storage.location import is_remote

FILES_A_TASK = 100
"Files of a catalogue that one task opens."


class HyperslabSource(DataSource):
    """`spark.read.format("hyperslab").option("dataset", NAME).load(PATH)`, and the same for
    `df.write`.
    """

    @classmethod
    def name(cls) -> str:
        return "hyperslab"

    @functools.cached_property
    def _settings(self) -> Options:
        settings = Options(self.options)
        if settings.truth("catalogue"):
            settings.require_only("catalogue", "path", "paths", "storage_options")
        return settings

    def schema(self) -> types.StructType:
        if self._settings.truth("catalogue"):
            return catalogue.SCHEMA
        return self._columns(self._analysis).spark

    def reader(self, schema: types.StructType) -> DataSourceReader:
        settings = self._settings
        if settings.truth("catalogue"):
            return CatalogueReader(settings.paths(), settings.storage())
        columns = self._columns(self._analysis)
        if schema != columns.spark:
            known = columns.spark.simpleString()
            raise UsageError(f"the table is {known}: leave schema() out, and use select and cast")
        return TableReader(self._analysis, columns, settings.number("partitions"))

    def writer(self, schema: types.StructType, overwrite: bool) -> DataSourceWriter:
        from hyperslab.connectors.spark.tablewriter import table_writer

        return table_writer(schema, dict(self.options), overwrite)

    @functools.cached_property
    def _analysis(self) -> Analysis:
        settings = self._settings
        return analyze(settings.paths(), settings.text("dataset"), **settings.selection())

    def _columns(self, analysis: Analysis) -> tables.Columns:
        return tables.columns(
            analysis.dtype, analysis.row_size, self._settings.text("layout", "array")
        )

    def __getstate__(self) -> dict[str, Any]:
        """Spark sends the source to tasks together with its reader: without what it has found
        out.
        """
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_analysis", "_settings")
        }


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
        count, said = share(analysis, cuts, self._partitions, len(os.sched_getaffinity(0)))
        if said:  # Spark shows it where it shows what its Java says
            warnings.warn(said, stacklevel=1)
        return [InputPartition(part) for part in parts_of(analysis, cuts, count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        part: Part = partition.value
        for slab, block in part:
            yield from tables.batches(self.columns, slab, block, part.axis)

    def __getstate__(self) -> dict[str, Any]:
        """What tasks need: their partitions bring the rest."""
        return vars(self) | {"_analysis": None}


class CatalogueReader(DataSourceReader):
    """A row for every array of every file."""

    def __init__(self, paths: list[str], storage_options: dict[str, Any] | None) -> None:
        self._paths = paths
        self._storage_options = storage_options

    def partitions(self) -> Sequence[InputPartition]:
        found = [url for path in self._paths for url in expand(path)]
        urls = [
            url if is_remote(url) else os.path.abspath(url) for url in found
        ]  # tasks may stand elsewhere
        return [
            InputPartition(urls[first : first + FILES_A_TASK])
            for first in range(0, len(urls), FILES_A_TASK)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for url in partition.value:
            yield from catalogue.entries(url, self._storage_options)


def register(spark: SparkSession) -> None:
    """Make the source known to a session whose Spark does not find it by name."""
    spark.dataSource.register(HyperslabSource)
