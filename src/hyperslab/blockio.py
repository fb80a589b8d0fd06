"""Blocks from and to files: positioned reads by the chunk table, whole-file writes that appear by rename, and
positioned writes of regions into a preallocated file.

- reading by chunk table is one open, one fstat and its positioned reads (`tests/unit/test_blockio.py`)
- `read_nbytes` is what those reads count, `read_peak` no less than what they allocate (`testing.FormatTests`)
- a file that was written to after planning is SourceChanged, a short or corrupt one FormatError
- a failed write leaves no file behind
"""

from __future__ import annotations

import errno
import math
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from hyperslab import chunkio, gzipindex, native, scaling
from hyperslab.array import Array, ArraySink, ArraySource, Values
from hyperslab.byteranges import BUFFER_NBYTES, ascending, is_covered, pieces, plan_spans, turns
from hyperslab.errors import BlockError, FormatError, SourceChanged, UsageError
from hyperslab.formats import memory, module
from hyperslab.positioned import OpenFile, gather, naming, scatter, stored_bytes, write_at
from hyperslab.reader import Reader, let_go_of_all
from hyperslab.slab import Hyperslab
from hyperslab.span import span

_LIBRARY_NBYTES = 16 * 1024**2
_CACHED_NBYTES = 512 * 1024
"Small enough that what the checksum has just read is still in the processor's cache when it is written."
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Written:
    """A finished write."""

    path: str
    nbytes: int
    checksum: str
    "xxh3_128 of the bytes, in hexadecimal."


def read(
    source: ArraySource,
    slab: Hyperslab,
    out: Array | None = None,
    values: Values = "real",
    threads: int | None = None,
    reader: Reader | None = None,
) -> Array:
    """Read a region: shape slab.count, dtype source.dtype(values); in Fortran order where the file is.

    `out`, of that shape and dtype and with any strides, receives the block if given. Up to `threads` threads decode
    chunks at a time (a task's share of the processors, unless given). A `reader` of the source keeps its file open and
    decoded chunks for the next read. Raises SourceChanged for a file that is not the one planned with, FormatError for
    one that is short or corrupt, UsageError for wrong arguments.
    """
    if source.broken:
        raise FormatError(source.broken)
    if threads is not None and not 1 <= threads <= native.MOST_THREADS:
        raise UsageError(f"threads is {threads}; it can be 1 to {native.MOST_THREADS}")
    block = _destination(source, slab, out, values)
    if slab.size == 0:
        return block if block is not None else _empty(source, slab, source.dtype(values))
    if _is_left_to_library(source):
        return _read_by_library(source, slab, block, values)
    if block is None:
        block = _empty(source, slab, source.dtype(values))
    with _opened(source, reader) as file, span("read") as mark:
        try:
            raw = block if _fits_raw(source, values) else _empty(source, slab, source.dtype("stored"))
            _fill(file, source, slab, raw, threads or native.threads(), reader)
            if not source.stored.isnative:
                raw.byteswap(inplace=True)
            if _is_scaled(source, values):
                scaling.apply(source, slab, raw, block)
        finally:
            mark.nbytes, mark.helped_ns = file.nbytes, native.helped_ns()
    return block


def read_nbytes(source: ArraySource, slab: Hyperslab) -> int:
    """Bytes that `read` will take from storage; exact with a chunk table, a proportion of the file without."""
    if slab.size == 0:
        return 0
    forward = ascending(slab.permute(source.axes))
    if gzipindex.is_entered(source):
        return gzipindex.read_nbytes(source, forward)
    if source.chunks is None or _is_left_to_library(source):
        share = source.nbytes_stored or source.nbytes
        return math.ceil(share * _share_read(source, slab))
    shape = source.chunks.chunk_shape
    parts = pieces(source.chunks.overlapping(forward), forward)
    if chunkio.is_batch(source):
        return chunkio.read_nbytes(source, parts)
    return sum(plan_spans(shape, piece.part, source.stored.itemsize).nbytes for piece in parts)


def read_peak(source: ArraySource, slab: Hyperslab, values: Values = "real", threads: int | None = None) -> int:
    """Upper bound of the bytes that `read` holds at once, its result included."""
    item = source.stored.itemsize
    result = slab.size * source.dtype(values).itemsize
    if source.data is not None:
        return result
    raw = 0 if _fits_raw(source, values) else slab.size * item
    result += scaling.working_nbytes(source, slab) if _is_scaled(source, values) else 0
    if gzipindex.is_entered(source) and slab.size:
        forward = ascending(slab.permute(source.axes))
        return result + raw + gzipindex.peak_nbytes(source, forward, threads or max(native.threads(), native.DEPTH))
    if source.chunks is None or _is_left_to_library(source):
        low, high = slab.bounds
        bounds = math.prod(z - a for a, z in zip(low, high, strict=True)) * item
        return result + slab.size * item + 2 * bounds + 3 * math.prod(source.chunk_shape) * item + _LIBRARY_NBYTES
    table = source.chunks.overlapping(slab.permute(source.axes))
    rows = (3 * source.ndim + 16) * len(source.chunks) + 32 * (source.ndim + 2) * len(table)
    if chunkio.is_batch(source):
        return result + raw + rows + chunkio.peak_nbytes(source, table, threads or max(native.threads(), native.DEPTH))
    return result + raw + rows + BUFFER_NBYTES


