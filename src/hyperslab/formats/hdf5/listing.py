"""The chunks that HDF5 lists for a dataset, as a chunk table, and whether they can be where and as
it says.

An index is not believed: libhdf5 checks little of it, and where it does not find a chunk it gives
fill values.

- what cannot be is FormatError, also for datasets whose elements h5py reads
  (`tests/formats/test_hdf5_damage.py`)
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import ChunkTable, Codec
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5.filters import largest_ratio

LARGEST = 2**62
"Extents, positions and sizes below it can be added without leaving 64 bits."
_SLACK_NBYTES = 1024
_HEAD_NBYTES = 48
"Bytes of the smallest superblock, with which every file begins."


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A chunk table, and whether it covers the dataset."""

    table: ChunkTable
    is_whole: bool


def can_be_listed(dataset: Any) -> bool:
    """Whether HDF5 can say of a dataset where all its chunks are."""
    from h5py import h5d

    layout = dataset.id.get_create_plist().get_layout()
    return bool(
        layout == h5d.CHUNKED and hasattr(dataset.id, "chunk_iter") and not is_too_large(dataset)
    )


def where(dataset: Any) -> str:
    return f"{dataset.file.filename}::{dataset.name}"


def is_too_large(dataset: Any) -> bool:
    shape = dataset.shape or ()
    return bool(max((*shape, nbytes_of(dataset, shape))) >= LARGEST)


def nbytes_of(dataset: Any, shape: Sequence[int]) -> int:
    """Bytes of so many stored elements."""
    return math.prod(shape) * int(dataset.id.get_type().get_size())


def chunked(dataset: Any, codecs: Sequence[Codec], file_size: int) -> Found | str:
    """The table of the chunks that were written, or the reason why there is none."""
    if 0 in dataset.chunks or max(dataset.chunks) >= LARGEST:
        return "its chunks have an impossible shape"
    if 0 in dataset.shape:  # chunks that it had when it was larger may still be listed
        return Found(_no_chunks(dataset), True)
    cells = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    stored = _index(dataset, min(cells, file_size))
    if len(stored) > cells or (stored >= LARGEST).any():
        raise corrupt(
            dataset, "its chunk index names more chunks than there can be, or impossible ones"
        )
    columns = stored.astype(np.int64)
    start = columns[:, : dataset.ndim].copy()
    mask, offset, nbytes = columns[:, dataset.ndim :].T.copy()
    table = ChunkTable(tuple(dataset.chunks), start, offset + _user_block(dataset), nbytes, mask)
    _check_storage(dataset, table)
    _check_sizes(dataset, table, codecs)
    require_inside_file(dataset, table, file_size)
    if _is_transposed(dataset, start):
        return "HDF5 may list chunks at wrong places when only a later axis can grow"
    _check_corners(dataset, start)
    if _may_skip_filters(dataset, table, codecs):
        return "chunks at its edge may be stored without the filters"
    return Found(table, len(table) == cells)


def _no_chunks(dataset: Any) -> ChunkTable:
    nothing = np.empty(0, np.int64)
    return ChunkTable(
        tuple(dataset.chunks), np.empty((0, dataset.ndim), np.int64), nothing, nothing, nothing
    )


def _index(dataset: Any, most: int) -> Array:
    """What HDF5 says of up to `most` chunks: (rows, ndim + 3) uint64, first element, filter mask,
    place and size.

    Ends after one row too many, or an index that goes in circles would never end.
    """
    rows = array("Q")
    width = dataset.ndim + 3

    def take(chunk: Any) -> bool | None:
        rows.extend((*chunk[0], *chunk[1:]))
        if len(rows) > width * most:
            return True
        return None

    dataset.id.chunk_iter(take)
    return np.frombuffer(rows, dtype=np.uint64).reshape(-1, width)


def _check_storage(dataset: Any, table: ChunkTable) -> None:
    """Raise FormatError for chunks that lie where none can."""
    begins = np.argsort(table.offset)
    ends = (table.offset + table.nbytes)[begins]
    impossible = (table.offset < _HEAD_NBYTES) | (table.nbytes <= 0)
    checks = (
        (impossible.any(), "its chunk index names places where no chunk can be"),
        ((ends[:-1] > table.offset[begins][1:]).any(), "its chunk index names places that overlap"),
    )
    _raise_first(dataset, checks)


