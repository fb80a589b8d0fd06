"""What goes with a netCDF variable into its new file: coordinates, bounds, grid mapping, global
attributes; what does not is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab.blocks import surroundings
from tests.repetitions import each_value
from tests.system.end_to_end.command import SMALL, convert, succeed

pytestmark = pytest.mark.usefixtures("hurried")


def climate(path: Path, days: Any = range(5), *, kind: Any = "NETCDF4", **said: str) -> Path:
    """Temperatures on a grid of their own, as climate models leave them."""
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.setncatts({"title": "a model", "version": np.int32(3), **said})
        for name, extent in (("time", None), ("y", 3), ("x", 4), ("nv", 2)):
            file.createDimension(name, extent)
        of_time = {"units": said.get("since", "days since 2000-01-01"), "bounds": "time_bnds"}
        _add(file, "time", "f8", ("time",), list(days), of_time)
        _add(file, "time_bnds", "f8", ("time", "nv"), [(day, day + 1) for day in days])
        _add(file, "lat", "f4", ("y", "x"), np.arange(12).reshape(3, 4), {"units": "degrees_north"})
        _add(file, "x", "i2", ("x",), [10, 20, 40, 80], {"units": "m"})
        _add(file, "crs", "i4", (), 7, {"grid_mapping_name": "latitude_longitude"})
        values = np.arange(12 * len(days)).reshape(-1, 3, 4)
        about = {"coordinates": "lat", "grid_mapping": "crs", "units": "K", "scale_factor": 0.5}
        _add(file, "tas", "i2", ("time", "y", "x"), values, about)
    return path


def _add(file: Any, name: str, dtype: str, dims: Any, values: Any, said: Any = None) -> None:
    variable = file.createVariable(name, dtype, dims)
    variable.setncatts(said or {})
    variable.set_auto_maskandscale(False)
    variable[...] = values


def opened(path: Path) -> xarray.Dataset:
    with xarray.open_dataset(path, engine="netcdf4") as dataset:
        return dataset.load()


@each_value("both kinds, whole and in chunks")
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
@pytest.mark.parametrize("options", [(), ("--chunks", "2,3,4", "--compression", "gzip")])
def test_a_variable_brings_what_describes_it(tmp_path: Path, kind: str, options: Any) -> None:
    source = climate(tmp_path / "a.nc", kind=kind)
    convert(f"{source}::tas", tmp_path / "b.nc", *options)
    xarray.testing.assert_identical(opened(tmp_path / "b.nc"), opened(source))
    assert hyperslab.open(str(tmp_path / "b.nc")).shape == (5, 3, 4)  # the array of the file
    convert(tmp_path / "b.nc", tmp_path / "c.nc")
    xarray.testing.assert_identical(opened(tmp_path / "c.nc"), opened(source))


def test_hdf5_has_dimension_scales(tmp_path: Path) -> None:
    convert(climate(tmp_path / "a.nc"), tmp_path / "b.h5")
    convert(tmp_path / "b.h5", tmp_path / "c.nc")
    with h5py.File(tmp_path / "b.h5") as file:
        dataset = file["tas"]
        np.testing.assert_array_equal(dataset.dims[0]["time"], range(5))
        np.testing.assert_array_equal(dataset.dims[2][0], [10, 20, 40, 80])
        assert (file.attrs["title"], file["x"].attrs["units"]) == ("a model", "m")
    again = opened(tmp_path / "c.nc")
    np.testing.assert_array_equal(again.time, opened(tmp_path / "a.nc").time)


def test_blocks_have_their_part_and_joined_again_the_whole(tmp_path: Path) -> None:
    source = climate(tmp_path / "a.nc")
    convert(source, tmp_path / "blocks", "--block-shape", "2,3,2")
    expected = opened(source)
    (part,) = (tmp_path / "blocks").glob("*_4_0_2.nc")
    cut = expected.isel(time=slice(4, 5), x=slice(2, 4))
    xarray.testing.assert_identical(opened(part).drop_attrs(), cut.drop_attrs())
    convert(tmp_path / "blocks", tmp_path / "whole.nc")
    xarray.testing.assert_identical(opened(tmp_path / "whole.nc"), expected)


def test_files_are_joined_with_their_times(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        days = range(5 * number, 5 * number + 5)
        climate(tmp_path / "in" / f"{number}.nc", days, history=f"made {number}")
    convert(tmp_path / "in", tmp_path / "new.nc", "--axis", "0")
    found = opened(tmp_path / "new.nc")
    expected = opened(climate(tmp_path / "a.nc", range(15)))
    xarray.testing.assert_equal(found.drop_vars("tas"), expected.drop_vars("tas"))
    assert found.attrs == {"title": "a model", "version": 3}  # of history there are three


def test_times_since_several_days_are_not_joined(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        since = f"days since 200{number}-01-01"
        climate(tmp_path / "in" / f"{number}.nc", since=since)
    joined = (tmp_path / "in", tmp_path / "new.nc", "--axis", "0", *SMALL[:2])
    said = succeed("convert", *joined, "--dry-run")
    assert "variable time (it differs from file to file)" in said
    convert(*joined)
    assert "time" not in opened(tmp_path / "new.nc").variables


def test_what_stays_behind_is_said(tmp_path: Path) -> None:
    source = climate(tmp_path / "a.nc")
    with netCDF4.Dataset(source, "a") as file:
        _add(file, "pr", "f4", ("time", "y"), 1)
    said = succeed("convert", f"{source}::tas", tmp_path / "b.nc", "--dry-run")
    (note,) = [line for line in said.splitlines() if line.startswith("note")]
    assert "variables pr (name each one to convert it); unlimited dimensions, which" in note
    assert "which become fixed (time)" in note
    said = succeed("convert", f"{source}::tas", tmp_path / "b.nii", "--dry-run")
    assert "NIfTI has no place for the variables time, x, lat, crs, time_bnds" in said


def test_what_is_left_out_takes_no_room_of_what_goes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of variables that are too large together, those go that fit."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 3)
        file.createDimension("cell", 50)
        _add(file, "v", "f4", ("y", "cell"), 1, {"coordinates": "large small"})
        _add(file, "large", "f8", ("y", "cell"), 1)
        _add(file, "small", "f8", ("y",), [1, 2, 3])
    monkeypatch.setattr(surroundings, "LARGEST_NBYTES", 100)
    hyperslab.convert(f"{tmp_path / 'a.nc'}::v", tmp_path / "b.nc", engine="serial")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert set(file.variables) == {"v", "small"}


def test_coordinates_of_groups_and_large_ones(tmp_path: Path) -> None:
    places = np.random.default_rng(0).normal(size=10_000)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.title = "root"
        file.createDimension("cell", places.size)
        _add(file, "cell", "f8", ("cell",), places, {"units": "m"})
        group = file.createGroup("run/one")
        group.createDimension("step", 2)
        _add(group, "step", "i4", ("step",), [5, 6])
        _add(group, "v", "f4", ("step", "cell"), np.arange(20_000).reshape(2, -1))
    for options in ((), ("--compression", "gzip")):
        convert(f"{tmp_path / 'a.nc'}::/run/one/v", tmp_path / "b.nc", *options, "--overwrite")
        with netCDF4.Dataset(tmp_path / "b.nc") as file:
            found = file["/run/one/v"]
            assert (file.title, found.dimensions) == ("root", ("step", "cell"))
            np.testing.assert_array_equal(file["cell"], places)
            np.testing.assert_array_equal(file["step"], [5, 6])
            np.testing.assert_array_equal(found, np.arange(20_000).reshape(2, -1))
