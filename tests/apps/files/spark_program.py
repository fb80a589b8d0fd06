"""Jobs of Spark one after the other, with the times of each: FOLDER MAPPERS REDUCERS MORE_REDUCERS.

A shuffle sorts nothing up to THRESHOLD reduce tasks. The last job is one of a session whose
shuffles have no checksums, and whose files are in two directories.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import StorageLevel

from hyperslab.connectors.spark import session
from hyperslab.connectors.spark.key_values import Size, group_by_worst

THRESHOLD = 8
UNCHECKED = {"spark.shuffle.checksum.enabled": "false"}
DIRECTORIES = ("scratch", "other")
KEYS = 40


def main(folder: Path, mappers: int, reducers: int, more: int) -> None:
    settings = {
        "spark.local.dir": str(folder / "scratch"),
        "spark.shuffle.sort.bypassMergeThreshold": str(THRESHOLD),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }
    spark = session("local[2]", settings)
    context = spark.sparkContext
    text, table = str(folder / "text"), str(folder / "table")
    few, many = (
        Size(partitions=mappers, reducers=number, keys=KEYS) for number in (reducers, more)
    )
    context.parallelize(range(1000), mappers).saveAsTextFile(text)
    spark.range(0, 1000, 1, mappers).write.parquet(table)
    evicted = context.parallelize(range(mappers), mappers).persist(StorageLevel.DISK_ONLY)
    schema = spark.range(mappers).schema
    jobs: dict[str, Callable[[], object]] = {
        "text": context.textFile(text, mappers).count,
        "parquet": lambda: spark.read.schema(schema).parquet(table).agg({"id": "sum"}).collect(),
        "few": lambda: group_by_worst(context, few),
        "many": lambda: group_by_worst(context, many),
        "evict": evicted.count,
        "again": evicted.count,
    }
    times = {name: timed(job) for name, job in jobs.items()}
    spark.stop()
    both = ",".join(str(folder / name) for name in DIRECTORIES)
    spark = session("local[2]", settings | {"spark.local.dir": both, **UNCHECKED})
    again = spark.sparkContext
    times["unchecked"] = timed(lambda: group_by_worst(again, few))
    spark.stop()
    (folder / "times.json").write_text(json.dumps(times))


def timed(job: Callable[[], object]) -> tuple[int, int]:
    """When a job began and ended."""
    began_ns = time.time_ns()
    job()
    return began_ns, time.time_ns()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
