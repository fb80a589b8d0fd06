"""The documents of a Zarr store: which arrays it holds, and what their axes and values mean.

Sources: Zarr core specification 3 (zarr.json), Zarr storage specification 2 (.zarray, .zgroup,
.zattrs), and xarray's page "Zarr Encoding Specification" (_ARRAY_DIMENSIONS, and how _FillValue is
written). Where a directory has documents of both versions, those of version 3 count, as in
zarr-python. Consolidated metadata are a copy and are not looked at.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays.header import Header, Omitted
from hyperslab.arrays.source import Codec
from hyperslab.errors import FormatError, MissingExtra
from hyperslab.formats.conventions.packing import ATTRIBUTES, Packing, unpack
from hyperslab.formats.conventions.variables import Coordinate
from hyperslab.formats.place import NAMES, header_of
from hyperslab.storage.zarr_names import ROOTS

DIMENSIONS2 = "_ARRAY_DIMENSIONS"
"Attribute in which xarray keeps the names of the axes of a version 2 array."
_NUMBERS2 = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16)")
_NUMBERS3 = frozenset(
    ["bool", "complex64", "complex128", "float16", "float32", "float64"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
)
_SHOWN_CHARACTERS = 16384


class Node(NamedTuple):
    """An array or group."""

    folder: str
    document: str
    "Name of the file in the folder that says what it is."
    said: dict[str, Any]
    attributes: dict[str, Any]
    raw: bytes
    "All documents as they are stored."
    state: os.stat_result | None
    """State of the document before it was read; None in a store that is not on this machine, where
    the folder has it.
    """

    @property
    def is_array(self) -> bool:
        return self.document == ".zarray" or self.said.get("node_type") == "array"

    @property
    def shape(self) -> tuple[int, ...]:
        found = self.said.get("shape")
        if not isinstance(found, list) or not all(type(n) is int and n >= 0 for n in found):
            raise FormatError(
                f"{self.folder}/{self.document}: its shape is {found!r}; copy the store again"
            )
        return tuple(found)

    @property
    def dtype(self) -> str:
        """Type of the elements in the document's own words."""
        word = self.said.get("data_type" if self.document == "zarr.json" else "dtype")
        if isinstance(word, str):
            return word
        return json.dumps(word)

    @property
    def is_number(self) -> bool:
        if self.document == "zarr.json":
            return self.dtype in _NUMBERS3
        return bool(_NUMBERS2.fullmatch(self.dtype))

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes; those that have none are numbered."""
        return self.named or tuple(f"dim_{axis}" for axis in range(len(self.shape)))

    @property
    def named(self) -> tuple[str, ...]:
        """Names of the axes, () where none has one."""
        ndim = len(self.shape)
        for names in (self.said.get("dimension_names"), self.attributes.get(DIMENSIONS2)):
            if (
                isinstance(names, list)
                and len(names) == ndim
                and all(isinstance(n, str | None) for n in names)
            ):
                if any(names):
                    return tuple(name or f"dim_{axis}" for axis, name in enumerate(names))
                return ()
        return ()


def chunk_files() -> ModuleType:
    """The module that reads and writes chunk files, imported now: all that needs zarr-python.
    Raises MissingExtra.
    """
    try:
        from hyperslab.formats.zarr import store as zarr_store
    except ImportError as error:
        raise MissingExtra(
            f"Zarr arrays need zarr 3.1.3 or newer, below 3.2 ({error}): pip install"
            " 'hyperslab[zarr]'"
        ) from error
    return zarr_store


def node(folder: str) -> Node | None:
    """What a directory is in a Zarr store, or None. Raises FormatError for a document that cannot
    be understood.
    """
    for document in ROOTS:
        place = os.path.join(folder, document)
        if not os.path.isfile(place):
            continue
        state = os.stat(place)
        raw = _stored(place)
        attributes = None
        said = parsed(place, raw)
        if document != "zarr.json" and os.path.lexists(more := os.path.join(folder, ".zattrs")):
            added = _stored(more)
            raw += added
            attributes = parsed(more, added)
        return understood(folder, document, said, attributes, raw, state)
    return None


def understood(
    folder: str,
    document: str,
    said: dict[str, Any],
    attributes: dict[str, Any] | None,
    raw: bytes,
    state: os.stat_result | None = None,
) -> Node:
    """The node that a document describes; its attributes in version 2. Raises FormatError for one
    that says no such.
    """
    where = os.path.join(folder, document)
    found = attributes
    if document == "zarr.json":
        found = said.get("attributes")
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise FormatError(f"{where}: its attributes are not a JSON object; copy the store again")
    if document == "zarr.json" and said.get("node_type") not in ("array", "group"):
        raise FormatError(
            f"{where}: its node_type is neither 'array' nor 'group'; copy the store again"
        )
    return Node(folder, document, said, found, raw, state)


def place(store: str, name: str) -> str:
    """The folder of an array in a store; '' names the store itself."""
    if name:
        return os.path.join(store, name)
    return store


def walk(folder: str) -> Iterator[tuple[str, Node]]:
    """The arrays of a store by their names, '' for one that is the store itself; links in circles
    come to an end.
    """
    yield from _walk(folder, "", set())


def _walk(folder: str, name: str, seen: set[tuple[int, int]]) -> Iterator[tuple[str, Node]]:
    state = os.stat(folder)
    found = None
    if (state.st_dev, state.st_ino) not in seen:
        found = node(folder)
    seen.add((state.st_dev, state.st_ino))
    if found is None or found.is_array:
        if found is not None:
            yield name, found
        return
    for below in sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()):
        yield from _walk(os.path.join(folder, below), f"{name}/{below}".lstrip("/"), seen)


def _stored(path: str) -> bytes:
    if not os.path.isfile(path):  # a pipe would have us wait
        raise FormatError(f"{path} is not a file, as a document has to be; copy the store again")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FormatError(
            f"{path} cannot be read: {error.strerror}; check its permissions"
        ) from error


def parsed(path: str, raw: bytes) -> dict[str, Any]:
    """The JSON object that a document holds."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON ({error}); copy the store again") from error
    if not isinstance(found, dict):
        raise FormatError(f"{path} is not a JSON object; copy the store again")
    return found


