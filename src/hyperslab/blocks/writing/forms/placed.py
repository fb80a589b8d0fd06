"""Files of known head and size, in which every region has its positions."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

from hyperslab.arrays import Array
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab, dense_level
from hyperslab.blocks import checksums
from hyperslab.blocks.positioned import (
    OpenFile,
    opened,
    place_region,
    read_region,
    stored_bytes,
    write_at,
)
from hyperslab.blocks.writing.forms.form import Form, Landed, Ready, Written
from hyperslab.storage.frame import Span

_CACHED_NBYTES = 512 * 1024
"""Small enough that what the checksum has just read is still in the processor's cache when it is
written.
"""


class Placed(Form):
    """Regions at their positions."""

    name = "placed"
    has_shared_file = True

    def write_file(self, sink: ArraySink, block: Array, temporary: Path) -> str:
        head = _head(sink)
        digest = xxhash.xxh3_128(head)
        offset = 0
        pending = [memoryview(head)]
        with opened(str(temporary), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
            for data in stored_bytes(block.transpose(sink.axes), sink.dtype):
                for first in range(0, len(data), _CACHED_NBYTES):
                    piece = data[first : first + _CACHED_NBYTES]
                    digest.update(piece)
                    offset += write_at(fd, [*pending, piece], offset)
                    pending = []
            if pending:  # an array without elements
                write_at(fd, pending, offset)
        return digest.hexdigest()

    def allocate(self, sink: ArraySink, partial: str) -> None:
        """Take its space and write its head, again where it is there: no checksum covers it."""
        is_new = not os.path.exists(partial)
        try:
            with opened(partial, os.O_WRONLY | os.O_CREAT) as fd:
                os.posix_fallocate(fd, 0, sink.nbytes)
                write_at(fd, [memoryview(_head(sink))], 0)
        except BaseException:
            if is_new:
                Path(partial).unlink(missing_ok=True)
            raise

    def is_allocated(self, sink: ArraySink, partial: str) -> bool:
        try:
            return os.stat(partial).st_size == sink.nbytes
        except FileNotFoundError:
            return False

    def put(self, sink: ArraySink, partial: str, slab: Hyperslab, block: Array) -> Landed:
        shape = _stored_shape(sink)
        region = slab.permute(sink.axes)
        stored = block.transpose(sink.axes)
        with opened(partial, os.O_WRONLY) as fd:
            nbytes = place_region(fd, sink.begin, shape, region, stored, sink.dtype)
        return Landed(partial, nbytes)

    def differs(self, sink: ArraySink, partial: str, slab: Hyperslab, written: Written) -> bool:
        """Read at the region's own positions, as other writers may be at theirs meanwhile."""
        region = slab.permute(sink.axes)
        stored = np.empty(region.count, sink.dtype)
        with opened(partial, os.O_RDONLY) as fd:
            file = OpenFile(fd, partial)
            read_region(file, sink.begin, _stored_shape(sink), region, stored)
        return checksums.of_values(stored, sink.dtype) != written.checksum

    def complete(self, sink: ArraySink, partial: str, written: Sequence[Written]) -> Ready:
        return Ready(Path(partial), [Span("", 0, len(_head(sink)))])

    def operations(self, sink: ArraySink, slab: Hyperslab) -> int:
        """The runs of the file that a region is."""
        region = slab.permute(sink.axes)
        level = dense_level(_stored_shape(sink), region)
        return math.prod(region.count[:level])


def _stored_shape(sink: ArraySink) -> tuple[int, ...]:
    return tuple(sink.shape[axis] for axis in sink.axes)


def _head(sink: ArraySink) -> bytes:
    assert sink.head is not None
    return sink.head
