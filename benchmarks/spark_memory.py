"""Peak memory of one load in a Spark of its own, where nothing has grown before: of Java, and of
the largest worker.

    python -m benchmarks.spark_memory WAY FOLDER MATRIX

MATRIX is the matrix as JSON. Jobs without data come first, so that what starting takes is not
counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.spark_context import ROOT, TASKS, started
from benchmarks.spark_data import Matrix, warm
from benchmarks.spark_spool import forget_peak, peak_nbytes, resident_nbytes
from benchmarks.spark_ways import BINARY, BLOCKS, H5SPARK, SOURCE, partitions_of

WAYS = (BLOCKS, H5SPARK, SOURCE, BINARY)
LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class Memory:
    """What one load took."""

    way: str
    nbytes: int
    "Of the matrix."
    partitions: int
    worker_nbytes: int
    "Largest resident set of a Python worker."
    java_nbytes: int
    "Largest resident set of Java during the load."
    java_before_nbytes: int
    "Just before it."


def measure(way: str, matrix: Matrix, folder: Path) -> Memory:
    """Run a load in a process of its own. Raises RuntimeError with what it said when it fails."""
    about = json.dumps(asdict(matrix), default=str)
    command = [sys.executable, "-m", "benchmarks.spark_memory", way, str(folder), about]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError(
            f"{way} ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    memory = Memory(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"memory    {way:<18} worker {memory.worker_nbytes / 1e6:.0f} MB, Java"
        f" {memory.java_nbytes / 1e6:.0f} MB",
        flush=True,
    )
    return memory


def _main() -> None:
    way, folder, about = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    matrix = _matrix(about)
    spool = folder / "spool"
    spool.mkdir(parents=True)
    from benchmarks.spark_rounds import way_of

    with started(TASKS, folder / "events") as spark:
        spark.context.parallelize(range(4), 2).map(str).collect()
        spark.session.range(4).mapInArrow(_same, "id long").collect()
        warm([matrix.path])
        spark.collect_garbage()
        before = resident_nbytes(spark.java)
        forget_peak(spark.java)
        way_of(way).load(spark, matrix, partitions_of(way), str(spool))
        java = peak_nbytes(spark.java)
    workers = [
        json.loads(path.read_text(encoding="utf-8"))["peak_nbytes"] for path in spool.glob("*.json")
    ]
    print(
        json.dumps(
            asdict(Memory(way, matrix.nbytes, partitions_of(way), max(workers), java, before))
        )
    )


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _matrix(about: dict[str, Any]) -> Matrix:
    return Matrix(**about | {"path": Path(about["path"]), "parquet": None})


if __name__ == "__main__":
    _main()
