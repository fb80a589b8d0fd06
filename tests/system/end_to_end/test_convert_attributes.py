"""What a file says beside its values, and what of it is there after a conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import pytest
import zarr

import hyperslab
from tests.repetitions import each_value
from tests.system.end_to_end.command import call, convert, refuse

SMALL = ("--engine", "serial", "-q")
KEPT: dict[str, Any] = {
    "units": "K",
    "empty": "",
    "scale_factor": np.float32(1),
    "add_offset": 0.0,
    "_Unsigned": "false",
    "missing_value": np.array([3.0, -7.0]),
    "valid_range": np.array([-100.0, 100.0]),
    "a_last": np.int16(3),
    "none": np.array([], "f4"),
    "valid_min": np.int8(-100),
    **{f"more{n}": n * np.ones(n) for n in range(9, 1, -1)},
}
"Not in the order of their names, and more than HDF5 keeps in a dataset's header."


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
        assert dict(zarr.open_array(tmp_path / name, path="data", mode="r").attrs) == {
            "title": "kept"
        }
        return
    with h5py.File(tmp_path / name) as file:
        own = {"DIMENSION_LIST", "DIMENSION_LABELS"}
        assert set(file["data"].attrs) - own == {"title"}


@each_value("every format, and both dtypes")
@pytest.mark.parametrize("name", ["new.nc", "new.h5", "new.zarr"])
@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_a_faithful_conversion_of_netcdf_is_no_difference(
    tmp_path: Path, dtype: str, name: str
) -> None:
    """Packed, with missing values and a valid range, along an unlimited dimension."""
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(4)
        variable = file.createVariable("tas", dtype, ("time", "x"), fill_value=-999)
        variable.setncatts(
            {"units": "K", "scale_factor": 0.5, "valid_range": np.array([-100, 100], dtype)}
        )
        variable.set_auto_maskandscale(False)
        variable[:] = np.array([[1, 2, -999], [200, 5, 6], [7, 8, 9], [-100, 0, 100]])
    convert(f"{tmp_path / 'in.nc'}::tas", tmp_path / name)
    done = call("diff", f"{tmp_path / 'in.nc'}::tas", tmp_path / name)
    assert done.code == 0, done


def netcdf_attributes(path: Path) -> list[str]:
    """Names, types and values in order, as netCDF4-python gives them."""
    with netCDF4.Dataset(path) as file:
        return [f"{name}: {file['v'].getncattr(name)!r}" for name in file["v"].ncattrs()]


@each_value("both kinds, whole and in chunks")
@pytest.mark.parametrize("options", [(), ("--chunks", "2")], ids=["whole", "chunks"])
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_attributes_of_netcdf_stay_as_they_are(
    tmp_path: Path, kind: Any, options: tuple[str, ...]
) -> None:
    with netCDF4.Dataset(tmp_path / "in.nc", "w", format=kind) as file:
        file.createDimension("x", 5)
        variable = file.createVariable("v", "i2", ("x",), fill_value=-999)
        variable.setncatts(
            {name: value for name, value in KEPT.items() if kind == "NETCDF4" or np.size(value)}
        )
        if kind == "NETCDF4":
            variable.setncattr_string("string", "of any length")
        variable.set_auto_maskandscale(False)
        variable[:] = [1, 3, -7, -999, 200]
    convert(tmp_path / "in.nc", tmp_path / "new.nc", *options)
    assert netcdf_attributes(tmp_path / "new.nc") == netcdf_attributes(tmp_path / "in.nc")
    with netCDF4.Dataset(tmp_path / "in.nc") as file, netCDF4.Dataset(tmp_path / "new.nc") as new:
        np.testing.assert_array_equal(new["v"][:].filled(0), file["v"][:].filled(0), strict=True)


@pytest.mark.parametrize(
    "options", [(), ("--chunks", "2"), ("--virtual",)], ids=["whole", "chunks", "virtual"]
)
def test_attributes_of_hdf5_stay_as_they_are(tmp_path: Path, options: tuple[str, ...]) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        dataset = file.create_dataset("v", data=np.arange(5, dtype="i2"), track_order=True)
        dataset.attrs.update(
            {**KEPT, "bytes": b"", "big": np.arange(3, dtype=">f8"), "complex": 1 + 2j}
        )
    convert(tmp_path / "in.h5", tmp_path / "new.h5", *options)
    with h5py.File(tmp_path / "in.h5") as file, h5py.File(tmp_path / "new.h5") as new:
        found, expected = new["v"].attrs, file["v"].attrs
        assert [name for name in found if name != "DIMENSION_LABELS"] == list(expected)
        for name in expected:
            assert repr(found[name]) == repr(expected[name])


def test_a_description_of_an_attribute_is_no_attribute(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "in.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "f8", ("x",)).setncatts({"title": "kept", "long": np.zeros(3000)})
    convert(tmp_path / "in.nc", tmp_path / "new.nc")
    assert netcdf_attributes(tmp_path / "new.nc") == ["title: 'kept'"]


@pytest.mark.parametrize("name", ["new.zarr", "new.nii"])
@pytest.mark.parametrize(
    ("slope", "is_exact"), [(np.float32(0.1), False), (np.float32(0.5), True), (0.5, True)]
)
def test_factors_of_float32_are_refused_where_float64_gives_other_values(
    tmp_path: Path, name: str, slope: Any, is_exact: bool
) -> None:
    """As it does for NIfTI, which has float32 for the slope itself, and for the numbers of JSON."""
    with h5py.File(tmp_path / "in.h5", "w") as file:
        dataset = file.create_dataset("v", data=np.arange(-9, 9, dtype="i2"))
        dataset.attrs["scale_factor"] = slope
    stored = (tmp_path / "in.h5", tmp_path / name, "--values", "stored")
    if not is_exact:
        assert "use --values real" in refuse(*stored)
        assert not (tmp_path / name).exists()
        convert(tmp_path / "in.h5", tmp_path / name)
    else:
        convert(*stored)
    made, source = (hyperslab.open(str(tmp_path / file))[...] for file in (name, "in.h5"))
    np.testing.assert_array_equal(made, source)


def test_a_slope_of_0_is_none_to_nifti(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("v", data=np.arange(9, dtype="i2")).attrs["scale_factor"] = 0.0
    stored = ("--values", "stored")
    assert "use --values real" in refuse(tmp_path / "in.h5", tmp_path / "new.nii", *stored)


def test_missing_values_of_64_bits_without_sign_reach_zarr(tmp_path: Path) -> None:
    """NumPy makes floats of the largest one and a small one, and floats have no such number."""
    largest = 2**64 - 1
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        file.createDimension("x", 4)
        variable = file.createVariable("v", "u8", ("x",))
        variable.setncatts(
            {"missing_value": np.array([largest, 5], "u8"), "valid_max": np.uint64(largest - 1)}
        )
        variable.set_auto_mask(False)
        variable[:] = np.array([largest, 5, 6, 7], "u8")
    convert(tmp_path / "in.nc", tmp_path / "new.zarr")
    np.testing.assert_array_equal(
        hyperslab.open(str(tmp_path / "new.zarr"))[...], [np.nan, np.nan, 6, 7]
    )
