"""What workloads of Spark's library for machine learning have in common: data as frames of vectors,
and what is said of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.connectors.spark import learning_data as data
from hyperslab.connectors.spark.learning_data import Floats, Ints, Problem

CLOSE = 1e-6
"Relative difference of two ways to compute a number up to which both are right."
FEATURES, LABEL, ID = "features", "label", "id"


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload, and what its result has to be."""

    problem: Problem
    "Size at scale 1."
    load: Callable[[Any, Problem], Any]
    "Makes the data, a DataFrame, of a session."
    run: Callable[[Any, Problem], Any]
    "Comes to a result."
    is_right: Callable[[Any, Any, Problem], bool]
    "Says whether that is right, by a context of Spark."


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(found, expected, rtol=CLOSE, atol=CLOSE))


def schema(*others: tuple[str, str]) -> Any:
    """The schema of other columns, by their names and types, and of vectors behind them."""
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import StructType

    made = StructType()
    for name, kind in others:
        made = made.add(name, kind)
    return made.add(FEATURES, VectorUDT())


def vectors(rows_of: Callable[[int, Problem], Floats], spark: Any, problem: Problem) -> Any:
    """A DataFrame of vectors."""
    from pyspark.ml.linalg import Vectors

    def rows(partition: int, asked: Problem) -> Iterator[tuple[Any]]:
        return ((Vectors.dense(row),) for row in rows_of(partition, asked))

    return data.table(spark, problem, rows, schema())


def numbered(rows_of: Callable[[int, Problem], Floats], spark: Any, problem: Problem) -> Any:
    """A DataFrame of vectors and their numbers."""
    from pyspark.ml.linalg import Vectors

    def rows(partition: int, asked: Problem) -> Iterator[tuple[int, Any]]:
        first, _ = asked.span(partition)
        found = enumerate(rows_of(partition, asked), first)
        return ((number, Vectors.dense(row)) for number, row in found)

    return data.table(spark, problem, rows, schema((ID, "long")))


Labelled = Callable[[int, Problem], tuple[Floats | Ints, Floats | Ints]]
"Labels of a partition, and its rows."


def labelled(rows_of: Labelled, spark: Any, problem: Problem) -> Any:
    """A DataFrame of vectors and their labels."""
    from pyspark.ml.linalg import Vectors

    def rows(partition: int, asked: Problem) -> Iterator[tuple[float, Any]]:
        labels, features = rows_of(partition, asked)
        pairs = zip(labels, features, strict=True)
        return ((float(label), Vectors.dense(row)) for label, row in pairs)

    return data.table(spark, problem, rows, schema((LABEL, "double")))
