"""Where the chunks of an HDF5 dataset lie in its file, as a chunk table, or the reason why that cannot be said.

The table is exact or absent: whatever the checks below do not understand is left to h5py, with the first reason found.

- every kind of dataset has a row in `tests/formats/hdf5_rows.py` with the path it takes, and docs/formats.md shows them
- an index is not believed: chunks beyond the file and sizes that cannot be are FormatError, other oddities go to h5py
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hyperslab.array import Array, ChunkTable, Codec
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5_filters import LARGEST_RATIO, codec_name, is_packed_twice, is_senseless, undecoded
from hyperslab.formats.hdf5_types import odd_type

_SLACK_NBYTES = 1024
_HEAD_NBYTES = 48
"Bytes of the smallest superblock, with which every file begins."
_LARGEST = 2**62
"Extents, positions and sizes below it can be added without leaving 64 bits."


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """Where a dataset's chunks lie, or why h5py has to read it."""

    chunks: ChunkTable | None
    reason: str
    codecs: tuple[Codec, ...] = ()
    fill: Any = None
    "A NumPy number of the dataset's dtype; None where there is none."


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A chunk table, and whether it covers the dataset."""

    table: ChunkTable
    is_whole: bool


def eligible(dataset: Any) -> str | None:
    """Why the chunk table cannot describe an h5py dataset, or None if its layout, type and filters allow it."""
    from h5py import h5d

    creation = dataset.id.get_create_plist()
    layout, shape = creation.get_layout(), dataset.shape
    filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
    unknown = [found for code, _, options, name in filters if (found := undecoded(code, options, name))]
    odd = odd_type(dataset.id.get_type())
    checks = (
        (shape is None, "it has no elements"),
        (shape == (), "it is a single value"),
        (layout == h5d.VIRTUAL, "it is virtual (and changes of the files it draws from go unnoticed)"),
        (layout == h5d.COMPACT, "it is compact: its values lie in the metadata"),
        (creation.get_external_count() > 0, "its values lie in an external file (whose changes go unnoticed)"),
        (layout not in (h5d.CONTIGUOUS, h5d.CHUNKED), "its layout is not known here"),
        (bool(odd), odd),
        (bool(unknown), f"filter {', '.join(unknown)} is not decoded here"),
        (any(is_senseless(code, o) for code, _, o, _ in filters), "a filter has parameters that mean nothing"),
        (is_packed_twice([code for code, _, _, _ in filters]), "a filter packs what another has cut into blocks"),
        (bool(filters) and layout == h5d.CONTIGUOUS, "it has filters but no chunks"),
        (_is_too_large(dataset), "its size has no place in 64 bits"),
        (not hasattr(dataset.id, "chunk_iter"), "this version of h5py cannot list chunks"),
    )
    return next((reason for holds, reason in checks if holds), None)


def register_plugins() -> None:
    """Let HDF5 find the filters of the package hdf5plugin, if it is installed."""
    if importlib.util.find_spec("hdf5plugin") is not None:
        importlib.import_module("hdf5plugin")


def require_filters(dataset: Any) -> None:
    """Raise FormatError that says what to install, when HDF5 lacks a filter of an h5py dataset."""
    from h5py import h5z

    creation = dataset.id.get_create_plist()
    filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
    lacking = [(code, name.decode(errors="replace")) for code, _, _, name in filters if not h5z.filter_avail(code)]
    missing = [f"{name} ({code})" for code, name in lacking]
    if not missing:
        return
    remedy = "no plugin that is known here has it"
    if importlib.util.find_spec("hdf5plugin") is None:
        remedy = "pip install 'hyperslab[codecs]'"
    raise FormatError(f"{_where(dataset)}: stored with a filter that is not installed, {', '.join(missing)}: {remedy}")


def locate(dataset: Any, file_size: int) -> Storage:
    """Describe where a dataset of h5py lies in a file of so many bytes.

    Raises FormatError for chunks that cannot be there or so.
    """
    creation = dataset.id.get_create_plist()
    filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
    codecs = tuple(Codec(codec_name(code, name), options) for code, _, options, name in filters)
    why_not = eligible(dataset)
    if why_not is not None:
        return Storage(None, f"read through h5py: {why_not}", codecs)
    fill = _fill(dataset, creation)
    found = _contiguous(dataset) if dataset.chunks is None else _chunked(dataset, codecs, file_size)
    if isinstance(found, str):
        return Storage(None, f"read through h5py: {found}", codecs, fill)
    _check_places(dataset, found.table, file_size)
    _check_sizes(dataset, found.table, codecs)
    if not found.is_whole and not _is_filled(creation):
        why_not = "parts were never written and its fill value is not used"
        return Storage(None, f"read through h5py: {why_not}", codecs, fill)
    return Storage(found.table, _table_reason(dataset, codecs, found.table), codecs, fill)


def _where(dataset: Any) -> str:
    return f"{dataset.file.filename}::{dataset.name}"


def _is_too_large(dataset: Any) -> bool:
    shape = dataset.shape or ()
    return bool(max((*shape, _nbytes(dataset, shape))) >= _LARGEST)


def _nbytes(dataset: Any, shape: Sequence[int]) -> int:
    """Bytes of so many stored elements."""
    return math.prod(shape) * int(dataset.id.get_type().get_size())


def _fill(dataset: Any, creation: Any) -> Any:
    from h5py import h5d

    return None if creation.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED else dataset.fillvalue


def _is_filled(creation: Any) -> bool:
    """True when HDF5 gives the fill value for what was never written."""
    from h5py import h5d

    defined = creation.fill_value_defined() != h5d.FILL_VALUE_UNDEFINED
    return bool(defined and creation.get_fill_time() != h5d.FILL_TIME_NEVER)


def _table_reason(dataset: Any, codecs: Sequence[Codec], table: ChunkTable) -> str:
    if not len(table):
        return "nothing was written to it: a task fills its block"
    if dataset.chunks is None:
        return "contiguous: a task reads its byte ranges directly"
    if not codecs:
        return "chunked, unfiltered: a task reads its byte ranges directly"
    return f"chunked with {', '.join(codec.name for codec in codecs)}: a task reads and decodes whole chunks"


def _contiguous(dataset: Any) -> _Found | str:
    """The table of one row, or of none if nothing was ever written, or the reason why there is none."""
    offset, nbytes = dataset.id.get_offset(), _nbytes(dataset, dataset.shape)
    rows = 0 if offset is None or nbytes == 0 else 1
    if rows and dataset.id.get_storage_size() != nbytes:
        return "its stored size is not that of its elements"
    if rows and offset >= _LARGEST:
        return "its position has no place in 64 bits"
    table = ChunkTable(
        chunk_shape=dataset.shape,
        start=np.zeros((rows, dataset.ndim), dtype=np.int64),
        offset=np.full(rows, offset or 0, dtype=np.int64),
        nbytes=np.full(rows, nbytes, dtype=np.int64),
        mask=np.zeros(rows, dtype=np.int64),
    )
    return _Found(table, rows == 1 or nbytes == 0)


def _chunked(dataset: Any, codecs: Sequence[Codec], file_size: int) -> _Found | str:
    """The table of the chunks that were written, or the reason why there is none."""
    if 0 in dataset.chunks or max(dataset.chunks) >= _LARGEST:
        return "its chunks have an impossible shape"
    cells = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    stored = _index(dataset, min(cells, file_size))
    if len(stored) > cells or (stored >= _LARGEST).any():
        return "its chunk index names more chunks than there can be, or impossible ones"
    columns = stored.astype(np.int64)
    start, (mask, offset, nbytes) = columns[:, : dataset.ndim].copy(), columns[:, dataset.ndim :].T.copy()
    table = ChunkTable(tuple(dataset.chunks), start, offset + _user_block(dataset), nbytes, mask)
    return _odd_index(dataset, table, codecs) or _Found(table, len(table) == cells)


def _index(dataset: Any, most: int) -> Array:
    """What HDF5 says of up to `most` chunks: (rows, ndim + 3) uint64, first element, filter mask, place and size.

    Ends after one row too many, or an index that goes in circles would never end.
    """
    rows, width = array("Q"), dataset.ndim + 3

    def take(chunk: Any) -> bool | None:
        rows.extend((*chunk[0], *chunk[1:]))
        return True if len(rows) > width * most else None

    dataset.id.chunk_iter(take)
    return np.frombuffer(rows, dtype=np.uint64).reshape(-1, width)


def _odd_index(dataset: Any, table: ChunkTable, codecs: Sequence[Codec]) -> str | None:
    """Why an index is not to be relied on, or None."""
    shape, chunks = (np.array(n, dtype=np.int64) for n in (dataset.shape, dataset.chunks))
    start, raw = table.start, _nbytes(dataset, dataset.chunks)
    at_edge = (start > shape - chunks).any(axis=1)
    unfiltered = table.mask & (2 ** len(codecs) - 1) == 2 ** len(codecs) - 1
    outside = (start >= shape).any() or (start % chunks).any()
    in_order = np.lexsort(start.T[::-1]) == np.arange(len(start))
    twice = (np.diff(start, axis=0) == 0).all(axis=1).any()
    skipped = at_edge & ~unfiltered & (table.nbytes == raw)
    begins = np.argsort(table.offset)
    ends = (table.offset + table.nbytes)[begins]
    impossible = (table.offset < _HEAD_NBYTES) | (table.nbytes <= 0)
    checks = (
        (impossible.any(), "its chunk index names places where no chunk can be"),
        ((ends[:-1] > table.offset[begins][1:]).any(), "its chunk index names places that overlap"),
        (_is_transposed(dataset, start), "HDF5 may list chunks at wrong places when only a later axis can grow"),
        (outside, "its chunk index names chunks outside of it"),
        (twice, "its chunk index names a chunk twice"),
        (not in_order.all(), "its chunk index is out of order"),
        (not codecs and (table.nbytes != raw).any(), "the size of a chunk is not that of its elements"),
        (skipped.any(), "chunks at its edge may be stored without the filters"),
    )
    return next((reason for holds, reason in checks if holds), None)


def _is_transposed(dataset: Any, start: Array) -> bool:
    """True when an extensible array may be the index, and its one unlimited axis is not the slowest.

    Such an array counts chunks along the unlimited axis first; HDF5 (2.0 and before) lists them as if it did not, so
    that all of them seem to lie at the first place along the slower axes. The chunks of other indexes do not.
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
    return size if size and not _counts_user_blocks() else 0


