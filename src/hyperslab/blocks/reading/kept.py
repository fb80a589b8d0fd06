"""Reader: the file of one array kept open from read to read, and the chunks that were decoded for
parts of them.

- a region of unfiltered data that is better read in several parts is not read here: `fill` says so
  and does nothing
- only the readers that were used last keep anything, so that thousands of views neither use up the
  process's files nor its memory (`tests/blocks/test_kept.py`)
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading.decoding import chunk_fault, columns_of, filters_of
from hyperslab.errors import FormatError

KEPT = 16
"Readers of a process that keep their file and chunks."
CACHE_NBYTES = 32 * 1024**2
"Decoded chunks that a reader keeps."

_recent: OrderedDict[int, weakref.ref[Reader]] = OrderedDict()
"Readers that keep something, by identity, the one used last at the end."
_lock = threading.Lock()


class Reader:
    """Reads regions of one array. Threads may share it; one that is sent to another process opens
    the file there.
    """

    __slots__ = ("__weakref__", "_chunks", "_file", "source")

    def __init__(self, source: ArraySource) -> None:
        self.source = source
        self._file: OpenFile | None = None
        self._chunks: Any = None

    def __reduce__(self) -> tuple[type[Reader], tuple[ArraySource]]:
        return Reader, (self.source,)

    def file(self, opened: Callable[[], OpenFile]) -> OpenFile:
        """The file that is kept, opened now if there is none; it is closed when nobody refers to it
        any more.
        """
        with _lock:
            if self._file is not None:
                _recent.move_to_end(id(self))
                return self._file
        file = opened()
        weakref.finalize(file, os.close, file.fd).atexit = False
        with _lock:
            if self._file is None:
                self._file = file
                _recent[id(self)] = weakref.ref(self, partial(_forget, id(self)))
                _forget_oldest()
            return self._file

    def fill(self, fd: int, slab: Hyperslab, block: Array, threads: int) -> int | None:
        """Read a region into `block`, both in stored order with strides above 0: the bytes taken
        from storage.

        None, with nothing done, where the region is not for this reader. Raises FormatError for
        corrupt chunks.
        """
        if native.core is None or self.source.chunks is None:
            return None
        chunks = self._chunks or self._index()
        if not chunks.is_complete:
            block[...] = self.source.fill
        try:
            taken: int | None = chunks.read(
                fd,
                (slab.start, slab.count, slab.stride),
                block,
                threads,
                max(threads, native.DEPTH),
            )
        except native.core.ChunkError as error:
            raise chunk_fault(self.source, self.source.chunks, error) from error
        return taken

    def let_go(self) -> None:
        """Keep nothing until the next read; reads under way refer themselves to what they use."""
        self._file = self._chunks = None

    def _index(self) -> Any:
        assert native.core is not None
        table = self.source.chunks
        assert table is not None
        shape, filters = self.source.stored_shape, filters_of(self.source)
        try:
            chunks = native.core.ChunkCache(
                columns_of(table), table.chunk_shape, shape, filters, CACHE_NBYTES
            )
        except native.core.ChunkError as error:
            raise FormatError(
                f"{self.source.url}: its chunk table {error.text}; open the file again"
            ) from error
        with _lock:
            if self._file is not None:  # else this reader was to let go of all in the meantime
                self._chunks = chunks
        return chunks


def _forget_oldest() -> None:
    """Have readers let go of what they keep, while there are too many."""
    while len(_recent) > KEPT:
        _, oldest = _recent.popitem(last=False)
        if (reader := oldest()) is not None:
            reader.let_go()


def let_go_of_all() -> None:
    """Have all readers of this process close their files, as far as no read is under way."""
    with _lock:
        kept = [oldest() for oldest in _recent.values()]
        _recent.clear()
    for reader in kept:
        if reader is not None:
            reader.let_go()


def _forget(key: int, _dead: object) -> None:
    _recent.pop(key, None)


# A child has the lock as it was, but not the thread that held it.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
