"""Every part of the benchmark of loading into Spark on a few megabytes, before it is measured:
every way, a form of cache and a worker that dies; then the tables and the records.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks import spark_caches, spark_page, spark_scaling, spark_tables, spark_ways
from benchmarks.gates import Gates
from benchmarks.reader_process import ReaderProcess
from benchmarks.spark_context import TASKS, started
from benchmarks.spark_data import Matrix, plain
from benchmarks.spark_gates import judge
from benchmarks.spark_rounds import Loader, compare, measure, pairs
from benchmarks.spark_traces import save
from benchmarks.spark_ways import BINARY, BLOCKS, H5PY, PARQUET, SOURCE, WAYS
from hyperslab.driver.submission import load_records

FEW = 4
"Partitions: each takes time, and more tell nothing more."


def smoke(folder: Path) -> None:
    """Load, cache, kill, and look whether all of it is in the tables and records."""
    for module in (spark_ways, spark_caches, spark_scaling):
        module.PARTITIONS = FEW  # type: ignore[attr-defined]
    matrices: list[Matrix] = [
        plain(folder, size, with_parquet=True) for size in (500_000, 1_000_000)
    ]
    listed = pairs(matrices, [H5PY])
    assert len(listed) == 2 * (1 + len(WAYS))
    reader = ReaderProcess(H5PY, "benchmarks.spark_reader")
    results = spark_tables.Results({"machine": "this one"})
    with started(TASKS, folder / "events") as spark:
        loader = Loader(spark, {H5PY: reader})
        compare(loader, [pair for pair in listed if pair[1] is matrices[0]])
        results.loads = measure(loader, listed, 1, time.monotonic())
        traced = [
            loader.traced((name, matrices[1]), folder / "spool")
            for name in (H5PY, BLOCKS, SOURCE, PARQUET, BINARY)
        ]
        results.caches = spark_caches.forms(spark, matrices[0], 1)
        series = spark_scaling.series(
            spark, spark_scaling.LOCAL, matrices[1], reader, folder, 1, (FEW, 6), kills=True
        )
    reader.close()
    log = spark.log()
    series.read(log)
    for kept in results.caches:
        kept.read(log)
        assert kept.cached == FEW
        assert 0.9 < kept.cached_nbytes / kept.nbytes < 4
    results.loads += [load._replace(kind="gzip") for load in results.loads]
    results.series = [series]
    results.judged = judge(results.loads, Gates(), [H5PY, *(way.name for way in WAYS)])
    tables = spark_tables.blocks(results)
    assert set(tables) == set(spark_page.NAMES)
    assert {len(row.split("|")) for row in tables["plain"].splitlines() if row.startswith("|")} == {
        10
    }
    told = {(point.partitions, point.is_killed): point.launches for point in series.points}
    assert {key: (one.failed, one.relaunched) for key, one in told.items() if one} == {
        (FEW, False): (0, 0),
        (6, False): (0, 0),
        (FEW, True): (1, 1),
    }
    for one in [*traced[1:4], series.traced[-1]]:
        records = load_records(save(one, folder / "traces", log))
        in_python = one.way != PARQUET
        assert records.summary.read_nbytes == (one.matrix.nbytes if in_python else 0)
        assert records.summary.lost_attempts == ("killed" in one.name)
        assert (records.folder / "report.html").is_file()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spark-smoke-") as place:
        smoke(Path(place))
    print("every part of the benchmark works")
