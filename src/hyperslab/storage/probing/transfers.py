"""Transfers: what a process that measures reads and writes in sequence.

Each operation is a generator: it prepares itself, says so, begins when it is gone on with, and
returns what it has done. Times are nanoseconds of the monotonic clock.

This module is imported by processes that measure, which load the standard library alone.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

from hyperslab.storage.probing import caches
from hyperslab.storage.probing.content import WINDOW_NBYTES, Content

Operation: TypeAlias = Generator[dict[str, Any], None, dict[str, Any]]
"What is said when it is prepared, and what when it has ended."
Segment: TypeAlias = tuple[str, int, int]
"Path, number and size in bytes of a file."
MARKS = 64
"Moments of one operation that are kept, about."
_COMPARED_NBYTES = 2**20


class Damaged(Exception):
    """Bytes that are not those that were written."""


class Marks:
    """How far an operation was at some moments."""

    def __init__(self, seconds: float) -> None:
        self._step_ns = max(1, int(seconds * 1e9) // MARKS)
        self._told: list[tuple[int, int]] = []
        self.next_ns = 0
        "Moment from which on the next mark is due."

    def put(self, now_ns: int, done: int) -> None:
        """Keep that so much was done at a moment."""
        self._told.append((now_ns, done))
        self.next_ns = now_ns + self._step_ns

    def told(self, now_ns: int, done: int) -> list[tuple[int, int]]:
        """All marks, the last one of this moment."""
        return [*self._told, (now_ns, done)]


def write(
    content: Content, segments: Sequence[Segment], request_nbytes: int, is_direct: bool
) -> Operation:
    """Write new files in sequence, and have them on storage at the end.

    Returns `nbytes`, `start_ns`, `written_ns` when the last write had returned, and `end_ns` when
    the last fsync had.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    if is_direct:
        flags |= os.O_DIRECT
    with ExitStack() as stack:
        files = []
        for path, _, _ in segments:
            files.append(os.open(path, flags, 0o600))
            stack.callback(os.close, files[-1])
        if len(segments) == 1:
            content.number(*segments[0][1:])
        yield {}
        start_ns = time.monotonic_ns()
        for fd, (_, number, nbytes) in zip(files, segments, strict=True):
            content.number(number, nbytes)
            _write_through(content, fd, nbytes, request_nbytes)
        written_ns = time.monotonic_ns()
        for fd in files:
            os.fsync(fd)
        end_ns = time.monotonic_ns()
    done = sum(nbytes for _, _, nbytes in segments)
    return {"nbytes": done, "start_ns": start_ns, "written_ns": written_ns, "end_ns": end_ns}


def _write_through(content: Content, fd: int, nbytes: int, request_nbytes: int) -> None:
    for offset in range(0, nbytes, request_nbytes):
        data = content.part(offset, min(request_nbytes, nbytes - offset))
        count = os.pwrite(fd, data, offset)
        while count < len(data):
            count += os.pwrite(fd, data[count:], offset + count)


def read(
    segments: Sequence[Segment], request_nbytes: int, seconds: float, is_cold: bool
) -> Operation:
    """Read files in sequence: cold ones to the end of the last at most, cached ones again and
    again.

    Says `resident`, the share of the bytes in the page cache before. Returns `start_ns` and
    `marks`, (moment, bytes so far).
    """
    with ExitStack() as stack:
        files = []
        for path, _, nbytes in segments:
            files.append((_opened(stack, path, os.O_RDONLY), nbytes))
        yield {"resident": _prepared(files, is_cold)}
        marks = Marks(seconds)
        buffer = memoryview(mmap.mmap(-1, request_nbytes))
        buffer[:: mmap.PAGESIZE] = bytes(len(buffer[:: mmap.PAGESIZE]))  # memory that is there
        start_ns = time.monotonic_ns()
        until_ns = start_ns + int(seconds * 1e9)
        marks.put(start_ns, 0)
        done = 0
        while True:
            done = _read_through(files, buffer, until_ns, done, marks)
            now_ns = time.monotonic_ns()
            if is_cold or now_ns >= until_ns:
                break
    return {"start_ns": start_ns, "marks": marks.told(now_ns, done)}


def _opened(stack: ExitStack, path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC)
    stack.callback(os.close, fd)
    return fd


def _prepared(files: Sequence[tuple[int, int]], is_cold: bool) -> float | None:
    """Share of the files in the page cache, after they were to leave it, or to be in it."""
    if is_cold:
        for fd, _ in files:
            caches.drop(fd)
    shares = []
    for fd, nbytes in files:
        share = caches.resident_share(fd, nbytes)
        if share != 1 and not is_cold:
            _load(fd)
            share = caches.resident_share(fd, nbytes)
        if share is None:
            return None
        shares.append(share * nbytes)
    return sum(shares) / sum(nbytes for _, nbytes in files)


def _load(fd: int) -> None:
    """Have the page cache take a file."""
    offset = 0
    while count := len(os.pread(fd, 2**20, offset)):
        offset += count


def _read_through(
    files: Sequence[tuple[int, int]], buffer: memoryview, until_ns: int, done: int, marks: Marks
) -> int:
    """Read all files once, or until a moment; bytes read so far."""
    for fd, nbytes in files:
        offset = 0
        while offset < nbytes:
            count = os.preadv(fd, [buffer], offset)
            if not count:
                raise Damaged(f"it ends at byte {offset:,} of {nbytes:,}")
            offset += count
            done += count
            now_ns = time.monotonic_ns()
            if now_ns >= marks.next_ns:
                marks.put(now_ns, done)
            if now_ns >= until_ns:
                return done
    return done


def compare(content: Content, segments: Sequence[Segment], is_cold: bool) -> Operation:
    """Read files again, from storage if they are to be cold, and compare every byte with what was
    written. Raises Damaged.
    """
    yield {}
    compared = 0
    for path, number, nbytes in segments:
        with ExitStack() as stack:
            fd = _opened(stack, path, os.O_RDONLY)
            if is_cold:
                caches.drop(fd)
            content.number(number, nbytes)
            for offset in range(0, nbytes, _COMPARED_NBYTES):
                found = os.pread(fd, min(_COMPARED_NBYTES, nbytes - offset), offset)
                _require_same(content, path, offset, found, min(_COMPARED_NBYTES, nbytes - offset))
                compared += len(found)
    return {"nbytes": compared}


def _require_same(content: Content, path: str, offset: int, found: bytes, nbytes: int) -> None:
    written = bytes(content.part(offset, nbytes))
    if found == written:
        return
    if len(found) < nbytes:
        raise Damaged(
            f"{path} ends at byte {offset + len(found):,}, before its last that was written"
        )
    first = next(n for n in range(nbytes) if found[n] != written[n])
    raise Damaged(f"byte {offset + first:,} of {path} is not the one that was written there")


assert WINDOW_NBYTES % _COMPARED_NBYTES == 0
