"""Java, as every Spark of the tests starts it: short applications spend most of their time on Java
that loads, checks and compiles classes, on a server of pages that nobody visits, and on 200
partitions of ten rows.

`python -m tests.spark_java` writes the classes of a small application, loaded and checked, into an
archive (`man java`, class data sharing); where there is one, Spark starts with it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
NO_SETTINGS = Path(__file__).with_name("no_spark_conf")
"A folder that is not there: Java takes no archive where a folder of the class path holds files."
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
APPLICATION = """
import os, tempfile
from pyspark.mllib.linalg.distributed import IndexedRow, IndexedRowMatrix
from pyspark.sql import SparkSession
from hyperslab.connectors.spark.datasource import register

spark = SparkSession.builder.master("local-cluster[1,1,1024]").getOrCreate()
context = spark.sparkContext
spark.range(10).selectExpr("sum(id)").collect()
context.parallelize(range(4), 2).map(str).treeReduce(lambda a, b: a + b)
rows = context.parallelize([IndexedRow(index, [1.0, 2.0]) for index in range(4)], 2)
IndexedRowMatrix(rows).toBlockMatrix(2, 2).toLocalMatrix()
register(spark)
with tempfile.TemporaryDirectory() as folder:
    place = os.path.join(folder, "table.h5")
    table = spark.range(4).selectExpr("id as index", "array(1d, 2d) as values")
    table.write.format("hyperslab").mode("append").save(place)
    read = spark.read.format("hyperslab").load(place)
    read.where("index > 1").selectExpr("count(*)", "max(index)").collect()
spark.stop()
"""
"What the tests have Spark do: queries, jobs in Python, matrices of MLlib, our source of tables."


def java_options() -> str:
    """Options of a Java process of Spark's, as a shell would read them."""
    if not ARCHIVE.exists():
        return shlex.join(QUICK)
    return shlex.join([*QUICK, f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable"])


def settings(driver: str, executor: str) -> dict[str, str]:
    """Variables with which Spark starts, given the options of its two kinds of Java process; those
    of a cluster's master and workers are a driver's.
    """
    defaults = {
        "spark.executor.extraJavaOptions": executor,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    words = [f"-D{name}={value}" for name, value in defaults.items()]
    return {
        "SPARK_CONF_DIR": str(NO_SETTINGS),
        "SPARK_DAEMON_JAVA_OPTS": driver,
        "SPARK_SUBMIT_OPTS": f"{driver} {shlex.join(words)}",
    }


def write_archive() -> None:
    """Run a small application, and keep the classes that its driver has loaded."""
    quick = shlex.join(QUICK)
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    kept = f"{quick} -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    environment = os.environ | settings(kept, quick) | local
    command = [sys.executable, "-c", APPLICATION]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode or not ARCHIVE.exists():
        print(f"Spark starts without an archive of its classes:\n{ran.stdout}{ran.stderr}")


if __name__ == "__main__":
    write_archive()
