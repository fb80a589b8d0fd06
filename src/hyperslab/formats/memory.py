"""Arrays in memory, so that a function can be tried on an array before it meets a file."""

from __future__ import annotations

import numpy as np
import xxhash

from hyperslab.arrays import Array, holds_masked
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.errors import UsageError


def open(data: Array) -> ArraySource:  # noqa: A001  # the formats share this name
    """Describe an array in memory. Raises UsageError for an array of Python objects, and for one
    with masked elements, whose mask would be lost.
    """
    if holds_masked(data):
        raise UsageError(
            "elements of this array are masked, and the mask would be lost: give array.filled(...),"
            " with NaN where its dtype has that, or the mask as a further input of its own"
        )
    data = np.asarray(data)
    if data.dtype.hasobject:
        raise UsageError(f"an array of {data.dtype} holds Python objects; convert it to numbers")
    return ArraySource(
        url="memory:",
        name="",
        format="memory",
        shape=data.shape,
        dims=tuple(f"dim_{i}" for i in range(data.ndim)),
        axes=tuple(range(data.ndim)),
        stored=data.dtype,
        real=data.dtype.newbyteorder("="),
        chunks=None,
        reason="the array is in memory: a task slices it",
        nbytes_stored=data.nbytes,
        version=_checksum(data),
        data=data,
    )


def read_reference(source: ArraySource, slab: Hyperslab) -> Array:
    """A view of the values, in native byte order (a copy where the array has the other one)."""
    if source.data is None:
        raise UsageError(
            "an array in memory exists only in the process that made it; save it to a file first"
        )
    return np.asarray(source.data[slab.slices()]).astype(source.dtype("stored"), copy=False)


def _checksum(data: Array) -> str:
    digest = xxhash.xxh3_128(repr((data.shape, data.dtype)).encode())
    pieces = np.nditer(
        data, flags=["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=1 << 16
    )
    for piece in pieces:
        digest.update(np.ascontiguousarray(piece).view(np.uint8).data)
    return digest.hexdigest()