@cache
def _counts_user_blocks() -> bool:
    """Whether this HDF5 counts the places of chunks from the start of the file (1.14.2: from the end of the block)."""
    import h5py

    size = 2**16
    with h5py.File("probe", "w", driver="core", backing_store=False, userblock_size=size) as file:
        chunk = file.create_dataset("data", data=np.ones(8, "u1"), chunks=(8,)).id.get_chunk_info(0)
    return int(chunk.byte_offset) >= size


def _check_places(dataset: Any, table: ChunkTable, file_size: int) -> None:
    beyond = np.flatnonzero(table.offset + table.nbytes > file_size)
    if beyond.size:
        place, nbytes = int(table.offset[beyond[0]]), int(table.nbytes[beyond[0]])
        what = f"the chunk at byte {place} ({nbytes} bytes) lies beyond the end of the file ({file_size} bytes)"
        raise FormatError(f"{_where(dataset)}: truncated: {what}; copy it again")


def _check_sizes(dataset: Any, table: ChunkTable, codecs: Sequence[Codec]) -> None:
    """Raise FormatError for a chunk that is too short for its elements, however well it was compressed."""
    most = table.nbytes + float(_SLACK_NBYTES)
    for number, codec in enumerate(codecs):
        most *= np.where(table.mask >> number & 1, 1, LARGEST_RATIO.get(codec.name, 1))
    short = np.flatnonzero(most < _nbytes(dataset, table.chunk_shape))
    if short.size:
        what = f"the chunk at byte {table.offset[short[0]]} ({table.nbytes[short[0]]} bytes)"
        shape = "x".join(map(str, table.chunk_shape))
        raise FormatError(f"{_where(dataset)}: corrupt: {what} cannot hold {shape} elements; copy it again")
