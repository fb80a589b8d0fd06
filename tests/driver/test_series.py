"""Functions along time: what is made of a series by blocks is what NumPy makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import workloads
from hyperslab.apps.locality import check_locality
from hyperslab.arrays import Array
from hyperslab.arrays.axes import NamedAxes, numbered
from hyperslab.arrays.partition import Rule
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.report.slices import slices
from tests.system.end_to_end.command import save

SHAPE = (40, 48, 12, 50)
"float32: large enough that the automatic partition cuts it."


def demeaned(block: Array) -> Array:
    return np.asarray(block - block.mean(axis=3, dtype=np.float64, keepdims=True), np.float32)


@pytest.fixture(scope="module")
def values() -> Array:
    return np.random.default_rng(0).normal(1000, 30, SHAPE).astype(np.float32)


@pytest.fixture(scope="module", params=["series.nii", "series.nii.gz"])
def series(request: pytest.FixtureRequest, tmp_path_factory: Any, values: Array) -> Path:
    return save(tmp_path_factory.mktemp("in") / request.param, values)


def rule_of(pipeline: Pipeline, **options: Any) -> str:
    plan = prepare(pipeline, Options(engine="serial", **options)).plan
    return str(plan.summary["partition"]["rule"])


def test_a_function_along_time_gets_all_of_it(series: Path, values: Array, tmp_path: Path) -> None:
    pipeline = Pipeline(series).map(demeaned).write(tmp_path / "out", keep="volume")
    result = hyperslab.run(pipeline, engine="threads", workers=1, threads=2)
    assert result.tasks > 1
    image: Any = nib.load(result.outputs[0])
    # sums of float64 in another order differ in the last digit of a float32
    np.testing.assert_allclose(np.asarray(image.dataobj), demeaned(values), atol=1e-5)


def test_it_is_ours_to_choose_for_functions_of_users_alone(series: Path, tmp_path: Path) -> None:
    mapped = Pipeline(series).map(demeaned).write(tmp_path / "out")
    assert rule_of(mapped) == "auto, axes 3 whole"
    assert rule_of(mapped, rule=Rule("blocks", (1, 1, 1, 4))) == "blocks=1x1x1x4"
    assert rule_of(mapped, rule=Rule("slabs")) == "slabs"
    near = Pipeline(series).map(demeaned, halo=(0, 0, 0, 2)).write(tmp_path / "out")
    assert rule_of(near) == "auto", "a halo along time says what is needed of it"
    own = workloads.build("increment", Pipeline(series), {})
    assert rule_of(own.write(tmp_path / "out")) == "auto"


def test_a_series_is_one_in_every_format(series: Path, values: Array, tmp_path: Path) -> None:
    """Also where an attribute alone says where its voxels lie."""
    hyperslab.convert(series, tmp_path / "series.h5", engine="serial", report=False)
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        data = file.create_dataset("data", data=values)
        data.attrs["affine"] = np.diag([2.0, 2.0, 3.0, 1.0])
        for axis, name in enumerate("xyzt"):
            data.dims[axis].label = name
    for name in ("series.h5", "plain.h5"):
        source = hyperslab.open(tmp_path / name).source
        assert source.is_image
        assert slices(source), "it has a picture"
        mapped = Pipeline(tmp_path / name).map(demeaned).write(tmp_path / "out")
        assert rule_of(mapped) == "auto, axes 3 whole"


def test_names_are_those_of_all_files(tmp_path: Path) -> None:
    small = np.zeros((4, 4, 4), np.float32)
    axial = save(tmp_path / "axial.nii", small)
    turned = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
    sagittal = save(tmp_path / "sagittal.nii", small, turned)
    both = Pipeline([axial, sagittal])
    told = r"z.?: it is axis 2 of .*axial.nii, but axis 1 of .*sagittal.nii"
    with pytest.raises(UsageError, match=told):
        both.map(np.max, drop_axis="z")
    mapped = both.map(np.negative)
    with pytest.raises(UsageError, match=told):
        rule_of(mapped.write(tmp_path / "out"), axes_whole="z")
    with pytest.raises(UsageError, match=told):
        check_locality(mapped, ["z"])
    alike = Pipeline([axial, axial]).map(np.negative).write(tmp_path / "out")
    assert rule_of(alike, axes_whole="z") == "auto, axes 2 whole"


def test_exact_names_go_before_other_names_of_time(tmp_path: Path) -> None:
    values = np.arange(64).reshape(4, 4, 4)
    weights = values[0] + 1
    for path, held, names in (
        (tmp_path / "a.h5", values, ("t", "x", "time")),
        (tmp_path / "weights.h5", weights, ("x", "time")),
    ):
        with h5py.File(path, "w") as file:
            data = file.create_dataset("data", data=held)
            for axis, name in enumerate(names):
                data.dims[axis].label = name
    both = Pipeline(tmp_path / "a.h5").map(np.negative).write(tmp_path / "out", "h5")
    assert rule_of(both, axes_whole="time") == "auto, axes 2 whole"
    assert rule_of(both, axes_whole="t") == "auto, axes 0 whole"
    pair = Pipeline(tmp_path / "a.h5", weights=tmp_path / "weights.h5")
    made = pair.map(lambda block, weights: block * weights).compute(engine="serial")
    assert np.array_equal(made, values * weights)


def test_arrays_that_are_no_images_are_cut_as_they_are_stored(tmp_path: Path) -> None:
    cube = Pipeline(np.zeros((40, 30, 20, 10), np.float32)).map(demeaned)
    assert rule_of(cube.write(tmp_path / "out", format="zarr")) == "auto"


def test_axes_without_names_have_numbers() -> None:
    with pytest.raises(UsageError, match="time: the axes of the array have no names: give numbers"):
        numbered("--drop-axis", "time", [NamedAxes("a.raw", ())])
    assert numbered("--drop-axis", [0, 2], [NamedAxes("a.raw", ())]) == (0, 2)
