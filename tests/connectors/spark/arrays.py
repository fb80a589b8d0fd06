"""Files of every kind with numbers that are all different, and what the formats' own libraries read
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import netCDF4
import nibabel as nib
import numpy as np
import zarr

from hyperslab.arrays import Array

SHAPE = (60, 7, 11)


class Stored(NamedTuple):
    """An array in a file."""

    path: Path
    variable: str
    values: Array
    "Its real values, by the format's own library."
    axis: int
    "The axis that is slowest in the file."
    unit: int
    "Rows of a stored chunk."


def numbers(dtype: str, shape: tuple[int, ...] = SHAPE) -> Array:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def contiguous(folder: Path) -> Stored:
    with h5py.File(folder / "a.h5", "w") as file:
        file["group/data"] = numbers(">i4")
    return Stored(folder / "a.h5", "group/data", numbers("i4"), 0, 1)


def compressed(folder: Path) -> Stored:
    with h5py.File(folder / "b.h5", "w") as file:
        file.create_dataset(
            "x", data=numbers("f8"), chunks=(8, 3, 11), compression="gzip", shuffle=True
        )
        file["other"] = [1.0]
    return Stored(folder / "b.h5", "x", numbers("f8"), 0, 8)


def packed(folder: Path) -> Stored:
    """netCDF-4 with scale, offset and missing values."""
    with netCDF4.Dataset(folder / "c.nc", "w") as file:
        for name, n in zip("tyx", SHAPE, strict=True):
            file.createDimension(name, n)
        made = file.createVariable(
            "t2m", "i2", ("t", "y", "x"), zlib=True, chunksizes=(16, 7, 11), fill_value=-1
        )
        made.scale_factor, made.add_offset = 0.5, 100.0
        made[:] = numbers("f8") % 1000
        made[3, 4, 5] = np.ma.masked
        values = np.ma.filled(made[:].astype("f8"), np.nan)
    return Stored(folder / "c.nc", "t2m", values, 0, 16)


def classic(folder: Path) -> Stored:
    with netCDF4.Dataset(folder / "d.nc", "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("time", None)
        file.createDimension("y", SHAPE[1])
        file.createDimension("x", SHAPE[2])
        file.createVariable("other", "i2", ("time",))[:] = np.arange(SHAPE[0])
        file.createVariable("v", "f4", ("time", "y", "x"))[:] = numbers("f4")
    return Stored(folder / "d.nc", "v", numbers("f4"), 0, 1)


def nifti(folder: Path) -> Stored:
    """In Fortran order: its last axis is the slowest."""
    image: Any = nib.Nifti1Image(numbers("i2"), np.eye(4))  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(0.5, 3)
    nib.save(image, folder / "e.nii")
    return Stored(folder / "e.nii", "", np.asarray(nib.load(folder / "e.nii").get_fdata()), 2, 1)  # type: ignore[attr-defined]


def gzipped(folder: Path, shape: tuple[int, ...] = (40, 50, 3000)) -> Stored:
    """Large enough to be indexed, so that tasks enter it in the middle."""
    values = np.random.default_rng(0).integers(0, 99, shape).astype("i2")
    nib.save(nib.Nifti1Image(values, np.eye(4)), folder / "f.nii.gz")  # type: ignore[no-untyped-call]
    return Stored(folder / "f.nii.gz", "", values, 2, 1)


def small(folder: Path) -> Stored:
    """Compressed, and too small for an index: left to nibabel."""
    nib.save(nib.Nifti1Image(numbers("i2"), np.eye(4)), folder / "h.nii.gz")  # type: ignore[no-untyped-call]
    return Stored(folder / "h.nii.gz", "", numbers("i2"), 2, 1)


def zarred(folder: Path) -> Stored:
    zarr.create_array(folder / "g.zarr", data=numbers("u2"), chunks=(25, 7, 4))
    return Stored(folder / "g.zarr", "", numbers("u2"), 0, 25)


KINDS: Mapping[str, Callable[[Path], Stored]] = {
    made.__name__: made
    for made in (contiguous, compressed, packed, classic, nifti, gzipped, small, zarred)
}
