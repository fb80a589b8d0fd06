"""Zarr arrays, versions 2 and 3, in directories and object stores: what they are, values by
zarr-python's codecs.

An array is a directory of chunk files with a metadata document; a group is one that holds arrays,
each named by its path in it. There is no chunk table: `zarr.store` reads the chunk files of a
region.

- values: stored ones equal zarr-python's; real ones are what `packing` makes of the attributes,
  which is what xarray makes of those that it writes itself (`tests/formats/test_zarr.py`,
  `tests/formats/zarr_rows.py`)
- a task reads no metadata: the document travels with the description. What is compared to notice a
  change is the size and the time of this document; a chunk that is written to in place is not
  noticed, nor new attributes in version 2
- corrupt documents and chunks raise FormatError, never another exception
  (`tests/formats/test_zarr_damage.py`)
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.order import empty
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArrayInfo, ArraySource
from hyperslab.arrays.transposition import order_of, transposed
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats.conventions import placement
from hyperslab.formats.conventions.uncut import NAMES, uncut_of
from hyperslab.formats.conventions.variables import Coordinate, without_auxiliary
from hyperslab.formats.identity import PAGE_NBYTES, PAGES, Identity, identify, identify_remote
from hyperslab.formats.zarr import metadata as zarr_metadata
from hyperslab.formats.zarr import remote
from hyperslab.formats.zarr.metadata import Node, chunk_files
from hyperslab.formats.zarr.sinks import beside, create, sink, together, write_region
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.folder import fetch, state
from hyperslab.storage.remote.objects import Answer

__all__ = [
    "arrays",
    "beside",
    "candidates",
    "create",
    "group_attributes",
    "open",
    "read_reference",
    "sink",
    "together",
    "write_region",
]

REASON = "each chunk is a file, or a part of one, that zarr-python's codecs decode"
_LARGEST_NDIM = 32
_SAMPLED = 100
"Chunk files whose sizes are looked at: all of a small array, of a large one some in even steps."
_SAMPLED_REMOTELY = 8
"The same of objects, each of which takes a request."
_LISTED = 1000
_LIKE_A_CHUNK = re.compile(r"c|(c\.)?\d+(\.\d+)*")
_FROM_CODE = frozenset({"pickle", "numcodecs.pickle"})
"Codecs that run code which the file holds."


def arrays(path: str) -> list[ArrayInfo]:
    """Every array of a store, by its path in it: '' for one that is the store itself."""
    return [ArrayInfo(name, found.shape, _word(found)) for name, found in _walk(path)]


def candidates(path: str) -> list[str]:
    """Names of the numeric arrays of one or more dimensions, but for coordinates: those named as
    their only axis, and what others name as their coordinates, bounds or grid mapping.
    """
    nodes = _walk(path)
    names = [
        name
        for name, found in nodes
        if not name
        or (found.is_number and found.shape and found.dims != (name.rpartition("/")[2],))
    ]
    if len(names) < 2:
        return names
    return without_auxiliary(names, [found.attributes for _, found in nodes])


def group_attributes(path: str, group: str) -> dict[str, Any]:
    """The attributes of a group, as its document has them; none where there is no such group.
    Raises FormatError.
    """
    nodes = _nodes(path)
    with _readable(path):
        found: Node | None = nodes.node(nodes.place(path, group))
    if found is None or found.is_array:
        return {}
    return dict(found.attributes)


def open(path: str, name: str) -> ArraySource:  # noqa: A001  # the formats share this name
    """Describe one array. Raises UsageError if it is not there, FormatError if it is corrupt or
    holds no numbers.

    Of an array of more than 100 chunks, nbytes_stored is an estimate from 100 of them; in an object
    store from 8.
    """
    name = name.strip("/")
    with _readable(path):
        return _described(path, name, _node(path, name))


def _described(path: str, name: str, found: Node) -> ArraySource:
    axes, metadata, array = _understood(found)
    if zarr_metadata.is_big_endian(found.said):
        dtype = array.dtype.newbyteorder(">")
    else:
        dtype = array.dtype
    fill = array.metadata.fill_value
    meant = zarr_metadata.meaning(found, dtype, fill)
    is_remote = isinstance(found.folder, RemoteFolder)
    nbytes, sample = (_sample_remotely if is_remote else _sample)(found, array)
    state = _identity(found, sample)
    return ArraySource(
        url=_in_state(path, found),
        name=name,
        format="zarr",
        shape=found.shape,
        dims=found.dims,
        axes=axes,
        stored=dtype,
        real=meant.real,
        chunks=None,
        reason=REASON,
        codecs=zarr_metadata.shown_codecs(found.said),
        scaling=meant.scaling,
        unscalable=meant.unscalable,
        fill=dtype.type(0) if fill is None else fill,
        chunk_shape=tuple(array.chunks[axis] for axis in axes),
        header=zarr_metadata.header(found, _coordinates(path, name, found)),
        nbytes_stored=nbytes,
        file_size=state.file_size,
        mtime_ns=state.mtime_ns,
        version=state.version,
        document=os.path.join(name, found.document),
        metadata=metadata,
    )


def _coordinates(path: str, name: str, array: Node) -> dict[str, Coordinate]:
    """The coordinates that say where an array lies: arrays beside it, named as its axes."""
    folder, _, own = name.rpartition("/")
    found = {}
    for dim in placement.wanted(array.named, array.attributes):
        beside = f"{folder}/{dim}".lstrip("/")
        if not name or dim == own or not _may_say(dim, array):
            continue
        one = _nodes(path).node(_nodes(path).place(path, beside))
        if one is None or not _is_coordinate(dim, one):
            continue
        if placement.is_asked(dim, one.attributes, array.attributes):
            source = _described(path, beside, one)
            values = read_reference(source, Hyperslab.full(source.shape))
            said = {**one.attributes, **zarr_metadata.packing_of(one.attributes, source.stored)}
            found[dim] = placement.coordinate(dim, values, said)
    return found


def _may_say(dim: str, array: Node) -> bool:
    """Whether it may be worth a look at a document what its coordinates are."""
    is_placed = uncut_of(array.attributes) is not None
    return is_placed or dim in NAMES


def _is_coordinate(dim: str, one: Node) -> bool:
    is_small = math.prod(one.shape) <= placement.LARGEST_SIZE
    is_along = one.named == (dim,) or not one.shape
    return one.is_array and one.is_number and is_small and is_along


def read_reference(source: ArraySource, slab: Hyperslab, threads: int = 1) -> Array:
    """Stored values of a region through zarr-python, whose codecs are run by up to `threads`
    threads.
    """
    axes = zarr_metadata.axes(json.loads(source.metadata), source.ndim)
    if axes != source.axes:  # an array that is seen with its axes in another order
        order = order_of(source, axes)
        back = [order.index(axis) for axis in range(source.ndim)]
        own = transposed(source, back, source.header)
        return read_reference(own, slab.permute(back), threads).transpose(order)
    low, _ = slab.bounds
    forward = Hyperslab(low, slab.count, tuple(map(abs, slab.stride)))
    block = empty(forward.count, source.axes, source.dtype("stored"))
    if slab.size:
        array = chunk_files().reading(
            _nodes(source.url).place(source.url, source.name), source.metadata
        )
        chunk_files().read(array, forward, block, source.own_chunk_shape, source.axes, threads)
    turn: tuple[Any, ...] = (..., *(slice(None, None, -1 if s < 0 else 1) for s in slab.stride))
    turned: Array = block[turn]  # an array also without axes
    return turned


def _walk(path: str) -> list[tuple[str, Node]]:
    with _readable(path):
        return list(_nodes(path).walk(path))


def _nodes(path: str) -> ModuleType:
    """The module that finds what is in a store: on this machine, or elsewhere."""
    if isinstance(path, RemoteFolder):
        return remote
    return zarr_metadata


def _in_state(path: str, found: Node) -> str:
    """The path of a store; one elsewhere with the state of the array's document, by which tasks
    know it.
    """
    if isinstance(path, RemoteFolder) and isinstance(found.folder, Remote):
        return path.as_of(found.folder.size, found.folder.tag)
    return path


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FormatError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def _word(found: Node) -> str:
    if found.is_number:
        return np.dtype(found.dtype).name
    return found.dtype


def _node(path: str, name: str) -> Node:
    if ".." in name.split("/"):
        raise UsageError(f"{path}: '{name}' leaves the store; name the other store instead")
    nodes = _nodes(path)
    found: Node | None = nodes.node(nodes.place(path, name))
    if found is None:
        raise UsageError(f"{path} holds no '{name}'; 'hyperslab info {path}' lists what it holds")
    if not found.is_array:
        raise UsageError(
            f"{found.folder} is a group, not an array; 'hyperslab info {path}' lists the arrays"
        )
    return found


def _understood(found: Node) -> tuple[tuple[int, ...], bytes, Any]:
    """How the elements of a chunk lie, the document that tasks get, and the array as zarr sees
    it.
    """
    where = os.path.join(found.folder, found.document)
    if not found.is_number:
        raise FormatError(
            f"{where}: its elements are {found.dtype}, not numbers; read it with zarr-python"
        )
    if len(found.shape) > _LARGEST_NDIM:
        raise FormatError(
            f"{where}: has {len(found.shape)} axes; arrays here have up to {_LARGEST_NDIM}"
        )
    for refused in _FROM_CODE.intersection(
        str(one.get("name")) for one in zarr_metadata.codecs(found.said)
    ):
        raise FormatError(
            f"{where}: its codec {refused} runs code from the file, which is not done here"
        )
    # An empty list of filters is wrong in version 2, but not unclear.
    filters = {}
    if found.said.get("filters") == []:
        filters = {"filters": None}
    metadata = json.dumps({**found.said, **filters, "attributes": {}}).encode()
    library = chunk_files()
    try:
        array = library.reading(found.folder, metadata)
        axes = zarr_metadata.axes(found.said, len(found.shape))
        chunks = [*array.chunks, *(array.shards or ())]
    except Exception as error:  # zarr raises many kinds of a wrong document
        text = str(error).strip("'\" ") or type(error).__name__
        raise FormatError(
            f"{where}: zarr cannot understand it: {text}; copy the store again"
        ) from error
    if array.shape != found.shape or min(chunks, default=1) < 1:
        raise FormatError(
            f"{where}: its chunks of {tuple(chunks)} are impossible; copy the store again"
        )
    return axes, metadata, array


def _sample(found: Node, array: Any) -> tuple[int, bytes]:
    """Stored bytes of an array, and what tells apart its states: sizes of some chunk files and
    pages of fewer.
    """
    keys, total = _sampled_keys(found, array, _SAMPLED)
    files = [os.path.join(found.folder, key) for key in keys]
    sizes = [_size(file) for file in files]
    if not any(sizes):
        _require_named_so(found, array.metadata.encode_chunk_key((0,) * len(found.shape)))
    there = [file for file, size in zip(files, sizes, strict=True) if size]
    pages = b"".join(map(_page, there[:: -(-len(there) // PAGES) or 1]))
    return -(-sum(sizes) * total // max(1, len(keys))), repr(sizes).encode() + pages


def _sample_remotely(found: Node, array: Any) -> tuple[int, bytes]:
    """The same of an array elsewhere, by the sizes and states of fewer objects; a read says why one
    is denied.
    """
    assert isinstance(found.folder, RemoteFolder)
    keys, total = _sampled_keys(found, array, _SAMPLED_REMOTELY)
    asked = [
        one
        for one in fetch([found.folder.below(key) for key in keys], 1)
        if not isinstance(one, FormatError)
    ]
    sizes = [one.size or 0 if isinstance(one, Answer) else 0 for one in asked]
    states = [state(one) if one is not None else "" for one in asked]
    nbytes = array.nbytes  # what nobody may know
    if asked:
        nbytes = -(-sum(sizes) * total // len(asked))
    return nbytes, repr((sizes, states)).encode()


def _sampled_keys(found: Node, array: Any, most: int) -> tuple[list[str], int]:
    """Names of up to so many chunk files in even steps, and how many there may be."""
    whole = array.shards or array.chunks
    grid = [-(-extent // n) for extent, n in zip(found.shape, whole, strict=True)]
    total = math.prod(grid)
    count = min(total, most)
    return [_key(array, grid, total * i // count) for i in range(count)], total


def _key(array: Any, grid: list[int], number: int) -> str:
    """Name of a chunk file, by its number in C order."""
    place: list[int] = []
    for extent in reversed(grid):
        number, at = divmod(number, extent)
        place.append(at)
    return str(array.metadata.encode_chunk_key(tuple(reversed(place))))


def _size(file: str) -> int:
    try:
        status = os.stat(file)
    except OSError:
        return 0
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    return 0


def _page(file: str) -> bytes:
    try:
        with Path(file).open("rb", buffering=0) as opened:
            return opened.read(PAGE_NBYTES)
    except OSError:  # a read will say so
        return b""


def _require_named_so(found: Node, key: str) -> None:
    """Raise FormatError for files named like chunks in another way than the document says: all
    would read as fill.
    """
    first, nested, _ = key.partition("/")
    expected = re.compile(re.escape(first).replace("0", r"\d+"))
    with os.scandir(found.folder) as entries:
        for entry, _ in zip(entries, range(_LISTED), strict=False):
            if _LIKE_A_CHUNK.fullmatch(entry.name) and not (
                expected.fullmatch(entry.name) and entry.is_dir() == bool(nested)
            ):
                raise FormatError(
                    f"{found.folder}: its chunks are named like '{entry.name}', but by"
                    f" {found.document} the first is '{key}'; correct the separator in"
                    f" {found.document}"
                )


def _identity(found: Node, sample: bytes) -> Identity:
    if isinstance(found.folder, Remote):
        return identify_remote(found.folder, found.raw + sample)
    fd = os.open(os.path.join(found.folder, found.document), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return identify(fd, found.raw + sample, before=found.state)
    finally:
        os.close(fd)
