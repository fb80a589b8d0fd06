"""What a new HDF5 dataset says of itself: the meaning of its values, its place, its units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.arrays.header import Header, Omitted
from hyperslab.arrays.quantities import OF_TRUTH
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.source import Scaling
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.agreement import agree, meaning
from hyperslab.formats.conventions.packing import ATTRIBUTES, DEFAULT_FILL, pack, unpack
from hyperslab.formats.place import NAMES, attributes_of

_OF_SCALES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
_OF_OTHERS = {*NAMES, *_OF_SCALES, *ATTRIBUTES}
_OF_NIFTI = {"version", "byte_order", "zooms", "units", "sform_code", "qform_code", "intent"}
_NETCDF_SUFFIXES = (".nc", ".nc4", ".cdf")


def attributes_of_file(sink: ArraySink, group: str) -> dict[str, Any]:
    """The attributes of a group of an array's file, '' for the root, as the new one has them."""
    said = sink.header.group_attributes.get(group, {})
    if not group:
        said = sink.header.file_attributes
    plain = {name: value for name, value in said.items() if is_plain(name, value)}
    return {name: said_by(sink)(_texts(value)) for name, value in plain.items()}


def _texts(value: Any) -> Any:
    """An attribute, several texts as h5py takes them."""
    if isinstance(value, list | tuple):
        return np.array(value, object)
    return value


def said_by(sink: ArraySink) -> Callable[[Any], Any]:
    """What makes an attribute as the file has it."""
    if is_netcdf(sink.path):
        return _of_netcdf
    return _of_hdf5


def attributes_of_sink(sink: ArraySink) -> dict[str, Any]:
    """The attributes that came along and are not said otherwise, in their order, then the packing
    and the place.
    """
    header = sink.header
    packing = packing_attributes(sink.path, sink.header, sink.scaling, sink.dtype)
    not_kept = set(_OF_OTHERS)
    if "sform_code" in header.attributes:
        not_kept |= _OF_NIFTI
    said: dict[str, Any] = {}
    for name, value in header.attributes.items():
        if name in packing:
            said[name] = packing[name]
        elif name not in not_kept and is_plain(name, value):
            said[name] = _texts(value)
    said |= {**packing, **attributes_of(header, sink.shape)}
    return {name: said_by(sink)(value) for name, value in said.items()}


def _of_hdf5(value: Any) -> Any:
    """An attribute that h5py writes as it was read: text without characters has the length of one,
    as NumPy's.
    """
    if isinstance(value, bytes) and not value:
        return np.array(value, "S1")
    return value


def attribute_order(sink: ArraySink) -> int:
    """How libhdf5 is to list a dataset's attributes: in the order in which they came where it is
    not that of names.
    """
    from h5py import h5p

    names = list(sink.header.attributes)
    if names == sorted(names):
        return 0
    return int(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)


def _of_netcdf(value: Any) -> Any:
    """An attribute as netCDF has it: one axis at most, no truth values nor halves, a text as
    characters.
    """
    import h5py

    if isinstance(value, str | bytes):
        text = bytes(value) if isinstance(value, bytes) else value.encode()
        alphabet = "utf-8"
        if text.isascii():
            alphabet = "ascii"
        return np.array(text, h5py.string_dtype(alphabet, max(1, len(text))))
    number = np.asarray(value)
    if not number.size:
        return h5py.Empty(number.dtype)
    dtype = {"?": np.int8, "e": np.float32}.get(number.dtype.char)
    if dtype is None and number.ndim < 2:
        return value
    return number.reshape(-1 if number.ndim else ()).astype(dtype or number.dtype)


def is_plain(name: str, value: Any) -> bool:
    """Whether an attribute can be written as it was read."""
    if name.startswith(("_Netcdf4", "_NC")) or isinstance(value, Omitted):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufcS"
    if isinstance(value, tuple | list):
        return bool(value) and all(isinstance(text, str) and "\0" not in text for text in value)
    if isinstance(value, str):
        return "\0" not in value  # HDF5's text of any length ends at a zero
    return isinstance(value, bytes | int | float | np.bool_ | np.number)


def is_netcdf(path: str) -> bool:
    """Whether a file of this name has netCDF-4's data model."""
    return path.lower().endswith(_NETCDF_SUFFIXES)


