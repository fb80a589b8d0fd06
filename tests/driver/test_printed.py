"""Whether what functions printed says more than their failures do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.driver import printed
from hyperslab.driver.printed import says_more
from hyperslab.engines.facts import facts_of
from hyperslab.report.failures import Failed

TRACEBACK = """Traceback (most recent call last):
  File "mine.py", line 2, in half
    return block / part
ZeroDivisionError: division by zero
"""
SPARK = """WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/24 04:04:22 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
"""
SRUN = """srun: forcing job termination
srun: Job step aborted: Waiting up to 4 seconds for job step to finish.
"""
ERROR = "26/11/24 04:04:22 ERROR Executor: out of memory\n"


@pytest.mark.parametrize(
    ("text", "engine", "says"),
    [
        ("", "processes", False),
        (" \n\n", "processes", False),
        (TRACEBACK, "processes", False),
        (TRACEBACK + "part is 0\n", "processes", True),
        (TRACEBACK + "2\n", "processes", True),
        (SPARK, "spark", False),
        (SPARK + TRACEBACK, "spark", False),
        (SPARK + ERROR, "spark", True),
        (SPARK, "processes", True),
        (SRUN, "mpi", False),
        (SRUN + "srun: error: node3: task 2: Killed\n", "mpi", True),
    ],
)
def test_says_more(tmp_path: Path, text: str, engine: str, says: bool) -> None:
    log = tmp_path / "worker.log"
    log.write_text(text)
    message = "ZeroDivisionError: division by zero"
    one = Failed("a.nii", "ZeroDivisionError", message, 1, traceback=TRACEBACK)
    assert says_more(log, [one], facts_of(engine).own_lines) == says


def test_a_large_log_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "worker.log"
    log.write_text(" \n" * 10)
    monkeypatch.setattr(printed, "MOST_NBYTES", 10)
    assert says_more(log, [])
