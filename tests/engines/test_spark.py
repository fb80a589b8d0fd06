"""The spark engine keeps the contract of engines, in local mode."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import nibabel as nib
import numpy as np
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext, java_gateway

import hyperslab
from hyperslab.arrays.partition import Rule
from hyperslab.driver import run
from hyperslab.engines import EngineOptions
from hyperslab.engines.spark import java
from hyperslab.engines.spark.engine import Spark
from hyperslab.engines.spark.java import said_by_java
from hyperslab.engines.spark.session import has_executors, task_ends, why_failed
from hyperslab.errors import RunStopped
from hyperslab.plan.pipeline import Pipeline
from hyperslab.testing import EngineTests, functions
from hyperslab.testing.contents import values_of
from hyperslab.testing.engines import EIGHT, LAST_BLOCK
from tests.engines.chosen import OWN_TREE
from tests.repetitions import only
from tests.system.clusters import spark
from tests.system.clusters.required import required

OF_ITS_OWN = "whatever_the_workers"
"""The test in which hyperslab starts contexts; the others run in one that is there, which saves
Spark's start each time.
"""


@pytest.fixture(scope="class")
def none_is_left() -> Iterator[None]:
    """Tests of other files that run in this process start contexts of their own."""
    yield
    if (left := SparkContext._active_spark_context) is not None:
        left.stop()


@only(OWN_TREE)
class TestSpark(EngineTests):
    engine = "spark"

    @pytest.fixture(autouse=True)
    def _context(self, request: pytest.FixtureRequest, none_is_left: None) -> None:
        required(spark.missing())
        is_own = OF_ITS_OWN in request.node.name
        existing = SparkContext._active_spark_context
        if is_own and existing is not None:
            existing.stop()
        elif not is_own:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
            SparkContext.getOrCreate(conf).setLogLevel("OFF")

    def test_a_relative_output_is_where_this_process_stands(
        self, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Java and its workers stay in the folder in which they have been started."""
        monkeypatch.chdir(tmp_path)
        fold = hyperslab.Fold(np.sum, lambda a, b: a + b)
        pipeline = Pipeline(os.path.relpath(image), values="stored").reduce(fold)
        result = self.run(pipeline, rule=Rule("blocks", (2,)), out=Path("out"))
        assert result.value == values_of(image).sum()
        assert [path.name for path in (tmp_path / "out").glob("result.*")]

    def test_a_worker_that_dies_fails_its_block_alone(self, image: str, tmp_path: Path) -> None:
        bad = {"deed": "die", "at": LAST_BLOCK}
        pipeline = Pipeline(image).map(functions.misbehave, bad).write(tmp_path / "out")
        result = self.run(pipeline, rule=EIGHT, retries=0)
        (failed,) = result.failures
        assert failed.task == f"{image}[12:24, 10:20, 9:18]"
        assert "died in the middle of the task" in failed.message
        assert len(result.outputs) == 7


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A context that collects 32 MiB in all, where Spark's default is 1 GiB."""
    required(spark.missing())
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster("local[2]").set("spark.driver.maxResultSize", "32m")
    context = SparkContext(conf=conf)
    yield
    context.stop()


def test_values_larger_than_spark_collects(tmp_path: Path, narrow: None) -> None:
    """Four values of 20 MB: more than spark.driver.maxResultSize in all, and each more than travels
    at all.
    """
    values = np.arange(4 * 6, dtype=np.uint16).reshape(4, 3, 2)
    nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "in.nii")  # type: ignore[no-untyped-call]
    fold = hyperslab.Fold(
        lambda block: np.full(20 * 2**17, int(block.sum()), np.int64), lambda a, b: a + b
    )
    result = run.run(
        Pipeline(str(tmp_path / "in.nii")).reduce(fold),
        engine="spark",
        rule=Rule("blocks", (4, 1, 1)),
        out=tmp_path / "out",
        report=False,
    )
    assert result.ok, result.failures
    assert result.value.shape == (20 * 2**17,)
    assert np.all(result.value == values.sum(dtype=np.int64))
    assert result.summary.moved_nbytes >= 4 * result.value.nbytes
    kept = list((result.folder / "partials").iterdir())
    assert len(kept) == 1, "what was merged is removed"
    shutil.rmtree(tmp_path / "out")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(104, "Connection reset by peer"),
        ConnectionRefusedError(111, "Connection refused"),
        Py4JNetworkError("Error while sending or receiving"),
        Py4JError("An error occurred while calling o51.sc"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_java_that_has_died_is_not_a_worker_that_has(error: Exception) -> None:
    """Whose batches would be run again, by a Java that is not there."""
    sentence = (
        rf"Spark's Java process has died \({re.escape(said_by_java(error))}\); --resume"
        rf" continues the run"
    )
    assert re.fullmatch(sentence, str(why_failed(error)))
    context = Mock()
    context._jsc.sc.side_effect = error
    with pytest.raises(RunStopped, match=sentence):
        has_executors(context)


def test_a_java_that_lives_is_asked(tmp_path: Path) -> None:
    context = Mock()
    context._jsc.sc.side_effect = KeyError("no such thing")
    with pytest.raises(KeyError):
        has_executors(context)
    assert why_failed(RuntimeError("Worker exited unexpectedly (crashed)")) is None


def test_an_event_log_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """As by a Java that was killed."""
    line = '{"Event":"SparkListenerTaskEnd","Task Info":{"Launch Time":1,"Finish Time":2}}\n'
    (tmp_path / "log").write_text(line + line[:-9])
    (own,) = task_ends(tmp_path)
    assert own.end_ns - own.start_ns == 10**6
    (tmp_path / "log").write_text(line[:-9] + "}}")
    assert list(task_ends(tmp_path)) == []


def test_an_event_log_that_cannot_be_read_costs_no_other_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Spark(EngineOptions(tmp_path, 1))
    engine._context, engine._is_ours, engine._log_start = Mock(), False, 2
    engine._events.mkdir()
    (engine._events / "log").write_text('{"Event":"SparkListenerTaskEnd" no JSON}\n')
    monkeypatch.setattr(
        "hyperslab.engines.spark.engine.copy_log", lambda since, path: path.write_text(str(since))
    )
    with pytest.raises(ValueError, match="delimiter"):
        engine.leave()
    assert engine._context is None
    assert (tmp_path / "worker.log").read_text() == "2"


def test_what_java_says_is_kept_in_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing of it stays, however a run ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(java, "_log", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    # it is forgotten together with the gateway, and has to come back with it
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(
        java_gateway,
        "launch_gateway",
        lambda popen_kwargs: os.write(popen_kwargs["stderr"], b"12345"),
    )
    assert java._gateway() == 5
    assert not list(tmp_path.iterdir())
    assert java.log_size() == 5
    java.copy_log(2, tmp_path / "worker.log")
    assert (tmp_path / "worker.log").read_bytes() == b"345"
    assert java._log is not None
    os.close(java._log)
