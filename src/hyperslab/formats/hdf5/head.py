"""The head of a new HDF5 file: all that comes before its values, made by libhdf5 in memory.

The values of every array have a place behind it, or the root of an array's index of chunks has one
in it. No writer opens HDF5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import RawIOBase
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.errors import FormatError
from hyperslab.formats.free_names import dataset_name, with_free_names
from hyperslab.formats.hdf5 import chunkindex
from hyperslab.formats.hdf5.attributes import (
    attribute_order,
    attributes_of_file,
    attributes_of_sink,
    is_netcdf,
)
from hyperslab.formats.hdf5.scales import places_of

END_OF_FILE = 40
"Position in a superblock of version 0 of the length of the file."
_HEAD_NBYTES = 2**26
"More metadata than this would be before the data only by mistake."
_VERSION = 8
"Position in a superblock of its version."
_ONE = b"\0"
"A chunk that holds its place."


class Head(NamedTuple):
    """What comes before the values of a file."""

    data: bytes
    ends: tuple[int, ...]
    "Position of the first value of each array, or of the end of the root of its index."


def head_of(sinks: Sequence[ArraySink]) -> Head:
    """The head of a file of these arrays, which all have chunks, or none has. Raises FormatError
    where libhdf5 lays it out in another way than values can be put behind.
    """
    import h5py

    kept = _Kept()
    with h5py.File(kept, "w", libver=("earliest", "latest")) as file:
        datasets = create(file, sinks, [_properties(sink) for sink in sinks])
        file.flush()
        ends = [_placed(kept, *pair) for pair in zip(datasets, sinks, strict=True)]
    known = [end for end in ends if end is not None]
    path = sinks[0].path
    if not known:  # arrays without elements
        return Head(bytes(kept.bytes), (len(kept.bytes),) * len(sinks))
    if not sinks[0].unit:
        first = [
            range(end, end + one.dtype.itemsize) for one, end in zip(sinks, known, strict=True)
        ]
        _require_behind(path, all(any(at in own for own in first) for at in kept.beyond))
        return Head(bytes(kept.bytes), tuple(known))
    _require_behind(path, len(kept.bytes) == known[-1] + len(_ONE))
    data = bytes(kept.bytes[: known[-1]])
    for sink, end in zip(sinks, known, strict=True):
        if data[_VERSION] or not data[:end].endswith(_root_of_one(sink, end)):
            raise FormatError(
                f"{path}: HDF5 {h5py.version.hdf5_version} lays out files with chunks in another"
                " way"
            )
    return Head(data, tuple(known))


def _placed(kept: _Kept, dataset: Any, sink: ArraySink) -> int | None:
    """Give an array its place behind all that there is, and say where; None where it has no
    elements.
    """
    first = (0,) * len(sink.shape)
    if sink.unit:
        # now the index and what it points to have their places
        dataset.id.write_direct_chunk(first, _ONE)
        return int(dataset.id.get_chunk_info(0).byte_offset)
    if not dataset.size:
        return None
    dataset[first] = np.zeros((), sink.dtype)[()]
    offset = int(dataset.id.get_offset())
    kept.cut(offset)
    return offset


def _require_behind(path: str, is_behind: bool) -> None:
    if not is_behind:
        raise FormatError(f"{path}: HDF5 put metadata behind the data")


def create(file: Any, sinks: Sequence[ArraySink], properties: Sequence[Any]) -> list[Any]:
    """Datasets with these properties and their attributes, without their values; the dimensions and
    coordinates that they have, and attributes of the file and its groups.
    """
    import h5py

    if is_netcdf(sinks[0].path):
        sinks = with_free_names(sinks)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    datasets = []
    for sink, creation in zip(sinks, properties, strict=True):
        creation.set_obj_track_times(False)
        creation.set_attr_creation_order(attribute_order(sink))
        kind = h5py.h5t.py_create(sink.dtype, logical=True)
        space = h5py.h5s.create_simple(sink.shape)
        if not sink.shape:
            space = h5py.h5s.create(h5py.h5s.SCALAR)
        datasets.append(h5py.Dataset(h5py.h5d.create(file.id, None, kind, space, creation)))
    if len(sinks) > 1:  # one alone lies behind its coordinates
        _link(file, datasets, sinks, links)
    for dataset, sink, place in zip(datasets, sinks, places_of(file, datasets, sinks), strict=True):
        place.add_axes(dataset, sink)
        dataset.attrs.update(attributes_of_sink(sink))
        file.attrs.update(attributes_of_file(sink, ""))
    if len(sinks) == 1:
        _link(file, datasets, sinks, links)
    for sink in sinks:
        for group in sink.header.group_attributes:
            if group in file:
                file[group].attrs.update(attributes_of_file(sink, group))
    return datasets


def _link(file: Any, datasets: Sequence[Any], sinks: Sequence[ArraySink], links: Any) -> None:
    import h5py

    for dataset, sink in zip(datasets, sinks, strict=True):
        h5py.h5o.link(dataset.id, file.id, dataset_name(sink).encode(), links)


def grid_of(sink: ArraySink) -> tuple[int, ...]:
    """How many chunks an array has along every axis."""
    return tuple(math.ceil(n / c) for n, c in zip(sink.shape, sink.unit, strict=True))


def index_of(
    sink: ArraySink, grid: tuple[int, ...], nbytes: Array, offsets: Array, at: int = 0
) -> tuple[bytes, bytes]:
    """The root of the index of an array's chunks, and its other nodes, which lie at a position."""
    return chunkindex.layout(grid, sink.unit, sink.dtype.itemsize, nbytes, offsets, at)


