"""New HDF5 and netCDF-4 files: one dataset, whose bytes or compressed chunks come from many
writers.

The file is laid out here, in memory, up to the dataset's first byte. Without chunks its values are
then written at their positions. With chunks, writers encode whole chunks and put them anywhere
behind; when all are there, so is their index. No writer opens HDF5. A name that ends in .nc or .nc4
makes a file of netCDF-4's data model: dimensions are dimension scales (NetCDF User's Guide,
"NetCDF-4 File Format Specification").

- every kind of file is read back by h5py, h5dump, netCDF4-python and ncdump
  (`tests/formats/test_hdf5_sink.py`)
- the same array makes the same bytes at any time, unless several tasks write chunks: those lie as
  they came
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import RawIOBase
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink, Encoded, Form
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Codec, Scaling
from hyperslab.errors import AGAIN, FormatError, UsageError
from hyperslab.formats import deflating
from hyperslab.formats.hdf5 import chunkindex
from hyperslab.formats.hdf5.attributes import (
    attribute_order,
    dataset_name,
    describe,
    is_netcdf,
    packing_attributes,
    reserved_value,
)
from hyperslab.formats.place import laid_out
from hyperslab.units import show_count

CHUNK_NBYTES = 2**20
"Largest chunk that is chosen where only compression is asked for: HDF5's own chunk cache holds it."

_LARGEST_NDIM = 32
_LARGEST_CHUNK_NBYTES = 2**32 - 1
_NETCDF_NOT = "bcVO"
_HEAD_NBYTES = 2**26
"More metadata than this would be before the data only by mistake."
_VERSION = 8
"Position in a superblock of its version."
_END_OF_FILE = 40
"Position in a superblock of version 0 of the length of the file."
_ONE = b"\0"
"A chunk that holds its place."


def sink(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    header: Header,
    scaling: Scaling | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
) -> ArraySink:
    """Describe a file with one dataset; `scaling` becomes netCDF's attributes of packing.

    It is contiguous unless chunks or a compression ('gzip', with the shuffle filter) are asked for.
    Raises UsageError for what HDF5, netCDF or those attributes cannot hold.
    """
    plain = np.dtype(dtype)
    header = laid_out(header, shape)
    _check_storable(path, shape, plain, encoding)
    packing = packing_attributes(path, header, scaling, plain)
    reserved = reserved_value(path, packing, header, scaling, plain)
    codecs = _codecs(path, plain, encoding)
    chunks = _chunks(path, shape, plain, encoding)
    about = (path, "hdf5", tuple(shape), tuple(range(len(shape))), plain)
    if encoding.virtual and is_netcdf(path):
        raise UsageError(f"{path}: netCDF has no virtual variables; write .h5, or one file")
    form: Form = "placed"
    if encoding.virtual:
        form = "parts"
    elif chunks:
        form = "pieces"
    filters = codecs
    if form == "placed":
        filters = ()
    described = ArraySink(
        *about, None, header, scaling, form, chunks, filters, encoding, reserved=reserved
    )
    if encoding.virtual:
        return described
    return replace(described, head=_head(described))


def encode(sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
    """The chunks of a region, compressed, each with its number in the C-ordered grid of chunks."""
    grid = _grid(sink)
    ranges = [
        range(a // c, math.ceil((a + n) / c))
        for a, n, c in zip(slab.start, slab.count, sink.unit, strict=True)
    ]
    chunk = np.zeros(
        sink.unit, sink.dtype
    )  # memory that is used again is not cleared by the system each time
    spare = np.empty(chunk.nbytes, np.uint8)
    filled = sink.unit
    for place in itertools.product(*ranges):
        corner = [i * c - a for i, c, a in zip(place, sink.unit, slab.start, strict=True)]
        part = block[
            tuple(slice(first, first + c) for first, c in zip(corner, sink.unit, strict=True))
        ]
        if part.shape not in (sink.unit, filled):
            chunk[...] = 0  # one at the array's edge is filled up
        filled = part.shape
        _copy(chunk[tuple(map(slice, part.shape))], part)
        yield int(np.ravel_multi_index(place, grid)), _stored(sink, chunk, spare)


def _copy(chunk: Array, part: Array) -> None:
    """The same values; rows at a time where they lie so in both, which takes NumPy half as long as
    number by number.
    """
    if (
        part.dtype == chunk.dtype
        and part.size
        and part.strides[-1] == chunk.strides[-1] == part.itemsize
    ):
        row = np.dtype((np.void, part.shape[-1] * part.itemsize))
        chunk = chunk.view(row)
        part = part.view(row)
    chunk[...] = part


def index(
    sink: ArraySink, numbers: Array, nbytes: Array, offsets: Array, size: int
) -> Iterator[tuple[int, bytes]]:
    """What makes a file of `size` bytes, which has the head and all chunks, complete: positions,
    and bytes to be there.

    Chunk `numbers[i]` of the C-ordered grid takes `nbytes[i]` bytes from byte `offsets[i]`. Raises
    FormatError when one is missing or comes twice.
    """
    grid = _grid(sink)
    head = sink.head or b""
    found, first = np.unique(numbers, return_index=True)
    if missing := math.prod(grid) - len(found):
        raise FormatError(f"{sink.path}: {show_count(missing, 'chunk')} not written", AGAIN)
    if len(found) != len(numbers):
        raise FormatError(
            f"{sink.path}: {show_count(len(numbers) - len(found), 'chunk')} written by more than"
            " one task"
        )
    root, nodes = _index(sink, grid, nbytes[first], offsets[first], size)
    yield size, nodes
    yield len(head) - len(root), root
    yield _END_OF_FILE, struct.pack("<Q", size + len(nodes))


def _index(
    sink: ArraySink, grid: tuple[int, ...], nbytes: Array, offsets: Array, at: int = 0
) -> tuple[bytes, bytes]:
    return chunkindex.layout(grid, sink.unit, sink.dtype.itemsize, nbytes, offsets, at)


def _stored(sink: ArraySink, chunk: Array, spare: Array) -> bytes:
    """A chunk as the file holds it; `spare` is memory of its size to work in."""
    if not sink.codecs:
        return chunk.tobytes()
    *before, deflate = sink.codecs
    plain = chunk.reshape(-1).view(np.uint8)
    if before:
        plain = deflating.shuffle(plain, before[0].options[0], spare)
    return deflating.zlib_stream(plain.data, deflate.options[0], bool(before))


def _grid(sink: ArraySink) -> tuple[int, ...]:
    return tuple(math.ceil(n / c) for n, c in zip(sink.shape, sink.unit, strict=True))


def _check_storable(
    path: str, shape: Sequence[int], dtype: np.dtype[Any], encoding: Encoding
) -> None:
    if dtype.hasobject or dtype.kind in "mMU":
        raise UsageError(f"{path}: HDF5 cannot hold {dtype}; convert the block to numbers")
    if len(shape) > _LARGEST_NDIM:
        raise UsageError(f"{path}: HDF5 holds up to {_LARGEST_NDIM} axes, not {len(shape)}")
    parts = []
    if encoding.name:
        parts = encoding.name.strip("/").split("/")
    if not all(part.strip(".") and part.isprintable() for part in parts):
        raise UsageError(
            f"{path}: {encoding.name!r} cannot name a dataset; use printable names that are not"
            " dots alone"
        )
    if encoding.shards or encoding.version:
        raise UsageError(
            f"{path}: HDF5 has no shards and no choice of versions; write .zarr, or leave them out"
        )
    if is_netcdf(path) and (dtype.kind in _NETCDF_NOT or dtype == np.float16):
        raise UsageError(
            f"{path}: netCDF cannot hold {dtype}; make it integers or floats (--dtype uint8), or"
            " write .h5"
        )


def _codecs(path: str, dtype: np.dtype[Any], encoding: Encoding) -> tuple[Codec, ...]:
    if encoding.compression in (None, "none"):
        return ()
    level = deflating.level_of(encoding)
    if encoding.compression != "gzip" or not deflating.FASTEST <= level <= deflating.SMALLEST:
        given = encoding.compression
        if encoding.level is not None:
            given += f":{encoding.level}"
        raise UsageError(
            f"--compression {given}: {path} can be compressed by gzip:1 to gzip:9, or none"
        )
    shuffle: tuple[Codec, ...] = ()
    if dtype.itemsize > 1:
        shuffle = (Codec("shuffle", (dtype.itemsize,)),)
    return (*shuffle, Codec("deflate", (level,)))


def _chunks(
    path: str, shape: Sequence[int], dtype: np.dtype[Any], encoding: Encoding
) -> tuple[int, ...]:
    """Shape of a chunk; () for a contiguous dataset, as one without elements or axes always is."""
    if (
        not math.prod(shape)
        or not shape
        or (encoding.compression in (None, "none") and not encoding.chunks)
    ):
        return ()
    if not encoding.chunks:
        return balanced(shape, dtype.itemsize, CHUNK_NBYTES)
    if len(encoding.chunks) != len(shape) or min(encoding.chunks) < 1:
        given = ",".join(map(str, encoding.chunks))
        raise UsageError(
            f"--chunks {given}: give one extent of at least 1 for each axis of shape {tuple(shape)}"
        )
    chunks = tuple(min(c, n) for c, n in zip(encoding.chunks, shape, strict=True))
    if math.prod(chunks) * dtype.itemsize > _LARGEST_CHUNK_NBYTES:
        raise UsageError(
            "--chunks: a chunk of HDF5 holds less than 4 GiB, not"
            f" {math.prod(chunks) * dtype.itemsize}"
        )
    return chunks


def balanced(shape: Sequence[int], itemsize: int, limit_nbytes: int) -> tuple[int, ...]:
    """A chunk within a limit, of edges as equal as halving the longest one makes them."""
    chunk = list(shape)
    while math.prod(chunk) * itemsize > limit_nbytes and max(chunk) > 1:
        axis = chunk.index(max(chunk))
        chunk[axis] = math.ceil(chunk[axis] / 2)
    return tuple(chunk)


class _Head(RawIOBase):
    """A file of which only the beginning is kept; libhdf5 writes one element far behind, to have
    its place.
    """

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._at = self._size = 0

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


def _head(sink: ArraySink) -> bytes:
    """The bytes before the data, which are all of the file's metadata; the root of an index of
    chunks comes last.
    """
    import h5py

    kept = _Head()
    first = (0,) * len(sink.shape)
    offset = None
    with h5py.File(kept, "w", libver=("earliest", "latest")) as file:
        dataset = create(file, sink, _properties(sink))
        file.flush()
        if sink.unit:
            dataset.id.write_direct_chunk(
                first, _ONE
            )  # now the index and what it points to have their places
            offset = dataset.id.get_chunk_info(0).byte_offset
        elif dataset.size:
            dataset[first] = np.zeros((), sink.dtype)[()]  # now it has its place, behind all else
            offset = dataset.id.get_offset()
    head = bytes(kept.bytes[:offset])
    if offset is not None and len(kept.bytes) > offset + (
        len(_ONE) if sink.unit else sink.dtype.itemsize
    ):
        raise FormatError(f"{sink.path}: HDF5 put metadata behind the data")
    if sink.unit and (head[_VERSION] or not head.endswith(_root_of_one(sink, len(head)))):
        raise FormatError(
            f"{sink.path}: HDF5 {h5py.version.hdf5_version} lays out files with chunks in"
            " another way"
        )
    return head


def _root_of_one(sink: ArraySink, offset: int) -> bytes:
    """The index of the first chunk."""
    one = (1,) * len(sink.shape)
    return _index(sink, one, np.array([len(_ONE)]), np.array([offset]))[0]


def _properties(sink: ArraySink) -> Any:
    """Chunks and filters of a dataset of which every value is written."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    if sink.unit:
        creation.set_chunk(sink.unit)
        creation.set_alloc_time(
            h5py.h5d.ALLOC_TIME_INCR
        )  # late: all chunks get a place, and zeros, at the first write
    else:
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    for codec in sink.codecs:
        if codec.name == "shuffle":
            creation.set_shuffle()
        else:
            creation.set_deflate(*codec.options)
    return creation


def create(file: Any, sink: ArraySink, creation: Any) -> Any:
    """The dataset with these properties and its attributes, without its values; a netCDF file also
    its dimensions.
    """
    import h5py

    creation.set_obj_track_times(False)
    creation.set_attr_creation_order(attribute_order(sink))
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    kind = h5py.h5t.py_create(sink.dtype, logical=True)
    space = h5py.h5s.create_simple(sink.shape)
    if not sink.shape:
        space = h5py.h5s.create(h5py.h5s.SCALAR)
    dataset = h5py.Dataset(h5py.h5d.create(file.id, None, kind, space, creation))
    describe(file, dataset, sink)
    h5py.h5o.link(dataset.id, file.id, dataset_name(sink).encode(), links)
    return dataset
