"""What netCDF-4 adds to the datasets of an HDF5 file: names of dimensions, and the marks by which it is known.

Source: NetCDF User's Guide, "NetCDF-4 File Format Specification". Every function takes datasets opened by h5py.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

NOT_COORDINATE = "_nc4_non_coord_"
"How the name of a variable begins that has the name of a dimension and is not its coordinate."
_MARKS = (b"_Netcdf4Dimid", b"_Netcdf4Coordinates")
_DIMENSION_ONLY = b"This is a netCDF dimension but not a netCDF variable"
_NEIGHBOURS = 100


def fills_by_default(dataset: Any) -> bool:
    """Whether netCDF's default fill value marks missing values: not in other HDF5, nor in bytes that are not filled."""
    from h5py import h5d

    filled = dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    return (filled or dataset.dtype.itemsize > 1) and _is_netcdf(dataset)


def _is_netcdf(dataset: Any) -> bool:
    """True where netCDF-4 left its marks: in the file, on the dataset, on its scales, or on one of 100 neighbours."""
    import h5py

    if "_NCProperties" in dataset.file.attrs or _is_marked(dataset):
        return True
    if any(_is_marked(scale) for dimension in dataset.dims for scale in dimension.values()):
        return True
    names = itertools.islice(dataset.parent, _NEIGHBOURS)
    local = (name for name in names if isinstance(dataset.parent.get(name, getlink=True), h5py.HardLink))
    return any(isinstance(item, h5py.Dataset) and _is_marked(item) for item in map(dataset.parent.get, local))


def _is_marked(dataset: Any) -> bool:
    from h5py import h5a

    return any(h5a.exists(dataset.id, name) for name in _MARKS) or is_dimension(dataset)


def is_dimension(dataset: Any) -> bool:
    """True for a scale that stands for a netCDF dimension without coordinates; it holds no values."""
    from h5py import h5a

    return h5a.exists(dataset.id, b"NAME") and bytes(np.bytes_(dataset.attrs["NAME"])).startswith(_DIMENSION_ONLY)


def dimension_names(dataset: Any) -> tuple[str, ...]:
    """Names of the dimensions: their label, or their scale's name, or their number."""
    names = tuple(_dim_name(dimension, axis) for axis, dimension in enumerate(dataset.dims))
    if not dataset.is_scale or not names:
        return names
    # A coordinate has no scales: its first dimension bears its own name, others are known by netCDF's numbers.
    own = str(dataset.name).rsplit("/", 1)[-1]
    return (own, *(_dim_of_number(dataset, axis) or names[axis] for axis in range(1, len(names))))


def _dim_of_number(dataset: Any, axis: int) -> str:
    numbers, group = np.ravel(dataset.attrs.get("_Netcdf4Coordinates", ())), dataset.parent
    while len(numbers) > axis:
        for name, item in group.items():
            if getattr(item, "is_scale", False) and item.attrs.get("_Netcdf4Dimid") == numbers[axis]:
                return str(name)
        if group.name == "/":
            break
        group = group.parent
    return ""


def _dim_name(dimension: Any, axis: int) -> str:
    if dimension.label:
        return str(dimension.label)
    scale = str(dimension[0].name or "") if len(dimension) else ""
    return scale.rsplit("/", 1)[-1] or f"dim_{axis}"
