"""The native core: chunks and bytes into arrays, without the GIL. Arguments are checked, input is
never trusted.

Nobody else may write to `out` during a call. A signal handler that raises ends a call within about
50 ms, but not while a chunk is decoded or, up to 64 MiB, read: one of GiB that was deflated takes
its seconds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

_Column: TypeAlias = npt.NDArray[np.int64]
_Columns: TypeAlias = tuple[_Column, _Column, _Column, _Column]
"""(rows,) offset in the file, nbytes stored, mask of skipped filters; (rows * ndim,) first element
of each chunk.
"""
_Filters: TypeAlias = Sequence[tuple[str, Sequence[int]]]
"""Name and numbers of each filter, in the order in which writing applied them.

deflate, fletcher32, zstd, lz4, lzf and blosc have no numbers; shuffle, bitshuffle lz4 and
bitshuffle zstd have the bytes of an element, bitshuffle also the elements of a block, 0 for as many
as the filter finds good.
"""
_Box: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]
"Start, count and stride (at least 1) of a region, in stored order."

_Chunks: TypeAlias = tuple[_Columns, Sequence[int], _Filters]
"Table, shape of a chunk, filters."

class ChunkError(ValueError):
    """A chunk, or an interval of a gzip file, that could not be read or decoded; `args` is (row,
    text).
    """

    row: int
    "Row of the chunk table or of the index; 0 where there is neither."
    kind: Literal["unreadable", "short", "corrupt", "misplaced", "cancelled"]
    """The kind of fault: the system refused a read; the file ends too early; the stored bytes are
    not what a writer would have written; a table or an index does not belong to the file; somebody
    asked to stop.
    """
    text: str
    "Words that follow the name of the chunk."

class ChunkCache:
    """The chunks of one array, with a cache of those that were decoded for a part of them."""

    is_complete: bool
    "Whether every element has its chunk."

    def __init__(
        self,
        table: _Columns,
        shape: Sequence[int],
        extent: Sequence[int],
        filters: _Filters,
        cache_nbytes: int,
    ) -> None:
        """`extent` is the array's shape. Raises ChunkError for rows that are not in the order of
        their chunks.
        """

    def read(
        self, fd: int, selection: _Box, out: npt.NDArray[Any], threads: int, depth: int
    ) -> int | None:
        """As `read_chunks`, of a region within the array; what no chunk holds is left as it is.

        None, with nothing done, where the region is better read in several parts of an unfiltered
        chunk.
        """

def read_chunks(
    fd: int, chunks: _Chunks, selection: _Box, out: npt.NDArray[Any], threads: int, depth: int
) -> int:
    """Read chunks from an open file, decode them, put what a region takes into `out`; bytes read.

    `threads` decode at a time while up to `depth` reads are in flight, 1 to 4096 of either. Raises
    ChunkError, MemoryError, ValueError for arguments that do not fit together.
    """

def decode_chunks(
    buffers: Sequence[bytes], chunks: _Chunks, selection: _Box, out: npt.NDArray[Any], threads: int
) -> int:
    """As `read_chunks`, from the stored bytes of each row, as a remote store hands them out: no
    place is looked at.
    """

def helped_ns() -> int:
    """Processor time that other threads have spent on this thread's calls since it last asked, in
    nanoseconds.
    """

def read_bytes(fd: int, offset: int, out: npt.NDArray[np.uint8], depth: int) -> None:
    """Fill a contiguous array of bytes from a position, up to `depth` reads in flight. Raises
    ChunkError with the row 0.
    """

_GzipArray: TypeAlias = tuple[_Column, int, Sequence[int], int]
"""Points of a GzipIndex, row by row; first plain byte, shape in stored order and bytes of an
element of the array.
"""

def index_gzip(
    fd: int,
    size: int,
    wanted: int,
    spacing: int,
    sink: Callable[[bytes], object],
    watch: Callable[[int], object],
) -> tuple[bytes, str]:
    """Inflate an open gzip file once, to its end, with points up to a little behind `wanted` plain
    bytes: (they, '').

    There is a point about every `spacing` plain bytes; `sink` is given the windows one by one,
    `watch` is called about every 50 ms with the position in the file. (b'', why) for a file that
    cannot be entered in the middle. Raises ChunkError for a corrupt one, and whatever the
    callables raise.
    """

def gzip_intervals(array: _GzipArray, selection: _Box) -> list[int]:
    """The rows with which the intervals begin that hold elements of a region."""

def read_gzip(
    fd: int,
    array: _GzipArray,
    windows_fd: int | None,
    windows: bytes,
    selection: _Box,
    out: npt.NDArray[Any],
    threads: int,
    depth: int,
) -> int:
    """Read a region of an array in an open gzip file into `out`; bytes read, those of windows in a
    file included.

    The windows begin the file `windows_fd`, or are `windows` where that is None. Raises
    ChunkError, MemoryError, ValueError for arguments that do not fit together.
    """

def value_counts(block: npt.NDArray[Any], low: int, counts: npt.NDArray[np.int64]) -> None:
    """Add to `counts` (bins,) how often each of the integers low ... low + bins - 1 occurs in a
    block.

    The block may have any layout and byte order; integers and bool of up to 8 bytes. Raises
    ValueError for another dtype, and where other values occur; `counts` then holds some of them.
    """

def binned_counts(
    block: npt.NDArray[Any], edges: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]
) -> tuple[int, int, int]:
    """Add to `counts` (bins,) how many values lie between edges (bins + 1,), which increase;
    (below, above, NaN).

    A bin holds its lower edge, the last one its upper edge too. float32, float64, integers of up to
    4 bytes, in any layout and byte order; ValueError otherwise.
    """

def shuffle(plain: npt.NDArray[np.uint8], itemsize: int, stored: npt.NDArray[np.uint8]) -> None:
    """Write contiguous bytes to `stored`, of as many, in the order of HDF5's shuffle filter. Raises
    ValueError.
    """
