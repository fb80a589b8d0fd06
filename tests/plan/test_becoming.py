"""What a whole becomes is said once, and everything that is planned of it agrees."""

from __future__ import annotations

from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest

from hyperslab import workloads
from hyperslab.apps.conversion import conversion
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import become, output_dtype
from hyperslab.plan.compile import Budget, compile_plan
from hyperslab.plan.pipeline import Pipeline

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
SLOPE = 0.5
INTERCEPT = 1.0


def volume(folder: Path, shape: tuple[int, ...], dtype: str = "int16") -> str:
    image = nib.Nifti1Image(np.ones(shape, dtype), AFFINE)  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(SLOPE, INTERCEPT)  # type: ignore[no-untyped-call]
    path = folder / f"{dtype}.nii"
    nib.save(image, path)
    return str(path)


def double(block: Array) -> Array:
    return block * 2


def test_stored_values_keep_their_scaling_while_they_keep_their_dtype(tmp_path: Path) -> None:
    pipeline = Pipeline(volume(tmp_path, (5, 4, 3)), values="stored")
    (kept,) = become(pipeline.map(double))
    assert kept.main.scaling is not None
    assert (kept.main.scaling.slope, kept.main.scaling.inter) == (SLOPE, INTERCEPT)
    (changed,) = become(pipeline.map(double, dtype="float32"))
    assert changed.main.scaling is None
    assert changed.main.dtype == np.float32
    (real,) = become(Pipeline(volume(tmp_path, (5, 4, 3))).map(double))
    assert real.main.scaling is None


def test_merged_voxels_are_counted_and_placed(tmp_path: Path) -> None:
    pipeline = workloads.build(
        "downsample", Pipeline(volume(tmp_path, (5, 4, 3))), {"factor": (2, 2, 1)}
    )
    (whole,) = become(pipeline)
    assert whole.main.shape == (3, 2, 3)
    assert whole.main.unit == (2, 2, 1)
    assert whole.main.region_of(Hyperslab((2, 2, 0), (3, 2, 3))) == Hyperslab((1, 1, 0), (2, 1, 3))
    affine = whole.main.header_of(Hyperslab((2, 2, 0), (3, 2, 3))).affine
    assert affine is not None
    of_all = whole.main.header_of()
    assert of_all.step == (2.0, 2.0, 1.0)
    assert of_all.origin == (0.5, 0.5, 0.0)


def test_inner_cuts_keep_to_the_chunks_of_files_that_all_tasks_write(tmp_path: Path) -> None:
    source = volume(tmp_path, (12, 12, 12))
    plan = compile_plan(
        conversion(source, tmp_path / "made.h5", encoding=Encoding(chunks=(4, 3, 12))),
        Rule("blocks", (2, 2, 2)),
        Budget(2**30, 2),
    )
    (whole,) = plan.stages[0].job.becoming
    assert whole.main.unit == (4, 3, 12)
    assert {task.core.start[0] % 4 for task in plan.tasks} == {0}
    assert {task.core.start[1] % 3 for task in plan.tasks} == {0}
    assert {task.core.count[2] for task in plan.tasks} == {12}


def test_every_task_writes_what_its_whole_becomes(tmp_path: Path) -> None:
    """Files that were planned have the shape and dtype that was said."""
    for name, shape in (("a", (7, 6, 5)), ("b", (4, 6, 9))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["v"] = np.zeros(shape, "u2")
    sources = [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    pipeline = (
        Pipeline(sources).map(double, dtype="float64").write(tmp_path / "out", "h5", "volume")
    )
    plan = compile_plan(pipeline, Rule(), Budget(2**30, 2))
    job = plan.stages[0].job
    assert job.output is not None
    assert [whole.main.shape for whole in job.becoming] == [(7, 6, 5), (4, 6, 9)]
    assert [whole.given for whole in job.becoming] == [(np.dtype("u2"),)] * 2
    for whole, (sink, _) in zip(job.becoming, job.output.volumes, strict=True):
        assert (sink.shape, sink.dtype) == (whole.main.shape, whole.main.dtype)


def test_wholes_may_differ_in_dtype_but_not_what_is_merged(tmp_path: Path) -> None:
    sources = []
    for dtype in ("u2", "f4"):
        with h5py.File(tmp_path / f"{dtype}.h5", "w") as file:
            file["v"] = np.zeros((3, 3), dtype)
        sources.append(str(tmp_path / f"{dtype}.h5"))
    pipeline = Pipeline(sources)
    assert [whole.main.dtype for whole in become(pipeline)] == [np.dtype("u2"), np.dtype("f4")]
    with pytest.raises(UsageError, match=r"different dtypes \(float32, uint16\)"):
        output_dtype(pipeline)
    assert output_dtype(pipeline.map(double, dtype="int8")) == np.dtype("int8")
