"""A SparkSession with settings under which arrays travel well between Python and Java."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from hyperslab.errors import UsageError
from hyperslab.machine.java import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    # Between Java and Python on one machine, a socket of the file system instead of one of the
    # network.
    "spark.python.unix.domain.socket.enabled": "true",
    # Numbers hardly shrink, and what does not travel takes longer to compress than to store.
    "spark.rdd.compress": "false",
}


def session(master: str = "", settings: dict[str, str] | None = None) -> SparkSession:
    """The SparkSession that is there, or a new one; `settings` are Spark's own, and go before those
    of this function. On one that is there, those that Spark takes only at its start do nothing.

    `master` is Spark's: 'local[4]', 'spark://HOST:PORT', ...; '' is what spark-submit says, or else
    all cores of this machine. Python workers are those of this interpreter unless PYSPARK_PYTHON
    says otherwise: Spark's own default is the first python3 on the PATH, which may lack hyperslab.
    Raises UsageError without a Java that Spark can use, and for another `master` than that of the
    session that is active.
    """
    from pyspark.sql import SparkSession

    require_java("Spark")
    there = None
    if master:
        there = SparkSession.getActiveSession()
    if there is not None and there.sparkContext.master != master:
        raise UsageError(
            f"master {master}: this process has a session on {there.sparkContext.master}: stop() it"
            " first"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    if master or "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets, with a master
        builder = builder.master(master or "local[*]")
    for name, value in (_SETTINGS | (settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
