"""The spark engine keeps the contract of engines, in local mode."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import driver
from hyperslab.partition import Rule
from hyperslab.pipeline import Pipeline
from hyperslab.testing import EngineTests
from tests.clusters import spark
from tests.clusters.required import required
from tests.engines.images import IMAGES

OF_ITS_OWN = ("whatever_the_workers", "a_second_run", "idle_slots")
"Tests in which hyperslab starts the context; the others run in one that is there, which saves Spark's start each time."


@pytest.fixture(scope="class")
def none_is_left() -> Iterator[None]:
    """Tests of other files that run in this process start contexts of their own."""
    yield
    from pyspark import SparkContext

    if (left := SparkContext._active_spark_context) is not None:
        left.stop()


class TestSpark(EngineTests):
    engine, images = "spark", IMAGES

    @pytest.fixture(autouse=True)
    def _context(self, request: pytest.FixtureRequest, none_is_left: None) -> None:
        from pyspark import SparkConf, SparkContext

        required(spark.missing())
        is_own, existing = any(name in request.node.name for name in OF_ITS_OWN), SparkContext._active_spark_context
        if is_own and existing is not None:
            existing.stop()
        elif not is_own:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
            SparkContext.getOrCreate(conf).setLogLevel("OFF")


def test_values_larger_than_spark_collects(tmp_path: Path) -> None:
    """64 values of 20 MB: more than spark.driver.maxResultSize (1 GB) in all, and each more than travels at all."""
    required(spark.missing())
    values = np.arange(64 * 6, dtype=np.uint16).reshape(64, 3, 2)
    nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "in.nii")  # type: ignore[no-untyped-call]
    fold = hyperslab.Fold(lambda block: np.full(20 * 2**17, int(block.sum()), np.int64), lambda a, b: a + b)
    result = driver.run(
        Pipeline(str(tmp_path / "in.nii")).reduce(fold),
        engine="spark", workers=2, threads=1, rule=Rule("blocks", (64, 1, 1)), out=tmp_path / "out",
    )  # fmt: skip
    assert result.ok, result.failures
    assert result.value.shape == (20 * 2**17,)
    assert np.all(result.value == values.sum(dtype=np.int64))
    assert result.summary.moved_nbytes >= 64 * result.value.nbytes
    kept = list((result.folder / "partials").iterdir())
    assert len(kept) == 1, "what was merged is removed"
    shutil.rmtree(tmp_path / "out")


def test_a_relative_output_is_where_this_process_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java and its workers stay in the folder in which the first run of this process has started them."""
    required(spark.missing())
    values = np.arange(64, dtype=np.uint16).reshape(4, 4, 4)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        nib.save(nib.Nifti1Image(values, np.eye(4)), "in.nii")  # type: ignore[no-untyped-call]
        pipeline = Pipeline("in.nii", values="stored").reduce(hyperslab.Fold(np.sum, lambda a, b: a + b))
        result = driver.run(
            pipeline, engine="spark", workers=2, threads=1, rule=Rule("blocks", (2,)), out=Path(f"out-{name}")
        )
        assert result.value == values.sum()
        assert [path.name for path in (tmp_path / name / f"out-{name}").glob("result.*")]
