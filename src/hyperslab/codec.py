"""Decoding of stored chunks: undo the filters in reverse order, within a known size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from hyperslab.array import Array, Codec
from hyperslab.errors import FormatError

_DEFLATE_OVERHEAD = 1024


def decode(data: Array, codecs: Sequence[Codec], nbytes: int) -> Array:
    """Decode a chunk: uint8, 1-D, contiguous; `nbytes` is how many have to come out.

    Raises FormatError, without allocating more, when more or fewer bytes come out or a filter's data are corrupt.
    """
    # A stream that deflate could not shrink is a little longer than what went in.
    limit = nbytes + nbytes // 1000 + _DEFLATE_OVERHEAD
    for codec in reversed(codecs):
        data = _DECODERS[codec.name](data, codec, limit)
    if data.size != nbytes:
        raise FormatError(f"decodes to {data.size} bytes instead of {nbytes}")
    return data


def _inflate(data: Array, _codec: Codec, limit: int) -> Array:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data.data, limit)
    except zlib.error as error:
        raise FormatError(f"its deflate data are corrupt ({error})") from error
    if not stream.eof:
        raise FormatError("its deflate data end too early or are too long")
    return np.frombuffer(plain, dtype=np.uint8)


def _unshuffle(data: Array, codec: Codec, _limit: int) -> Array:
    """Put the bytes of each element together again; bytes beyond the last whole element lie at the end as they were.

    HDF5's shuffle filter (H5Zshuffle.c) stores the first byte of every element, then the second of every, and so on.
    """
    itemsize = codec.options[0]
    elements = data.size // itemsize
    if itemsize == 1 or elements <= 1:
        return data
    plain = np.empty_like(data)
    whole = elements * itemsize
    plain[:whole].reshape(elements, itemsize)[...] = data[:whole].reshape(itemsize, elements).T
    plain[whole:] = data[whole:]
    return plain


_DECODERS: dict[str, Callable[[Array, Codec, int], Array]] = {"deflate": _inflate, "shuffle": _unshuffle}
