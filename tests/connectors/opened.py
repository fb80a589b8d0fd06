"""Datasets by the engine that is tested and by the others, and files with all kinds of
variables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import xarray

from hyperslab.connectors.xarray import HyperslabBackend

RAW: dict[str, Any] = {
    "mask_and_scale": False,
    "decode_times": False,
    "concat_characters": False,
    "decode_coords": False,
}


def ours(path: str | Path, **options: Any) -> xarray.Dataset:
    return xarray.open_dataset(path, engine=HyperslabBackend, **options)


def theirs(path: str | Path, engine: str = "netcdf4", **options: Any) -> xarray.Dataset:
    more: dict[str, Any] = {"phony_dims": "access"} if engine == "h5netcdf" else {}
    return xarray.open_dataset(path, engine=engine, **options, **more)


def assert_same(found: xarray.Dataset, expected: xarray.Dataset) -> None:
    """Identical, in dtypes and byte by byte but for the payload of NaN, and in how it is stored."""
    xarray.testing.assert_identical(found, expected)
    assert list(found.variables) == list(expected.variables)
    for name, variable in found.variables.items():
        assert variable.dtype == expected[name].dtype, name


def assert_stored_alike(found: xarray.DataArray, expected: xarray.DataArray) -> None:
    """With the same encoding; the fields of a compound are in native byte order to netCDF4,
    whatever the file has.
    """
    encodings = [dict(array.encoding) for array in (found, expected)]
    if found.dtype.fields:
        assert [
            encoding.pop("dtype").newbyteorder("=") == found.dtype for encoding in encodings
        ] == [True, True]
    np.testing.assert_equal(encodings[0], encodings[1])


CLASSIC: list[Any] = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
FORMATS: list[Any] = [*CLASSIC, "NETCDF4_CLASSIC", "NETCDF4"]


def write_all_kinds(path: Path, kind: Any) -> None:
    """Packed, missing, unsigned, text, times, scalars, coordinates, records of different numbers,
    odd attributes.
    """
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.set_auto_maskandscale(False)
        file.setncatts(
            {
                "title": "täst",
                "empty": "",
                "many": np.arange(5, dtype="i2"),
                "large": np.arange(3000.0),
            }
        )
        for name, size in (("time", None), ("lat", 4), ("lon", 6), ("length", 3), ("unused", 2)):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts(
            {"units": "days since 2000-01-01", "calendar": "noleap", "standard_name": "time"}
        )
        lat = file.createVariable("lat", "f4", ("lat",))
        lat[:], lat.units = np.linspace(-60, 60, 4), "degrees_north"
        packed = file.createVariable("packed", "i2", ("time", "lat", "lon"), fill_value=-999)
        packed.setncatts(
            {"scale_factor": 0.1, "add_offset": 270.0, "coordinates": "place", "one": np.float32(2)}
        )
        counts = file.createVariable("counts", "i1", ("time", "lon"))
        counts.setncatts({"_Unsigned": "true", "valid_range": np.array([1, 100], "i1")})
        file.createVariable("place", "S1", ("lat", "length"), fill_value=b"-")[:2] = [
            [b"a", b"b", b"c"],
            [b"d", b"e", b""],
        ]
        scalar = file.createVariable("crs", "i4", ())
        scalar.grid_mapping_name, scalar[...] = "latitude_longitude", 7
        time[:] = [0, 31, 365.5]
        packed[:3] = np.arange(72).reshape(3, 4, 6)
        counts[:1] = np.arange(6) - 3
        if kind.startswith("NETCDF4"):
            chunked = file.createVariable(
                "chunked", ">f4", ("lat", "lon"), zlib=True, chunksizes=(2, 3), endian="big"
            )
            chunked[:] = np.arange(24).reshape(4, 6)
            chunked.least_significant_digit = 1
        if kind == "NETCDF4":
            _write_of_netcdf4_only(file)


def _write_of_netcdf4_only(file: Any) -> None:
    file.texts = ["a", "list", "of texts"]
    file.createVariable("words", str, ("lat",))[:] = np.array(["ä", "", "long " * 9, "x"], object)
    file.createVariable("late", str, ("time", "length"))[0] = np.array(
        ["only", "one", "record"], object
    )
    file.createVariable("tall", "u8", ("time",), fill_value=9)[:2] = [2**63, 1]
    cloud = file.createEnumType("u1", "cloud", {"clear": 0, "cloudy": 5})
    file.createVariable("clouds", cloud, ("lat",), fill_value=0)[:] = [0, 5, 5, 0]
    station = file.createCompoundType(np.dtype([("x", "i4"), ("y", "f8")]), "station")
    file.createVariable("stations", station, ("lat",))[:] = np.zeros(4, station.dtype)
    inside = file.createGroup("inside")
    inside.createDimension("deep", 2)
    inside.createVariable("lon", "f8", ("lon",))[:] = np.arange(6)
    inside.createVariable("of_both", "i8", ("time", "deep"))[:2] = np.arange(4).reshape(2, 2)
    inside.createVariable("deep", "i2", ("lat",))[:] = (
        5  # not the coordinate of the dimension of its name
    )
    inside.createGroup("below").createVariable("clouds", cloud, ("deep",))[:] = [5, 0]
