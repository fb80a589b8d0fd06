"""One Spark for the tests of this folder, which leave none behind: those of other folders start
contexts of their own, in the same Java if the same process plays them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hyperslab.engines.spark import java
from tests.formats.files import ROOT
from tests.system.clusters.required import required
from tests.system.clusters.spark import missing

HERE = Path(__file__).parent
_ENDS = ExitStack()
"What is done behind the last test of this folder."


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A SparkSession on two cores, whose Python workers import this package and its tests from
    here.
    """
    required(missing())
    return _session(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def sc(spark: Any) -> Any:
    return spark.sparkContext


@pytest.fixture
def standing(sc: Any) -> Path:
    """The folder in which Java and its workers stand, for whom a relative path begins there."""
    return Path(f"/proc/{sc._gateway.proc.pid}/cwd").resolve()


@functools.cache
def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    patch = _ENDS.enter_context(pytest.MonkeyPatch.context())
    old = os.environ.get("PYTHONPATH", "")
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT / "src"), str(ROOT), old))))
    _start_java(Path(tempfile.mkdtemp(prefix="java-", dir=folder)))
    settings = {
        "spark.python.daemon.module": "tests.connectors.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("hyperslab tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _ENDS.callback(session.stop)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _start_java(folder: Path) -> None:
    """Have Java stand in an empty folder; one that other tests have started stands elsewhere."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        SparkContext._gateway.proc.kill()
        SparkContext._gateway.proc.wait()
    with contextlib.chdir(folder):
        SparkContext._ensure_initialized(gateway=java._gateway())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End Spark behind the last test of this folder that is played in a row."""
    done = yield
    if nextitem is None or HERE not in nextitem.path.parents:
        _ENDS.close()
        _session.cache_clear()
    return done
