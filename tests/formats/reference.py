"""What netCDF4-python and nibabel read: the values that ours have to equal."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import nibabel
import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values

MASKING = {"_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"}


@lru_cache(maxsize=4)
def netcdf_file(path: str) -> Any:
    """A file as netCDF4-python opens it, which takes long where there are thousands of
    variables.
    """
    return netCDF4.Dataset(path)


@lru_cache(maxsize=512)
def netcdf_whole(url: str, values: Values) -> Array:
    """All values of a variable, NaN where netCDF4-python masks."""
    path, name = formats.split_url(url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variable: Any = netcdf_file(path)[name]
        if variable.dtype is not str:
            variable.set_auto_chartostring(False)
        variable.set_auto_maskandscale(values == "real")
        found = as_meant(variable, variable[...]) if values == "real" else np.asarray(variable[...])
        return (
            found.astype("S1") if found.dtype.kind == "S" else found
        )  # the empty text that \0 is has no length


def netcdf_masked(url: str) -> Array:
    """Where netCDF4-python masks a variable."""
    path, name = formats.split_url(url)
    variable: Any = netcdf_file(path)[name]
    variable.set_auto_maskandscale(True)
    with np.errstate(all="ignore"):
        return np.ma.getmaskarray(variable[...])


def netcdf_dims(url: str) -> tuple[str, ...]:
    """Names of the dimensions of a variable."""
    path, name = formats.split_url(url)
    return tuple(netcdf_file(path)[name].dimensions)


def as_meant(variable: Any, found: Any) -> Array:
    """A masked array of netCDF4-python as we define it: whole numbers have NaN only if masking is
    declared.
    """
    if found is np.ma.masked:  # a single value, which has lost its dtype
        variable.set_auto_mask(False)
        found = np.ma.masked_array(variable[...], True)
    masked: Any = np.ma.asarray(found)
    if masked.dtype.kind in "fc":
        return np.asarray(masked.filled(np.nan))
    if masked.dtype.kind not in "iu":
        return np.asarray(masked.data)
    if not effective(variable):
        variable.set_auto_mask(False)
        return np.asarray(variable[...])
    wide = np.float32 if masked.dtype.itemsize <= 2 else np.float64
    return np.asarray(masked.astype(wide).filled(np.nan))


def effective(variable: Any) -> bool:
    """Whether an attribute of masking is there that the variable's type can hold."""
    said = {
        name: np.asarray(variable.getncattr(name)) for name in MASKING & set(variable.ncattrs())
    }
    with np.errstate(all="ignore"):
        return any((value.astype(variable.dtype) == value).all() for value in said.values())


class MincImage(NamedTuple):
    """What nibabel says of a MINC file; the file is closed again, which HDF5 wants before it is
    opened otherwise.
    """

    shape: tuple[int, ...]
    affine: Array
    values: Array


@lru_cache(maxsize=32)
def minc_image(path: str) -> MincImage:
    """A MINC file as nibabel loads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image: Any = nibabel.load(path)
        return MincImage(image.shape, image.affine, np.asarray(image.dataobj))


def minc_affine(path: str) -> Array:
    return minc_image(path).affine


def minc_stored(path: str, name: str) -> Array:
    """An image as it lies in the file, with the sign that MINC1 gives it; `name` is that of a MINC2
    file.
    """
    if formats.detect(path) == "hdf5":
        with h5py.File(path, "r", locking=False) as file:
            return np.asarray(file[name][()])
    found, variable = netcdf_whole(f"{path}::image", "stored"), netcdf_file(path)["image"]
    is_unsigned = "signtype" in variable.ncattrs() and variable.signtype == "unsigned"
    native = found.astype(found.dtype.newbyteorder("="))
    return native.view(f"u{native.dtype.itemsize}") if is_unsigned else native
