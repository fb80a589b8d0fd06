"""A Spark for the tests of each file, which leave none behind: those of other folders start
contexts of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.formats.files import ROOT


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A SparkSession on two cores, whose Python workers import this package and its tests from
    here.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    old = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "src"), str(ROOT), old)))
    settings = {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("hyperslab tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    os.environ["PYTHONPATH"] = old


@pytest.fixture(scope="module")
def sc(spark: Any) -> Any:
    return spark.sparkContext