def truth_as_bytes(header: Header) -> tuple[np.dtype[Any], Header]:
    """How netCDF, which has no truth values, holds them: as xarray writes them, and reads them
    again.
    """
    said = {**header.attributes, **OF_TRUTH}
    return np.dtype(np.int8), replace(header, attributes=said, real=None)


def packing_attributes(
    path: str, header: Header, scaling: Scaling | None, dtype: np.dtype[Any]
) -> dict[str, Any]:
    """netCDF's attributes of packing that give stored values their meaning. Raises UsageError where
    none do.

    Those that came along stay as they are where they still do, or do with a _FillValue: netCDF
    takes its default one for missing where there is none.
    """
    meant = meaning(scaling, dtype, header.real)
    own = {}
    if header.real is not None:
        own = _own_packing(header.attributes)
    try:
        made = {}
        if scaling is not None:
            made = pack(scaling, dtype)
    except ValueError as error:
        raise _unsaid(path, str(error)) from error
    wide = {}
    if meant.real.kind == "f":
        wide = {"scale_factor": meant.real.type(1), "add_offset": meant.real.type(0)}
    ways = [
        said
        for one in (own, made, wide | made)
        for said in _with_fills(one, dtype)
        if _is_allowed(path, said, dtype)
    ]
    for default_fill in _default_fills(path, dtype):
        for said in ways:
            if agree(meant, unpack(said, dtype, default_fill, dtype.kind == "b"), dtype):
                return said
    raise _unsaid(path, "as they are computed")


def _unsaid(path: str, why: str) -> UsageError:
    return UsageError(
        f"{path}: HDF5 cannot say what these stored values mean ({why}); use --values real"
    )


def _own_packing(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of packing that came along, as HDF5 and netCDF have them; those of JSON have
    no types.
    """
    own = {name: value for name, value in attributes.items() if name in ATTRIBUTES}
    typed = all(isinstance(value, np.ndarray | np.generic | str | bytes) for value in own.values())
    if typed and not any(isinstance(value, Omitted) for value in own.values()):
        return own
    return {}


def _with_fills(said: dict[str, Any], dtype: np.dtype[Any]) -> Iterator[dict[str, Any]]:
    """The same attributes, and with each _FillValue that might be needed where they have none."""
    yield said
    if "_FillValue" not in said:
        native = dtype.newbyteorder("=")
        default = DEFAULT_FILL.get(dtype.str[1:])
        missing: Iterable[Any] = ()
        if "missing_value" in said:
            missing = np.ravel(said["missing_value"])[:1]
        fills = list(missing)
        if default:
            fills.append(native.type(default))
        if dtype.kind == "f":
            fills.append(native.type(np.nan))
        yield from ({**said, "_FillValue": fill} for fill in fills)


def _is_allowed(path: str, said: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    """NetCDF-C does not open a variable of which the _FillValue is of another type."""
    fill = np.asarray(said.get("_FillValue", np.zeros((), dtype)))
    return not is_netcdf(path) or (
        fill.size == 1 and fill.dtype.newbyteorder("=") == dtype.newbyteorder("=")
    )


def _default_fills(path: str, dtype: np.dtype[Any]) -> tuple[bool, ...]:
    """Whether netCDF's default fill value is missing to readers of a file; False is for numbers
    that do not hold it.

    `reserved_value` sees to it that whole numbers do not.
    """
    if not is_netcdf(path) or dtype.itemsize == 1:
        return (False,)
    if dtype.kind in "iu":
        return (True, False)
    return (True,)


def reserved_value(
    path: str,
    packing: Mapping[str, Any],
    header: Header,
    scaling: Scaling | None,
    dtype: np.dtype[Any],
) -> np.generic | None:
    """The stored value that readers of netCDF take for missing although nothing means it so; none
    in bytes.
    """
    default = None
    if dtype.itemsize > 1 and is_netcdf(path):
        default = DEFAULT_FILL.get(dtype.str[1:])
    meant = meaning(scaling, dtype, header.real)
    is_meant = meant.real.kind in "fc" and agree(meant, unpack(packing, dtype, True), dtype)
    if default is None or is_meant or "_FillValue" in packing:
        return None
    reserved: np.generic = dtype.newbyteorder("=").type(default)
    return reserved
