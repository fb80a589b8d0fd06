"""Stored chunks of an open file into a block, a batch at a time, through the native core.

- one read per stored chunk that holds elements of the region, of all of it where it is filtered,
  else of the bytes from its first to its last element of the region
  (`tests/blocks/test_decoding.py`)
- a chunk that is corrupt, or does not match its checksum, is named by its place in the file
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, ChunkTable
from hyperslab.blocks.positioned import OpenFile
from hyperslab.errors import FormatError

_WITH_SPARE = frozenset({"blosc", "bitshuffle"})
"""Filters whose blocks, which may be as large as their chunk, are decoded aside and then put in
order.
"""
_LIMIT_SHARE = 1000
_LIMIT_NBYTES = 1024


def fill(
    file: OpenFile,
    source: ArraySource,
    table: ChunkTable,
    slab: Hyperslab,
    block: Array,
    threads: int,
) -> None:
    """Read what a region takes of the rows of a table into `block`, which has its shape and the
    file's dtype.

    Region and block are in stored order with strides above 0. Raises FormatError that names a
    corrupt chunk, ValueError for a number of threads below 1 or above 4096.
    """
    if not len(table) or native.core is None:
        return
    box = (slab.start, slab.count, slab.stride)
    depth = max(threads, native.DEPTH)
    try:
        chunks = (columns_of(table), table.chunk_shape, filters_of(source))
        file.nbytes += native.core.read_chunks(file.fd, chunks, box, block, threads, depth)
    except native.core.ChunkError as error:
        raise chunk_fault(source, table, error) from error


def columns_of(table: ChunkTable) -> tuple[Array, Array, Array, Array]:
    """The columns of a table as the core takes them: aligned, which those that came over a network
    may not be.
    """
    columns = (table.offset, table.nbytes, table.mask, table.start.reshape(-1))
    offset, nbytes, mask, start = (
        np.require(column, requirements=("C", "A")) for column in columns
    )
    return offset, nbytes, mask, start


def filters_of(source: ArraySource) -> list[tuple[str, tuple[int, ...]]]:
    """The filters of a source as the core takes them: names and numbers."""
    return [codec.undoing for codec in source.codecs]


def chunk_fault(source: ArraySource, table: ChunkTable, error: Any) -> FormatError:
    """What the core says of a row of a table, its ChunkError, as an error that names the chunk."""
    where = f"{source.label}: the chunk at byte {table.offset[error.row]}"
    return FormatError(f"{where}: {error.text}; copy the file again")


def peak_nbytes(
    source: ArraySource, rows: npt.NDArray[np.int64], nbytes: npt.NDArray[np.int64], threads: int
) -> npt.NDArray[np.int64]:
    """Upper bound of what `fill` holds beside each of many blocks: stored chunks in flight and
    those being decoded. `rows` is the number of chunks that each takes, `nbytes` their bytes
    together.
    """
    assert source.chunks is not None
    chunk = math.prod(source.chunks.chunk_shape) * source.stored.itemsize
    largest = int(source.chunks.nbytes.max(initial=0))
    flying: npt.NDArray[np.int64] = np.minimum(
        np.minimum(rows, max(threads, native.DEPTH)) * largest, nbytes
    )
    if not source.codecs:
        return flying
    decoded = chunk + chunk // _LIMIT_SHARE + _LIMIT_NBYTES
    buffers = 2
    if any(codec.name in _WITH_SPARE for codec in source.codecs):
        buffers = 3
    decoding: npt.NDArray[np.int64] = buffers * np.minimum(rows, threads) * decoded
    return flying + decoding


def peak_of(source: ArraySource, table: ChunkTable, threads: int) -> int:
    """The same for one block that takes these chunks."""
    rows = np.array([len(table)], np.int64)
    nbytes = np.array([table.nbytes.sum()], np.int64)
    return int(peak_nbytes(source, rows, nbytes, threads)[0])
