"""A standalone Spark cluster on loopback: a master and workers, started by what pip's pyspark
brings.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.spark_java import NO_SETTINGS, java_options
from tests.system.clusters.processes import (
    ClusterFailed,
    Household,
    descendants,
    household,
    signal_all,
)

ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}
SMALL = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": java_options(),
}
"Master and workers only pass messages: they start sooner when they do not prepare for more."
OLDEST_JAVA = 17
STARTED = re.compile(r"Starting Spark master at (spark://\S+:\d+)")


@dataclass(frozen=True)
class SparkCluster:
    """A master and its workers; worker i is number i in the order of their start."""

    master: str
    "As spark://127.0.0.1:PORT."
    environment: dict[str, str]
    "What a driver needs: the loopback address, and which Python the executors run."
    master_process: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]
    household: Household

    def executors(self, number: int) -> list[psutil.Process]:
        """The executors on a worker: one for each application that runs there."""
        return descendants(self.workers[number], "CoarseGrainedExecutorBackend")

    def kill_executor(self, number: int = 0) -> None:
        """Kill what runs tasks on a worker; the worker lives and starts another one when asked."""
        found = self.executors(number)
        if not found:
            raise ClusterFailed(f"no executor on worker {number}\n{self.household.last_words()}")
        signal_all(found, signal.SIGKILL)

    def kill_worker(self, number: int) -> None:
        """Kill a worker for good, with its executors, as when its host goes down."""
        executors = self.executors(number)
        self.household.kill(self.workers[number])
        signal_all(executors, signal.SIGKILL)

    def kill_master(self) -> None:
        self.household.kill(self.master_process)


def missing() -> str:
    """Why no Spark can be started here, with what to do about it; empty if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'hyperslab[spark]'"
    advice = (
        "install the Debian package default-jre-headless, or openjdk-17-jre-headless where that is"
        " older"
    )
    if shutil.which("java") is None:
        return f"there is no java here: {advice}"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        return (
            f"Spark needs Java {OLDEST_JAVA} or newer, and java -version says {said.strip()!r}:"
            f" {advice}"
        )
    return ""


@contextmanager
def spark_cluster(
    folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g"
) -> Iterator[SparkCluster]:
    """Start a master and workers, and wait until all have registered; all processes end with the
    block.

    `memory` is what each worker offers to executors, as Spark writes it: 1g, 512m.
    """
    if reason := missing():
        raise ClusterFailed(reason)
    # The settings of the user do not count here.
    places = {
        "SPARK_HOME": _home(),
        "SPARK_CONF_DIR": str(NO_SETTINGS),
        "SPARK_LOCAL_DIRS": str(folder),
    }
    with household(folder, **places, **SMALL, **ENVIRONMENT) as home:
        master_process = _start(home, "master.Master", "master", "--port", "0")
        home.wait_until("the Spark master", lambda: STARTED.search(home.log("master")))
        master = STARTED.findall(home.log("master"))[0]
        offer = ("--cores", str(cores), "--memory", memory)
        members = tuple(
            _start(
                home,
                "worker.Worker",
                f"worker-{i}",
                *offer,
                "--work-dir",
                str(folder / f"worker-{i}"),
                master,
            )
            for i in range(workers)
        )
        home.wait_until(
            f"{workers} Spark workers",
            lambda: home.log("master").count("Registering worker") >= workers,
        )
        yield SparkCluster(master, dict(ENVIRONMENT), master_process, members, home)


def _home() -> str:
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent)


def _start(home: Household, role: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    starter = str(Path(home.environment["SPARK_HOME"], "bin", "spark-class"))
    loopback = ("--host", "127.0.0.1", "--webui-port", "0")
    return home.start(
        name, ["bash", starter, f"org.apache.spark.deploy.{role}", *loopback, *arguments]
    )
