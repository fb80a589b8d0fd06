"""What a new HDF5 dataset says of itself: the names of its axes, the meaning of its values, its place, its units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.array import ArraySink, Omitted, Scaling
from hyperslab.errors import UsageError
from hyperslab.formats.packing import ATTRIBUTES, DEFAULT_FILL, pack
from hyperslab.formats.place import NAMES, attributes_of

DATASET = "data"
"Name of the dataset in files that are written, unless another is chosen."

_OF_SCALES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
_OF_OTHERS = {*NAMES, *_OF_SCALES, *ATTRIBUTES}
_OF_NIFTI = {"version", "byte_order", "zooms", "units", "sform_code", "qform_code", "intent"}
_NETCDF_SUFFIXES = (".nc", ".nc4", ".cdf")
_NETCDF_NAME_LENGTH = 256


def dataset_name(sink: ArraySink) -> str:
    """Path of the dataset in the file."""
    return sink.encoding.name.strip("/") or DATASET


def describe(file: Any, dataset: Any, sink: ArraySink) -> None:
    """Say what a dataset's axes, values and place are."""
    if is_netcdf(sink.path):
        _add_dimensions(file, dataset, sink)
    elif sink.header.dims and len(sink.header.dims) == dataset.ndim:
        for axis, label in enumerate(sink.header.dims):
            dataset.dims[axis].label = label
    dataset.attrs.update(_attributes(sink))


def _attributes(sink: ArraySink) -> dict[str, Any]:
    """The affine, the packing, and those attributes that came along and are not said by others."""
    header = sink.header
    not_kept = _OF_OTHERS | (_OF_NIFTI if "sform_code" in header.attributes else set())
    kept = {name: value for name, value in header.attributes.items() if name not in not_kept and _is_plain(name, value)}
    kept = {name: np.array(value, object) if isinstance(value, tuple) else value for name, value in kept.items()}
    place = attributes_of(header, sink.shape)
    said = {**kept, **place, **packing_attributes(sink.path, sink.scaling, sink.dtype)}
    if not is_netcdf(sink.path):
        return said
    return {name: _of_netcdf(value) for name, value in said.items()}


def _of_netcdf(value: Any) -> Any:
    """An attribute as netCDF has it: one axis at most, no truth values nor halves, a text as characters."""
    import h5py

    if isinstance(value, str):
        text = value.encode()
        return np.array(text, h5py.string_dtype("ascii" if value.isascii() else "utf-8", len(text)))
    number = np.asarray(value)
    dtype = {"?": np.int8, "e": np.float32}.get(number.dtype.char)
    if dtype is None and number.ndim < 2:
        return value
    return number.reshape(-1 if number.ndim else ()).astype(dtype or number.dtype)


def _is_plain(name: str, value: Any) -> bool:
    """Whether an attribute can be written as it was read."""
    if name.startswith(("_Netcdf4", "_NC")) or isinstance(value, Omitted):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufS" and value.size > 0
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(text, str) and "\0" not in text for text in value)
    if isinstance(value, str):
        return bool(value) and "\0" not in value  # HDF5's text of any length ends at a zero
    return isinstance(value, bytes | int | float | np.bool_ | np.number) and value != b""


def is_netcdf(path: str) -> bool:
    """Whether a file of this name has netCDF-4's data model."""
    return path.lower().endswith(_NETCDF_SUFFIXES)


def _add_dimensions(file: Any, dataset: Any, sink: ArraySink) -> None:
    """A dimension scale without values for every dimension, as netCDF-4 has those that have no coordinates."""
    import h5py

    names = _dimension_names(sink)
    for number, (dim, extent) in enumerate(zip(names, sink.shape, strict=True)):
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_obj_track_times(False)
        space = h5py.h5s.create_simple((extent,))
        scale = h5py.Dataset(h5py.h5d.create(file.id, dim.encode(), h5py.h5t.IEEE_F32BE, space, creation))
        scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{extent:10d}")
        scale.attrs.create("_Netcdf4Dimid", number, dtype="i4")
        dataset.dims[number].attach_scale(scale)
    file.attrs["_NCProperties"] = np.bytes_("version=2,hyperslab")


def _dimension_names(sink: ArraySink) -> list[str]:
    """One name per axis, none twice and none that the dataset, which would be its coordinates, or its group has."""
    given: Sequence[str] = sink.header.dims if len(sink.header.dims) == len(sink.shape) else ()
    names = [str(name) for name in given] or [f"dim_{axis}" for axis in range(len(sink.shape))]
    own = dataset_name(sink).partition("/")[0]
    bad = [n for n in names if not n.strip(".") or "/" in n or len(n) > _NETCDF_NAME_LENGTH or n == own]
    return names if not bad and len(set(names)) == len(names) else [f"dim_{axis}" for axis in range(len(names))]


def packing_attributes(path: str, scaling: Scaling | None, dtype: np.dtype[Any]) -> dict[str, Any]:
    """netCDF's attributes of packing that say a scaling. Raises UsageError where none can.

    Without a _FillValue, netCDF takes its default one for missing: there is one where something is missing, and NaN
    where that is a value.
    """
    try:
        said = {} if scaling is None else pack(scaling, dtype)
        if "missing_value" in said:
            said["_FillValue"] = said["missing_value"][0]
        elif is_netcdf(path) and dtype.kind == "f":
            said["_FillValue"] = dtype.type(np.nan)
        return said
    except ValueError as error:
        raise UsageError(
            f"{path}: HDF5 cannot say what these stored values mean ({error}): use --values real"
        ) from error


def reserved_value(path: str, packing: Mapping[str, Any], dtype: np.dtype[Any]) -> np.generic | None:
    """The stored value that readers of netCDF take for missing although nothing says so; none in bytes."""
    fill = DEFAULT_FILL.get(dtype.str[1:]) if dtype.itemsize > 1 and is_netcdf(path) else None
    return None if fill is None or "_FillValue" in packing else dtype.newbyteorder("=").type(fill)