def write(sink: ArraySink, block: Array) -> Written:
    """Write a whole file, which appears under its name only when it is complete. Raises OSError, BlockError."""
    _check_block(sink, block, sink.shape)
    final = Path(sink.path)
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(8)}.part")
    try:
        with span("write") as mark:
            if sink.head is None:
                module(sink.format).write_reference(sink, block, str(temporary))
                checksum = file_checksum(str(temporary))
            else:
                checksum = _write_whole(sink, sink.head, block, temporary)
            mark.nbytes = temporary.stat().st_size
            temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Written(sink.path, mark.nbytes, checksum)


def allocate(sink: ArraySink, partial_path: str) -> None:
    """Reserve the space of a whole file and write its head, for `write_region` to fill. Raises OSError."""
    head = _head(sink)
    fd = os.open(partial_path, _NEW_FILE | os.O_TRUNC, 0o666)
    try:
        with naming(partial_path):
            os.posix_fallocate(fd, 0, sink.nbytes)
            write_at(fd, [memoryview(head)], 0)
    except BaseException:
        Path(partial_path).unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def write_region(sink: ArraySink, partial_path: str, slab: Hyperslab, block: Array) -> Written:
    """Write the block of a region to its places in an allocated file; the checksum is of the block in stored order."""
    _check_region(sink.path, sink.shape, slab)
    _check_block(sink, block, slab.count)
    offset, stored = len(_head(sink)), block.transpose(sink.axes)
    with span("write") as mark:
        fd = os.open(partial_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            with naming(partial_path):
                mark.nbytes = scatter(fd, offset, _stored_shape(sink), slab.permute(sink.axes), stored, sink.dtype)
        finally:
            os.close(fd)
    return Written(partial_path, mark.nbytes, _block_checksum(sink, stored))


def commit(sink: ArraySink, partial_path: str) -> None:
    """Make an allocated and filled file appear under its name, after all its bytes are on storage."""
    final = Path(sink.path)
    for path, flags in ((partial_path, os.O_WRONLY), (str(final.parent), os.O_RDONLY | os.O_DIRECTORY)):
        if path != partial_path:
            Path(partial_path).replace(final)
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def region_checksum(sink: ArraySink, path: str, slab: Hyperslab) -> str:
    """The checksum that `write_region` gave for a region, computed from what the file holds now."""
    stored = slab.permute(sink.axes)
    block = np.empty(stored.count, sink.dtype)
    file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)
    try:
        if block.size:
            gather(file, len(_head(sink)), _stored_shape(sink), stored, block)
    finally:
        os.close(file.fd)
    return _block_checksum(sink, block)


def file_checksum(path: str) -> str:
    """xxh3_128 of a file's bytes, in bounded memory."""
    digest, buffer = xxhash.xxh3_128(), bytearray(BUFFER_NBYTES)
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
    return digest.hexdigest()


@contextmanager
def _opened(source: ArraySource, reader: Reader | None = None) -> Iterator[OpenFile]:
    """The source's file for a read, at whose end it is still the one that was described, or SourceChanged is raised.

    So a change before the read and one meanwhile are both seen, as is one that made the file unreadable.
    """
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
        now = os.stat(source.url) if file is None else os.fstat(file.fd)
    except FileNotFoundError as error:
        raise _changed(source, "is no longer there") from error
    if now.st_size != source.file_size:
        raise _changed(source, f"was {source.file_size} bytes when the run was planned and is {now.st_size} now")
    if now.st_mtime_ns != source.mtime_ns:
        raise _changed(source, "was written to after the run had been planned")


def _changed(source: ArraySource, what: str) -> SourceChanged:
    return SourceChanged(f"{source.url}: {what}; when it is right again, run again with --resume")


def _empty(source: ArraySource, slab: Hyperslab, dtype: np.dtype[Any]) -> Array:
    """A block laid out as the file is."""
    block = np.empty(slab.permute(source.axes).count, dtype)
    return block if source.axes == tuple(range(slab.ndim)) else block.transpose(np.argsort(source.axes))


