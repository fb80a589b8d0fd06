"""Spark's Java process: one for all runs of this process, its output in the run's log."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from hyperslab.errors import RunStopped, UsageError

COPIED_NBYTES = 2**20

_log: int | None = None
"""Descriptor of the file without a name to which Java writes: nothing of it stays, however this
process ends.
"""
_starting = threading.Lock()
_users = 0
"Runs that use the context that we have started."


def start_context(settings: dict[str, str]) -> tuple[Any, bool]:
    """A SparkContext in this process's Java, which is started the first time, and whether it is
    ours.

    The user's own context, if there is one, is used as it is and not stopped. Raises UsageError
    when it belongs to another cluster than the one asked for, RunStopped when Spark cannot start.
    """
    from pyspark import SparkContext

    global _users  # noqa: PLW0603  # as many as share it
    with _starting:
        # getOrCreate does not say which it did
        existing = SparkContext._active_spark_context  # noqa: SLF001
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
            try:
                context.stop()
            finally:
                logging.getLogger().removeFilter(_is_not_of_py4j)


def _start(settings: dict[str, str]) -> Any:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException

    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # workers would take the first python3 on the PATH
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        gateway = _gateway()
        conf = SparkConf(loadDefaults=True).setAll(list(settings.items()))
        # there is no public way to remove a setting
        if (settled := conf._jconf) is not None:  # noqa: SLF001
            settled.remove("spark.default.parallelism")  # so that it tells the number of cores
        context = SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError, OSError) as error:
        more = (
            "what Java said is in the run's worker.log"
            if _log is not None
            else "what Java said is above"
        )
        raise RunStopped(f"Spark could not start: {said_by_java(error)}; {more}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)  # PySpark puts its own there, and leaves it
    _leave_the_telling_to_us(context)
    context.setLogLevel("WARN")
    return context


def _leave_the_telling_to_us(context: Any) -> None:
    """Have PySpark print no stacks over a Java that has died: who waits for it raises what is to be
    said.
    """
    logging.getLogger().addFilter(_is_not_of_py4j)
    # Java's end of it is gone
    context._accumulatorServer.handle_error = lambda *_: None  # noqa: SLF001


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J calls logging.exception itself, which belongs to no logger that could be turned down."""
    return record.module != "java_gateway"


def _same(existing: Any, master: str) -> Any:
    if not master.startswith("local[") and existing.master != master:
        raise UsageError(
            f"--connect {master}: this process has a SparkContext on {existing.master}: stop it"
            " first"
        )
    return existing


def _gateway() -> Any:
    """A new Java whose output goes to a file, unless one is running: None."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    global _log  # PySpark, too, has one Java per process
    running = SparkContext._gateway  # noqa: SLF001  # there is no public way to ask
    if running is not None and running.proc.poll() is None:
        return None
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # it has died
    if _log is not None:
        os.close(_log)
    _log, name = tempfile.mkstemp(prefix="hyperslab-spark-", suffix=".log")
    os.unlink(name)
    return launch_gateway(popen_kwargs={"stdout": _log, "stderr": _log})


def said_by_java(error: BaseException) -> str:
    """What an exception says, without the stack that Java prints with it."""
    found = re.search(r"\b[\w.]*(?:Exception|Error): (.+)", str(error))
    return (
        found[1].strip() if found else str(error).strip().partition("\n")[0] or type(error).__name__
    )


def log_size() -> int:
    """How much Java and its workers have said so far."""
    return os.fstat(_log).st_size if _log is not None else 0


def copy_log(since: int, path: Path) -> None:
    """Append what they said since then to a run's log."""
    if _log is None:
        return
    with open(path, "ab") as target:
        while data := os.pread(
            _log, COPIED_NBYTES, since
        ):  # Java's place in the file stays as it is
            target.write(data)
            since += len(data)
