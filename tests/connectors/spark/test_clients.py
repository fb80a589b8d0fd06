"""Spark other than in this process: over Spark Connect, and with executors that are processes, one
of which dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

from tests.formats.files import ROOT
from tests.repetitions import repeats

CONNECT = """
import numpy as np
from pyspark.sql import SparkSession
from hyperslab.connectors.spark import read_blocks
from hyperslab.errors import UsageError

spark = SparkSession.builder.remote("local[2]").getOrCreate()
table = spark.read.format("hyperslab").options(dataset="x", partitions=3).load("PLACE/a.h5")
print(table.where("index >= 90").count())
table.write.format("hyperslab").option("dataset", "y").mode("overwrite").save("PLACE/b.h5")
try:
    read_blocks(spark, "PLACE/a.h5", "x")
except UsageError as error:
    print(error)
spark.stop()
"""
CLUSTER = """
import os, pathlib, signal
from hyperslab.connectors.spark import h5write, read_blocks, session

spark = session("local-cluster[2,1,1024]", {"spark.ui.enabled": "false"})
place = pathlib.Path("PLACE")


def once(pair):
    "The first task that comes to row 40 dies with its executor."
    slab, block = pair
    if slab.start[0] == 40 and not (place / "died").exists():
        (place / "died").touch()
        # The parent is the daemon of Python workers, whose parent is the executor's Java.
        status = open(f"/proc/{os.getppid()}/status")
        java = next(line.split()[1] for line in status if line.startswith("PPid"))
        os.kill(int(java), signal.SIGKILL)
    return slab, block * 2


h5write(read_blocks(spark, "PLACE/a.h5", "x", 5).map(once), "PLACE/c.h5", "z")
spark.stop()
"""


def run(code: str, folder: Path) -> list[str]:
    (folder / "code.py").write_text(code.replace("PLACE", str(folder)))
    paths = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    environment = os.environ | {
        "PYTHONPATH": paths,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    line = [sys.executable, str(folder / "code.py")]
    ran = subprocess.run(
        line, capture_output=True, text=True, env=environment, check=False, timeout=220
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def source(folder: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    values = np.random.default_rng(0).normal(size=(100, 6))
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(20, 6), compression="gzip")
    return values


@repeats("tables are read and written by the same source: test_table.py, test_write_tables.py")
def test_spark_connect(tmp_path: Path) -> None:
    values = source(tmp_path)
    said = run(CONNECT, tmp_path)
    assert said[0] == "10"
    assert (
        "is not a SparkContext: give spark.sparkContext; over Spark Connect, which has none, use"
        in said[1]
    )
    with h5py.File(tmp_path / "b.h5") as file:
        np.testing.assert_array_equal(file["y"], values)


@repeats("a write whose tasks are done again is right: where they fail, test_write_faults.py")
def test_an_executor_that_dies_while_it_writes(tmp_path: Path) -> None:
    values = source(tmp_path)
    run(CLUSTER, tmp_path)
    assert (tmp_path / "died").exists()
    with h5py.File(tmp_path / "c.h5") as file:
        np.testing.assert_array_equal(file["z"], values * 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "c.h5", "code.py", "died"]
