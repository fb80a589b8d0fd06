"""Why a trial failed, as what it has printed says."""

from __future__ import annotations

import pytest

from hyperslab.apps.experiment.process import reason_in

SPARK = """\
26/11/24 14:30:52 WARN TaskSetManager: Lost task 0.0: java.lang.OutOfMemoryError: x
java.lang.OutOfMemoryError: Required array size too large
\tat java.base/java.io.InputStream.readNBytes(InputStream.java:420)
py4j.protocol.Py4JJavaError: An error occurred while calling z:collectAndServe.
: org.apache.spark.SparkException: Job 0 cancelled because SparkContext was shut down
\tat java.base/java.lang.Thread.run(Thread.java:840)

"""

TOO_LARGE = "java.lang.OutOfMemoryError: Required array size too large"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", ""),
        ("warning\nhyperslab: the disk is full\nbye\n", "the disk is full"),
        ('Traceback\n  File "a.py", line 1\nKeyError: 3\n\n', "KeyError: 3"),
        (SPARK, TOO_LARGE),
        (f"{SPARK}py4j.protocol.Py4JError: SparkSession does not exist in the JVM", TOO_LARGE),
        (f"{SPARK}ConnectionRefusedError: [Errno 111] Connection refused", TOO_LARGE),
        ("py4j.protocol.Py4JNetworkError: x", "py4j.protocol.Py4JNetworkError: x"),
        ("\tat java.base/java.lang.Thread.run\n", "at java.base/java.lang.Thread.run"),
    ],
)
def test_the_reason_is_found(printed: str, reason: str) -> None:
    assert reason_in(printed.splitlines()) == reason
