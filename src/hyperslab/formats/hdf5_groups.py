"""The groups of an HDF5 file as netCDF-4 sees them: variables over named dimensions, its own or those above.

Source: NetCDF User's Guide, "NetCDF-4 File Format Specification". What other HDF5 files hold is seen as by h5netcdf
with phony_dims="access": dimensions without a scale are those of their extent in the group, and where there are not
enough of it they are named phony_dim_0, phony_dim_1, ..., counted from the root down to the group.

- dimensions, attributes, encodings and values are those of xarray's engines netcdf4 and h5netcdf
  (`tests/connectors/test_xarray_files.py`)
"""

from __future__ import annotations

import itertools
from collections import ChainMap, Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.errors import FormatError, MissingGroup
from hyperslab.formats import minc
from hyperslab.formats.groups import Group, Variable
from hyperslab.formats.hdf5_file import errors, opened
from hyperslab.formats.hdf5_heap import check_attributes
from hyperslab.formats.hdf5_types import element
from hyperslab.formats.identity import size_and_time
from hyperslab.formats.netcdf4 import NOT_COORDINATE, attributes, grown_extent, is_dimension, is_scale, scale_names
from hyperslab.formats.packing import DEFAULT_FILL

_FILTERS = {1: "zlib", 4: "szip", 307: "bzip2", 32001: "blosc", 32015: "zstd", 2: "shuffle", 3: "fletcher32"}
"Filters that netCDF knows, by their numbers (The HDF Group's registry of filters), in netCDF4-python's words."
_WITH_LEVEL = (1, 307, 32015)
"Those whose first parameter is the level."
_SZIP, _ENTROPY_CODING = 4, 4
_BLOSC, _BLOSC_CODECS = 32001, ("blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_snappy", "blosc_zlib", "blosc_zstd")