def codecs(said: dict[str, Any]) -> list[dict[str, Any]]:
    """The codecs of an array in the order in which writing applies them, those within shards before
    sharding itself.

    Version 2 has an id for each, version 3 a name and a configuration.
    """
    if "codecs" not in said:
        found = [*_listed(said.get("filters")), said.get("compressor")]
        return [{"name": str(codec.get("id"))} for codec in found if isinstance(codec, dict)]
    every: list[dict[str, Any]] = []
    for codec in _listed(said["codecs"]):
        one: dict[str, Any] = {}
        if isinstance(codec, str):
            one = {"name": codec}
        elif isinstance(codec, dict):
            one = codec
        inner = one.get("configuration")
        if isinstance(inner, dict) and "codecs" in inner:
            every += codecs(inner)
        every.append(one)
    return every


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return []


def shown_codecs(said: dict[str, Any]) -> tuple[Codec, ...]:
    """The codecs that do more than to say how numbers are bytes."""
    return tuple(
        Codec(str(one.get("name")))
        for one in codecs(said)
        if one.get("name") not in ("bytes", "endian")
    )


def is_big_endian(said: dict[str, Any]) -> bool:
    """Whether the bytes of a version 3 array are big-endian, which is its codec's affair and not
    its data type's.
    """
    return any((one.get("configuration") or {}).get("endian") == "big" for one in codecs(said))


def axes(said: dict[str, Any], ndim: int) -> tuple[int, ...]:
    """How the elements of a chunk lie: stored axis i is the array's axis axes[i] (order 'F', or
    transpose codecs).
    """
    order = tuple(range(ndim))
    if said.get("order") == "F":
        return order[::-1]
    for one in codecs(said):
        if one.get("name") == "transpose":
            order = tuple(order[axis] for axis in one["configuration"]["order"])
    return order


def meaning(array: Node, stored: np.dtype[Any], fill: Any) -> Packing:
    """The real values, by the attributes of CF and netCDF.

    In version 2, xarray writes _FillValue as the fill value of chunks that are not there; so this
    marks missing values where the axes have names, by which xarray is known. In others, and in
    version 3, the two are different things.
    """
    said = packing_of(array.attributes, stored)
    if (
        array.document == ".zarray"
        and DIMENSIONS2 in array.attributes
        and fill is not None
        and stored.kind in "iuf"
    ):
        said["_FillValue"] = fill
    return unpack(said, stored, default_fill=False)


def packing_of(attributes: Mapping[str, Any], stored: np.dtype[Any]) -> dict[str, Any]:
    """The attributes of packing among those of a document."""
    said = {name: attributes[name] for name in ATTRIBUTES if name in attributes}
    if "_FillValue" in said:
        said["_FillValue"] = _decoded(said["_FillValue"], stored)
    return said


def _decoded(value: Any, stored: np.dtype[Any]) -> Any:
    """A fill value of floating numbers as xarray writes it in version 3: the 8 bytes of a float64
    in base64.
    """
    if stored.kind == "f" and isinstance(value, str):
        try:
            return struct.unpack("<d", base64.b64decode(value, validate=True))[0]
        except (binascii.Error, struct.error, ValueError):
            return value
    return value


def header(array: Node, coordinates: Mapping[str, Coordinate]) -> Header:
    """Attributes, and the place that they and coordinates say."""
    place = {name: value for name, value in array.attributes.items() if name in NAMES}
    shown = {
        name: _shown(value)
        for name, value in array.attributes.items()
        if name != DIMENSIONS2 and name not in NAMES
    }
    return header_of({**shown, **place}, array.shape, array.named, coordinates)


def _shown(value: Any) -> Any:
    size = len(json.dumps(value))
    if size <= _SHOWN_CHARACTERS:
        return value
    return Omitted(f"{type(value).__name__} of {size} characters")
