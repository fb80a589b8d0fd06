"""Small variables that lie around arrays in Zarr stores go with these, and packed ones of other
files go into stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

import hyperslab
from hyperslab.arrays import Array
from hyperslab.blocks import stored
from tests.system.end_to_end.command import call

DIMS = ("time", "y", "x")


def _plus(block: Array) -> Array:
    return block + 1


def _run(source: Path | str, dest: Path) -> tuple[str, ...]:
    """What is left out of a run over an array."""
    pipeline = hyperslab.Pipeline(source).map(_plus).write(dest)
    prepared = hyperslab.prepare(pipeline, hyperslab.Options(engine="serial"))
    hyperslab.run(pipeline, engine="serial")
    return prepared.notes


def _grid() -> xarray.Dataset:
    values = np.random.default_rng(0).random((3, 4, 5))
    made = xarray.Dataset(
        {"t2m": (DIMS, values, {"units": "K", "grid_mapping": "crs"})},
        {
            "time": ("time", [0.0, 1, 3], {"bounds": "time_bnds"}),
            "lat": (("y", "x"), values[0], {"units": "degrees_north"}),
            "level": ((), 2.0),
        },
    )
    made["crs"] = ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"})
    made["time_bnds"] = (("time", "nv"), values[:, :2, 0])
    return made


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("verb", ["run", "convert"])
@pytest.mark.parametrize("end", ["nc", "h5", "zarr"])
def test_all_that_an_array_names_goes_with_it(
    tmp_path: Path, version: int, verb: str, end: str
) -> None:
    grid = _grid()
    grid.to_zarr(tmp_path / "a.zarr", zarr_format=version, consolidated=False)
    source, dest = f"{tmp_path / 'a.zarr'}::t2m", tmp_path / f"b.{end}"
    if verb == "run":
        assert _run(source, dest) == ()
    else:
        hyperslab.convert(source, dest, engine="serial")
    engine = "zarr" if end == "zarr" else "h5netcdf"
    with xarray.open_dataset(dest, engine=engine, decode_cf=False) as found:
        for name in ("time", "lat", "level", "crs", "time_bnds"):
            xarray.testing.assert_equal(found[name].variable, grid[name].variable)
            assert grid[name].attrs.items() <= found[name].attrs.items()
        assert found.t2m.attrs["grid_mapping"] == "crs"
        assert set(found.t2m.attrs["coordinates"].split()) == {"lat", "level"}


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_what_stays_in_a_store_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, what has other lengths, and what is too large."""
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    made: dict[str, tuple[tuple[str, ...], Any]] = {
        "v": (DIMS, np.ones((3, 4, 5))),
        "y": (("y",), np.arange(7.0)),
        "names": (("x",), np.array(list("abcde"))),
        "large": (("y", "x"), np.ones((4, 5))),
        "small": (("y",), np.arange(4, dtype=np.int8)),
    }
    for name, (dims, values) in made.items():
        root.create_array(name, data=values, dimension_names=dims)
    root["v"].attrs["coordinates"] = "small large names nowhere"
    monkeypatch.setattr(stored, "LARGEST_NBYTES", 100)
    (left,) = _run(f"{tmp_path / 'a.zarr'}::v", tmp_path / "o.nc")
    assert "variable y (its axes have other lengths)" in left
    assert "variable names (it is neither numbers nor characters)" in left
    assert "variable large (with it there are more than" in left
    with xarray.open_dataset(tmp_path / "o.nc", engine="h5netcdf") as found:
        assert set(found.variables) == {"v", "small"}


@pytest.mark.parametrize("verb", ["run", "convert"])
def test_packing_that_nobody_understands_stays_as_it_is(tmp_path: Path, verb: str) -> None:
    """Without it, stored numbers would be taken for real ones."""
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    root.create_array("v", data=np.ones((3, 4, 5)), dimension_names=DIMS)
    root.create_array("y", data=np.arange(4, dtype=np.int16), dimension_names=("y",))
    root["y"].attrs["scale_factor"] = "a tenth"
    source, dest = f"{tmp_path / 'a.zarr'}::v", tmp_path / "o.nc"
    if verb == "run":
        assert _run(source, dest) == ()
    else:
        hyperslab.convert(source, dest, engine="serial")
    with xarray.open_dataset(dest, engine="h5netcdf", decode_cf=False) as found:
        assert found["y"].attrs["scale_factor"] == "a tenth"
        np.testing.assert_array_equal(found["y"], np.arange(4))


def _packed() -> xarray.Dataset:
    """Coordinates that are packed, have a missing value, or a range."""
    return xarray.Dataset(
        {
            "v": (DIMS, np.ones((3, 4, 5)), {"coordinates": "lat"}),
            "time": (
                "time",
                np.array([10, 20, 40], np.int16),
                {"scale_factor": 0.5, "add_offset": 1.0, "units": "days since 2000-01-01"},
            ),
            "lat": (
                ("y", "x"),
                np.arange(20, dtype=np.int16).reshape(4, 5),
                {"_FillValue": np.int16(7), "scale_factor": np.float32(0.1)},
            ),
            "y": ("y", [0.0, 1, 2, 100], {"valid_max": 50.0}),
            "x": ("x", np.arange(5, dtype=np.int16), {"_FillValue": np.int16(-1)}),
        }
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("verb", ["run", "convert"])
def test_packed_coordinates_go_into_a_store_as_they_are_meant(
    tmp_path: Path, verb: str, version: int
) -> None:
    _packed().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    source, dest = tmp_path / "a.nc", tmp_path / "b.zarr"
    encoding = hyperslab.Encoding(version=version)
    if verb == "run":
        pipeline = hyperslab.Pipeline(f"{source}::v").map(_plus).write(dest, encoding=encoding)
        assert hyperslab.prepare(pipeline, hyperslab.Options(engine="serial")).notes == ()
        hyperslab.run(pipeline, engine="serial")
    else:
        hyperslab.convert(source, dest, engine="serial", encoding=encoding)
    with (
        xarray.open_dataset(source, engine="h5netcdf", decode_times=False) as wanted,
        xarray.open_zarr(dest, decode_times=False) as found,
    ):
        for name in ("time", "lat", "x"):
            np.testing.assert_array_equal(found[name], wanted[name])
        np.testing.assert_array_equal(found["y"], [0, 1, 2, np.nan])
        assert found["time"].attrs["units"] == "days since 2000-01-01"
        assert found["x"].dtype == np.int16


def test_the_command_converts_an_array_of_a_store_with_what_it_names(tmp_path: Path) -> None:
    _grid().to_zarr(tmp_path / "a.zarr", consolidated=False)
    done = call("convert", f"{tmp_path / 'a.zarr'}::t2m", tmp_path / "b.nc")
    assert (done.code, "left out" in done.out + done.err) == (0, False), done.err