def _check_corners(dataset: Any, start: Array) -> None:
    """Raise FormatError for chunks that are not in the dataset, or not in the order of every
    index.
    """
    shape, chunks = (np.array(n, dtype=np.int64) for n in (dataset.shape, dataset.chunks))
    outside = (start >= shape).any() or (start % chunks).any()
    twice = (np.diff(start, axis=0) == 0).all(axis=1).any()
    in_order = np.lexsort(start.T[::-1]) == np.arange(len(start))
    checks = (
        (outside, "its chunk index names chunks outside of it"),
        (twice, "its chunk index names a chunk twice"),
        (not in_order.all(), "its chunk index is out of order"),
    )
    _raise_first(dataset, checks)


def _raise_first(dataset: Any, checks: Sequence[tuple[Any, str]]) -> None:
    """Raise FormatError with the first of several sentences that hold."""
    for holds, what in checks:
        if holds:
            raise corrupt(dataset, what)


def corrupt(dataset: Any, what: str) -> FormatError:
    return FormatError(f"{where(dataset)}: corrupt: {what}; copy it again")


def _may_skip_filters(dataset: Any, table: ChunkTable, codecs: Sequence[Codec]) -> bool:
    """Whether a chunk at the edge of the dataset may be stored without filters although its mask
    does not say so.
    """
    shape, chunks = (np.array(n, dtype=np.int64) for n in (dataset.shape, dataset.chunks))
    at_edge = (table.start > shape - chunks).any(axis=1)
    unfiltered = table.mask & (2 ** len(codecs) - 1) == 2 ** len(codecs) - 1
    as_large = table.nbytes == nbytes_of(dataset, dataset.chunks)
    return bool((at_edge & ~unfiltered & as_large).any())


def _is_transposed(dataset: Any, start: Array) -> bool:
    """True when an extensible array may be the index, and its one unlimited axis is not the
    slowest.

    Such an array counts chunks along the unlimited axis first; HDF5 (2.0 and before) lists them as
    if it did not, so that all of them seem to lie at the first place along the slower axes. The
    chunks of other indexes do not.
    """
    unlimited = [axis for axis, extent in enumerate(dataset.maxshape) if extent is None]
    if len(unlimited) != 1 or not len(start):
        return False
    slower = range(unlimited[0])
    several = any(dataset.maxshape[axis] > dataset.chunks[axis] for axis in slower)
    return several and not start[:, : unlimited[0]].any()


def _user_block(dataset: Any) -> int:
    """What to add to the places of chunks that HDF5 lists."""
    size = int(dataset.file.userblock_size)
    if size and not _counts_user_blocks():
        return size
    return 0


@cache
def _counts_user_blocks() -> bool:
    """Whether this HDF5 counts the places of chunks from the start of the file (1.14.2: from the
    end of the block).
    """
    import h5py

    size = 2**16
    with h5py.File("probe", "w", driver="core", backing_store=False, userblock_size=size) as file:
        chunk = file.create_dataset("data", data=np.ones(8, "u1"), chunks=(8,)).id.get_chunk_info(0)
    return int(chunk.byte_offset) >= size


def require_inside_file(dataset: Any, table: ChunkTable, file_size: int) -> None:
    """Raise FormatError for chunks that the file is too short for."""
    beyond = np.flatnonzero(table.offset + table.nbytes > file_size)
    if beyond.size:
        place = int(table.offset[beyond[0]])
        nbytes = int(table.nbytes[beyond[0]])
        what = (
            f"the chunk at byte {place} ({nbytes} bytes) lies beyond the end of the file"
            f" ({file_size} bytes)"
        )
        raise FormatError(f"{where(dataset)}: truncated: {what}; copy it again")


def _check_sizes(dataset: Any, table: ChunkTable, codecs: Sequence[Codec]) -> None:
    """Raise FormatError for a chunk that is too short for its elements, however well it was
    compressed.

    How many bytes of a chunk an element takes is not known of lists and text of any length: h5py
    says what a pointer to them takes in memory.
    """
    if dataset.dtype.hasobject:
        return
    raw = nbytes_of(dataset, table.chunk_shape)
    if not codecs and (table.nbytes != raw).any():
        raise corrupt(dataset, "the size of a chunk is not that of its elements")
    most = table.nbytes + float(_SLACK_NBYTES)
    for number, codec in enumerate(codecs):
        most *= np.where(table.mask >> number & 1, 1, largest_ratio(codec.name))
    short = np.flatnonzero(most < raw)
    if short.size:
        what = f"the chunk at byte {table.offset[short[0]]} ({table.nbytes[short[0]]} bytes)"
        shape = "x".join(map(str, table.chunk_shape))
        raise FormatError(
            f"{where(dataset)}: corrupt: {what} cannot hold {shape} elements; copy it again"
        )
