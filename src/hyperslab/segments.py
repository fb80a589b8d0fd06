"""Segments: what writers encode of one region, appended to a part file that each of them has for itself.

A segment is the bytes of its pieces, a table of them with their numbers, lengths and checksums, and the table's own
checksum. Pieces are written as they come, a few at a time, so that a task with many small ones holds only its table.
The outcome of a task says in which part and where a segment lies; so one of a task that was killed or done twice is
never looked at.

- a damaged or cut-off segment is refused (`tests/unit/test_segments.py`)
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from hyperslab.array import Encoded
from hyperslab.errors import FormatError
from hyperslab.positioned import naming, write_at

_ROW = np.dtype([("number", "<i8"), ("nbytes", "<i8"), ("checksum", "<u8")])
"Of a piece; xxh3_64."
_END = struct.Struct("<QQ")
"At the end of a segment: checksum of the table, number of pieces."
_OWN = secrets.token_hex(4)
"Of this interpreter and its forks: in two containers of one name, processes may have the same numbers."
_AT_A_TIME_NBYTES = 1024**2
_OPEN = 64
"Parts that are open at a time."

Table = npt.NDArray[Any]


class Segment(NamedTuple):
    """Where a segment lies."""

    path: str
    offset: int
    nbytes: int


def append(folder: str, pieces: Iterable[Encoded]) -> Segment:
    """Append pieces (number, bytes) to this thread's own part in a folder. Raises OSError; half of one is no harm."""
    writer = f"{socket.gethostname()}.{os.getpid()}.{threading.get_native_id()}.{_OWN}"
    path = os.path.join(folder, f"{writer}.part")
    rows = bytearray()
    with naming(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            offset, nbytes = os.fstat(fd).st_size, 0
            for data in _together(pieces, rows):
                nbytes += write_at(fd, [data], offset + nbytes)
            end = _END.pack(xxhash.xxh3_64_intdigest(rows), len(rows) // _ROW.itemsize)
            nbytes += write_at(fd, [memoryview(rows), memoryview(end)], offset + nbytes)
        finally:
            os.close(fd)
    return Segment(path, offset, nbytes)


def _together(pieces: Iterable[Encoded], rows: bytearray) -> Iterator[memoryview]:
    """Their bytes, as many at a time as are worth a call; their rows of the table.

    They are copied: memory that is held for many pieces is taken from the system and given back for each few of them.
    """
    buffer, filled = memoryview(bytearray(_AT_A_TIME_NBYTES)), 0
    for number, data in pieces:
        rows += np.array((number, len(data), xxhash.xxh3_64_intdigest(data)), _ROW).tobytes()
        if filled + len(data) > len(buffer):
            yield buffer[:filled]
            filled = 0
        if len(data) > len(buffer):
            yield memoryview(data)
        else:
            buffer[filled : filled + len(data)] = data
            filled += len(data)
    yield buffer[:filled]


def pieces(segments: Sequence[Segment]) -> Iterator[Encoded]:
    """All pieces in the order of their numbers, one of them in memory at a time.

    Raises FormatError for one that is not as it was written, OSError for a part that is not there.
    """
    with _opened() as descriptor:
        tables = [_table(descriptor(segment.path), segment) for segment in segments]
        if not tables:
            return
        offsets = [_offsets(segment, table) for segment, table in zip(segments, tables, strict=True)]
        of = np.repeat(np.arange(len(segments)), [len(table) for table in tables])
        rows, places = np.concatenate(tables), np.concatenate(offsets)
        for i in np.argsort(rows["number"], kind="stable").tolist():
            segment, row = segments[of[i]], rows[i]
            data = _read(descriptor(segment.path), int(row["nbytes"]), int(places[i]))
            if len(data) < row["nbytes"] or xxhash.xxh3_64_intdigest(data) != row["checksum"]:
                raise _damaged(segment)
            yield int(row["number"]), data


def _table(fd: int, segment: Segment) -> Table:
    last = segment.offset + segment.nbytes - _END.size
    end = _read(fd, _END.size, last) if segment.nbytes >= _END.size else b""
    if len(end) < _END.size:
        raise _damaged(segment)
    checksum, count = _END.unpack(end)
    nbytes = count * _ROW.itemsize
    if nbytes > segment.nbytes - _END.size:
        raise _damaged(segment)
    raw = _read(fd, nbytes, last - nbytes)
    if len(raw) < nbytes or xxhash.xxh3_64_intdigest(raw) != checksum:
        raise _damaged(segment)
    return np.frombuffer(raw, _ROW)


def _offsets(segment: Segment, table: Table) -> npt.NDArray[np.int64]:
    """First byte of every piece in its part."""
    lengths: npt.NDArray[np.int64] = table["nbytes"]
    ends = segment.offset + np.cumsum(lengths)
    if len(ends) and ends[-1] != segment.offset + segment.nbytes - table.nbytes - _END.size:
        raise _damaged(segment)
    return ends - lengths


@contextmanager
def _opened() -> Iterator[Any]:
    """A function that opens a file for reading; the files that were opened last stay open to the end."""
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
    while found[-1] and (missing := nbytes - sum(map(len, found))):  # the system gives 2 GiB at a time
        found.append(os.pread(fd, missing, offset + nbytes - missing))
    return found[0] if len(found) == 1 else b"".join(found)


def _damaged(segment: Segment) -> FormatError:
    where = f"{segment.path}: what was written at byte {segment.offset}"
    return FormatError(f"{where} is damaged; remove the file and run again with --resume")
