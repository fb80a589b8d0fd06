"""A remote object as a file: byte ranges by few, joined requests, and a file-like object for the
libraries of formats.

- ranges that lie near each other are asked for together, several requests are under way at a time,
  and what is asked for can be known before: `join` (`tests/storage/remote/test_requests.py`)
- the file-like object keeps blocks that it has read, for this process and this state of the object,
  so that opening a file takes few requests; it reads ahead while it is read from front to back

Sources of the numbers: Amazon S3 user guide, "Performance design patterns" (byte ranges of 8 to 16
MB, first byte after tens of milliseconds, 85 to 90 MB/s per connection).
"""

from __future__ import annotations

import builtins
import gc
import io
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import tee
from typing import TYPE_CHECKING, Any, BinaryIO

from hyperslab.storage.location import Remote

if TYPE_CHECKING:
    from concurrent.futures import Future

GAP_NBYTES = 256 * 1024
"""Bytes that are fetched in vain rather than make another request: it waits 20 to 50 ms for its
first byte, with DEPTH of them under way costs an eighth of that, and in so long a connection moves
this much.
"""
LARGEST_NBYTES = 8 * 1024**2
"""Size of one request, bytes, so that those of a large region run side by side, and little is lost
with a connection.
"""
DEPTH = 8
"Requests under way for one reader."
BLOCK_NBYTES = 256 * 1024
"""Size of a block of a file that a library reads, bytes: its metadata lie apart, so that a larger
block would be fetched for little.
"""
KEPT_BLOCKS = 128
"Blocks of all objects that a process keeps."
KEPT_NBYTES = 2 * KEPT_BLOCKS * BLOCK_NBYTES
"Upper bound of what they take, those being fetched included."
_MOST_AHEAD = 64

Range = tuple[int, int]
"First byte and number of bytes."

_blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
"Blocks by the description of their object and their number, that used last at the end."
_lock = threading.Lock()
_waiting, _was_collecting = 0, False
"""Readers that a library may be waiting in, and whether Python collected cyclic garbage before the
first of them.
"""


def join(ranges: Iterable[Range]) -> Iterator[list[Range]]:
    """Join ascending ranges that are fetched together: few gaps in vain, no more than
    LARGEST_NBYTES at once.

    A range of more bytes is by itself, and is fetched in several requests.
    """
    held: list[Range] = []
    for offset, nbytes in ranges:
        if held and not _fits(held, offset, nbytes):
            yield held
            held = []
        held.append((offset, nbytes))
    if held:
        yield held


def joined_nbytes(ranges: Iterable[Range]) -> int:
    """Bytes that fetching these ranges takes, gaps included."""
    return sum(sum(held[-1]) - held[0][0] for held in join(ranges))


class RemoteFile:
    """Reads ranges of an object and counts the bytes."""

    __slots__ = ("nbytes", "remote")

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.nbytes = 0

    def fetch(self, ranges: Iterable[Range]) -> Iterator[bytes]:
        """The bytes of ascending ranges, one after the other, while the requests for the next ones
        are under way.

        Raises SourceChanged, FormatError, UsageError, Unavailable.
        """
        asked, again = tee(join(ranges))
        with closing(self._landed(part for held in asked for part in _parts_of(held))) as landed:
            for held in again:
                parts = [next(landed) for _ in _parts_of(held)]
                data = parts[0]
                if len(parts) > 1:
                    data = b"".join(parts)
                self.nbytes += len(data)
                if len(held) == 1:
                    yield data
                    continue
                for offset, nbytes in held:
                    first = offset - held[0][0]
                    yield data[first : first + nbytes]

    def check(self) -> None:
        """Raise SourceChanged for an object that is no longer as it was described."""
        from hyperslab.storage.remote.objects import look_again

        look_again(self.remote)

    def _landed(self, parts: Iterable[Range]) -> Generator[bytes]:
        """What requests bring, in their order; up to DEPTH of them are under way, however many a
        range needs.
        """
        from hyperslab.storage.remote.objects import finished, start

        waiting: deque[tuple[int, Future[bytes]]] = deque()
        try:
            for offset, nbytes in parts:
                if len(waiting) == DEPTH:
                    yield finished(self.remote, *waiting.popleft())
                waiting.append((nbytes, start(self.remote, offset, nbytes)))
            while waiting:
                yield finished(self.remote, *waiting.popleft())
        finally:  # of those that nobody waits for any more
            for _, future in waiting:
                future.cancel()


