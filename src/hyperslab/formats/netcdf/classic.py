"""netCDF classic: CDF-1, CDF-2 (64-bit offsets) and CDF-5 (64-bit data); MINC1 volumes are such
files.

Every value lies uncompressed and big-endian at a place that the header gives. A variable without
the record dimension is one contiguous chunk; the variables of a record lie one after the other, so
that each record of one is a chunk. Source: NetCDF User's Guide, "The NetCDF Classic Format
Specification".

- values: stored ones equal netCDF4-python's without, real ones with automatic masking and scaling
  (`tests/formats/test_netcdf.py`); `packing` says where the two differ, `minc` what MINC1 images
  are
- a file that ends before a variable's values do is truncated, where NetCDF-C reads zeros
- a corrupt header raises FormatError, soon and in little memory
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArrayInfo, ArraySource, ChunkTable, Scaling
from hyperslab.errors import FormatError, UsageError, suggest
from hyperslab.formats.conventions import packing, placement
from hyperslab.formats.conventions.variables import Coordinate, without_auxiliary
from hyperslab.formats.identity import identify_path
from hyperslab.formats.netcdf import minc
from hyperslab.formats.netcdf.header import (
    LARGEST_NBYTES,
    LARGEST_NDIM,
    ClassicHeader,
    Variable,
    read_header,
)
from hyperslab.storage.location import Remote
from hyperslab.storage.remote.file import open_binary
from hyperslab.units import show_count

__all__ = ["arrays", "candidates", "open", "read_reference", "sink"]

_MOST_ROWS = 2**16
_SPAN_NBYTES = 8 * 2**20
_READ_WHOLE = "contiguous: a task reads its byte ranges directly"


def arrays(path: str) -> list[ArrayInfo]:
    """Every variable of the file."""
    header = read_header(path)
    image = _minc_image(path, header)
    found: list[ArrayInfo] = []
    for variable in header.variables.values():
        dtype = packing.truth_or(variable.dtype, variable.attributes)
        if image and variable.name == minc.IMAGE1:
            dtype = image.stored
        found.append(ArrayInfo(variable.name, variable.shape, str(dtype)))
    return found


def candidates(path: str) -> list[str]:
    """Names of the numeric variables of one or more dimensions that are not coordinates, nor named
    by another as its coordinates, bounds or grid mapping; of a MINC1 file its image.
    """
    header = read_header(path)
    if _minc_image(path, header) is not None:
        return [minc.IMAGE1]
    every = header.variables.values()
    chosen = [v.name for v in every if v.dims and v.dtype.kind != "S" and v.dims != (v.name,)]
    return without_auxiliary(chosen, [v.attributes for v in every])


def open(path: str, name: str) -> ArraySource:  # noqa: A001  # the formats share this name
    """Describe one variable. Raises UsageError if it is not there, FormatError if the file is
    corrupt or too short.
    """
    before = None
    if not isinstance(path, Remote):
        before = os.stat(path)
    header = read_header(path)
    variable = _variable(path, header, name)
    meant, stored, dims, about = _meaning(path, header, variable)
    chunks, reason = _table(header, variable)
    key = repr((variable.name, meant.scaling and meant.scaling.key)).encode()
    state = identify_path(path, header.raw + key, len(header.raw), before)
    chunk_shape: tuple[int, ...] = ()
    if variable.is_record:
        chunk_shape = (1, *variable.shape[1:])
    return ArraySource(
        url=path,
        name=variable.name,
        format="netcdf",
        shape=variable.shape,
        dims=dims,
        axes=tuple(range(len(variable.shape))),
        stored=stored,
        real=meant.real,
        chunks=chunks,
        reason=reason,
        scaling=meant.scaling,
        unscalable=meant.unscalable,
        chunk_shape=chunk_shape,
        header=about,
        nbytes_stored=math.prod(variable.shape) * stored.itemsize,
        file_size=state.file_size,
        mtime_ns=state.mtime_ns,
        version=state.version,
    )


def read_reference(source: ArraySource, slab: Hyperslab, threads: int = 1) -> Array:
    """Stored values of a region by spans of whole records, the other variables' values between them
    included.
    """
    header = read_header(source.url)
    variable = _variable(source.url, header, source.name)
    region = slab.permute(source.axes)
    block = np.empty(region.count, source.dtype("stored"))
    if block.size == 0:
        return block.reshape(slab.count)
    if not variable.shape:
        return (
            _rows(source.url, header, variable, range(1))
            .view(source.stored)
            .astype(block.dtype)
            .reshape(())
        )
    start, count, stride = region.start[0], region.count[0], region.stride[0]
    indices = range(start, start + count * stride, stride)
    step = max(1, _SPAN_NBYTES // (_stride(header, variable) * abs(stride)))
    for first in range(0, len(indices), step):
        taken = indices[first : first + step]
        low = min(taken)
        high = max(taken)
        rows = _rows(source.url, header, variable, range(low, high + 1)).view(source.stored)
        part = Hyperslab(
            (taken[0] - low, *region.start[1:]), (len(taken), *region.count[1:]), region.stride
        )
        block[first : first + len(taken)] = rows[part.slices()]
    return block.transpose(np.argsort(source.axes))


def sink(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    header: Header,
    scaling: Scaling | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
) -> ArraySink:
    """Raises UsageError: netCDF classic is read only."""
    raise UsageError(
        f"{path}: netCDF classic files are not written; write .nc (netCDF-4), .h5 or .nii"
    )


def _variable(path: str, header: ClassicHeader, name: str) -> Variable:
    """A variable whose values are all in the file."""
    variable = header.variables.get(name.strip("/"))
    if variable is None:
        raise UsageError(
            f"{path} holds no '{name}'{suggest(name, candidates(path))}; 'hyperslab info {path}'"
            " lists what it holds"
        )
    where = f"{path}::{variable.name}"
    extents = [extent for extent in variable.shape if extent] or [1]
    if (
        len(variable.shape) > LARGEST_NDIM
        or math.prod(extents) * variable.dtype.itemsize > LARGEST_NBYTES
    ):
        raise FormatError(
            f"{where}: its shape of {len(variable.shape)} axes is beyond what NumPy holds"
        )
    missing = header.missing_nbytes(variable)
    if missing:
        raise FormatError(
            f"{where}: truncated: {show_count(missing, 'byte')} missing; fetch or copy the file"
            " again"
        )
    return variable


def _minc_image(path: str, header: ClassicHeader) -> minc.Image | None:
    return minc.of_classic(header.variables, lambda variable: _whole(path, header, variable))


def _meaning(
    path: str, header: ClassicHeader, variable: Variable
) -> tuple[packing.Packing, np.dtype[Any], tuple[str, ...], Header]:
    """Real values, stored dtype, names of axes, place and attributes."""
    image = None
    if variable.name == minc.IMAGE1:
        image = _minc_image(path, header)
    if image is None:
        stored = packing.truth_or(variable.dtype, variable.attributes)
        meant = packing.unpack(variable.attributes, stored, default_fill=True)
        found = _coordinates(path, header, variable)
        about = placement.header_by(variable.attributes, variable.dims, variable.shape, found)
        return meant, stored, variable.dims, about
    volume = minc.understand(image)
    about = Header(
        base_affine=volume.affine,
        space=volume.space,
        attributes=variable.attributes,
        base_sampling=volume.sampling,
    )
    return volume.packing, image.stored, volume.dims, about


def _coordinates(path: str, header: ClassicHeader, variable: Variable) -> dict[str, Coordinate]:
    """The coordinates that say where a variable lies."""
    found = {}
    for name in placement.wanted(variable.dims, variable.attributes):
        one = header.variables.get(name)
        if one is None or name == variable.name or one.dims not in ((name,), ()):
            continue
        is_small = math.prod(one.shape) <= placement.LARGEST_SIZE
        if is_small and placement.is_asked(name, one.attributes, variable.attributes):
            values = _whole(path, header, one)
            found[name] = placement.coordinate(name, values, one.attributes)
    return found


def _table(header: ClassicHeader, variable: Variable) -> tuple[ChunkTable | None, str]:
    """One row for values that lie together, else a row per record; none where those are very
    many.
    """
    if not variable.shape:
        return None, "it is a single value: a task reads it in one piece"
    together = not variable.is_record or header.record_nbytes == variable.row_nbytes
    size = math.prod(variable.shape)
    if together:
        rows = min(1, size)
        chunk_shape = variable.shape
        nbytes = size * variable.dtype.itemsize
    else:
        rows = 0
        if size:
            rows = variable.shape[0]
        chunk_shape = (1, *variable.shape[1:])
        nbytes = variable.row_nbytes
    if rows > _MOST_ROWS:
        return None, f"{rows} short records: a task reads them in spans"
    start = np.zeros((rows, len(variable.shape)), np.int64)
    if not together:
        start[:, 0] = np.arange(rows)
    table = ChunkTable(
        chunk_shape=chunk_shape,
        start=start,
        offset=variable.begin + header.record_nbytes * np.arange(rows, dtype=np.int64),
        nbytes=np.full(rows, nbytes, np.int64),
        mask=np.zeros(rows, np.int64),
    )
    if together:
        return table, _READ_WHOLE
    return table, "one chunk per record: a task reads its byte ranges directly"


def _whole(path: str, header: ClassicHeader, variable: Variable) -> Array:
    """All values of a small variable, in native byte order."""
    _variable(path, header, variable.name)
    native = variable.dtype.newbyteorder("=")
    if math.prod(variable.shape) == 0:
        return np.empty(variable.shape, native)
    steps = 1
    if variable.shape:
        steps = variable.shape[0]
    return _rows(path, header, variable, range(steps)).astype(native).reshape(variable.shape)


def _stride(header: ClassicHeader, variable: Variable) -> int:
    """Bytes from one step along the first axis to the next."""
    if variable.is_record:
        return header.record_nbytes
    return math.prod(variable.shape[1:]) * variable.dtype.itemsize


def _rows(path: str, header: ClassicHeader, variable: Variable, steps: range) -> Array:
    """Consecutive steps along the first axis, through one read; one step where there are no
    axes.
    """
    row = variable.shape[1:]
    item = variable.dtype.itemsize
    stride = _stride(header, variable)
    nbytes = (len(steps) - 1) * stride + math.prod(row) * item
    with open_binary(path) as file:
        file.seek(variable.begin + steps.start * stride)
        data = file.read(nbytes)
    if len(data) < nbytes:
        raise FormatError(
            f"{path}::{variable.name}: {nbytes - len(data)} bytes missing; fetch or copy the file"
            " again"
        )
    inner = tuple(item * math.prod(row[axis + 1 :]) for axis in range(len(row)))
    return np.ndarray((len(steps), *row), variable.dtype, data, strides=(stride, *inner))
