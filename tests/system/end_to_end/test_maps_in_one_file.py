"""Several arrays of one function in one file, against NumPy on the whole image, as xarray, h5py and
zarr-python see them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray
import zarr

import hyperslab
from hyperslab.arrays import Array
from hyperslab.driver.pictured import pictured
from tests.system.end_to_end.command import (
    ANATOMICAL,
    FUNCTIONAL,
    affine_of,
    call,
    real_values_of,
    succeed,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

QUIET = ("--engine", "serial", "-q", "--no-report")
MINE = """
import os
from pathlib import Path

import numpy as np

def parts(block):
    mean = block.mean(axis=3, keepdims=True)
    return {"mean": mean[..., 0], "high": block.max(axis=3).astype("i2"), "rest": block - mean}

def clashing(block):
    return {"t": block.mean(axis=3), "rest": block * 2}

def fails_once(block, slab, once):
    if slab.start[1] > 9 and not os.path.exists(once):
        Path(once).touch()
        raise ValueError("once")
    found = parts(block)
    return {name: found[name] for name in ("mean", "high")}
"""
PACKED = ("--compression", "gzip")
CHUNKED = ("--chunks", "9,6,3", *PACKED)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of a user's functions."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def expected() -> dict[str, Array]:
    values = real_values_of(FUNCTIONAL)
    mean = values.mean(axis=3, keepdims=True)
    return {"mean": mean[..., 0], "high": values.max(axis=3).astype("i2"), "rest": values - mean}


@pytest.mark.parametrize(
    ("name", "how"), [("maps.nc", ()), ("maps.h5", PACKED), ("maps.zarr", ())], ids=str
)
def test_all_arrays_of_a_function_are_in_one_file(
    mine: Path, tmp_path: Path, name: str, how: tuple[str, ...]
) -> None:
    out = tmp_path / name
    succeed("run", f"{mine}:parts", FUNCTIONAL, "-o", out, "--blocks", "3", *how, *QUIET)
    for array, values in expected().items():
        view = hyperslab.open(f"{out}::{array}")
        assert view.dtype == values.dtype
        assert np.array_equal(view[...], values)
        assert view.affine is not None
        assert np.array_equal(view.affine, affine_of(FUNCTIONAL))
    assert succeed("verify", out) == "1 of 1 output unchanged since the run\n"
    assert sorted(os.listdir(tmp_path)) == [f".{name}.hyperslab", name, "mine.py"]


def test_other_libraries_see_variables_with_their_coordinates(mine: Path, tmp_path: Path) -> None:
    for name in ("maps.nc", "maps.h5", "maps.zarr"):
        succeed("run", f"{mine}:parts", FUNCTIONAL, "-o", tmp_path / name, "--blocks", "2", *QUIET)
    with (
        xarray.open_dataset(tmp_path / "maps.nc", engine="netcdf4") as file,
        xarray.open_zarr(tmp_path / "maps.zarr") as store,
    ):
        for dataset in (file, store):
            assert set(dataset.data_vars) == set(expected())
            assert dataset.rest.dims[:3] == dataset["mean"].dims == dataset.high.dims
            assert set(dataset.rest.dims) == set(dataset.coords)
    with h5py.File(tmp_path / "maps.h5") as plain:
        assert np.array_equal(plain["high"], expected()["high"])
    group = zarr.open_group(tmp_path / "maps.zarr", mode="r")
    assert np.array_equal(np.asarray(group["mean"]), expected()["mean"])


@pytest.mark.parametrize("how", [(), CHUNKED], ids=["placed", "chunks"])
def test_a_run_that_failed_goes_on_with_all_its_arrays(
    mine: Path, tmp_path: Path, how: tuple[str, ...]
) -> None:
    out = tmp_path / "maps.h5"
    whole = tmp_path / "whole.h5"
    words = (
        "run", f"{mine}:fails_once", FUNCTIONAL, "-p", f"once={tmp_path / 'once'}",
        "--blocks", "1x4x1x1", "--retries", "0", *how, *QUIET,
    )  # fmt: skip
    assert call(*words, "-o", out).code == 1
    assert not out.exists()
    succeed(*words, "-o", out, "--resume")
    succeed(*words, "-o", whole)
    for name in ("mean", "high"):
        for path in (out, whole):
            assert np.array_equal(hyperslab.open(f"{path}::{name}")[...], expected()[name])


def test_the_page_shows_the_first_array(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "maps.h5"
    succeed("run", f"{mine}:parts", FUNCTIONAL, "-o", out, *QUIET)
    (run,) = (tmp_path / ".maps.h5.hyperslab").glob("run-*")
    shown = pictured(run, json.loads((run / "plan.json").read_text()))
    assert [one.name for one in shown] == [str(FUNCTIONAL), f"{out}::mean"]


def test_an_array_that_is_called_as_an_axis_is_refused(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "maps.nc"
    done = call("run", f"{mine}:clashing", FUNCTIONAL, "-o", out, *QUIET)
    assert done.code == 2
    assert "'t' would be an array and the coordinates along an axis of 'rest'" in done.err
    assert sorted(os.listdir(tmp_path)) == ["mine.py"]


def test_a_format_of_one_array_says_which_hold_several(mine: Path, tmp_path: Path) -> None:
    done = call("run", f"{mine}:parts", FUNCTIONAL, "-o", tmp_path / "maps.nii", *QUIET)
    assert done.code == 2
    assert "or write .h5, .nc or .zarr, which hold several" in done.err


def test_python_writes_one_file_of_several_arrays(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(lambda block: {"low": block, "up": block.max(2)})
    result = hyperslab.run(pipeline.write(tmp_path / "two.h5"), engine="serial", report=False)
    assert [path.name for path in result.outputs] == ["two.h5"]
    values = real_values_of(ANATOMICAL)
    assert np.array_equal(hyperslab.open(f"{tmp_path / 'two.h5'}::up")[...], values.max(axis=2))


def ends(block: Array) -> dict[str, Array]:
    """Arrays whose new axes, and whose kept ones, have extents of their own."""
    return {
        "two": np.stack([block, block], -1),
        "three": np.stack([block, block, block], -1),
        "mean": block.mean(axis=2, keepdims=True),
    }


@pytest.mark.parametrize("name", ["maps.zarr", "maps.nc"])
def test_axes_without_a_name_of_their_own_have_one_extent_each(tmp_path: Path, name: str) -> None:
    values = np.arange(4 * 5 * 6.0).reshape(4, 5, 6)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["values"] = values
    made = hyperslab.Pipeline(tmp_path / "in.h5").map(ends).write(tmp_path / name)
    hyperslab.run(made, engine="serial", blocks="2x1x1")
    with xarray.open_dataset(tmp_path / name) as found:
        for key, expected in ends(values).items():
            assert np.array_equal(found[key], expected)
