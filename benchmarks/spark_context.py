"""A Spark of this process, its event log, and what Java says of itself."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.spark_events import EventLog, read_log
from hyperslab.connectors.spark import session

ROOT = Path(__file__).resolve().parents[1]
TASKS = "local[2,4]"
"Two tasks at a time, each tried four times."
CLUSTER = "local-cluster[{executors},1,1024]"
JAVA_MEMORY = "4g"


@dataclass(slots=True)
class Spark:
    """A session with an event log of its own."""

    session: Any
    events: Path
    java: int
    "Process id of the driver's Java."

    @property
    def context(self) -> Any:
        return self.session.sparkContext

    def group(self, name: str) -> None:
        """Jobs from now on belong to this group of the event log."""
        self.context.setJobGroup(name, name)

    def collect_garbage(self) -> None:
        """Before something is timed that Java's collector may interrupt."""
        gc.collect()
        self.context._jvm.System.gc()  # noqa: SLF001  # there is no other way

    def cached(self) -> tuple[int, int]:
        """Bytes in Spark's memory and on its disk, of everything that is cached, and how many
        partitions.
        """
        infos = self.context._jsc.sc().getRDDStorageInfo()  # noqa: SLF001
        return sum(info.memSize() + info.diskSize() for info in infos), sum(
            i.numCachedPartitions() for i in infos
        )

    def log(self) -> EventLog:
        """The event log, which is whole when the session has ended."""
        (path,) = [path for path in self.events.iterdir() if not path.name.startswith(".")]
        return read_log(path)


@contextmanager
def started(master: str, events: Path, settings: dict[str, str] | None = None) -> Iterator[Spark]:
    """A session for the time of a block; its workers import this package from where it lies."""
    events.mkdir(parents=True)
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys(os.pathsep.join(paths).split(os.pathsep))
    )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    began = time.perf_counter()
    spark = session(master, _settings(events) | (settings or {}))
    spark.sparkContext.setLogLevel("OFF")  # a job that fails raises, and a worker is made to die
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    print(f"Spark on {master}: started in {time.perf_counter() - began:.1f} s", flush=True)
    logs = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    try:
        yield Spark(spark, events, gateway.proc.pid)
    finally:
        spark.stop()
        if logs.is_dir():  # of executors on this machine
            shutil.rmtree(logs, ignore_errors=True)  # they may still be ending


def _settings(events: Path) -> dict[str, str]:
    """All of them each time: a Java that goes on keeps those of the session before."""
    return {
        "spark.app.name": "bench-spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": JAVA_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.maxResultSize": "0",
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.parquet.compression.codec": "uncompressed",
        "spark.rdd.compress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.absolute().as_uri(),
    }