class RemoteIO(io.RawIOBase):
    """A remote object as Python's files are, for reading at any place. One reader at a time."""

    def __init__(self, remote: Remote) -> None:
        self._file = RemoteFile(remote)
        self._position = 0
        self._next, self._ahead = -1, 1

    def __repr__(self) -> str:
        return str(self._file.remote)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.remote.size}[
            whence
        ]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are up to the end of the object; never fewer."""
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._file.remote.size)
        if end <= self._position:
            return 0
        begin = self._position
        filled = 0
        with _uncollected():
            for number, data in self._blocks(begin // BLOCK_NBYTES, (end - 1) // BLOCK_NBYTES):
                part = data[max(0, begin - number * BLOCK_NBYTES) : end - number * BLOCK_NBYTES]
                view[filled : filled + len(part)] = part
                filled += len(part)
        self._position = end
        return filled

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Blocks with their numbers, as they were kept or are fetched now."""
        wanted = range(first, last + 1)
        kept = {number: _kept(self._file.remote.token, number) for number in wanted}
        missing = [number for number in wanted if kept[number] is None]
        if missing:
            missing += self._further(missing[0], last)
        fetched = self._fetched(missing)
        for number in wanted:
            data = kept[number]
            if data is None:
                data = next(fetched)
            yield number, data
        for _ in fetched:  # what was read ahead is kept
            pass

    def _fetched(self, numbers: list[int]) -> Iterator[bytes]:
        remote = self._file.remote
        ranges = (_range_of_block(number, remote.size) for number in numbers)
        for number, data in zip(numbers, self._file.fetch(ranges), strict=True):
            keep(remote.token, number, data)
            yield data

    def _further(self, first: int, last: int) -> list[int]:
        """Numbers of blocks to fetch beyond those wanted: more and more while the file is read from
        front to back.
        """
        is_next = first == self._next
        self._ahead = min(2 * self._ahead, _MOST_AHEAD) if is_next else 1
        blocks = -(-self._file.remote.size // BLOCK_NBYTES)
        end = min(last + self._ahead, blocks)
        self._next = max(end, last + 1)
        return list(range(last + 1, end))


def describe(url: str, options: Mapping[str, Any] | None = None) -> Remote:
    """Describe an object as it is now, and keep the beginning that came with the answer.

    Raises FormatError, UsageError, MissingExtra, Unavailable.
    """
    from hyperslab.storage.remote import objects

    remote, head = objects.look(url, options or {}, BLOCK_NBYTES)
    if len(head) == min(BLOCK_NBYTES, remote.size):
        keep(remote.token, 0, head)
    return remote


def open_binary(path: str) -> BinaryIO:
    """A file of this machine, or a remote object, for reading."""
    if isinstance(path, Remote):
        return io.BufferedReader(RemoteIO(path))
    return builtins.open(path, "rb")


def size_of(path: str) -> int:
    """Bytes of a file, or of a remote object as it was described."""
    if isinstance(path, Remote):
        return path.size
    return os.stat(path).st_size


def keep(token: str, number: int, data: bytes) -> None:
    """Keep a block of an object for who reads it next."""
    with _lock:
        _blocks[token, number] = data
        _blocks.move_to_end((token, number))
        if len(_blocks) > KEPT_BLOCKS:
            _blocks.popitem(last=False)


def _kept(token: str, number: int) -> bytes | None:
    with _lock:
        data = _blocks.get((token, number))
        if data is not None:
            _blocks.move_to_end((token, number))
        return data


def _fits(held: list[Range], offset: int, nbytes: int) -> bool:
    """Whether a range is fetched with those before it."""
    return (
        0 <= offset - sum(held[-1]) <= GAP_NBYTES and offset + nbytes - held[0][0] <= LARGEST_NBYTES
    )


def _parts_of(held: Sequence[Range]) -> Iterator[Range]:
    """The requests for ranges that are fetched together."""
    return _parts(held[0][0], sum(held[-1]))


def _parts(first: int, end: int) -> Iterator[Range]:
    """The requests that fetch all bytes between two places."""
    for offset in range(first, end, LARGEST_NBYTES):
        yield offset, min(LARGEST_NBYTES, end - offset)


def _range_of_block(number: int, size: int) -> Range:
    return number * BLOCK_NBYTES, min(BLOCK_NBYTES, size - number * BLOCK_NBYTES)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No cyclic garbage is collected meanwhile, in no thread.

    h5py waits in a read with its lock held. The thread that fetches must not come to free objects
    of h5py, which takes that lock: each would wait for the other.
    """
    global _waiting, _was_collecting  # noqa: PLW0603  # the collector is one for the whole process
    with _lock:
        if _waiting == 0:
            _was_collecting = gc.isenabled()
            gc.disable()
        _waiting += 1
    try:
        yield
    finally:
        with _lock:
            _waiting -= 1
            if _waiting == 0 and _was_collecting:
                gc.enable()


def _begin_anew() -> None:
    """Begin anew in a forked child: the threads that were waiting, or held the lock, are not there
    to end it.
    """
    global _lock, _waiting  # noqa: PLW0603  # a lock that may be held can only be replaced
    if _waiting and _was_collecting:
        gc.enable()
    _lock = threading.Lock()
    _waiting = 0


os.register_at_fork(after_in_child=_begin_anew)
