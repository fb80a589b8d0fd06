"""Groups of variables with dimensions and attributes, as netCDF sees the files of all formats.

What netCDF-4, other HDF5 and netCDF classic files hold is given as they store it, with the
attributes that say what the numbers mean. An image (NIfTI, MINC), whose meaning such attributes
cannot always say, is one variable named 'image'.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.arrays.header import Header
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.errors import MissingGroup, UsageError
from hyperslab.formats.identity import size_and_time
from hyperslab.formats.netcdf import minc
from hyperslab.formats.netcdf.header import LARGEST_NBYTES, read_header
from hyperslab.formats.netcdf.header import Variable as ClassicVariable
from hyperslab.formats.netcdf.packing import ATTRIBUTES
from hyperslab.storage.location import is_remote, local_path

IMAGE = "image"
_EXACT_IN_FLOAT64 = 4
"Bytes of whole numbers that float64 holds all of."


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable, and what to open for its values."""

    name: str
    path: str
    "Of the array in the file, as its format's `open` takes it."
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    "Extents of the dimensions."
    stored_shape: tuple[int, ...]
    "What the file holds of that; the rest, of records that only other variables have, is `fill`."
    dtype: np.dtype[Any]
    "As the values come: in native byte order; object for text and lists of any length."
    attributes: Mapping[str, Any]
    encoding: Mapping[str, Any]
    "How it is stored, in xarray's words; numpy's dtype or `str` under 'dtype'."
    fill: Any = 0
    is_text: bool = False
    values: Values = "stored"
    axes: tuple[int, ...] = ()
    "From the slowest to the fastest, as in ArraySource; (): in order."
    unread: Mapping[str, str] = field(default_factory=dict)
    "Names of attributes that cannot be read, and why not."


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """What a group holds."""

    variables: tuple[Variable, ...]
    attributes: Mapping[str, Any]
    unlimited: frozenset[str]
    "Dimensions that may grow."
    left_out: Mapping[str, str] = field(default_factory=dict)
    "Names of what cannot be read, and why not."
    unread: Mapping[str, str] = field(default_factory=dict)
    "As in Variable."


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Groups of a file, and which state of the file they are of."""

    path: str
    format: str
    groups: Mapping[str, Group]
    "By '/' and '/a/b', parents before children."
    file_size: int
    mtime_ns: int


def read_groups(
    url: str,
    group: str = "",
    tree: bool = False,
    without: Collection[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Listing:
    """List a group of a file and, for a `tree`, all groups below it; variables named in `without`
    are not looked at.

    `storage_options` are what fsspec is given with a URL. Raises FormatError for a file that cannot
    be read, UsageError for a Zarr store, MissingGroup for a group that is not there.
    """
    path, wanted = _place(url, storage_options), "/" + group.strip("/")
    kind = formats.detect(path)
    state = size_and_time(path)
    if kind == "zarr":
        raise UsageError(f"{path}: is a Zarr store, which xarray opens itself: say engine='zarr'")
    if kind == "hdf5":
        found, state = _hdf5(path, wanted, tree, without)
    elif wanted != "/":
        raise MissingGroup(f"{path}: holds no group '{group}': only HDF5 files have groups")
    else:
        found = {"/": _image(path, kind, "") if kind == "nifti" else _classic(path, without)}
    return Listing(path, kind, found, *state)


def _place(url: str, storage_options: Mapping[str, Any] | None) -> str:
    """The path of a file, or a remote object as it is now."""
    if not is_remote(url):
        return os.path.abspath(os.path.expanduser(local_path(url)))
    path, name = formats.find(url, storage_options)
    if name:
        raise UsageError(f"{path}::{name}: name the file alone, and the group in it by group=")
    return path


def _hdf5(
    path: str, wanted: str, tree: bool, without: Collection[str]
) -> tuple[dict[str, Group], tuple[int, int]]:
    """Of a MINC2 file the image, and the groups as they are where one is named."""
    from hyperslab.formats.hdf5 import groups as hdf5_groups

    has_image, state = hdf5_groups.look(path)
    if has_image and wanted == "/":
        return {"/": _image(path, "hdf5", minc.IMAGE2)}, state
    return hdf5_groups.read(path, wanted, tree, without), state


def _image(path: str, kind: str, name: str) -> Group:
    """The one image of a file: stored values where a factor and an offset say exactly what they
    mean, else the real.
    """
    source = formats.module(kind).open(path, name)
    if source.unscalable:
        remedy = (
            f"group='{PurePosixPath(name).parent}' has the stored ones"
            if kind == "hdf5"
            else "hyperslab.open reads the stored ones"
        )
        raise UsageError(
            f"{path}: the real values of its image cannot be computed: {source.unscalable};"
            f" {remedy}"
        )
    packing = _packing(source)
    values: Values = "real" if packing is None else "stored"
    attributes = {**_shown(source.header), **(packing or {})}
    extents = dict(zip(source.dims, source.own_chunk_shape, strict=False))
    encoding = {"dtype": source.dtype(values), **({"preferred_chunks": extents} if extents else {})}
    shape = source.shape
    image = Variable(
        IMAGE,
        name,
        source.dims,
        shape,
        shape,
        source.dtype(values),
        attributes,
        encoding,
        0,
        False,
        values,
        source.axes,
    )
    return Group((image,), {}, frozenset())


def _packing(source: ArraySource) -> dict[str, np.float64] | None:
    """The factor and offset from which xarray computes what `hyperslab.blocks.reading.scaling`
    does; None if there are none such.

    Both compute in float64 where both numbers are given as such and the stored ones are whole
    numbers within it.
    """
    scaling, stored = source.scaling, source.stored
    if scaling is None:
        return {} if source.real == source.dtype("stored") else None
    exact = (
        stored.kind in "iu" and stored.itemsize <= _EXACT_IN_FLOAT64 and source.real == np.float64
    )
    if (
        not exact
        or not scaling.is_linear
        or not all(isinstance(n, float) for n in (scaling.slope, scaling.inter))
    ):
        return None
    return {"scale_factor": np.float64(scaling.slope), "add_offset": np.float64(scaling.inter)}


def _shown(header: Header) -> dict[str, Any]:
    """What a header says, as a netCDF file can hold it: affines as 16 numbers, row by row."""
    said = {name: value for name, value in header.attributes.items() if name not in ATTRIBUTES}
    if isinstance(units := said.pop("units", None), tuple):
        said["space_units"], said["time_units"] = units
    if header.affine is not None:
        said["affine"] = header.affine
    return {name: _plain(value) for name, value in said.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return value.replace("\0", " ").strip()
    return np.ravel(value) if isinstance(value, np.ndarray | tuple) else value


def _classic(path: str, without: Collection[str]) -> Group:
    header = read_header(path, LARGEST_NBYTES)
    image = header.variables.get(minc.IMAGE1)
    if image is not None and minc.is_minc1(image, header.variables):
        return _image(path, "netcdf", minc.IMAGE1)
    variables = (
        _classic_variable(variable)
        for name, variable in header.variables.items()
        if name not in without
    )
    unlimited = frozenset({header.record_dimension} - {""})
    return Group(tuple(variables), _classic_attributes(header.attributes), unlimited)


def _classic_variable(found: ClassicVariable) -> Variable:
    shape, dtype, attributes = (
        found.shape,
        found.dtype.newbyteorder("="),
        _classic_attributes(found.attributes),
    )
    if dtype.kind == "S" and isinstance(fill := attributes.get("_FillValue"), str):
        attributes["_FillValue"] = fill.encode()
    return Variable(
        found.name, found.name, found.dims, shape, shape, dtype, attributes, {"dtype": dtype}
    )


def _classic_attributes(said: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.replace("\0", "") if isinstance(value, str) else value
        for name, value in said.items()
    }
