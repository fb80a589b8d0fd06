"""Where the chunks of an HDF5 dataset lie in its file, as a chunk table, or the reason why that cannot be said."""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.array import ChunkTable, Codec
from hyperslab.errors import FormatError

_CODECS = {1: "deflate", 2: "shuffle"}
_WIDEST = 8


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """Where a dataset's chunks lie, or why h5py has to read it."""

    chunks: ChunkTable | None
    reason: str
    codecs: tuple[Codec, ...] = ()
    fill: float | int | None = None


def eligible(dataset: Any) -> str | None:
    """Why the chunk table cannot describe an h5py dataset, or None if it can."""
    from h5py import h5d

    creation = dataset.id.get_create_plist()
    layout = creation.get_layout()
    filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
    unknown = [_codec_name(code, name) for code, _, _, name in filters if code not in _CODECS]
    checks = {
        "it has no elements": dataset.shape is None,
        "it is a single value": dataset.shape == (),
        "it is virtual (and changes of the files it draws from go unnoticed)": layout == h5d.VIRTUAL,
        "it is compact: its values lie in the metadata": layout == h5d.COMPACT,
        "its values lie in an external file (whose changes go unnoticed)": creation.get_external_count() > 0,
        "the file begins with a user block": dataset.file.userblock_size != 0,
        "its elements are not plain numbers": not _is_plain(dataset.id.get_type()),
        "its shuffle filter does not say the size of elements": any(c == 2 and not o for c, _, o, _ in filters),
        f"filter {', '.join(unknown)} is not decoded here": bool(unknown),
    }
    return next((reason for reason, holds in checks.items() if holds), None)


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
    where = f"{dataset.file.filename}::{dataset.name}"
    raise FormatError(f"{where}: stored with a filter that is not installed, {', '.join(missing)}: {remedy}")


def _is_plain(kind: Any) -> bool:
    """True when the file's type is exactly a NumPy one: full precision, IEEE layout (no enum, bit field, N-bit)."""
    from h5py import h5t

    if kind.get_class() == h5t.INTEGER:
        whole = kind.get_precision() == 8 * kind.get_size() and kind.get_offset() == 0
        return whole and kind.get_size() in (1, 2, 4, 8) and kind.get_order() in (h5t.ORDER_LE, h5t.ORDER_BE)
    return kind.get_class() == h5t.FLOAT and kind.get_size() <= _WIDEST and bool(h5t.py_create(kind.dtype).equal(kind))


def locate(dataset: Any) -> Storage:
    """Describe where an h5py dataset lies. Raises FormatError for chunks that lie beyond the file."""
    from h5py import h5d

    creation = dataset.id.get_create_plist()
    codecs = tuple(
        Codec(_codec_name(code, name), options)
        for code, _, options, name in (creation.get_filter(i) for i in range(creation.get_nfilters()))
    )
    fill = dataset.fillvalue.item() if dataset.dtype.kind in "biuf" else None
    why_not = eligible(dataset)
    found = why_not or (_contiguous(dataset) if dataset.chunks is None else _chunked(dataset, bool(codecs)))
    if isinstance(found, str):
        return Storage(None, f"read through h5py: {found}", codecs, fill)
    table, whole = found
    path = dataset.file.filename
    size = Path(path).stat().st_size
    if len(table) and (int((table.offset + table.nbytes).max()) > size or int(table.offset.min()) < 0):
        raise FormatError(f"{path}::{dataset.name}: truncated: chunks lie beyond the end of the file; copy it again")
    if not whole and creation.get_fill_time() == h5d.FILL_TIME_NEVER:
        why_not = "parts were never written and its fill value is not used"
        return Storage(None, f"read through h5py: {why_not}", codecs, fill)
    why = _table_reason(dataset, codecs) if len(table) else "nothing was written to it: a task fills its block"
    return Storage(table, why, codecs, fill)


def _codec_name(code: int, name: bytes) -> str:
    return _CODECS.get(code) or name.decode(errors="replace") or f"number {code}"


def _table_reason(dataset: Any, codecs: tuple[Codec, ...]) -> str:
    if dataset.chunks is None:
        return "contiguous: a task reads its byte ranges directly"
    if not codecs:
        return "chunked, unfiltered: a task reads its byte ranges directly"
    return f"chunked with {', '.join(codec.name for codec in codecs)}: a task reads and decodes whole chunks"


def _contiguous(dataset: Any) -> tuple[ChunkTable, bool] | str:
    """The table of one row, or of none if nothing was ever written, and whether it covers the dataset."""
    offset, ndim = dataset.id.get_offset(), dataset.ndim
    nbytes = dataset.size * dataset.dtype.itemsize
    rows = 0 if offset is None or nbytes == 0 else 1
    if rows and dataset.id.get_storage_size() != nbytes:
        return "its stored size is not that of its elements"
    table = ChunkTable(
        chunk_shape=dataset.shape,
        start=np.zeros((rows, ndim), dtype=np.int64),
        offset=np.full(rows, offset or 0, dtype=np.int64),
        nbytes=np.full(rows, nbytes, dtype=np.int64),
    )
    return table, rows == 1 or nbytes == 0


def _chunked(dataset: Any, filtered: bool) -> tuple[ChunkTable, bool] | str:
    """The chunk table and whether it covers the dataset, or the reason why there is none."""
    stored: list[tuple[Any, ...]] = []
    # The iterator calls back for every chunk; a returned None keeps it going.
    dataset.id.chunk_iter(lambda chunk: stored.append(tuple(chunk)))
    ndim, raw = dataset.ndim, math.prod(dataset.chunks) * dataset.dtype.itemsize
    start = np.array([row[0] for row in stored], dtype=np.int64).reshape(-1, ndim)
    masks, offset, nbytes = np.array([row[1:4] for row in stored], dtype=np.int64).reshape(-1, 3).T
    if masks.any():
        return "some of its chunks skip a filter"
    if not filtered and (nbytes != raw).any():
        return "the size of a chunk is not that of its elements"
    over = (start + dataset.chunks > dataset.shape).any(axis=1)
    if filtered and (nbytes[over] == raw).any():
        return "chunks at its edge may be stored without the filters"
    order = np.lexsort(start.T[::-1])
    table = ChunkTable(tuple(dataset.chunks), start[order], offset[order], nbytes[order])
    expected = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    return table, len(table) == expected
