"""Arrays of a run have the same names in the files of blocks and in those of whole volumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan import surrounded
from hyperslab.plan.pipeline import Keep


@pytest.fixture
def source(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).random((4, 3, 5))
    made = xarray.Dataset({"t2m": (("time", "y", "x"), values)})
    made.assign_coords(time=[0.0, 1, 3, 6], lat=("y", [1.0, 2, 4])).to_netcdf(
        tmp_path / "grid.nc", engine="h5netcdf"
    )
    return tmp_path / "grid.nc"


def _names(folder: Path) -> list[str]:
    """Names of the arrays in the files of a folder, each with the part of its file's name before
    the numbers of a block.
    """
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        engine = "zarr" if path.suffix == ".zarr" else "h5netcdf"
        with xarray.open_dataset(path, engine=engine, decode_cf=False) as seen:
            arrays = [str(name) for name, one in seen.items() if one.ndim > 1]
        found.append(f"{path.name.partition('_0')[0].partition('.')[0]}: {' '.join(arrays)}")
    return found


def _plus(block: Array) -> Array:
    return block + 1


def _maps(block: Array) -> dict[str, Array]:
    return {"mean": block.mean(axis=0), "fit": block + 1}


def _time(block: Array) -> dict[str, Array]:
    return {"time": block + 1, "lat": block + 2}


def _written(source: Path, function: object, dest: Path, end: str, keep: Keep) -> list[str]:
    pipeline = hyperslab.Pipeline(source).map(function).write(dest, end, keep)
    hyperslab.run(pipeline, engine="serial", rule=hyperslab.Rule("blocks", (1, 1, 1)))
    return _names(dest)


@pytest.mark.parametrize("end", ["nc", "h5", "zarr"])
def test_blocks_are_called_as_volumes(source: Path, tmp_path: Path, end: str) -> None:
    keeps: list[Keep] = ["blocks", "volume"]
    for keep in keeps:
        found = _written(source, _plus, tmp_path / keep, end, keep)
        assert found == ["grid_t2m: t2m"]


@pytest.mark.parametrize("end", ["nc", "zarr"])
def test_several_arrays_have_their_names_in_files_of_their_own(
    source: Path, tmp_path: Path, end: str
) -> None:
    keeps: list[Keep] = ["blocks", "volume"]
    for keep in keeps:
        found = _written(source, _maps, tmp_path / keep, end, keep)
        assert found == ["grid_t2m_fit: fit", "grid_t2m_mean: mean"]


def test_the_one_array_that_a_function_names_has_its_name(source: Path, tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(source).map(lambda block: {"lat": block + 1})
    hyperslab.run(pipeline.write(tmp_path / "o.nc"), engine="serial")
    with xarray.open_dataset(tmp_path / "o.nc", engine="h5netcdf") as found:
        assert found["lat"].dims == ("time", "y", "x")


def test_an_array_that_is_called_as_an_axis_leaves_it_its_coordinates(
    source: Path, tmp_path: Path
) -> None:
    """In a file of its own; one file for both is refused."""
    found = _written(source, _time, tmp_path / "out", "nc", "volume")
    assert found == ["grid_t2m_lat: lat", "grid_t2m_time: data"]
    path = tmp_path / "out" / "grid_t2m_time.nc"
    with xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as seen:
        np.testing.assert_array_equal(seen.time, [0.0, 1, 3, 6])
        assert seen["data"].dims == ("time", "y", "x")
    pipeline = hyperslab.Pipeline(source).map(_time).write(tmp_path / "o.nc")
    with pytest.raises(UsageError, match="the coordinates along an axis"):
        hyperslab.run(pipeline, engine="serial")


def test_more_files_than_are_asked_are_called_alike(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surrounded, "MOST_FILES", 0)
    assert _written(source, _plus, tmp_path / "out", "nc", "blocks") == ["grid_t2m: t2m"]
