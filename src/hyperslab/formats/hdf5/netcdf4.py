"""What netCDF-4 adds to the datasets of an HDF5 file: names of dimensions, and the marks by which
it is known.

Source: NetCDF User's Guide, "NetCDF-4 File Format Specification", and the HDF5 Dimension Scale
Specification. Every function takes datasets opened by h5py, whose attributes were looked at by
`hdf5.heap`. The functions H5DS... that h5py has for dimension scales are not used: those of 2.0.0
free what they have not allocated, or free it twice, when an attribute of theirs is damaged, which
is the end of the process (H5DSis_scale, H5DSget_label).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hyperslab.arrays.header import Omitted
from hyperslab.formats.hdf5.types import attribute, is_numpy, refers

NOT_COORDINATE = "_nc4_non_coord_"
"How the name of a variable begins that has the name of a dimension and is not its coordinate."
_MARKS = (b"_Netcdf4Dimid", b"_Netcdf4Coordinates")
_OF_THE_FILE = frozenset(
    {
        "CLASS",
        "DIMENSION_LIST",
        "NAME",
        "REFERENCE_LIST",
        "_NCProperties",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_nc3_strict",
    }
)
"""Attributes by which netCDF-4 and HDF5 keep dimensions and the like; they say nothing of the
values.
"""
_DIMENSION_ONLY = b"This is a netCDF dimension but not a netCDF variable"
_NEIGHBOURS = 100


def fills_by_default(dataset: Any) -> bool:
    """Whether netCDF's default fill value marks missing values: not in other HDF5, nor in bytes
    that are not filled.
    """
    from h5py import h5d

    filled = dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    return (filled or dataset.dtype.itemsize > 1) and _is_netcdf(dataset)


def _is_netcdf(dataset: Any) -> bool:
    """True where netCDF-4 left its marks: in the file, on the dataset, on its scales, or on one of
    100 neighbours.
    """
    import h5py
    from h5py import h5l

    if "_NCProperties" in dataset.file.attrs or _is_marked(dataset):
        return True
    if any(_is_marked(dataset.file[scale]) for scales in _scales(dataset) for scale in scales):
        return True
    group = dataset.parent
    links = group.id.links  # h5py's own function knows no user-defined ones
    local = (
        name
        for name in itertools.islice(group.id, _NEIGHBOURS)
        if links.get_info(name).type == h5l.TYPE_HARD
    )
    return any(
        isinstance(item, h5py.Dataset) and _is_marked(item) for item in map(group.get, local)
    )


def _is_marked(dataset: Any) -> bool:
    from h5py import h5a

    return any(h5a.exists(dataset.id, name) for name in _MARKS) or is_dimension(dataset)


def is_scale(dataset: Any) -> bool:
    """True for a dimension scale."""
    return _text(dataset, b"CLASS") == b"DIMENSION_SCALE"


def is_dimension(dataset: Any) -> bool:
    """True for a scale that stands for a netCDF dimension without coordinates; it holds no
    values.
    """
    return _text(dataset, b"NAME").startswith(_DIMENSION_ONLY)


def _text(dataset: Any, name: bytes) -> bytes:
    """An attribute of text of fixed length, as the specifications have it; b'' where it is not
    there or not so.
    """
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
    labels = [""] * dataset.ndim
    if not is_scale(dataset):
        labels = _labels(dataset)
    names = ["" if scale is None else name_of(scale) for scale in scales_of(dataset)]
    return tuple(labels[axis] or names[axis] or f"dim_{axis}" for axis in range(dataset.ndim))


def scales_of(dataset: Any) -> tuple[Any, ...]:
    """The scale of every dimension, of several the last one, as NetCDF-C has it; None where there
    is none.

    A coordinate has no scales: it is that of its first dimension, others are known by netCDF's
    numbers.
    """
    found: list[Any] = []
    for references in _scales(dataset):
        if references:
            found.append(dataset.file[references[-1]])
        else:
            found.append(None)
    if not is_scale(dataset) or not found:
        return tuple(found)
    return (
        dataset,
        *(_scale_of_number(dataset, axis) or found[axis] for axis in range(1, len(found))),
    )


def name_of(scale: Any) -> str:
    """The last part of a scale's name, '' where it has none; for what a reference led to, HDF5
    searches the file.
    """
    return str(scale.name or "").rsplit("/", 1)[-1]


def _scale_of_number(dataset: Any, axis: int) -> Any:
    import h5py

    numbers = _whole_numbers(dataset, b"_Netcdf4Coordinates")
    group = dataset.parent
    while len(numbers) > axis:
        for item in group.values():
            numbered = isinstance(item, h5py.Dataset) and is_scale(item)
            if numbered and _whole_numbers(item, b"_Netcdf4Dimid") == (numbers[axis],):
                return item
        if group.name == "/":
            break
        group = group.parent
    return None


def grown_extent(scale: Any) -> int:
    """The extent of an unlimited dimension: that of its scale or, if it is longer, of a dataset
    that has the scale.
    """
    from h5py import h5a, h5t

    extent = int(scale.shape[0])
    name = b"REFERENCE_LIST"
    listed = None
    if h5a.exists(scale.id, name):
        listed = h5a.open(scale.id, name)
    if listed is None or listed.get_type().get_class() != h5t.COMPOUND or not is_numpy(listed):
        return extent
    users = [
        (scale.file[user[0]], int(user[1]))
        for user in np.ravel(scale.attrs["REFERENCE_LIST"])
        if user[0]
    ]
    return max(
        [
            extent,
            *(int(user.shape[axis]) for user, axis in users if 0 <= axis < len(user.shape or ())),
        ]
    )


def _whole_numbers(dataset: Any, name: bytes) -> tuple[int, ...]:
    """The elements of an attribute; none where it is not there or of another type."""
    from h5py import h5a, h5t

    if (
        not h5a.exists(dataset.id, name)
        or h5a.open(dataset.id, name).get_type().get_class() != h5t.INTEGER
    ):
        return ()
    value = dataset.attrs[name.decode()]
    if isinstance(value, np.ndarray | np.integer):
        return tuple(int(number) for number in np.ravel(value))
    return ()


def _labels(dataset: Any) -> list[str]:
    """A label for every dimension; '' where it has none."""
    from h5py import h5t

    if not _is_for_every_dimension(dataset, b"DIMENSION_LABELS", h5t.STRING):
        return [""] * dataset.ndim
    found = dataset.attrs["DIMENSION_LABELS"]
    return [
        label.decode(errors="replace") if isinstance(label, bytes) else str(label or "")
        for label in found
    ]


def _scales(dataset: Any) -> list[list[Any]]:
    """References to the scales of every dimension."""
    from h5py import h5t

    if not _is_for_every_dimension(dataset, b"DIMENSION_LIST", h5t.VLEN):
        return [[] for _ in range(dataset.ndim)]
    return [
        [reference for reference in np.ravel(found) if reference]
        for found in dataset.attrs["DIMENSION_LIST"]
    ]


def _is_for_every_dimension(dataset: Any, name: bytes, kind: int) -> bool:
    """Whether a dataset has an attribute with one element for each dimension, of this class of
    datatypes.
    """
    from h5py import h5a, h5t

    if not dataset.ndim or not h5a.exists(dataset.id, name):
        return False
    attribute = h5a.open(dataset.id, name)
    found = attribute.get_type()
    refers = found.get_class() != h5t.VLEN or found.get_super().equal(h5t.STD_REF_OBJ)
    return bool(found.get_class() == kind and refers and attribute.shape == (dataset.ndim,))


def attributes(item: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The attributes of an h5py dataset or group as netCDF4-python gives them, and why others are
    left out.

    References are in neither. One element is a scalar, several pieces of text are a list, numbers
    are in native byte order.
    """
    from h5py import h5a

    said: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name in (_encoded(name) for name in item.attrs if name not in _OF_THE_FILE):
        kind = h5a.open(item.id, name).get_type()
        word = name.decode("utf-8", "backslashreplace")
        if refers(kind):
            continue
        value = attribute(item, name)
        if isinstance(value, Omitted):
            left_out[word] = value.removeprefix("left out: ")
        else:
            said[word] = _value(value, kind, word)
    return said, left_out


