"""Spark's Java process: one for all runs of this process, its output in the run's log."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from hyperslab.errors import RunStopped, UsageError

_log: Path | None = None
_starting = threading.Lock()
_users = 0
"Runs that use the context that we have started."


def start_context(settings: dict[str, str]) -> tuple[Any, bool]:
    """A SparkContext in this process's Java, which is started the first time, and whether it is ours.

    The user's own context, if there is one, is used as it is and not stopped. Raises UsageError when it belongs to
    another cluster than the one asked for, RunStopped when Spark cannot start.
    """
    from pyspark import SparkContext

    global _users  # noqa: PLW0603  # as many as share it
    with _starting:
        existing = SparkContext._active_spark_context  # noqa: SLF001  # getOrCreate does not say which it did
        if existing is not None:
            context = _same(existing, settings["spark.master"])
            _users += bool(_users)
            return context, bool(_users)
        context = _start(settings)
        _users = 1
        return context, True


def stop_context() -> None:
    """Stop the context that we have started when its last user has ended."""
    from pyspark import SparkContext

    global _users  # noqa: PLW0603
    with _starting:
        _users -= 1
        context = SparkContext._active_spark_context  # noqa: SLF001
        if _users == 0 and context is not None:
            context.stop()


def _start(settings: dict[str, str]) -> Any:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers would take the first python3 on the PATH
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        gateway = _gateway()
        conf = SparkConf(loadDefaults=True).setAll(list(settings.items()))
        if (settled := conf._jconf) is not None:  # noqa: SLF001  # there is no public way to remove a setting
            settled.remove("spark.default.parallelism")  # so that it tells the number of cores
        context = SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError, OSError) as error:
        raise RunStopped(f"Spark could not start: {said_by_java(error)}; see {_log or 'above'}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)  # PySpark puts its own there, and leaves it
    context.setLogLevel("WARN")
    return context


def _same(existing: Any, master: str) -> Any:
    if not master.startswith("local[") and existing.master != master:
        raise UsageError(f"--connect {master}: this process has a SparkContext on {existing.master}: stop it first")
    return existing


def _gateway() -> Any:
    """A new Java whose output goes to a file, unless one is running: None."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    global _log  # noqa: PLW0603  # PySpark, too, has one Java per process
    running = SparkContext._gateway  # noqa: SLF001  # there is no public way to ask
    if running is not None and running.proc.poll() is None:
        return None
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # it has died
    handle, name = tempfile.mkstemp(prefix="hyperslab-spark-", suffix=".log")
    _log = Path(name)
    atexit.register(_log.unlink, missing_ok=True)
    with open(handle, "ab") as output:
        return launch_gateway(popen_kwargs={"stdout": output, "stderr": output})


def said_by_java(error: BaseException) -> str:
    """What an exception says, without the stack that Java prints with it."""
    found = re.search(r"\b[\w.]*(?:Exception|Error): (.+)", str(error))
    return found[1].strip() if found else str(error).strip().partition("\n")[0] or type(error).__name__


def log_size() -> int:
    """How much Java and its workers have said so far."""
    return _log.stat().st_size if _log and _log.exists() else 0


def copy_log(since: int, path: Path) -> None:
    """Append what they said since then to a run's log."""
    if _log and _log.exists():
        with open(_log, "rb") as source, open(path, "ab") as target:
            source.seek(since)
            shutil.copyfileobj(source, target)
