"""Compressing on the writers: deflate streams by Intel's ISA-L where it has the level, by zlib
above.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.sink import ArraySink, Encoded
from hyperslab.arrays.slab import Hyperslab, dense_level

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


def level_of(encoding: Encoding) -> int:
    """The level that is asked for, else the fastest."""
    if encoding.level is None:
        return FASTEST
    return encoding.level


def zlib_stream(data: memoryview, level: int, is_shuffled: bool) -> bytes:
    """Bytes as a stream of RFC 1950, which is what HDF5's deflate filter stores."""
    if level in _ISAL_LEVELS:
        from isal import igzip_lib

        own = _ISAL_SHUFFLED
        if not is_shuffled:
            own = _ISAL_LEVELS[level]
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

    library: Any = zlib
    if level in _ISAL_LEVELS:
        library = isal_zlib
    stream = library.compressobj(_ISAL_LEVELS.get(level, level), wbits=_RAW)
    stored: list[bytes] = []
    crc = 0
    length = 0
    for part in parts:
        stored.append(stream.compress(part))
        crc = isal_zlib.crc32(part, crc)
        length += len(part)
    return b"".join([*stored, stream.flush(library.Z_SYNC_FLUSH), _TRAILER.pack(crc, length)])


def runs(sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
    """The runs of a file that a region is, each an open stream with the number of its first
    element; of a sink whose first codec has the level as its option.
    """
    stored = slab.permute(sink.axes)
    shape = [sink.shape[axis] for axis in sink.axes]
    values = block.transpose(sink.axes)
    level = dense_level(shape, stored)
    for index in itertools.product(*map(range, stored.count[:level])):
        corner = [first + i for first, i in itertools.zip_longest(stored.start, index, fillvalue=0)]
        number = int(np.ravel_multi_index(corner, shape))
        parts = (_plain_bytes(plane, sink.dtype) for plane in np.atleast_2d(values[index]))
        yield number, open_stream(parts, sink.codecs[0].options[0])


def _plain_bytes(values: Array, dtype: np.dtype[Any]) -> memoryview:
    return np.ascontiguousarray(values, dtype).reshape(-1).view(np.uint8).data


class Member:
    """A gzip member (RFC 1952) being joined of open streams, in the order of their plain bytes."""

    def __init__(self) -> None:
        self.crc = self.length = 0

    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    "Header without name and time: the same bytes for the same array at any time."

    def add(self, stream: bytes | memoryview) -> memoryview:
        """Take a stream of `open_stream` in; returns the bytes to be written for it."""
        from isal import isal_zlib

        crc, length = _TRAILER.unpack_from(stream, len(stream) - _TRAILER.size)
        self.crc = isal_zlib.crc32_combine(self.crc, crc, length)
        self.length += length
        return memoryview(stream)[: -_TRAILER.size]

    def tail(self) -> bytes:
        """The end of the member; its length field counts modulo 2**32."""
        return _END + struct.pack("<II", self.crc, self.length % 2**32)