def _value(value: Any, kind: Any, name: str) -> Any:
    """An attribute as h5py reads it, of an h5py datatype, as netCDF4-python reads it."""
    import h5py
    from h5py import h5t

    if isinstance(value, h5py.Empty):
        if kind.get_class() == h5t.STRING:
            return ""
        return np.array([], value.dtype)
    if kind.get_class() == h5t.STRING:
        return _words(value, kind, name)
    numbers = np.asarray(value)
    if numbers.dtype.kind in "iufc":
        numbers = numbers.astype(numbers.dtype.newbyteorder("="))
    if numbers.size == 1:
        return numbers.reshape(-1)[0]
    return numbers


def _words(value: Any, kind: Any, name: str) -> Any:
    """Text; that of many characters one by one is one piece."""
    pieces = [_encoded(piece) for piece in np.ravel(np.asarray(value, object))]
    if kind.is_variable_str() or kind.get_size() > 1:
        words = [piece.decode("utf-8", "replace").replace("\0", "") for piece in pieces]
        if len(words) == 1:
            return words[0]
        return words
    characters = b"".join(piece or b"\0" for piece in pieces)
    if name == "_FillValue":
        return characters
    return characters.decode("utf-8", "replace").replace("\0", "")


def _encoded(text: Any) -> bytes:
    """What h5py has made text of; it leaves some as it is."""
    if isinstance(text, bytes):
        return text
    return str(text).encode("utf-8", "surrogateescape")
