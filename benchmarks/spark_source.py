"""The Data Source, with tasks that record what they do: found by another name, so that the
product's own is timed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from pyspark.sql import types
from pyspark.sql.datasource import InputPartition

from benchmarks.spark_spool import streamed
from hyperslab.connectors.spark.datasource import HyperslabSource, TableReader
from hyperslab.connectors.spark.options import Options


class TracedSource(HyperslabSource):
    """With the option `spool`: a folder for the records."""

    @classmethod
    def name(cls) -> str:
        return "hyperslab-traced"

    @functools.cached_property
    def _settings(self) -> Options:
        return Options(
            {name: text for name, text in self.options.items() if name.lower() != "spool"}
        )

    def reader(self, schema: types.StructType) -> TableReader:
        """The reader of a table."""
        settings = self._settings
        reader = TracedReader(
            self._analysis, self._columns(self._analysis), settings.number("partitions")
        )
        reader.spool = next(text for name, text in self.options.items() if name.lower() == "spool")
        return reader


class TracedReader(TableReader):
    """Reads as its parent does."""

    spool = ""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from streamed(super().read, self.spool)(partition)
