"""Segments: what writers encode of one region, appended to a part file that each of them has for
itself.

A segment is its pieces, a table of them with their numbers, places, lengths and checksums, and the
table's own checksum. The pieces lie before the table; or, where all writers are on one machine and
the format has an index, in the file that will be the finished one, its home, in which writers
reserve bytes by making it longer. Pieces are written as they come, a few at a time, so that a task
with many small ones holds only its table. The outcome of a task says in which part and where a
segment ends; so one of a task that was killed or done twice is never looked at.

- a damaged or cut-off segment is refused (`tests/blocks/test_segments.py`)
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from hyperslab.arrays.sink import Encoded
from hyperslab.blocks.positioned import naming, opened, write_at
from hyperslab.blocks.writing.directio import ALIGNMENT, WINDOW_NBYTES, DirectFile
from hyperslab.errors import FormatError

_ROW = np.dtype([("number", "<i8"), ("offset", "<i8"), ("nbytes", "<i8"), ("checksum", "<u8")])
"Row of a table: one piece, with the xxh3_64 of its bytes."
_END = struct.Struct("<QQ")
"End of a segment: checksum of the table, number of pieces."
_OWN = secrets.token_hex(4)
"""Name of this interpreter and its forks: in two containers of one name, processes may have the
same numbers.
"""
_DIRECT_NBYTES = 1024**2
"Least number of bytes that go past the page cache, which may leave a page unused behind them."
_BUFFERED_NBYTES = 1024**2
"Bytes of pieces that are gathered for the page cache: still in the processor's."
_OPEN = 64
"Parts that are open at a time."
_PART, _TABLES = ".part", ".tables"
"What the names of parts end in: those with pieces, and those whose pieces lie in the home."
_HOME = "home"

Table = npt.NDArray[Any]


class Segment(NamedTuple):
    """Where a segment lies."""

    path: str
    "Path of the part that has its table."
    end: int
    "Where the table ends."


def home(folder: str) -> str:
    """Path of the file that pieces of the parts in a folder may lie in."""
    return os.path.join(folder, _HOME)


def append(folder: str, pieces: Iterable[Encoded], to_home: bool = False) -> tuple[Segment, int]:
    """Append pieces (number, bytes) to this thread's own part in a folder, or put them into the
    folder's home.

    Returns the segment, and how many bytes its pieces have. Raises OSError; half of a segment is no
    harm.
    """
    writer = f"{socket.gethostname()}.{os.getpid()}.{threading.get_native_id()}.{_OWN}"
    ending = _TABLES if to_home else _PART
    path = os.path.join(folder, f"{writer}{ending}")
    with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
        rows = put(home(folder), pieces, True) if to_home else _write(path, fd, pieces, False)
        raw = rows.tobytes()
        end = _END.pack(xxhash.xxh3_64_intdigest(raw), len(rows))
        first = os.fstat(fd).st_size
        first += write_at(fd, [memoryview(raw), memoryview(end)], first)
    return Segment(path, first), int(rows["nbytes"].sum())


def put(path: str, pieces: Iterable[Encoded], is_shared: bool) -> Table:
    """Append pieces to a file; their table. Raises OSError.

    Others may do so at the same time to one that is shared, which is on this machine's own storage.
    What is written to it goes past the page cache, and is in no other order than that in which
    writers come.
    """
    with opened(path, os.O_WRONLY) as fd:
        return _write(path, fd, pieces, is_shared)


def _write(path: str, fd: int, pieces: Iterable[Encoded], is_shared: bool) -> Table:
    with DirectFile(path, fd, is_shared) as file:
        batch = _Batch(file, fd, is_shared)
        for number, data in pieces:
            batch.add(number, data)
        batch.flush()
    return np.concatenate([np.empty(0, _ROW), *batch.tables])


class _Batch:
    """Pieces that are written with one call.

    They are copied: memory that is held for many pieces is taken from the system and given back for
    each few of them.
    """

    def __init__(self, file: DirectFile, fd: int, is_shared: bool) -> None:
        self.tables: list[Table] = []
        self._file = file
        self._fd = fd
        self._is_shared = is_shared
        self._limit = WINDOW_NBYTES if is_shared else _BUFFERED_NBYTES
        self._filled = 0
        self._rows = bytearray()

    def add(self, number: int, data: bytes | memoryview) -> None:
        if self._filled + len(data) > self._limit:
            self.flush()
        checksum = xxhash.xxh3_64_intdigest(data)
        row = np.array((number, self._filled, len(data), checksum), _ROW)
        self._rows += row.tobytes()
        if len(data) > self._limit:
            self._file.write_large(memoryview(data), self._place(self._padded(len(data))))
        else:
            self._file.window[self._filled : self._filled + len(data)] = data
            self._filled += len(data)

    def flush(self) -> None:
        if not self._rows:
            return
        nbytes = self._padded(self._filled)
        self._file.window[self._filled : nbytes] = bytes(nbytes - self._filled)
        self._file.write(nbytes, self._place(nbytes))
        self._filled = 0

    def _padded(self, nbytes: int) -> int:
        """Number of bytes that are taken for so many."""
        if not self._is_shared or nbytes < _DIRECT_NBYTES:
            return nbytes
        return nbytes + -nbytes % ALIGNMENT

    def _place(self, nbytes: int) -> int:
        """Where bytes begin that are nobody else's; those of the batch's pieces lie there."""
        if self._is_shared:
            alignment = ALIGNMENT if nbytes >= _DIRECT_NBYTES else 1
            offset = _reserve(self._fd, nbytes, alignment)
        else:
            offset = os.fstat(self._fd).st_size
        self.tables.append(np.frombuffer(bytes(self._rows), _ROW).copy())
        self.tables[-1]["offset"] += offset
        self._rows.clear()
        return offset


def _reserve(fd: int, nbytes: int, alignment: int) -> int:
    """Make a file longer by so many bytes, from a multiple of the alignment; returns where they
    begin.
    """
    with locked(fd):
        size = os.fstat(fd).st_size
        offset = size + -size % alignment
        os.ftruncate(fd, offset + nbytes)
    return offset


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Nobody else makes the file longer meanwhile."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def pieces(segments: Sequence[Segment]) -> Iterator[Encoded]:
    """All pieces in the order of their numbers, one of them in memory at a time.

    Raises FormatError for one that is not as it was written, OSError for a part that is not there.
    """
    with _reading() as descriptor:
        of, rows = _tables(descriptor, segments)
        for i in np.argsort(rows["number"], kind="stable").tolist():
            yield int(rows[i]["number"]), _piece(descriptor, segments[of[i]], rows[i])


def settle(segments: Sequence[Segment], folder: str, is_shared: bool) -> Table:
    """Copy to the folder's home, by `put`, what does not lie in it yet; the table of all pieces.

    Raises as `pieces` does.
    """
    with _reading() as descriptor:
        of, rows = _tables(descriptor, segments)
        elsewhere = np.array([not is_home(segment) for segment in segments], np.bool_)
        copied = np.flatnonzero(elsewhere[of])
        found = (
            (int(rows[i]["number"]), _piece(descriptor, segments[of[i]], rows[i]))
            for i in copied.tolist()
        )
        rows[copied] = put(home(folder), found, is_shared)
        size = os.fstat(descriptor(home(folder))).st_size
        ends = rows["offset"] + rows["nbytes"]
        last = int(ends.max(initial=0))
        if last > size:
            raise _damaged(home(folder), last)
    return rows


def is_there(segment: Segment) -> bool:
    """Whether there are the files in which a segment lies, as far as the size of the one with its
    table tells.
    """
    has_pieces = not is_home(segment) or os.path.isfile(home(os.path.dirname(segment.path)))
    return (
        has_pieces and os.path.isfile(segment.path) and os.stat(segment.path).st_size >= segment.end
    )


def is_home(segment: Segment) -> bool:
    """Whether its pieces lie in the home."""
    return segment.path.endswith(_TABLES)


def remove_tables(folder: str) -> None:
    """Forget what lies in a home that is gone: another one holds none of it."""
    for name in os.listdir(folder):
        if name.endswith(_TABLES):
            os.unlink(os.path.join(folder, name))


def _tables(
    descriptor: Callable[[str], int], segments: Sequence[Segment]
) -> tuple[npt.NDArray[np.int64], Table]:
    """The rows of all tables, and of which segment each is."""
    tables = []
    for segment in segments:
        with naming(segment.path):
            tables.append(_table(descriptor(segment.path), segment))
    of = np.repeat(np.arange(len(segments)), [len(table) for table in tables])
    return of, np.concatenate([np.empty(0, _ROW), *tables])


def _table(fd: int, segment: Segment) -> Table:
    last = segment.end - _END.size
    if last < 0:
        raise _damaged(*segment)
    end = _read(fd, _END.size, last)
    if len(end) < _END.size:
        raise _damaged(*segment)
    checksum, count = _END.unpack(end)
    nbytes = count * _ROW.itemsize
    if nbytes > last:
        raise _damaged(*segment)
    raw = _read(fd, nbytes, last - nbytes)
    if len(raw) < nbytes or xxhash.xxh3_64_intdigest(raw) != checksum:
        raise _damaged(*segment)
    return np.frombuffer(raw, _ROW)


def _piece(descriptor: Callable[[str], int], segment: Segment, row: Any) -> bytes:
    path = segment.path
    if is_home(segment):
        path = home(os.path.dirname(path))
    with naming(path):
        data = _read(descriptor(path), int(row["nbytes"]), int(row["offset"]))
    if len(data) < row["nbytes"] or xxhash.xxh3_64_intdigest(data) != row["checksum"]:
        raise _damaged(path, int(row["offset"] + row["nbytes"]))
    return data


@contextmanager
def _reading() -> Iterator[Any]:
    """A function that opens a file for reading; the files that were opened last stay open to the
    end.
    """
    held: dict[str, int] = {}

    def descriptor(path: str) -> int:
        if path not in held:
            if len(held) >= _OPEN:
                os.close(held.pop(next(iter(held))))
            held[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return held[path]

    try:
        yield descriptor
    finally:
        for fd in held.values():
            os.close(fd)


def _read(fd: int, nbytes: int, offset: int) -> bytes:
    """The bytes at a position, fewer where the file ends."""
    found = [os.pread(fd, nbytes, offset)]
    while found[-1] and (
        missing := nbytes - sum(map(len, found))
    ):  # the system gives 2 GiB at a time
        found.append(os.pread(fd, missing, offset + nbytes - missing))
    if len(found) == 1:
        return found[0]
    return b"".join(found)


def _damaged(path: str, end: int) -> FormatError:
    where = f"{path}: what was written up to byte {end}"
    return FormatError(f"{where} is damaged", "remove the file and run again with --resume")
