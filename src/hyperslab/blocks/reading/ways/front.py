"""The front of a gzip stream: its first rows, as far as its first bytes hold them.

What is read so is the one exception to the rule that every value has been compared with a checksum:
that of a stream stands at its end, which is not read. Trials of functions and pictures rest on it,
no result does.
"""

from __future__ import annotations

import zlib

import numpy as np

from hyperslab.arrays import Array, scaling
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading.gzipindex import is_one_gzip_stream, offset_of
from hyperslab.blocks.reading.opening import opened
from hyperslab.errors import FormatError
from hyperslab.formats import facts_of
from hyperslab.trace import span

_GZIP_WBITS = 31
"What zlib is told of a gzip stream."


def has_front(source: ArraySource) -> bool:
    """Whether a source is one gzip stream of this machine."""
    is_stream = source.is_here and is_one_gzip_stream(source)
    return is_stream and facts_of(source.format).is_stream


def front_region(source: ArraySource, rows: int) -> Hyperslab:
    """The first rows along the slowest axis, at most so many."""
    slow = _slowest(source)
    count = list(source.shape)
    count[source.axes[slow]] = min(rows, source.stored_shape[slow])
    return Hyperslab((0,) * source.ndim, tuple(count))


def read_front(source: ArraySource, rows: int, most_nbytes: int, values: Values) -> Array | None:
    """The first rows along the slowest axis, at most so many, as far as the first `most_nbytes` of
    the stream hold them whole; None where they hold none.

    Nothing is compared with the checksum. Raises SourceChanged, and FormatError for a stream that
    cannot be inflated.
    """
    row_nbytes = front_region(source, 1).size * source.stored.itemsize
    offset = offset_of(source)
    plain = _inflated(source, most_nbytes, offset + max(1, rows * row_nbytes))
    held = (len(plain) - offset) // row_nbytes
    if held < 1 or rows < 1:
        return None
    slab = front_region(source, min(held, rows))
    stored = np.frombuffer(plain, source.stored, slab.size, offset)
    stored = stored.reshape(slab.permute(source.axes).count).transpose(np.argsort(source.axes))
    if values == "stored" or source.scaling is None:
        return stored.astype(source.dtype(values), copy=False)
    block = np.empty(slab.count, source.dtype(values))
    scaling.apply(source, slab, stored, block)
    return block


def _inflated(source: ArraySource, most_nbytes: int, plain_nbytes: int) -> bytes:
    """So much of what the first bytes of a stream hold."""
    with opened(source) as file, span("read") as mark:
        assert isinstance(file, OpenFile)
        start = np.empty(min(most_nbytes, source.file_size), np.uint8)
        try:
            file.read_into(start, 0)
            return zlib.decompressobj(wbits=_GZIP_WBITS).decompress(start.data, plain_nbytes)
        except zlib.error as error:
            raise FormatError(
                f"{source.url}: its gzip data are corrupt ({error}); fetch or copy the file again"
            ) from error
        finally:
            mark.nbytes = file.nbytes


def _slowest(source: ArraySource) -> int:
    """The slowest axis of the file that is longer than one."""
    return next((place for place, n in enumerate(source.stored_shape) if n > 1), 0)
