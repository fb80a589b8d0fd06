"""The groups of an HDF5 file as netCDF-4 sees them: variables over named dimensions, its own or
those above.

Source: NetCDF User's Guide, "NetCDF-4 File Format Specification". What other HDF5 files hold is
seen as by h5netcdf with phony_dims="access": dimensions without a scale are those of their extent
in the group, and where there are not enough of it they are named phony_dim_0, phony_dim_1, ...,
counted from the root down to the group.

- dimensions, attributes, encodings and values are those of xarray's engines netcdf4 and h5netcdf
  (`tests/connectors/test_xarray_files.py`)
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

import numpy as np

from hyperslab.errors import FormatError, MissingGroup
from hyperslab.formats import hdf5
from hyperslab.formats.conventions.packing import DEFAULT_FILL
from hyperslab.formats.conventions.variables import Group, Variable
from hyperslab.formats.hdf5.dimensions import (
    Dimension,
    Dimensions,
    all_named,
    name_in,
    of_scale,
    phony,
    scales_in,
)
from hyperslab.formats.hdf5.file import by_own_name, errors, opened, require_inside
from hyperslab.formats.hdf5.heap import check_attributes
from hyperslab.formats.hdf5.netcdf4 import (
    NOT_COORDINATE,
    attributes,
    is_dimension,
    is_scale,
    scales_of,
)
from hyperslab.formats.hdf5.types import element
from hyperslab.formats.identity import size_and_time
from hyperslab.formats.netcdf import minc
from hyperslab.formats.netcdf.image import image_group

_FILTERS = {
    1: "zlib",
    4: "szip",
    307: "bzip2",
    32001: "blosc",
    32015: "zstd",
    2: "shuffle",
    3: "fletcher32",
}
"""Filters that netCDF knows, by their numbers (The HDF Group's registry of filters), in
netCDF4-python's words.
"""
_WITH_LEVEL = (1, 307, 32015)
"Filters whose first parameter is the level."
_SZIP = 4
_ENTROPY_CODING = 4
"Bit in the mask of szip."
_BLOSC = 32001
_BLOSC_CODECS = (
    "blosc_lz",
    "blosc_lz4",
    "blosc_lz4hc",
    "blosc_snappy",
    "blosc_zlib",
    "blosc_zstd",
)


_Seen = TypeVar("_Seen")


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """The file that is read."""

    path: str
    file: Any
    "File as h5py has it."
    numbers: Iterator[int]
    "Numbers of phony dimensions."


@dataclass(frozen=True, slots=True, eq=False)
class _Looking:
    """A group whose members are looked at."""

    file: _File
    place: str
    left_out: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A dataset whose elements can be read."""

    dataset: Any
    shape: tuple[int, ...]
    "Shape, with that of an element."
    dtype: np.dtype[Any]
    scales: tuple[Any, ...]
    "Scales of its dimensions; None where there is none."


@dataclass(frozen=True, slots=True, eq=False)
class _Members:
    """Members of a group, and which dimensions are known in it."""

    group: Any
    path: str
    "Path from the root of the file that was opened, by the names of the links."
    found: Mapping[str, _Found]
    names: Mapping[str, tuple[str, ...]]
    "Names of the dimensions of each; '' where one has no scale."
    groups: Mapping[str, Any]
    left_out: Mapping[str, str]
    dimensions: Dimensions
    "Dimensions, its own first, in the order in which h5netcdf finds them."
    strange: Mapping[str, Dimension]
    "Dimensions of its datasets that are not known in it."
    types: ChainMap[str, Any]
    "Datatypes that have a name."


def read_groups(
    path: str, wanted: str, tree: bool, without: Collection[str]
) -> tuple[dict[str, Group], tuple[int, int]]:
    """The groups of a file (`hyperslab.formats.groups`); of a MINC2 file the image, unless a group
    is named.
    """
    with opened(path) as file:
        has_image = minc.IMAGE2 in file
        state = size_and_time(path)  # once what this process has written to the file is in it
    if has_image and wanted == "/":
        source = hdf5.open(path, minc.IMAGE2)
        parent = PurePosixPath(minc.IMAGE2).parent
        return {"/": image_group(source, f"group='{parent}' has the stored ones")}, state
    return _read(path, wanted, tree, without), state


def _read(path: str, wanted: str, tree: bool, without: Collection[str]) -> dict[str, Group]:
    """The group '/' or '/a/b', and for a `tree` all groups below it; none of the variables named in
    `without`.
    """
    with opened(path) as opened_file, errors(path, wanted):
        file = _File(path, opened_file, itertools.count())
        members = _members(file, "", opened_file["/"], ChainMap(), ChainMap())
        for name in filter(None, wanted.split("/")):
            if name not in members.groups:
                held = ", ".join(members.groups) or "none"
                raise MissingGroup(
                    f"{path} holds no group '{wanted}'; those in '{members.path or '/'}' are:"
                    f" {held}"
                )
            members = _below(file, members, name)
        if not tree:
            return {wanted: _group(members, without)}
        return dict(_tree(file, wanted, members, without, ()))


def _tree(
    file: _File, name: str, members: _Members, without: Collection[str], above: tuple[Any, ...]
) -> Iterator[tuple[str, Group]]:
    """A group and all below it, parents first; a link to a group above it is not followed."""
    yield name, _group(members, without)
    line = (*above, members.group)
    for child, group in members.groups.items():
        if group not in line:
            inside = _below(file, members, child)
            yield from _tree(file, f"{name.rstrip('/')}/{child}", inside, without, line)


def _below(file: _File, members: _Members, name: str) -> _Members:
    return _members(
        file, f"{members.path}/{name}", members.groups[name], members.dimensions, members.types
    )


def _members(
    file: _File, place: str, group: Any, above: Dimensions, types: ChainMap[str, Any]
) -> _Members:
    """Look at everything in a group once; `above` are the dimensions, and `types` the types, known
    where it lies.
    """
    import h5py

    looking = _Looking(file, place, {})
    items = _items(looking, group)
    datasets = {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)}
    groups = {name: item for name, item in items.items() if isinstance(item, h5py.Group)}
    kinds = {name: item.id for name, item in items.items() if isinstance(item, h5py.Datatype)}
    check_attributes([group, *datasets.values()], file.path)
    found = _each(looking, datasets, lambda name: _look(datasets[name]))
    known = above.new_child(_own_dimensions(looking, found))
    scales = scales_in(known, file.numbers)
    names = _each(
        looking, found, lambda name: tuple(name_in(scales, scale) for scale in found[name].scales)
    )
    known.maps[0].update(
        phony([(names[name], found[name].shape) for name in names], known.maps[0], file.numbers)
    )
    variables = {name: found[name] for name in names}
    return _Members(
        group,
        place,
        variables,
        names,
        groups,
        looking.left_out,
        known,
        scales.strange,
        types.new_child(kinds),
    )


