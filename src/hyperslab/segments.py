"""Segments: what writers encode of one region, appended to a part file that each of them has for itself.

A segment is a checksum, the numbers and lengths of its pieces, and their bytes. The outcome of a task says in which
part and where it lies; so a segment of a task that was killed or done twice is never looked at.

- a damaged or cut-off segment is refused (`tests/unit/test_segments.py`)
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import xxhash

from hyperslab.array import Encoded
from hyperslab.errors import FormatError
from hyperslab.positioned import naming, write_at

_WORD = np.dtype("<i8")
_HEAD = struct.Struct("<QQ")
"Checksum of what follows, number of pieces."
_OWN = secrets.token_hex(4)
"Of this interpreter and its forks: in two containers of one name, processes may have the same numbers."
_AT_A_TIME = os.sysconf("SC_IOV_MAX")


class Segment(NamedTuple):
    """Where a segment lies."""

    path: str
    offset: int
    nbytes: int


def append(folder: str, pieces: Iterable[Encoded]) -> Segment:
    """Append pieces (number, bytes) to this thread's own part in a folder. Raises OSError; half of one is no harm."""
    writer = f"{socket.gethostname()}.{os.getpid()}.{threading.get_native_id()}.{_OWN}"
    path = os.path.join(folder, f"{writer}.part")
    held = list(pieces)
    table = np.array([[number, len(data)] for number, data in held], _WORD)
    buffers = [table.reshape(-1).view(np.uint8).data, *(memoryview(data) for _, data in held)]
    digest = xxhash.xxh3_64()
    for buffer in buffers:
        digest.update(buffer)
    buffers.insert(0, memoryview(_HEAD.pack(digest.intdigest(), len(held))))
    with naming(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            offset, nbytes = os.fstat(fd).st_size, 0
            for few in (buffers[first : first + _AT_A_TIME] for first in range(0, len(buffers), _AT_A_TIME)):
                nbytes += write_at(fd, few, offset + nbytes)
        finally:
            os.close(fd)
    return Segment(path, offset, nbytes)


def pieces(segments: Sequence[Segment]) -> Iterator[Encoded]:
    """All pieces, segment by segment in the order of their first numbers; one segment in memory at a time.

    Raises FormatError for a segment that is not as it was written.
    """
    for segment in sorted(segments, key=_first):
        yield from _load(segment)


def _first(segment: Segment) -> int:
    """The number of its first piece."""
    with Path(segment.path).open("rb") as file:
        file.seek(segment.offset + _HEAD.size)
        word = file.read(_WORD.itemsize)
    if len(word) < _WORD.itemsize:
        raise _damaged(segment)
    return int.from_bytes(word, "little", signed=True)


def _load(segment: Segment) -> Iterator[Encoded]:
    data = memoryview(bytearray(segment.nbytes))
    with Path(segment.path).open("rb", buffering=0) as file:
        file.seek(segment.offset)
        if not _fill(file, data):
            raise _damaged(segment)
    checksum, count = _HEAD.unpack_from(data)
    if xxhash.xxh3_64_intdigest(data[_HEAD.size :]) != checksum:
        raise _damaged(segment)
    table = np.frombuffer(data, _WORD, 2 * count, _HEAD.size).reshape(-1, 2).tolist()
    position = _HEAD.size + 2 * count * _WORD.itemsize
    for number, nbytes in table:
        yield number, data[position : position + nbytes]
        position += nbytes


def _fill(file: IO[bytes], data: memoryview) -> bool:
    """Read until the memory is full; False where the file ends before."""
    done = 0
    while done < len(data):
        count = file.readinto(data[done:])  # type: ignore[attr-defined]  # a raw file has it
        if not count:
            return False
        done += count
    return True


def _damaged(segment: Segment) -> FormatError:
    where = f"{segment.path}: what was written at byte {segment.offset}"
    return FormatError(f"{where} is damaged; remove the file and run again with --resume")
