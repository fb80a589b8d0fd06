"""What a file says beside its values, and what of it is there after a conversion."""

from __future__ import annotations

from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  # before netCDF4, which would have HDF5 look for filters in its own folder
import netCDF4
import numpy as np
import pytest
import zarr

from tests.end_to_end.command import call, convert

SMALL = ("--engine", "serial", "-q")


pytestmark = pytest.mark.usefixtures("hurried")


def test_units_of_netcdf_reach_zarr(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        file.createDimension("time", 4)
        variable = file.createVariable("tas", "f4", ("time",))
        variable.setncatts({"units": "K", "long_name": "air temperature"})
        variable[:] = np.arange(4)
    convert(f"{tmp_path / 'in.nc'}::tas", tmp_path / "new.zarr")
    said = zarr.open_array(tmp_path / "new.zarr", path="tas", mode="r").attrs
    assert (said["units"], said["long_name"]) == ("K", "air temperature")


@pytest.mark.parametrize("name", ["new.zarr", "new.h5", "new.nc"])
def test_nothing_is_said_that_the_source_does_not_say(tmp_path: Path, name: str) -> None:
    """Of what cannot be kept, its description is no attribute."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        dataset = file.create_dataset("data", data=np.arange(4, dtype="i2"))
        dataset.attrs["one"] = dataset.ref
        dataset.attrs["several"] = np.array([dataset.ref, dataset.ref], h5py.ref_dtype)
        dataset.attrs["long"] = np.zeros(2000)
        dataset.attrs["title"] = "kept"
    convert(tmp_path / "in.h5", tmp_path / name)
    if name == "new.zarr":
        assert dict(zarr.open_array(tmp_path / name, path="data", mode="r").attrs) == {"title": "kept"}
        return
    with h5py.File(tmp_path / name) as file:
        own = {"DIMENSION_LIST", "DIMENSION_LABELS"}
        assert set(file["data"].attrs) - own == {"title"}


@pytest.mark.parametrize("name", ["new.nc", "new.h5", "new.zarr"])
@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_a_faithful_conversion_of_netcdf_is_no_difference(tmp_path: Path, dtype: str, name: str) -> None:
    """Packed, with missing values and a valid range, along an unlimited dimension."""
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(4)
        variable = file.createVariable("tas", dtype, ("time", "x"), fill_value=-999)
        variable.setncatts({"units": "K", "scale_factor": 0.5, "valid_range": np.array([-100, 100], dtype)})
        variable.set_auto_maskandscale(False)
        variable[:] = np.array([[1, 2, -999], [200, 5, 6], [7, 8, 9], [-100, 0, 100]])
    convert(f"{tmp_path / 'in.nc'}::tas", tmp_path / name)
    done = call("diff", f"{tmp_path / 'in.nc'}::tas", tmp_path / name)
    assert done.code == 0, done
