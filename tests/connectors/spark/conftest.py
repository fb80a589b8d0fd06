"""One Spark for the tests of this folder, which leave none behind: those of other folders start
contexts of their own.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import ROOT

HERE = Path(__file__).parent
_ENDS = ExitStack()
"What is done behind the last test of this folder."


@pytest.fixture(scope="module")
def spark() -> Any:
    """A SparkSession on two cores, whose Python workers import this package and its tests from
    here.
    """
    return _session()


@pytest.fixture(scope="module")
def sc(spark: Any) -> Any:
    return spark.sparkContext


@functools.cache
def _session() -> Any:
    from pyspark.sql import SparkSession

    patch = _ENDS.enter_context(pytest.MonkeyPatch.context())
    old = os.environ.get("PYTHONPATH", "")
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT / "src"), str(ROOT), old))))
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End Spark behind the last test of this folder that is played in a row."""
    done = yield
    if nextitem is None or HERE not in nextitem.path.parents:
        _ENDS.close()
        _session.cache_clear()
    return done