def _destination(source: ArraySource, slab: Hyperslab, out: Array | None, values: Values) -> Array | None:
    _check_region(source.url, source.shape, slab)
    if values not in ("real", "stored"):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    dtype = source.dtype(values)
    if out is not None and (out.shape != slab.count or out.dtype != dtype or not out.flags.writeable):
        raise UsageError(f"out has to be a writable array of shape {slab.count} and dtype {dtype}")
    return out


def _check_region(where: str, shape: Sequence[int], slab: Hyperslab) -> None:
    if slab.ndim != len(shape) or any(high > n for high, n in zip(slab.bounds[1], shape, strict=True)):
        raise UsageError(f"{where}: the region {slab} reaches beyond the array's shape {tuple(shape)}")


def _check_block(sink: ArraySink, block: Array, shape: Sequence[int]) -> None:
    if block.shape != tuple(shape) or block.dtype.newbyteorder("=") != sink.dtype.newbyteorder("="):
        expected = f"{tuple(shape)} {sink.dtype.newbyteorder('=')}"
        raise BlockError(f"{sink.path}: the block is {block.shape} {block.dtype} where {expected} was planned")


def _is_scaled(source: ArraySource, values: Values) -> bool:
    return values == "real" and source.scaling is not None


def _is_left_to_library(source: ArraySource) -> bool:
    return not gzipindex.is_entered(source) and chunkio.is_left_to_library(source)


def _fits_raw(source: ArraySource, values: Values) -> bool:
    """True when stored values can be read into the block itself."""
    return source.dtype(values) == source.dtype("stored")


def _read_by_library(source: ArraySource, slab: Hyperslab, out: Array | None, values: Values) -> Array:
    if source.data is not None:
        with span("read") as mark:
            block = memory.read_reference(source, slab)
            mark.nbytes = block.nbytes
            return _deliver(source, slab, block.copy(order="K") if out is None else block, out, values)
    with _opened(source), span("read") as mark:
        block = module(source.format).read_reference(source, slab)
        mark.nbytes = read_nbytes(source, slab)
        return _deliver(source, slab, block, out, values)


def _deliver(source: ArraySource, slab: Hyperslab, stored: Array, out: Array | None, values: Values) -> Array:
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
    """The part of the file that a library reads: all of a gzip stream, the slab's share otherwise."""
    return 1.0 if source.format == "nifti" else slab.size / source.size


def _fill(
    file: OpenFile, source: ArraySource, slab: Hyperslab, raw: Array, threads: int, reader: Reader | None
) -> None:
    """Read the bytes of a region, as they are in the file, into a block of native dtype."""
    stored = slab.permute(source.axes)
    forward = ascending(stored)
    # Turned and then retyped, the block is still the caller's memory.
    block = raw.transpose(source.axes)[turns(stored)].view(source.stored)
    if gzipindex.is_entered(source):
        file.nbytes += gzipindex.fill(file.fd, source, forward, block, threads)
        return
    taken = reader.fill(file.fd, forward, block, threads) if reader is not None else None
    if taken is not None:
        file.nbytes += taken
        return
    chunks = source.chunks
    assert chunks is not None
    table = chunks.overlapping(forward)
    if not is_covered(table, forward):
        block[...] = source.fill
    if chunkio.is_batch(source):
        chunkio.fill(file, source, table, forward, block, threads)
        return
    for piece in pieces(table, forward):
        gather(file, piece.offset, chunks.chunk_shape, piece.part, block[piece.place.slices()])


def _stored_shape(sink: ArraySink) -> tuple[int, ...]:
    return tuple(sink.shape[a] for a in sink.axes)


def _head(sink: ArraySink) -> bytes:
    if sink.head is None:
        raise UsageError(f"{sink.path}: only a whole array can be written in this format; write an uncompressed .nii")
    return sink.head


def _write_whole(sink: ArraySink, head: bytes, block: Array, temporary: Path) -> str:
    digest, offset = xxhash.xxh3_128(head), 0
    pending = [memoryview(head)]
    fd = os.open(temporary, _NEW_FILE | os.O_EXCL, 0o666)
    try:
        with naming(sink.path):
            for data in stored_bytes(block.transpose(sink.axes), sink.dtype):
                for first in range(0, len(data), _CACHED_NBYTES):
                    piece = data[first : first + _CACHED_NBYTES]
                    digest.update(piece)
                    offset += write_at(fd, [*pending, piece], offset)
                    pending = []
    finally:
        os.close(fd)
    return digest.hexdigest()


def _block_checksum(sink: ArraySink, stored: Array) -> str:
    digest = xxhash.xxh3_128()
    for data in stored_bytes(stored, sink.dtype):
        digest.update(data)
    return digest.hexdigest()
