"""Compressing on the writers: deflate streams by Intel's ISA-L where it has the level, by zlib
above.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any

from hyperslab import native
from hyperslab.arrays import Array

FASTEST, SMALLEST = 1, 9
"Levels of gzip, as zlib numbers them."
_ISAL_LEVELS = {1: 2}
"""ISA-L's level that comes nearest in size: its files are within 1 % of those of zlib's level 1, at
a fifth of the time.
"""
_ISAL_SHUFFLED = 1
"""Shuffled bytes become hardly larger with the level below: by 0.01 % on smooth voxels, and smaller
on noise.
"""
_RAW = -15
_TRAILER = struct.Struct("<IQ")
_END = b"\x03\x00"
"An empty last block with fixed codes (RFC 1951, 3.2.3)."


def zlib_stream(data: memoryview, level: int, is_shuffled: bool) -> bytes:
    """Bytes as a stream of RFC 1950, which is what HDF5's deflate filter stores."""
    if level in _ISAL_LEVELS:
        from isal import igzip_lib

        own = _ISAL_SHUFFLED if is_shuffled else _ISAL_LEVELS[level]
        return igzip_lib.compress(
            data, own, flag=igzip_lib.COMP_ZLIB, mem_level=igzip_lib.MEM_LEVEL_LARGE
        )
    return zlib.compress(data, level)


def shuffle(plain: Array, itemsize: int, stored: Array) -> Array:
    """Write bytes to `stored`, of as many, as HDF5's shuffle filter orders them: the first of every
    element, ...
    """
    if native.core is None:
        stored[...] = plain.reshape(-1, itemsize).T.reshape(-1)
    else:
        native.core.shuffle(plain, itemsize, stored)
    return stored


def open_stream(parts: Iterable[memoryview], level: int) -> bytes:
    """A deflate stream (RFC 1951) that ends at a byte without a last block, then CRC-32 and length
    of its plain bytes.

    So independent streams can follow one another in one gzip member, as pigz joins them; `closed`
    does it.
    """
    from isal import isal_zlib

    library: Any = isal_zlib if level in _ISAL_LEVELS else zlib
    stream = library.compressobj(_ISAL_LEVELS.get(level, level), wbits=_RAW)
    stored, crc, length = [], 0, 0
    for part in parts:
        stored.append(stream.compress(part))
        crc, length = isal_zlib.crc32(part, crc), length + len(part)
    return b"".join([*stored, stream.flush(library.Z_SYNC_FLUSH), _TRAILER.pack(crc, length)])


class Member:
    """A gzip member (RFC 1952) being joined of open streams, in the order of their plain bytes."""

    def __init__(self) -> None:
        self.crc = self.length = 0

    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    "Without name and time: the same bytes for the same array at any time."

    def add(self, stream: bytes | memoryview) -> memoryview:
        """Take a stream of `open_stream` in; returns the bytes to be written for it."""
        from isal import isal_zlib

        crc, length = _TRAILER.unpack_from(stream, len(stream) - _TRAILER.size)
        self.crc, self.length = isal_zlib.crc32_combine(self.crc, crc, length), self.length + length
        return memoryview(stream)[: -_TRAILER.size]

    def tail(self) -> bytes:
        """What ends the member; its length field counts modulo 2**32."""
        return _END + struct.pack("<II", self.crc, self.length % 2**32)