def _root_of_one(sink: ArraySink, offset: int) -> bytes:
    """The index of the first chunk."""
    one = (1,) * len(sink.shape)
    return index_of(sink, one, np.array([len(_ONE)]), np.array([offset]))[0]


def _properties(sink: ArraySink) -> Any:
    """Chunks and filters of a dataset of which every value is written."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    if sink.unit:
        creation.set_chunk(sink.unit)
        # late: all chunks get a place, and zeros, at the first write
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
    else:
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    for codec in sink.codecs:
        if codec.name == "shuffle":
            creation.set_shuffle()
        else:
            creation.set_deflate(*codec.options)
    return creation


class _Kept(RawIOBase):
    """A file of which only the beginning is kept; libhdf5 writes one element of every array far
    behind, to have its place.
    """

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.end: int | None = None
        "Position from which on nothing is kept."
        self.beyond: list[int] = []
        "Positions of first and last bytes that were written there."
        self._size = 0
        self._at = 0

    def cut(self, end: int) -> None:
        """Keep nothing any more from a position on, unless nothing is kept from an earlier one."""
        if self.end is None:
            self.end = end
            if len(self.bytes) > end:
                self.beyond += [end, len(self.bytes) - 1]
            del self.bytes[end:]

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        if size is None:
            size = self._at
        self._size = size
        return self._size

    def write(self, data: Any) -> int:
        end = self._at + len(data)
        if self.end is not None and self._at >= self.end:
            self.beyond += [self._at, end - 1]
            self._at = end
            self._size = max(self._size, end)
            return len(data)
        if end > _HEAD_NBYTES:
            raise FormatError(
                "the metadata of an HDF5 file would take more than 64 MiB; leave out attributes"
            )
        self.bytes.extend(bytes(max(0, end - len(self.bytes))))
        self.bytes[self._at : end] = data
        self._at = end
        self._size = max(self._size, end)
        return len(data)

    def readinto(self, buffer: Any) -> int:
        data = bytes(self.bytes[self._at : self._at + len(buffer)])
        buffer[: len(data)] = data
        buffer[len(data) :] = bytes(len(buffer) - len(data))
        self._at += len(buffer)
        return len(buffer)
