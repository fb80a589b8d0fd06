"""What was prepared is what is run, with the settings that it was prepared with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.errors import UsageError

VALUES = np.arange(60.0).reshape(3, 4, 5)


def writing(path: Path, factor: int = 1) -> hyperslab.Pipeline:
    return hyperslab.Pipeline(VALUES).map(lambda block: block * factor).write(path)


def summing() -> hyperslab.Pipeline:
    return hyperslab.Pipeline(VALUES).reduce(hyperslab.Fold(np.sum, np.add))


def test_another_pipeline_than_was_prepared_is_refused(tmp_path: Path) -> None:
    first, second = writing(tmp_path / "P1.nii"), writing(tmp_path / "P2.nii", 100)
    prepared = hyperslab.prepare(first, engine="serial", report=False)
    with pytest.raises(UsageError, match="the pipeline is not the one that was prepared"):
        hyperslab.run(second, prepared=prepared)
    assert not list(tmp_path.iterdir())


def test_other_settings_than_were_prepared_are_refused(tmp_path: Path) -> None:
    pipeline = writing(tmp_path / "out.nii")
    prepared = hyperslab.prepare(pipeline, engine="serial", report=False, blocks=5, retries=3)
    told = r"\(blocks, block_shape, partition or axes_whole; retries: 3 prepared, 1 given\)"
    with pytest.raises(UsageError, match=told):
        hyperslab.run(pipeline, prepared=prepared, engine="serial", report=False, blocks=3)
    with pytest.raises(UsageError, match="engine: 'serial' prepared, 'threads' given"):
        hyperslab.run(pipeline, hyperslab.Options(engine="threads"), prepared=prepared)
    assert not list(tmp_path.iterdir())


def test_a_run_has_the_settings_that_it_was_prepared_with(tmp_path: Path) -> None:
    pipeline = writing(tmp_path / "out.nii", 2)
    prepared = hyperslab.prepare(pipeline, engine="serial", report=False, blocks=5)
    result = hyperslab.run(pipeline, prepared=prepared)
    assert result.ok
    assert not list(tmp_path.rglob("report.html"))
    np.testing.assert_array_equal(hyperslab.open(tmp_path / "out.nii")[...], VALUES * 2)


def test_the_same_settings_may_be_said_again(tmp_path: Path) -> None:
    pipeline = writing(tmp_path / "out.nii")
    prepared = hyperslab.prepare(pipeline, engine="serial", report=False, blocks=(1, 5, 1))
    settings = hyperslab.Options(engine="serial", report=False, blocks="1x5x1")
    assert hyperslab.run(pipeline, settings, prepared=prepared).ok


def test_the_place_of_a_reduction_is_that_which_was_prepared(tmp_path: Path) -> None:
    pipeline = summing()
    prepared = hyperslab.prepare(pipeline, out=tmp_path / "sum", engine="serial", report=False)
    with pytest.raises(UsageError, match=f"but it was prepared for {tmp_path / 'sum'}"):
        hyperslab.run(pipeline, prepared=prepared, out=tmp_path / "other")
    assert hyperslab.run(pipeline, prepared=prepared).value == VALUES.sum()
    nowhere = hyperslab.prepare(pipeline, engine="serial", report=False)
    with pytest.raises(UsageError, match="it was prepared without `out`"):
        hyperslab.run(pipeline, prepared=nowhere)
