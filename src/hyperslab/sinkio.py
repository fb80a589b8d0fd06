"""Arrays to files: whole files that appear by rename, and positioned writes of regions into a preallocated file.

- a failed write leaves no file behind
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from hyperslab.array import Array, ArraySink, require_within
from hyperslab.byteranges import BUFFER_NBYTES
from hyperslab.errors import BlockError, UsageError
from hyperslab.formats import module
from hyperslab.positioned import OpenFile, gather, naming, scatter, stored_bytes, write_at
from hyperslab.slab import Hyperslab
from hyperslab.span import span

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
    require_within(sink.path, sink.shape, slab)
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


def _check_block(sink: ArraySink, block: Array, shape: Sequence[int]) -> None:
    if block.shape != tuple(shape) or block.dtype.newbyteorder("=") != sink.dtype.newbyteorder("="):
        expected = f"{tuple(shape)} {sink.dtype.newbyteorder('=')}"
        raise BlockError(f"{sink.path}: the block is {block.shape} {block.dtype} where {expected} was planned")


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
