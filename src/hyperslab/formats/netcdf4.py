"""What netCDF-4 adds to the datasets of an HDF5 file: names of dimensions, and the marks by which it is known.

Source: NetCDF User's Guide, "NetCDF-4 File Format Specification", and the HDF5 Dimension Scale Specification. Every
function takes datasets opened by h5py, whose attributes were looked at by `hdf5_heap`. The functions H5DS... that h5py
has for dimension scales are not used: those of 2.0.0 free what they have not allocated, or free it twice, when an
attribute of theirs is damaged, which is the end of the process (H5DSis_scale, H5DSget_label).
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
    if any(_is_marked(dataset.file[scale]) for scales in _scales(dataset) for scale in scales):
        return True
    names = itertools.islice(dataset.parent, _NEIGHBOURS)
    local = (name for name in names if isinstance(dataset.parent.get(name, getlink=True), h5py.HardLink))
    return any(isinstance(item, h5py.Dataset) and _is_marked(item) for item in map(dataset.parent.get, local))


def _is_marked(dataset: Any) -> bool:
    from h5py import h5a

    return any(h5a.exists(dataset.id, name) for name in _MARKS) or is_dimension(dataset)


def is_scale(dataset: Any) -> bool:
    """True for a dimension scale."""
    return _text(dataset, b"CLASS") == b"DIMENSION_SCALE"


def is_dimension(dataset: Any) -> bool:
    """True for a scale that stands for a netCDF dimension without coordinates; it holds no values."""
    return _text(dataset, b"NAME").startswith(_DIMENSION_ONLY)


def _text(dataset: Any, name: bytes) -> bytes:
    """An attribute of text of fixed length, as the specifications have it; b'' where it is not there or not so."""
    from h5py import h5a, h5t

    if not h5a.exists(dataset.id, name):
        return b""
    attribute = h5a.open(dataset.id, name)
    kind = attribute.get_type()
    if kind.get_class() != h5t.STRING or kind.is_variable_str() or attribute.shape != ():
        return b""
    return bytes(np.bytes_(dataset.attrs[name]))


def dimension_names(dataset: Any) -> tuple[str, ...]:
    """Names of the dimensions: their label, or their scale's name, or their number."""
    labels, scales = _labels(dataset), _scales(dataset)
    names = tuple(labels[axis] or _name_of(dataset, scales[axis]) or f"dim_{axis}" for axis in range(dataset.ndim))
    if not is_scale(dataset) or not names:
        return names
    # A coordinate has no scales: its first dimension bears its own name, others are known by netCDF's numbers.
    own = str(dataset.name).rsplit("/", 1)[-1]
    return (own, *(_dim_of_number(dataset, axis) or names[axis] for axis in range(1, len(names))))


def _dim_of_number(dataset: Any, axis: int) -> str:
    import h5py

    numbers, group = _whole_numbers(dataset, b"_Netcdf4Coordinates"), dataset.parent
    while len(numbers) > axis:
        for name, item in group.items():
            numbered = isinstance(item, h5py.Dataset) and is_scale(item)
            if numbered and _whole_numbers(item, b"_Netcdf4Dimid") == (numbers[axis],):
                return str(name)
        if group.name == "/":
            break
        group = group.parent
    return ""


def _whole_numbers(dataset: Any, name: bytes) -> tuple[int, ...]:
    """The elements of an attribute; none where it is not there or of another type."""
    from h5py import h5a, h5t

    if not h5a.exists(dataset.id, name) or h5a.open(dataset.id, name).get_type().get_class() != h5t.INTEGER:
        return ()
    value = dataset.attrs[name.decode()]
    return tuple(int(number) for number in np.ravel(value)) if isinstance(value, np.ndarray | np.integer) else ()


def _labels(dataset: Any) -> list[str]:
    """A label for every dimension; '' where it has none."""
    from h5py import h5t

    if not _is_for_every_dimension(dataset, b"DIMENSION_LABELS", h5t.STRING):
        return [""] * dataset.ndim
    found = dataset.attrs["DIMENSION_LABELS"]
    return [label.decode(errors="replace") if isinstance(label, bytes) else str(label or "") for label in found]


def _scales(dataset: Any) -> list[list[Any]]:
    """References to the scales of every dimension."""
    from h5py import h5t

    if not _is_for_every_dimension(dataset, b"DIMENSION_LIST", h5t.VLEN):
        return [[] for _ in range(dataset.ndim)]
    return [[reference for reference in np.ravel(found) if reference] for found in dataset.attrs["DIMENSION_LIST"]]


def _is_for_every_dimension(dataset: Any, name: bytes, kind: int) -> bool:
    """Whether a dataset has an attribute with one element for each dimension, of this class of datatypes."""
    from h5py import h5a, h5t

    if not dataset.ndim or not h5a.exists(dataset.id, name):
        return False
    attribute = h5a.open(dataset.id, name)
    found = attribute.get_type()
    refers = found.get_class() != h5t.VLEN or found.get_super().equal(h5t.STD_REF_OBJ)
    return bool(found.get_class() == kind and refers and attribute.shape == (dataset.ndim,))


def _name_of(dataset: Any, scales: list[Any]) -> str:
    """Name of the first of the scales; '' where there is none or it has none."""
    return str(dataset.file[scales[0]].name or "").rsplit("/", 1)[-1] if scales else ""
