"""A Spark that shuffles when it is told to: a process of its own, for each place of its files.

    python -m benchmarks.shuffle_process MAPS REDUCES

Each line that it reads is a turn, of which it writes the seconds: every map task holds every key,
and all of the values of a key come together, by Spark's own defaults but for adaptive execution,
which would join small partitions.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from hyperslab.connectors.spark import session

ROWS_OF_A_MAP = 1000
KEYS = 1000
_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
}


def main() -> None:
    maps, reduces = map(int, sys.argv[1:3])
    spark = session("local[2]", _SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        found = _group(spark, maps, reduces)
        seconds = time.perf_counter() - start
        expected = (maps * ROWS_OF_A_MAP, min(KEYS, maps * ROWS_OF_A_MAP))
        assert found == expected, f"{found} instead of {expected}"
        print(seconds, flush=True)


def _group(spark: Any, maps: int, reduces: int) -> tuple[int, int]:
    """Values and keys of a table whose values were brought together by their key."""
    rows = spark.range(0, maps * ROWS_OF_A_MAP, 1, maps)
    keyed = rows.selectExpr(f"id % {KEYS} AS key", "id AS value").repartition(reduces, "key")
    lists = keyed.groupBy("key").agg({"value": "collect_list"}).toDF("key", "values")
    sizes = [row.size for row in lists.selectExpr("size(values) AS size").collect()]
    return sum(sizes), len(sizes)


if __name__ == "__main__":
    main()
