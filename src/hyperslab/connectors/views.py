"""Views that many tasks read through: one per array and process, with a fair share of the
processors.

- an array that is sent to a process with every task keeps its file open and its decoded chunks
  there from task to task (`tests/connectors/test_views.py`)
"""

from __future__ import annotations

import functools
import multiprocessing
import threading
from collections.abc import Callable, Sequence

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.sets import Piece, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.view import ArrayView
from hyperslab.blocks.whole import assemble
from hyperslab.storage.location import Remote

KEPT = 64
"""Views that a process keeps; what they hold in memory and open is bounded by
`hyperslab.blocks.reading.kept`.
"""


def threads() -> int:
    """How many threads a read decodes with: all processors where it is alone, else its share.

    It is alone in the main thread of a program. Beside other threads, as those of Dask's schedulers
    and workers, and in a child process, as those of a pool, others read at the same time.
    """
    is_alone = (
        threading.current_thread() is threading.main_thread()
        and multiprocessing.parent_process() is None
    )
    return native.all_threads() if is_alone else native.threads()


def read_whole(
    whole: Whole,
    sources: Sequence[ArraySource],
    slab: Hyperslab,
    values: Values,
    view: Callable[[ArraySource], ArrayView],
) -> Array:
    """A region of an array that one source or several make up, each read through the view that is
    given for it.
    """

    def read(piece: Piece, out: Array | None) -> Array:
        block: Array = view(sources[piece.source]).read(piece.slab, out=out)
        return block

    first = sources[whole.members[0].source]
    return assemble(tuple(whole.pieces(slab)), slab.count, first, values, read)


def shared(source: ArraySource, values: Values) -> ArrayView:
    """The view of an array that all tasks in this process share."""
    return _shared(_Known(source, values))


class _Known:
    """A source and kind of values, equal to another that says the same of the same state of a
    file.
    """

    __slots__ = ("key", "source", "values")

    def __init__(self, source: ArraySource, values: Values) -> None:
        self.source, self.values = source, values
        self.key = (
            _place(source.url),
            source.name,
            source.version,
            source.file_size,
            source.mtime_ns,
            values,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _place(url: str) -> str:
    """Where a file is; of an object in a store, also what it is asked for with, such as credentials
    that expire.
    """
    return f"{url.target} {sorted(url.options.items())!r}" if isinstance(url, Remote) else url


@functools.lru_cache(KEPT)
def _shared(known: _Known) -> ArrayView:
    return ArrayView(known.source, known.values, threads)
