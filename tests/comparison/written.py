"""Files that hyperslab has written, as the libraries of their formats read them."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import zarr

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import OF_SPACE
from hyperslab.arrays.source import Values
from tests.formats.nifti_rows import by_nibabel
from tests.formats.reference import as_meant

_PLACES = OF_SPACE | {"t"}
"Coordinates of images."


def by_library(path: Path, values: Values) -> Array:
    """All values of the one array in a file; of HDF5 and Zarr the stored ones."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = _read(path, values)
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def as_held(values: Array, ending: str) -> Array:
    """Values as a file of this kind has them: NIfTI has no bool."""
    if values.dtype.kind == "b" and ending in ("nii", "nii.gz"):
        return values.astype(np.uint8)
    return values


def url_of(path: Path) -> str:
    """The one array in a file, whatever its elements are."""
    if path.name.endswith((".nii", ".nii.gz")):
        return str(path)
    (array,) = [one for one in formats.arrays(str(path)) if one.name.strip("/") not in _PLACES]
    return f"{path}::{array.name}" if array.name else str(path)


def _read(path: Path, values: Values) -> Array:
    if path.name.endswith((".nii", ".nii.gz")):
        return by_nibabel.__wrapped__(str(path), values)
    name = formats.split_url(url_of(path))[1]
    if path.suffix == ".zarr":
        return np.asarray(zarr.open_array(path, path=name, mode="r")[...])
    if path.suffix == ".nc":
        return _by_netcdf4(path, name, values)
    with h5py.File(path, "r", locking=False) as file:
        return np.asarray(file[name][...])


def _by_netcdf4(path: Path, name: str, values: Values) -> Array:
    with netCDF4.Dataset(path) as file:
        variable = file[name]
        variable.set_auto_maskandscale(values == "real")
        is_text = variable.dtype is str
        found = as_meant(variable, variable[...]) if values == "real" else variable[...]
    return _of_fixed_length(path, name, found) if is_text else np.asarray(found)


def _of_fixed_length(path: Path, name: str, words: Array) -> Array:
    """Texts in the type that the file has: to netCDF, those of any type have no fixed length."""
    with h5py.File(path, "r", locking=False) as file:
        return np.asarray(words, file[name].dtype)
