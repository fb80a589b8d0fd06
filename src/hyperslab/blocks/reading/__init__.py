"""Blocks from files, by positioned reads of what the chunk table says, or through the format's own
library.

- reading by chunk table is one open, one fstat and its positioned reads
  (`tests/unit/test_blockio.py`)
- `read_nbytes` is what those reads count, `read_peak` no less than what they allocate
  (`testing.FormatTests`)
- a file that was written to after planning is SourceChanged, a short or corrupt one FormatError
- a remote object is read by range requests (`reading.requests`), whose answers say whether it is
  still the same
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hyperslab import native
from hyperslab.arrays import scaling
from hyperslab.arrays.array import Array, ArraySource, Values, require_within
from hyperslab.arrays.byteranges import (
    BUFFER_NBYTES,
    ascending,
    is_covered,
    pieces,
    plan_spans,
    turns,
)
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks.positioned import OpenFile, gather
from hyperslab.blocks.reading import decoding, gzipindex, requests
from hyperslab.blocks.reading.kept import Reader, let_go_of_all
from hyperslab.errors import FormatError, SourceChanged, UsageError
from hyperslab.formats import memory, module
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.file import KEPT_NBYTES, RemoteFile
from hyperslab.trace import span

_LIBRARY_NBYTES = 16 * 1024**2
_CHUNK_OBJECTS_NBYTES = 96 * 1024**2
"""Of a Zarr store elsewhere: chunks as they arrive, those that wait to be decoded, and what clients
take for themselves.
"""


def read(
    source: ArraySource,
    slab: Hyperslab,
    out: Array | None = None,
    values: Values = "real",
    threads: int | None = None,
    reader: Reader | None = None,
) -> Array:
    """Read a region: shape slab.count, dtype source.dtype(values); in Fortran order where the file
    is.

    `out`, of that shape and dtype and with any strides, receives the block if given. Up to
    `threads` threads decode chunks at a time (a task's share of the processors, unless given). A
    `reader` of the source keeps its file open and decoded chunks for the next read. Raises
    SourceChanged for a file that is not the one planned with, FormatError for one that is short or
    corrupt, UsageError for wrong arguments.
    """
    if source.broken:
        raise FormatError(source.broken)
    if threads is not None and not 1 <= threads <= native.MOST_THREADS:
        raise UsageError(f"threads is {threads}; it can be 1 to {native.MOST_THREADS}")
    block = _destination(source, slab, out, values)
    if slab.size == 0:
        return block if block is not None else _empty(source, slab, source.dtype(values))
    if _is_left_to_library(source):
        return _read_by_library(source, slab, block, values, threads or native.threads())
    if block is None:
        block = _empty(source, slab, source.dtype(values))
    with _opened(source, reader) as file, span("read") as mark:
        try:
            raw = (
                block if _fits_raw(source, values) else _empty(source, slab, source.dtype("stored"))
            )
            _fill(file, source, slab, raw, threads or native.threads(), reader)
            if not source.stored.isnative:
                raw.byteswap(inplace=True)
            if _is_scaled(source, values):
                scaling.apply(source, slab, raw, block)
        finally:
            mark.nbytes, mark.helped_ns = file.nbytes, native.helped_ns()
    return block


def read_nbytes(source: ArraySource, slab: Hyperslab) -> int:
    """Bytes that `read` will take from storage; exact with a chunk table, a proportion of the file
    without.
    """
    return _traffic(source, slab)[0]


def read_operations(source: ArraySource, slab: Hyperslab) -> int:
    """Reads in which it takes them: of chunks, of runs, or, through a library, of the chunks that
    it has to decode.
    """
    return _traffic(source, slab)[1]


def _traffic(source: ArraySource, slab: Hyperslab) -> tuple[int, int]:
    """Bytes and operations of a read."""
    if slab.size == 0:
        return 0, 0
    forward = ascending(slab.permute(source.axes))
    if gzipindex.is_entered(source):
        return gzipindex.read_nbytes(source, forward), 1
    if source.chunks is None or _is_left_to_library(source):
        share = source.nbytes_stored or source.nbytes
        return math.ceil(share * _share_read(source, slab)), _chunks_touched(source, forward)
    if isinstance(source.url, Remote):
        return requests.read_nbytes(source, forward), requests.read_operations(source, forward)
    shape = source.chunks.chunk_shape
    parts = list(pieces(source.chunks.overlapping(forward), forward))
    if decoding.is_batch(source):
        return decoding.read_nbytes(source, parts), len(parts)
    plans = [plan_spans(shape, piece.part, source.stored.itemsize) for piece in parts]
    return sum(plan.nbytes for plan in plans), sum(plan.spans for plan in plans)


def _chunks_touched(source: ArraySource, forward: Hyperslab) -> int:
    if not source.chunk_shape:
        return 1
    low, high = forward.bounds
    return math.prod(
        -(-z // n) - a // n for a, z, n in zip(low, high, source.chunk_shape, strict=True)
    )


def read_peak(
    source: ArraySource, slab: Hyperslab, values: Values = "real", threads: int | None = None
) -> int:
    """Upper bound of the bytes that `read` holds at once, its result included."""
    item = source.stored.itemsize
    result = slab.size * source.dtype(values).itemsize
    if source.data is not None:
        return result
    raw = 0 if _fits_raw(source, values) else slab.size * item
    result += scaling.working_nbytes(source, slab) if _is_scaled(source, values) else 0
    if gzipindex.is_entered(source) and slab.size:
        forward = ascending(slab.permute(source.axes))
        return (
            result
            + raw
            + gzipindex.peak_nbytes(source, forward, threads or max(native.threads(), native.DEPTH))
        )
    if source.chunks is None or _is_left_to_library(source):
        low, high = slab.bounds
        bounds = math.prod(z - a for a, z in zip(low, high, strict=True)) * item
        kept = _LIBRARY_NBYTES
        if isinstance(source.url, Remote):
            kept += _CHUNK_OBJECTS_NBYTES if isinstance(source.url, RemoteFolder) else KEPT_NBYTES
        return (
            result + slab.size * item + 2 * bounds + 3 * math.prod(source.chunk_shape) * item + kept
        )
    table = source.chunks.overlapping(slab.permute(source.axes))
    rows = (3 * source.ndim + 16) * len(source.chunks) + 32 * (source.ndim + 2) * len(table)
    if isinstance(source.url, Remote) and slab.size:
        forward = ascending(slab.permute(source.axes))
        return (
            result
            + raw
            + 2 * rows
            + requests.peak_nbytes(source, forward, threads or native.threads())
        )
    if decoding.is_batch(source):
        return (
            result
            + raw
            + rows
            + decoding.peak_nbytes(source, table, threads or max(native.threads(), native.DEPTH))
        )
    return result + raw + rows + BUFFER_NBYTES


@contextmanager
def _opened(source: ArraySource, reader: Reader | None = None) -> Iterator[OpenFile | RemoteFile]:
    """The source's file for a read, at whose end it is still the one that was described, or
    SourceChanged is raised.

    So a change before the read and one meanwhile are both seen, as is one that made the file
    unreadable.
    """
    if isinstance(source.url, Remote):
        yield (remote := RemoteFile(source.url))
        remote.check()
        return
    kept = _open(source) if reader is None else reader.file(lambda: _open(source))
    try:
        yield OpenFile(kept.fd, kept.where)
    except FormatError:
        _check_unchanged(source, kept if reader is None else None)
        raise
    else:
        _check_unchanged(source, kept if reader is None else None)
    finally:
        if reader is None:
            os.close(kept.fd)


@contextmanager
def _watched(source: ArraySource) -> Iterator[None]:
    """A directory for a read by a library, before and after which its metadata document is the one
    described.

    That of one elsewhere is looked at once, at the end: so a change before and one meanwhile are
    both seen.
    """
    if not isinstance(source.url, RemoteFolder):
        with span("open"):
            _check_unchanged(source, None)
    try:
        yield
    except FormatError:
        _check_document(source)
        raise
    else:
        _check_document(source)


def _check_document(source: ArraySource) -> None:
    if isinstance(source.url, RemoteFolder):
        from hyperslab.storage.remote.folder import check

        check(source.url, source.document)
    else:
        _check_unchanged(source, None)


def _open(source: ArraySource) -> OpenFile:
    with span("open"):
        try:
            fd = _descriptor(source.url)
        except FileNotFoundError as error:
            raise _changed(source, "is no longer there") from error
    return OpenFile(fd, f"{source.url}::{source.name}" if source.name else source.url)


def _descriptor(path: str) -> int:
    """Open a file for reading; where too many are open already, views close theirs first."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    let_go_of_all()
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _check_unchanged(source: ArraySource, file: OpenFile | None) -> None:
    """Look at an open file, or at the one that has the source's name now."""
    try:
        now = os.stat(source.watched) if file is None else os.fstat(file.fd)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _changed(source, "is no longer there") from error
    if now.st_size != source.file_size:
        raise _changed(
            source,
            f"was {source.file_size} bytes when the run was planned and is {now.st_size} now",
        )
    if now.st_mtime_ns != source.mtime_ns:
        raise _changed(source, "was written to after the run had been planned")


def _changed(source: ArraySource, what: str) -> SourceChanged:
    return SourceChanged(f"{source.url}: {what}; when it is right again, run again with --resume")


def _empty(source: ArraySource, slab: Hyperslab, dtype: np.dtype[Any]) -> Array:
    """A block laid out as the file is."""
    block = np.empty(slab.permute(source.axes).count, dtype)
    return (
        block
        if source.axes == tuple(range(slab.ndim))
        else block.transpose(np.argsort(source.axes))
    )


def _destination(
    source: ArraySource, slab: Hyperslab, out: Array | None, values: Values
) -> Array | None:
    require_within(source.url, source.shape, slab)
    if values not in ("real", "stored"):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    dtype = source.dtype(values)
    if out is not None and (
        out.shape != slab.count or out.dtype != dtype or not out.flags.writeable
    ):
        raise UsageError(f"out has to be a writable array of shape {slab.count} and dtype {dtype}")
    return out


def _is_scaled(source: ArraySource, values: Values) -> bool:
    return values == "real" and source.scaling is not None


def _is_left_to_library(source: ArraySource) -> bool:
    return not gzipindex.is_entered(source) and decoding.is_left_to_library(source)


def _fits_raw(source: ArraySource, values: Values) -> bool:
    """True when stored values can be read into the block itself."""
    return source.dtype(values) == source.dtype("stored")


def _read_by_library(
    source: ArraySource, slab: Hyperslab, out: Array | None, values: Values, threads: int
) -> Array:
    if source.data is not None:
        with span("read") as mark:
            block = memory.read_reference(source, slab)
            mark.nbytes = block.nbytes
            return _deliver(
                source, slab, block.copy(order="K") if out is None else block, out, values
            )
    with _watched(source) if source.document else _opened(source), span("read") as mark:
        block = module(source.format).read_reference(source, slab, threads)
        mark.nbytes = read_nbytes(source, slab)
        return _deliver(source, slab, block, out, values)


def _deliver(
    source: ArraySource, slab: Hyperslab, stored: Array, out: Array | None, values: Values
) -> Array:
    """Stored values as the block asked for: a writable array of its own, or `out`."""
    if _is_scaled(source, values):
        block = np.empty_like(stored, dtype=source.real) if out is None else out
        scaling.apply(source, slab, stored, block)
        return block
    if out is None:
        return stored if stored.flags.writeable else stored.copy(order="K")
    out[...] = stored
    return out


def _share_read(source: ArraySource, slab: Hyperslab) -> float:
    """The part of the file that a library reads: all of a gzip stream, the chunks that the slab's
    bounds touch, or the slab's share of what is one piece.
    """
    if gzipindex.is_stream(source):
        return 1.0
    if not source.chunk_shape:
        return slab.size / source.size
    axes = zip(*slab.bounds, source.own_chunk_shape, source.shape, strict=True)
    return math.prod((-(-high // n) - low // n) / -(-extent // n) for low, high, n, extent in axes)


def _fill(
    file: OpenFile | RemoteFile,
    source: ArraySource,
    slab: Hyperslab,
    raw: Array,
    threads: int,
    reader: Reader | None,
) -> None:
    """Read the bytes of a region, as they are in the file, into a block of native dtype."""
    stored = slab.permute(source.axes)
    forward = ascending(stored)
    # Turned and then retyped, the block is still the caller's memory.
    block = raw.transpose(source.axes)[turns(stored)].view(source.stored)
    chunks = source.chunks
    if isinstance(file, RemoteFile):
        assert chunks is not None
        if not is_covered(chunks.overlapping(forward), forward):
            block[...] = source.fill
        requests.fill(file, source, forward, block, threads)
        return
    if gzipindex.is_entered(source):
        file.nbytes += gzipindex.fill(file.fd, source, forward, block, threads)
        return
    taken = reader.fill(file.fd, forward, block, threads) if reader is not None else None
    if taken is not None:
        file.nbytes += taken
        return
    assert chunks is not None
    table = chunks.overlapping(forward)
    if not is_covered(table, forward):
        block[...] = source.fill
    if decoding.is_batch(source):
        decoding.fill(file, source, table, forward, block, threads)
        return
    for piece in pieces(table, forward):
        gather(file, piece.offset, chunks.chunk_shape, piece.part, block[piece.place.slices()])
