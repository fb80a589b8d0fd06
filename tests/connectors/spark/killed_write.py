"""A driver of its own that writes, for tests that end it: FOLDER is where; it says when it is in
the middle.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from hyperslab.connectors.spark.writing import h5write

FAILURES = 3
"Attempts of a task; Spark in one process has one unless it is told."


def stumble(partition: int, items: Any) -> Any:
    """Half of the rows, then a failure, at the first attempt of each task."""
    context = TaskContext.get()
    assert context is not None
    for number, item in enumerate(items):
        if number == 2 and context.attemptNumber() == 0:
            raise OSError(f"the machine of partition {partition} went away")
        yield item


def wait(folder: str, partition: int, items: Any) -> Any:
    for item in items:
        Path(folder, f"begun-{partition}").touch()
        time.sleep(0.5)
        yield item


def main(folder: str) -> None:
    builder = SparkSession.builder.master(f"local[2,{FAILURES}]")
    builder = builder.config("spark.python.daemon.module", "tests.connectors.spark.daemon")
    sc: SparkContext = builder.getOrCreate().sparkContext
    sc.setLogLevel("OFF")
    rows = sc.parallelize([np.full(3, float(n)) for n in range(10)], 2)
    h5write(rows.mapPartitionsWithIndex(stumble), f"{folder}/x.h5")
    h5write(
        sc.parallelize(range(1000), 2).mapPartitionsWithIndex(partial(wait, folder)),
        f"{folder}/x.h5",
        overwrite=True,
    )


if __name__ == "__main__":
    main(sys.argv[1])
