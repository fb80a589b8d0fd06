"""Checksum of every value: the sum, modulo 2**64, of the bytes taken eight at a time; order does
not matter.

All ways sum by the same function, whatever they have in hand: blocks, rows, vectors, points or
Arrow batches. The rows of the benchmark's files are multiples of eight bytes, so that a row's sum
is part of its block's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab.trace import span

Array = npt.NDArray[Any]
WRAP = 1 << 64
POINTS = 1 << 16
"Points that are summed at a time."
SUMS = "low long, high long"
"Columns of a sum in a table of Spark, whose numbers have a sign: its lower and its upper 32 bits."


def checksum(values: Array) -> int:
    """Of one array, whose bytes are a multiple of eight. Raises ValueError for others."""
    return int(np.add.reduce(values.reshape(-1).view(np.uint64)))


def total(sums: Iterable[int]) -> int:
    """Of everything, from the sums of its parts."""
    return sum(sums) % WRAP


def of_blocks(blocks: Iterable[tuple[Any, Array]]) -> Iterator[int]:
    """One sum for a partition of pairs (hyperslab, block)."""
    summed = 0
    for _, block in blocks:
        with span("compute"):
            summed += checksum(block)
    yield summed % WRAP


def of_rows(rows: Iterable[Array]) -> Iterator[int]:
    """One sum for a partition of rows, taken row by row; the phase holds the reading of what it
    asks for.
    """
    summed = 0
    with span("compute"):
        for row in rows:
            summed += checksum(row)
    yield summed % WRAP


def of_vectors(vectors: Iterable[Any]) -> Iterator[int]:
    """One sum for a partition of DenseVectors."""
    return of_rows(vector.array for vector in vectors)


def of_indexed_rows(rows: Iterable[Any]) -> Iterator[int]:
    """One sum for a partition of IndexedRows."""
    return of_rows(row.vector.array for row in rows)


def of_points(points: Iterable[tuple[float, int]]) -> Iterator[int]:
    """One sum for a partition of pairs (value, index) of float64."""
    values = (value for value, _ in points)
    return of_rows(
        np.array(some) for some in iter(lambda: list(itertools.islice(values, POINTS)), [])
    )


def of_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """One batch, of the columns SUMS, for a partition of Arrow batches with a column `values` of
    lists.
    """
    import pyarrow as pa

    rows = (batch.column("values").flatten().to_numpy(zero_copy_only=False) for batch in batches)
    (summed,) = of_rows(rows)
    yield pa.RecordBatch.from_pydict({"low": [summed % (1 << 32)], "high": [summed >> 32]})


def of_table(table: Any) -> int:
    """Of the column `values` of a DataFrame, in Python."""
    return total(row.low + (row.high << 32) for row in table.mapInArrow(of_batches, SUMS).collect())