@dataclass(frozen=True, slots=True)
class _Dimension:
    extent: int
    is_unlimited: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A dataset whose elements can be read."""

    dataset: Any
    shape: tuple[int, ...]
    "With that of an element."
    dtype: np.dtype[Any]
    names: tuple[str, ...]
    "Of its dimensions' scales; '' where there is none."


@dataclass(frozen=True, slots=True, eq=False)
class _Members:
    """What a group holds, and which dimensions are known in it."""

    group: Any
    found: Mapping[str, _Found]
    groups: Mapping[str, Any]
    left_out: Mapping[str, str]
    dimensions: ChainMap[str, _Dimension]
    "Its own first, in the order in which h5netcdf finds them."
    types: ChainMap[str, Any]
    "Datatypes that have a name."


def look(path: str) -> tuple[bool, tuple[int, int]]:
    """Whether a file is a MINC2 volume, and its size and time once what this process has written to it is in it."""
    with opened(path) as file:
        return minc.IMAGE2 in file, size_and_time(path)


def read(path: str, wanted: str, tree: bool, without: Collection[str]) -> dict[str, Group]:
    """The group '/' or '/a/b', and for a `tree` all groups below it; none of the variables named in `without`."""
    numbers = itertools.count()
    with opened(path) as file, errors(path, wanted):
        members = _members(path, file["/"], ChainMap(), ChainMap(), numbers)
        for name in filter(None, wanted.split("/")):
            if name not in members.groups:
                held = ", ".join(members.groups) or "none"
                raise MissingGroup(f"{path}: holds no group '{wanted}'; those in '{members.group.name}' are: {held}")
            members = _members(path, members.groups[name], members.dimensions, members.types, numbers)
        if not tree:
            return {wanted: _group(members, without)}
        return dict(_tree(path, wanted, members, numbers, without, ()))


def _tree(
    path: str, name: str, members: _Members, numbers: Iterator[int], without: Collection[str], above: tuple[Any, ...]
) -> Iterator[tuple[str, Group]]:
    """A group and all below it, parents first; a link to a group above it is not followed."""
    yield name, _group(members, without)
    line = (*above, members.group)
    for child, group in members.groups.items():
        if group not in line:
            inside = _members(path, group, members.dimensions, members.types, numbers)
            yield from _tree(path, f"{name.rstrip('/')}/{child}", inside, numbers, without, line)


def _members(
    path: str, group: Any, above: ChainMap[str, _Dimension], types: ChainMap[str, Any], numbers: Iterator[int]
) -> _Members:
    """Look at everything in a group once; `above` are the dimensions, and `types` the types, known where it lies."""
    import h5py

    items: dict[str, Any] = {}
    found: dict[str, _Found] = {}
    left_out: dict[str, str] = {}
    for name in group:
        if isinstance(name, bytes):
            left_out[name.decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
            continue
        try:
            with errors(path, name):
                items[name] = group[name]
        except FormatError as error:
            left_out[name] = str(error)
    datasets = {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)}
    check_attributes([group, *datasets.values()], path)
    known: dict[Any, str] = {}
    for name, dataset in datasets.items():
        try:
            with errors(path, name):
                found[name] = _look(dataset, known)
        except FormatError as error:
            left_out[name] = str(error)
    groups = {name: item for name, item in items.items() if isinstance(item, h5py.Group)}
    kinds = {name: item.id for name, item in items.items() if isinstance(item, h5py.Datatype)}
    known_here = above.new_child(_dimensions(found, numbers))
    return _Members(group, found, groups, left_out, known_here, types.new_child(kinds))


def _look(dataset: Any, known: dict[Any, str]) -> _Found:
    if dataset.shape is None:
        raise FormatError(f"{dataset.file.filename}::{dataset.name}: has no elements (a null dataspace)")
    dtype, inner = element(dataset)
    names = (*scale_names(dataset, known), *("" for _ in inner))
    return _Found(dataset, (*(int(n) for n in dataset.shape), *inner), dtype, names)


def _dimensions(found: Mapping[str, _Found], numbers: Iterator[int]) -> dict[str, _Dimension]:
    """The dimensions of a group: its scales, and as many more of each extent as a dataset without scales has axes."""
    own = {name: _dimension(one.dataset) for name, one in found.items() if is_scale(one.dataset) and one.shape}
    scaled = Counter(dimension.extent for dimension in own.values() if not dimension.is_unlimited)
    needed: Counter[int] = Counter()
    for one in found.values():
        without = {extent for name, extent in zip(one.names, one.shape, strict=True) if not name}
        needed |= Counter(extent for extent in one.shape if extent in without)
    for extent, count in needed.items():
        for _ in range(scaled[extent], count):
            own[f"phony_dim_{next(numbers)}"] = _Dimension(extent)
    return own


def _dimension(scale: Any) -> _Dimension:
    if scale.maxshape[0] is not None:
        return _Dimension(int(scale.shape[0]))
    return _Dimension(grown_extent(scale), True)


def _group(members: _Members, without: Collection[str]) -> Group:
    own = members.dimensions.maps[0]
    variables = [
        _variable(name.removeprefix(NOT_COORDINATE), one, members)
        for name, one in members.found.items()
        if not is_dimension(one.dataset) and name.removeprefix(NOT_COORDINATE) not in without
    ]
    left_out = {name: why for name, why in members.left_out.items() if name not in without}
    unlimited = frozenset(name for name, dimension in own.items() if dimension.is_unlimited)
    return Group(tuple(variables), attributes(members.group), unlimited, left_out)


def _variable(name: str, one: _Found, members: _Members) -> Variable:
    import h5py

    known = members.dimensions
    dims = _named(one, known)
    grown = ((known[dim].extent if dim in known and known[dim].is_unlimited else 0) for dim in dims)
    shape = tuple(max(pair) for pair in zip(one.shape, grown, strict=True))
    text = h5py.check_string_dtype(one.dataset.dtype)
    is_text = text is not None and text.length is None
    native = one.dtype.newbyteorder("=")
    said = attributes(one.dataset)
    encoding = {"dtype": str if is_text else _kept_dtype(one, members.types), **_encoding(one, dims)}
    if "least_significant_digit" in said:
        encoding["least_significant_digit"] = said.pop("least_significant_digit")
    fill = _fill(one.dataset, native) if shape != one.shape else 0
    return Variable(name, str(one.dataset.name), dims, shape, one.shape, native, said, encoding, fill, is_text)


def _named(one: _Found, known: ChainMap[str, _Dimension]) -> tuple[str, ...]:
    """Names of all dimensions: for those without a scale, the first ones of their extent in the group."""
    names = list(one.names)
    for axis, extent in enumerate(one.shape):
        if not names[axis]:
            own = known.maps[0].items()
            names[axis] = next(name for name, dim in own if dim.extent == extent and name not in names)
    return tuple(names)


def _kept_dtype(one: _Found, types: Mapping[str, Any]) -> np.dtype[Any]:
    """The stored dtype; that of an enumeration with a name has the names of its values beside it, as in xarray."""
    import h5py

    names = h5py.check_enum_dtype(one.dataset.dtype)
    if names is None:
        return one.dtype
    own = one.dataset.id.get_type()
    called = next((name for name, kind in types.items() if kind.equal(own)), None)
    return one.dtype if called is None else np.dtype(one.dtype, metadata={"enum": dict(names), "enum_name": called})


def _encoding(one: _Found, dims: tuple[str, ...]) -> dict[str, Any]:
    """How a dataset is stored, in the words of netCDF4-python and xarray."""
    creation = one.dataset.id.get_create_plist()
    filters = [creation.get_filter(number) for number in range(creation.get_nfilters())]
    codes = {code: options for code, _, options, _ in filters}
    encoding: dict[str, Any] = {word: code in codes for code, word in _FILTERS.items()}
    encoding["complevel"] = next((codes[code][0] for code in _WITH_LEVEL if codes.get(code)), 0)
    match codes.get(_SZIP):
        case mask, pixels, *_:
            encoding["szip"] = {"coding": "ec" if mask & _ENTROPY_CODING else "nn", "pixels_per_block": pixels}
    match codes.get(_BLOSC):
        case _, _, _, _, level, shuffle, codec, *_ if codec < len(_BLOSC_CODECS):
            encoding |= {"complevel": level, "blosc": {"compressor": _BLOSC_CODECS[codec], "shuffle": shuffle}}
    if not one.dataset.chunks:
        return {**encoding, "contiguous": True, "chunksizes": None}
    chunks = (*one.dataset.chunks, *one.shape[one.dataset.ndim :])
    return {
        **encoding,
        "contiguous": False,
        "chunksizes": chunks,
        "preferred_chunks": dict(zip(dims, chunks, strict=True)),
    }


def _fill(dataset: Any, native: np.dtype[Any]) -> Any:
    """What NetCDF-C gives for records that only other variables have: the fill value, or its default one."""
    from h5py import h5d

    if dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        return dataset.fillvalue
    return DEFAULT_FILL.get(native.str[1:], np.zeros((), native)[()])