def _items(looking: _Looking, group: Any) -> dict[str, Any]:
    """The datasets, groups and datatypes that the links of a group lead to, by the names of the
    links.
    """
    links = list(group)
    for name in links:
        if isinstance(name, bytes):
            looking.left_out[name.decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
    return _each(
        looking,
        [name for name in links if isinstance(name, str)],
        lambda name: _item(looking, group, name),
    )


def _item(looking: _Looking, group: Any, name: str) -> Any:
    import h5py

    file = looking.file
    item = group[name]
    require_inside(file.path, file.file, [item])
    if isinstance(item, h5py.Dataset):
        return by_own_name(item, file.file, f"{looking.place}/{name}")
    return item


def _own_dimensions(looking: _Looking, found: Mapping[str, _Found]) -> dict[str, Dimension]:
    scales = [name for name, one in found.items() if is_scale(one.dataset) and one.shape]
    return _each(looking, scales, lambda name: of_scale(found[name].dataset))


def _each(
    looking: _Looking, names: Iterable[str], look: Callable[[str], _Seen]
) -> dict[str, _Seen]:
    """What a function says of each of these members of a group; one of which it cannot say anything
    is left out.
    """
    seen: dict[str, _Seen] = {}
    for name in names:
        try:
            with errors(looking.file.path, f"{looking.place}/{name}"):
                seen[name] = look(name)
        except FormatError as error:
            looking.left_out[name] = str(error)
    return seen


def _look(dataset: Any) -> _Found:
    if dataset.shape is None:
        raise FormatError(
            f"{dataset.file.filename}::{dataset.name} has no elements (a null dataspace)"
        )
    dtype, inner = element(dataset)
    shape = (*(int(n) for n in dataset.shape), *inner)
    return _Found(dataset, shape, dtype, (*scales_of(dataset), *(None for _ in inner)))


def _group(members: _Members, without: Collection[str]) -> Group:
    own = members.dimensions.maps[0]
    variables = [
        _variable(name, one, members)
        for name, one in members.found.items()
        if not is_dimension(one.dataset) and name.removeprefix(NOT_COORDINATE) not in without
    ]
    left_out = {name: why for name, why in members.left_out.items() if name not in without}
    unlimited = frozenset(name for name, dimension in own.items() if dimension.is_unlimited)
    said, unread = attributes(members.group)
    return Group(tuple(variables), said, unlimited, left_out, unread)


def _variable(link: str, one: _Found, members: _Members) -> Variable:
    import h5py

    dims = all_named(members.names[link], one.shape, members.dimensions.maps[0])
    known = {**members.dimensions, **members.strange}
    grown = ((known[dim].extent if dim in known and known[dim].is_unlimited else 0) for dim in dims)
    shape = tuple(max(pair) for pair in zip(one.shape, grown, strict=True))
    text = h5py.check_string_dtype(one.dataset.dtype)
    is_text = text is not None and text.length is None
    native = one.dtype.newbyteorder("=")
    said, unread = attributes(one.dataset)
    encoding: dict[str, Any] = {"dtype": str}
    if not is_text:
        encoding["dtype"] = _kept_dtype(one, members.types)
    encoding |= _encoding(one, dims)
    if "least_significant_digit" in said:
        encoding["least_significant_digit"] = said.pop("least_significant_digit")
    fill = 0
    if shape != one.shape:
        fill = _fill(one.dataset, native)
    name = link.removeprefix(NOT_COORDINATE)
    path = f"{members.path}/{link}"
    return Variable(
        name, path, dims, shape, one.shape, native, said, encoding, fill, is_text, unread=unread
    )


def _kept_dtype(one: _Found, types: Mapping[str, Any]) -> np.dtype[Any]:
    """The stored dtype; that of an enumeration with a name has the names of its values beside it,
    as in xarray.
    """
    import h5py

    names = h5py.check_enum_dtype(one.dataset.dtype)
    if names is None:
        return one.dtype
    own = one.dataset.id.get_type()
    called = next((name for name, kind in types.items() if kind.equal(own)), None)
    if called is None:
        return one.dtype
    return np.dtype(one.dtype, metadata={"enum": dict(names), "enum_name": called})


def _encoding(one: _Found, dims: tuple[str, ...]) -> dict[str, Any]:
    """How a dataset is stored, in the words of netCDF4-python and xarray."""
    creation = one.dataset.id.get_create_plist()
    filters = [creation.get_filter(number) for number in range(creation.get_nfilters())]
    codes = {code: options for code, _, options, _ in filters}
    encoding: dict[str, Any] = {word: code in codes for code, word in _FILTERS.items()}
    encoding["complevel"] = next((codes[code][0] for code in _WITH_LEVEL if codes.get(code)), 0)
    match codes.get(_SZIP):
        case mask, pixels, *_:
            encoding["szip"] = {
                "coding": "ec" if mask & _ENTROPY_CODING else "nn",
                "pixels_per_block": pixels,
            }
    match codes.get(_BLOSC):
        case _, _, _, _, level, shuffle, codec, *_ if codec < len(_BLOSC_CODECS):
            encoding |= {
                "complevel": level,
                "blosc": {"compressor": _BLOSC_CODECS[codec], "shuffle": shuffle},
            }
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
    """What NetCDF-C gives for records that only other variables have: the fill value, or its
    default one.
    """
    from h5py import h5d

    if dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        return dataset.fillvalue
    return DEFAULT_FILL.get(native.str[1:], np.zeros((), native)[()])
