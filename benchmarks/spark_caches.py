"""What is kept in Spark's memory, by the form of its elements: bytes, the load that fills it, and
the load from it.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark import StorageLevel

from benchmarks import spark_checksum as sums
from benchmarks.spark_context import Spark
from benchmarks.spark_data import DATASET, PARTITIONS, Matrix, warm
from benchmarks.spark_events import EventLog, launches
from benchmarks.spark_rounds import require_equal
from hyperslab.connectors.spark import h5read, h5read_irow, h5read_point, h5read_vec, read_blocks

REPEATS = 3
PART = 16
"Of points, which are many: one of so many parts of the rows."
PASSES = ("first", "second")


class Form(NamedTuple):
    """How the elements of a matrix are kept."""

    name: str
    make: Callable[..., Any]
    "(context, path, dataset, partitions) -> RDD."
    summed: Callable[[Any], Any]
    "Of a partition."
    part: int = 1


FORMS = (
    Form("blocks", read_blocks, sums.of_blocks),
    Form("rows", h5read, sums.of_rows),
    Form("vectors", h5read_vec, sums.of_vectors),
    Form("indexed rows", h5read_irow, sums.of_indexed_rows),
    Form("points", h5read_point, sums.of_points, PART),
)
TABLE = "DataFrame"
COMPRESSED = "blocks, spark.rdd.compress"


@dataclass(slots=True)
class Kept:
    """One form, measured."""

    name: str
    nbytes: int
    "Of the values."
    cached_nbytes: int = 0
    cached: int = 0
    "Partitions that fitted."
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PASSES})
    groups: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in PASSES})
    gc_s: dict[str, float] = field(default_factory=dict)
    "Median of the sums over tasks."

    def median_s(self, which: str) -> float:
        return statistics.median(self.seconds[which])

    def read(self, log: EventLog) -> None:
        """Take the time in Java's collector from the event log, when its session has ended."""
        for name in PASSES:
            self.gc_s[name] = statistics.median(
                launches(log, [group]).gc_s for group in self.groups[name]
            )


def forms(spark: Spark, matrix: Matrix, repeats: int) -> list[Kept]:
    """All forms in rounds, in random order."""
    made = [(form, Kept(form.name, matrix.nbytes // form.part)) for form in FORMS]
    table, tasks = Kept(TABLE, matrix.nbytes), list[Callable[[], None]]()
    for form, kept in made:
        tasks.append(lambda form=form, kept=kept: _keep(spark, matrix, form, kept))  # type: ignore[misc]
    tasks.append(lambda: _keep_table(spark, matrix, table))
    mixed = random.Random(0)
    for _ in range(min(repeats, REPEATS)):
        mixed.shuffle(tasks)
        for task in tasks:
            task()
    return [*(kept for _, kept in made), table]


def compressed(spark: Spark, matrix: Matrix, repeats: int) -> Kept:
    """Blocks, in a session that compresses what it keeps."""
    kept = Kept(COMPRESSED, matrix.nbytes)
    for _ in range(min(repeats, REPEATS)):
        _keep(spark, matrix, FORMS[0], kept)
    return kept


def _keep(spark: Spark, matrix: Matrix, form: Form, kept: Kept) -> None:
    part = {"region": slice(0, matrix.rows // form.part)} if form.part > 1 else {}
    elements = form.make(spark.context, str(matrix.path), DATASET, PARTITIONS, **part)
    elements.persist(StorageLevel.MEMORY_ONLY)
    found = _pass_twice(
        spark, matrix, kept, lambda: sums.total(elements.mapPartitions(form.summed).collect())
    )
    elements.unpersist(blocking=True)
    if form.part == 1:
        require_equal(form.name, matrix, found[0])
    if found[0] != found[1]:
        raise ValueError(f"{form.name}: the cached values differ from those that were read")


def _keep_table(spark: Spark, matrix: Matrix, kept: Kept) -> None:
    reader = (
        spark.session.read.format("hyperslab")
        .option("dataset", DATASET)
        .option("partitions", PARTITIONS)
    )
    table = reader.load(str(matrix.path)).persist(StorageLevel.MEMORY_ONLY)
    _pass_twice(spark, matrix, kept, lambda: table.write.format("noop").mode("overwrite").save())
    require_equal(TABLE, matrix, sums.of_table(table))
    table.unpersist(blocking=True)


def _pass_twice(spark: Spark, matrix: Matrix, kept: Kept, act: Callable[[], Any]) -> list[Any]:
    """What the first and the second action give."""
    warm([matrix.path])
    spark.collect_garbage()
    found = []
    for name in PASSES:
        group = f"cache-{kept.name}-{name}-{len(kept.seconds[name])}"
        kept.groups[name].append(group)
        spark.group(group)
        began = time.perf_counter()
        found.append(act())
        kept.seconds[name].append(time.perf_counter() - began)
    kept.cached_nbytes, kept.cached = spark.cached()
    spark.group("")
    words = ", ".join(f"{name} {kept.seconds[name][-1]:.3f} s" for name in PASSES)
    print(f"cache     {kept.name:<26} {words}", flush=True)
    return found
