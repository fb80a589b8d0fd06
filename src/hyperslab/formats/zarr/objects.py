"""The chunk objects of a Zarr array in an object store or on a web server, as zarr-python's
pipeline asks for them.

- a chunk that the store says is not there (404) has the fill value; whatever else comes in its
  place is an error (`tests/storage/remote/test_zarr_faults.py`)
- up to DEPTH requests of a read are under way, also of the parts of one large chunk
  (`tests/storage/remote/test_zarr_requests.py`)
- parts of one object are of one state of it: a shard that is written to while it is read is
  SourceChanged
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from hyperslab.arrays import Array
from hyperslab.errors import FormatError, HyperslabError, Unavailable
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.connections import store_of, submit
from hyperslab.storage.remote.faults import Fault
from hyperslab.storage.remote.file import DEPTH, LARGEST_NBYTES, join
from hyperslab.storage.remote.objects import Answer, request, sought

T = TypeVar("T")


class ChunkObjects(MemoryStore):
    """Objects below a URL for reading, for one read."""

    def __init__(self, folder: RemoteFolder) -> None:
        super().__init__(read_only=True)
        self.root = folder
        self._gate = asyncio.Semaphore(DEPTH)
        self._asked = itertools.count(1)
        self._seen: dict[str, tuple[Any, Remote, Array]] = {}
        "First part of each object of which parts are read, and the object as it was then."
        store_of(folder)  # opened in this thread, where opening may take its time

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Read an object, or what a request for a part of it names; None for one that is not
        there.
        """
        if byte_range is None:
            found = await self._whole(key)
        else:
            found = await self._part(key, byte_range)
        if found is None:
            return None
        return _buffer(found, prototype)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """The same for callers without an event loop."""
        return asyncio.run(self.get(key, prototype, byte_range))

    async def get_ranges(self, key: str, ranges: Sequence[RangeByteRequest]) -> list[Any]:
        """Ascending parts of an object of which one was read before, those that are near each other
        together.
        """
        remote = self._seen[key][1]
        spans = [(part.start, part.end - part.start) for part in ranges]
        for offset, nbytes in spans:
            _require_within(remote, offset, nbytes)
        held = list(join(spans))
        whole = await _together(self._bytes(remote, some[0][0], sum(some[-1])) for some in held)
        return [
            _buffer(data[offset - some[0][0] :][:nbytes], None)
            for some, data in zip(held, whole, strict=True)
            for offset, nbytes in some
        ]

    async def _whole(self, key: str) -> Array | None:
        remote = self.root.below(key)
        answer = await self._first(remote, 0, LARGEST_NBYTES)
        if answer is None:
            return None
        found = _described(remote, answer)
        _require_within(found, 0, max(1, found.size))
        if len(answer.data) == found.size:
            return np.frombuffer(answer.data, np.uint8)
        return await self._bytes(found, 0, found.size, answer.data)

    async def _part(self, key: str, part: Any) -> Array | None:
        known = self._seen.get(key)
        if known is not None and known[0] == part:
            return known[2]
        if known is not None:
            start, end = _span(part, known[1].size)
            _require_within(known[1], start, end - start)
            return await self._bytes(known[1], start, end)
        remote = self.root.below(key)
        start, end = _span(part, 0)
        answer = await self._first(remote, start, end)
        if answer is None:
            return None
        found = _described(remote, answer)
        data = np.frombuffer(answer.data, np.uint8)
        _require_within(found, 0, max(1, end - start))
        before = self._seen.setdefault(key, (part, found, data))[1]
        if (before.size, before.tag) != (found.size, found.tag):
            raise Fault("changed", "was written to while it was read").error(remote, 1, 0)
        return data

    async def _bytes(self, remote: Remote, start: int, end: int, first: bytes = b"") -> Array:
        """Bytes of an object of known size and state, of which the first may be here already."""
        data = np.empty(end - start, np.uint8)
        data[: len(first)] = np.frombuffer(first, np.uint8)

        async def fill(offset: int) -> None:
            nbytes = min(LARGEST_NBYTES, end - offset)
            found = await self._admitted(remote, nbytes, partial(request, remote, offset, nbytes))
            data[offset - start :][:nbytes] = np.frombuffer(found, np.uint8)

        await _together(map(fill, range(start + len(first), end, LARGEST_NBYTES)))
        return data

    async def _first(self, remote: Remote, start: int, end: int) -> Answer | None:
        return await self._admitted(remote, abs(end - start), partial(sought, remote, start, end))

    async def _admitted(
        self, remote: Remote, nbytes: int, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Run a request in fsspec's thread when its turn has come; whatever that thread does, this
        comes to an end.
        """

        async def admitted() -> T | HyperslabError:
            async with self._gate:
                try:
                    return await work()
                except (
                    HyperslabError
                ) as error:  # asyncio would complain of one that nobody waits for any more
                    return error

        turns = 1 + next(self._asked) // DEPTH
        limit_s = store_of(remote).patience_s(nbytes) * turns
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(submit(admitted())), limit_s)
        except TimeoutError:
            raise Unavailable(
                f"{remote}: no answer within {limit_s:.0f} s; try again later"
            ) from None
        if isinstance(found, HyperslabError):
            raise found
        return found


async def _together(works: Iterable[Awaitable[T]]) -> list[T]:
    """What all of some coroutines return; where one fails, the others end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _span(part: Any, size: int) -> tuple[int, int]:
    """First byte of a part and the one after its last; from the end where the size is 0, that is
    not known.
    """
    match part:
        case RangeByteRequest():
            return part.start, part.end
        case SuffixByteRequest():
            if size:
                return (size - part.suffix, size)
            return (-part.suffix, 0)
        case OffsetByteRequest() if size:
            return part.offset, size
    raise TypeError(f"{part!r} is no part of an object of {size} bytes")


def _described(remote: Remote, answer: Answer) -> Remote:
    return Remote(remote.target, remote.options, answer.size or 0, answer.tag)


def _require_within(remote: Remote, start: int, nbytes: int) -> None:
    """Raise FormatError for a part that an object does not have."""
    if start < 0 or nbytes < 1 or start + nbytes > remote.size:
        raise FormatError(
            f"{remote}: the chunk is cut short ({remote.size} bytes); copy the store again"
        )


def _buffer(data: Array, prototype: Any) -> Any:
    return (prototype or cpu.buffer_prototype).buffer.from_array_like(data)
