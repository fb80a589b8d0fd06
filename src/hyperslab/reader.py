"""Reader: the file of one array kept open from read to read, and the chunks that were decoded for parts of them.

A region of unfiltered data that is better read in several parts is not read here: `fill` says so and does nothing.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from hyperslab import native
from hyperslab.array import Array, ArraySource
from hyperslab.chunkio import chunk_fault, columns_of, filters_of
from hyperslab.errors import FormatError
from hyperslab.positioned import OpenFile
from hyperslab.slab import Hyperslab

CACHE_NBYTES = 64 * 1024**2
"Decoded chunks that a reader keeps."


class Reader:
    """Reads regions of one array. Threads may share it; one that is sent to another process opens the file there."""

    __slots__ = ("__weakref__", "_chunks", "_lock", "file", "source")

    def __init__(self, source: ArraySource) -> None:
        self.source = source
        self.file: OpenFile | None = None
        self._chunks: Any = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Reader], tuple[ArraySource]]:
        return Reader, (self.source,)

    def keep(self, file: OpenFile) -> OpenFile:
        """Keep an open file for the reads to come, and close it with this reader; the one that is kept already wins."""
        with self._lock:
            if self.file is None:
                self.file = file
                weakref.finalize(self, os.close, file.fd)
            elif self.file is not file:
                os.close(file.fd)
            return self.file

    def fill(self, fd: int, slab: Hyperslab, block: Array, threads: int) -> int | None:
        """Read a region into `block`, both in stored order with strides above 0: the bytes taken from storage.

        None, with nothing done, where the region is not for this reader. Raises FormatError for corrupt chunks.
        """
        if native.core is None or self.source.chunks is None:
            return None
        chunks = self._chunks or self._index()
        if not chunks.is_complete:
            block[...] = self.source.fill
        try:
            taken: int | None = chunks.read(
                fd, (slab.start, slab.count, slab.stride), block, threads, max(threads, native.DEPTH)
            )
        except native.core.ChunkError as error:
            raise chunk_fault(self.source, self.source.chunks, error) from error
        return taken

    def _index(self) -> Any:
        assert native.core is not None
        table = self.source.chunks
        assert table is not None
        shape, filters = self.source.stored_shape, filters_of(self.source)
        try:
            self._chunks = native.core.ChunkCache(columns_of(table), table.chunk_shape, shape, filters, CACHE_NBYTES)
        except native.core.ChunkError as error:
            raise FormatError(f"{self.source.url}: its chunk table {error.args[1]}; open the file again") from error
        return self._chunks
