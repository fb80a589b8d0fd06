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
from hyperslab.formats.free_names import folders_of, with_free_names
from hyperslab.formats.hdf5.attributes import (
    is_netcdf,
    packing_attributes,
    reserved_value,
    truth_as_bytes,
)
from hyperslab.formats.hdf5.head import END_OF_FILE, grid_of, head_of, index_of
from hyperslab.formats.place import laid_out
from hyperslab.formats.sharing import require_alike
from hyperslab.units import show_count

CHUNK_NBYTES = 2**20
"Largest chunk that is chosen where only compression is asked for: HDF5's own chunk cache holds it."

_LARGEST_NDIM = 32
_LARGEST_CHUNK_NBYTES = 2**32 - 1
_NETCDF_NOT = "bcVO"


def sink(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    header: Header,
    scaling: Scaling | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
) -> ArraySink:
    """Describe a file with one dataset; `scaling` becomes netCDF's attributes of packing.

    netCDF has no bool: it is stored as int8, of 0 and 1, with the attribute by which xarray reads
    truth values. The array is contiguous unless chunks or a compression ('gzip', with the shuffle
    filter) are asked for. Raises UsageError for what HDF5, netCDF or those attributes cannot hold.
    """
    plain = np.dtype(dtype)
    header = laid_out(header, shape)
    if is_netcdf(path) and plain.kind == "b" and scaling is None:
        plain, header = truth_as_bytes(header)
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
    return replace(described, head=head_of([described]).data)


def together(sinks: Sequence[ArraySink]) -> tuple[ArraySink, ...]:
    """The same arrays in one file, all with chunks where one of them has some.

    Raises UsageError for parts of writers, which are of one array, and for arrays that bring other
    variables of one name.
    """
    path = sinks[0].path
    require_alike(sinks)
    if any(sink.encoding.virtual for sink in sinks):
        raise UsageError(
            f"{path}: a virtual dataset is of one array: leave out --virtual, or name one"
        )
    empty = [sink.encoding.name for sink in sinks if not math.prod(sink.shape)]
    if empty and len(sinks) > 1:
        raise UsageError(
            f"{path}: {empty[0]} has no elements, and no place beside other arrays: leave it out"
        )
    alike = list(sinks)
    if is_netcdf(path) or _needs_other_names(sinks):
        alike = list(with_free_names(sinks))
    if any(sink.unit for sink in sinks):
        alike = [_with_chunks(sink) for sink in alike]
    head = head_of(alike)
    members = tuple(
        replace(sink, head=head.data, offset=end)
        for sink, end in zip(alike, head.ends, strict=True)
    )
    return tuple(replace(sink, members=members) for sink in members)


def _needs_other_names(sinks: Sequence[ArraySink]) -> bool:
    """Whether axes of one name differ in extent, and coordinates along one have this name."""
    if not any(sink.header.companions for sink in sinks):
        return False
    known: dict[tuple[str, str], int] = {}
    for sink, folder in zip(sinks, folders_of(sinks), strict=True):
        for name, extent in zip(sink.header.dims, sink.shape, strict=False):
            if known.setdefault((folder, name), extent) != extent:
                return True
    return False


def _with_chunks(sink: ArraySink) -> ArraySink:
    if sink.unit:
        return sink
    chunks = balanced(sink.shape, sink.dtype.itemsize, CHUNK_NBYTES)
    encoding = replace(sink.encoding, chunks=chunks)
    return replace(sink, form="pieces", unit=chunks, encoding=encoding)


def encode(sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
    """The chunks of a region, compressed, each with its number in the C-ordered grid of chunks; of
    a file of several arrays, they are numbered one array after the other.
    """
    grid = grid_of(sink)
    before = _first_number(sink)
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
        number = before + int(np.ravel_multi_index(place, grid))
        yield number, _stored(sink, chunk, spare)


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

    Chunk `numbers[i]`, as `encode` counts them, takes `nbytes[i]` bytes from byte `offsets[i]`.
    Raises FormatError when one is missing or comes twice.
    """
    found, first = np.unique(numbers, return_index=True)
    chunks = sum(math.prod(grid_of(one)) for one in sink.in_file)
    if missing := chunks - len(found):
        raise FormatError(f"{sink.path}: {show_count(missing, 'chunk')} not written", AGAIN)
    if len(found) != len(numbers):
        raise FormatError(
            f"{sink.path}: {show_count(len(numbers) - len(found), 'chunk')} written by more than"
            " one task"
        )
    end = size
    before = 0
    for one in sink.in_file:
        grid = grid_of(one)
        own = first[before : before + math.prod(grid)]
        root, nodes = index_of(one, grid, nbytes[own], offsets[own], end)
        yield end, nodes
        yield one.begin - len(root), root
        end += len(nodes)
        before += math.prod(grid)
    yield END_OF_FILE, struct.pack("<Q", end)


def _first_number(sink: ArraySink) -> int:
    """Number of the first chunk of an array among those of its file."""
    before = itertools.takewhile(lambda one: one.encoding.name != sink.encoding.name, sink.members)
    return sum(math.prod(grid_of(one)) for one in before)


def _stored(sink: ArraySink, chunk: Array, spare: Array) -> bytes:
    """A chunk as the file holds it; `spare` is memory of its size to work in."""
    if not sink.codecs:
        return chunk.tobytes()
    *before, deflate = sink.codecs
    plain = chunk.reshape(-1).view(np.uint8)
    if before:
        plain = deflating.shuffle(plain, before[0].options[0], spare)
    return deflating.zlib_stream(plain.data, deflate.options[0], bool(before))


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
        remedy = "make it integers or floats (--dtype uint8), or write .h5"
        if dtype.kind == "c":
            remedy = "write .h5, or its real and its imaginary part as two outputs"
        raise UsageError(f"{path}: netCDF cannot hold {dtype}; {remedy}")


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
