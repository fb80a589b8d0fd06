"""Where the chunks of an HDF5 dataset lie in its file, as a chunk table, or the reason why that
cannot be said.

The table is exact or absent: whatever the checks below do not understand is left to h5py, with the
first reason found.

- every kind of dataset has a row in `tests/formats/hdf5_rows.py` with the path it takes, and
  docs/formats.md shows them
- damage that shows in a place or a size is FormatError, whatever h5py would make of it
  (`tests/formats/test_hdf5_damage.py`)
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.arrays.source import ChunkTable, Codec
from hyperslab.errors import FormatError
from hyperslab.formats.hdf5.filters import codec, is_packed_twice, is_senseless, undecoded
from hyperslab.formats.hdf5.listing import (
    LARGEST,
    Found,
    can_be_listed,
    chunked,
    corrupt,
    is_too_large,
    nbytes_of,
    require_inside_file,
    where,
)
from hyperslab.formats.hdf5.types import odd_type


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """Where a dataset's chunks lie, or why h5py has to read it."""

    chunks: ChunkTable | None
    reason: str
    codecs: tuple[Codec, ...] = ()
    fill: Any = None
    "A NumPy number of the dataset's dtype; None where there is none."


def eligible(dataset: Any) -> str | None:
    """Why the chunk table cannot describe an h5py dataset, or None if its layout, type and filters
    allow it.
    """
    from h5py import h5d

    creation = dataset.id.get_create_plist()
    layout = creation.get_layout()
    shape = dataset.shape
    filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
    unknown = [
        found for code, _, options, name in filters if (found := undecoded(code, options, name))
    ]
    odd = odd_type(dataset.id.get_type())
    checks = (
        (shape is None, "it has no elements"),
        (shape == (), "it is a single value"),
        (
            layout == h5d.VIRTUAL,
            "it is virtual (and changes of the files it draws from go unnoticed)",
        ),
        (layout == h5d.COMPACT, "it is compact: its values lie in the metadata"),
        (
            creation.get_external_count() > 0,
            "its values lie in an external file (whose changes go unnoticed)",
        ),
        (layout not in (h5d.CONTIGUOUS, h5d.CHUNKED), "its layout is not known here"),
        (bool(odd), odd),
        (bool(unknown), f"filter {', '.join(unknown)} is not decoded here"),
        (
            any(is_senseless(code, o) for code, _, o, _ in filters),
            "a filter has parameters that mean nothing",
        ),
        (
            is_packed_twice([code for code, _, _, _ in filters]),
            "a filter packs what another has cut into blocks",
        ),
        (bool(filters) and layout == h5d.CONTIGUOUS, "it has filters but no chunks"),
        (is_too_large(dataset), "its size has no place in 64 bits"),
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
    lacking = [
        (code, name.decode(errors="replace"))
        for code, _, _, name in filters
        if not h5z.filter_avail(code)
    ]
    missing = [f"{name} ({code})" for code, name in lacking]
    if not missing:
        return
    remedy = "no plugin that is known here has it"
    if importlib.util.find_spec("hdf5plugin") is None:
        remedy = "pip install 'hyperslab[codecs]'"
    raise FormatError(
        f"{where(dataset)}: stored with a filter that is not installed, {', '.join(missing)}:"
        f" {remedy}"
    )


def locate(dataset: Any, file_size: int) -> Storage:
    """Describe where a dataset of h5py lies in a file of so many bytes.

    Raises FormatError for chunks that cannot be there or so.
    """
    creation = dataset.id.get_create_plist()
    filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
    codecs = tuple(codec(code, options, name) for code, _, options, name in filters)
    why_not = eligible(dataset)
    listed = None
    if can_be_listed(dataset):
        listed = chunked(dataset, codecs, file_size)
    if why_not is not None:
        return Storage(None, f"read through h5py: {why_not}", codecs)
    fill = _fill(dataset, creation)
    found = listed or _contiguous(dataset, file_size)
    if isinstance(found, str):
        return Storage(None, f"read through h5py: {found}", codecs, fill)
    if not found.is_whole and not _is_filled(creation):
        why_not = "parts were never written and its fill value is not used"
        return Storage(None, f"read through h5py: {why_not}", codecs, fill)
    return Storage(found.table, _table_reason(dataset, codecs, found.table), codecs, fill)


def _fill(dataset: Any, creation: Any) -> Any:
    from h5py import h5d

    if creation.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
        return None
    return dataset.fillvalue


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
    return (
        f"chunked with {', '.join(codec.name for codec in codecs)}: a task reads and decodes whole"
        " chunks"
    )


def _contiguous(dataset: Any, file_size: int) -> Found | str:
    """The table of one row, or of none if nothing was ever written, or the reason why there is
    none.
    """
    offset = dataset.id.get_offset()
    nbytes = nbytes_of(dataset, dataset.shape)
    stored_nbytes = dataset.id.get_storage_size()
    rows = 1
    if offset is None or 0 in (nbytes, stored_nbytes):  # behind a user block, nowhere is a place
        rows = 0
    if rows and stored_nbytes != nbytes:
        raise corrupt(dataset, "its stored size is not that of its elements")
    if rows and offset >= LARGEST:
        return "its position has no place in 64 bits"
    table = ChunkTable(
        chunk_shape=dataset.shape,
        start=np.zeros((rows, dataset.ndim), dtype=np.int64),
        offset=np.full(rows, offset or 0, dtype=np.int64),
        nbytes=np.full(rows, nbytes, dtype=np.int64),
        mask=np.zeros(rows, dtype=np.int64),
    )
    require_inside_file(dataset, table, file_size)
    return Found(table, rows == 1 or nbytes == 0)
