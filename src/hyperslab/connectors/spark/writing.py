"""Writing: the elements of an RDD as one array in a file, by two jobs.

The first job computes the RDD, once: every task writes what it has to a file of its own in a hidden
folder beside the destination. When it is sure that this is one whole array, the second makes the
file of it, region by region, as runs do. The file appears in one step when all its bytes are on
storage.

- a failed write leaves what was there as it was, and nothing else
  (`tests/connectors/spark/test_write_faults.py`)
- no value changes: `hyperslab.connectors.spark.rows`
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.connectors.spark import assembly, fragment_files
from hyperslab.connectors.spark.destination import DATASET, destination
from hyperslab.connectors.spark.fragments import Staged
from hyperslab.connectors.spark.rows import pieces
from hyperslab.errors import UsageError

if TYPE_CHECKING:
    from pyspark import RDD


def h5write(
    rdd: RDD[Any],
    path: str | os.PathLike[str],
    dataset: str = DATASET,
    overwrite: bool = False,
    *,
    dtype: Any = None,
    shape: int | Iterable[int] | None = None,
    chunks: int | tuple[int, ...] = (),
    compression: str | None = None,
) -> None:
    """Write the elements of an RDD as one array in a file, whose name says the format: .h5, .nc,
    .nii, .zarr, ...

    The elements are (Hyperslab, array) blocks of any rank that cover the array; or (index, row)
    pairs and IndexedRows, in any order; or rows, which are written in the order of the partitions.
    A row is an array, a sequence of numbers, a vector of MLlib or a number. With an index a number
    is an array without axes, `(3, numpy.array(0.5))`: a plain pair of numbers is refused, as it may
    be a row of two. Indices begin at 0, and none is left out.

    Values are written as they are: Python's numbers as int64 and float64. `dtype` names another
    type for values that all have their equal there. `shape` says how large the array has to be.
    `chunks` and `compression` ('gzip:4') are those of the format. A file is written whole:
    `overwrite` replaces one of the name, at the end, with its attributes, unless it holds more than
    `dataset`.

    Every executor has to see the folder of the file. Raises UsageError for what cannot be written,
    OSError, and what Spark raises for tasks that failed.
    """
    place = destination(path, dataset, overwrite, dtype, shape, chunks, compression)
    if not hasattr(rdd, "mapPartitionsWithIndex"):
        raise UsageError(
            f"h5write takes an RDD, not a {type(rdd).__name__}: a DataFrame is written by "
            'df.write.format("hyperslab").mode("append").save(path)'
        )
    with fragment_files.begun(place.path) as folder:
        staged = rdd.mapPartitionsWithIndex(_Stage(folder, place.dtype)).collect()
        made = assembly.prepare(place, folder, staged)
        regions = made.regions()
        written = (
            rdd.context.parallelize(regions, len(regions) or 1)
            .map(partial(assembly.copy, made))
            .collect()
        )
        assembly.finish(made, written, overwrite)


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a task of the first job does."""

    folder: str
    dtype: np.dtype[Any] | None

    def __call__(self, partition: int, items: Iterable[Any]) -> Iterator[Staged]:
        yield fragment_files.stage(pieces(items, partition, self.dtype), self.folder, partition)
