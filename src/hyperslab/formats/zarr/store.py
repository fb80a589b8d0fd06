"""The chunk files of a Zarr array, through zarr-python's own pipeline of codecs.

- the array is built from a metadata document that the caller has: a read opens chunk files and
  nothing else (`tests/formats/test_zarr.py`)
- zarr-python waits for files and decoders in an event loop. Here each call has a loop of its own,
  in the calling thread, in which both are done at once: nothing is left running that a forked
  process would lack, a task uses the processors that it was given, and the time of decoding is the
  task's (docs/design/0009-zarr.md)
- those of a store that is not on this machine are objects, and are asked for several at a time
  (`zarr.objects`)
- a chunk file that is empty, cut short, or no file is an error; zarr-python takes some of these for
  chunks that were never written, and gives the fill value
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import stat
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import zarr
import zarr.errors
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import cpu
from zarr.storage import LocalStore, StorePath

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.zarr import codecs
from hyperslab.formats.zarr.objects import ChunkObjects
from hyperslab.storage.location import RemoteFolder
from hyperslab.storage.unfinished import beside
from hyperslab.storage.whole import appearing

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
_Part = tuple[Hyperslab, Hyperslab]
"A region of the array, and its place in the block."
LEAST_NBYTES = 4 * 1024**2
"Decoded chunks that are held at a time, or one chunk, however large it is."
MOST_NBYTES = 32 * 1024**2
"""The same of a large region, and of any whose chunks are asked for elsewhere, so that several are
under way.
"""
_PIPELINE = {
    "codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "codec_pipeline.batch_size": 8,
}
"Zarr's own settings, but for the chunks that it takes together, of which it takes 1 by default."
_CODECS = ("codecs", "compressor", "filters")
_lock = threading.Lock()
"Held while zarr's configuration and the filters of warnings are others than the user's."
# A child has the lock as it was, but not the thread that held it.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


LARGEST_SHARD_NBYTES = MOST_NBYTES // 4
"""Size of the largest shard elsewhere that one thread takes whole, so that what lies between its
chunks is not fetched by several, bytes.
"""


class ChunkFiles(LocalStore):
    """Files of a directory for reading: those that are not there are None, damaged ones raise
    FormatError.
    """

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Read a file, or what a request for a part of it names."""
        return self.get_sync(key, prototype=prototype, byte_range=byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """The same for callers without an event loop."""
        found = _contents(f"{self.root}/{key}", byte_range)
        if found is None:
            return None
        return (prototype or cpu.buffer_prototype).buffer.from_array_like(found)


class NewChunks(LocalStore):
    """Files of a directory for writing: each appears whole, by rename, and what was there before is
    not looked at.
    """

    nbytes = 0
    "Written so far."

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Nothing: writers own whole chunks."""
        return None

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Nothing."""
        return None

    async def set(self, key: str, value: Any) -> None:
        """Write a file; a failed write leaves none."""
        self.set_sync(key, value)

    def set_sync(self, key: str, value: Any) -> None:
        """The same for callers without an event loop."""
        final = Path(self.root, key)
        final.parent.mkdir(parents=True, exist_ok=True)
        with (
            appearing(final, beside(final)) as temporary,
            temporary.open("xb", buffering=0) as file,
        ):
            data = memoryview(value.as_numpy_array())
            while data.nbytes:
                data = data[file.write(data) :]
        self.nbytes += len(value)


def _contents(path: str, part: Any) -> Array | None:
    """Bytes of a file; None where there is no file."""
    try:
        fd = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # the last: a pipe would have us wait
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(f"{path}: the chunk cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path} is not a file, as a chunk has to be; copy the store again")
        start, end = _span(part, status.st_size)
        if not 0 <= start < end <= status.st_size:
            raise FormatError(
                f"{path}: the chunk is cut short ({status.st_size} bytes); copy the store again"
            )
        return _read(fd, path, start, end)
    finally:
        os.close(fd)


def _span(part: Any, nbytes: int) -> tuple[int, int]:
    match part:
        case RangeByteRequest():
            return part.start, part.end
        case SuffixByteRequest():
            return nbytes - part.suffix, nbytes
        case OffsetByteRequest():
            return part.offset, nbytes
        case _:
            return 0, nbytes


def _read(fd: int, path: str, start: int, end: int) -> Array:
    data = np.empty(end - start, np.uint8)
    view = data.data
    while view.nbytes:
        try:
            count = os.preadv(fd, [view], end - view.nbytes)
        except OSError as error:
            raise FormatError(f"{path}: the chunk cannot be read: {error.strerror}") from error
        if count == 0:
            raise FormatError(
                f"{path}: the chunk became shorter while it was read; copy the store again"
            )
        view = view[count:]
    return data


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that does at once, in its own thread, what would block others."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # who awaits the result is told
            future.set_exception(error)
        return future


def _finished(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = _Loop()
    try:
        return loop.run_until_complete(work())
    finally:
        for task in (left := asyncio.all_tasks(loop)):
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()


def finished(works: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """What coroutines return, one after the other in this thread, or each in a thread of its
    own.
    """
    if len(works) == 1 and not _is_in_loop():
        return [_finished(works[0])]
    with ThreadPoolExecutor(len(works) or 1) as pool:
        return list(pool.map(_finished, works))


def _is_in_loop() -> bool:
    """Whether this thread runs an event loop already, as that of a notebook does, in which there
    can be no second.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def reading(folder: str, metadata: bytes) -> Any:
    """The array that a directory is, by its metadata document, for `read`. Raises what zarr raises
    of a wrong one.

    What one elsewhere is asked for with, such as credentials, is kept no longer than the read.
    """
    if isinstance(folder, RemoteFolder):
        return _array(json.loads(metadata), ChunkObjects(folder))
    return _reading(folder, metadata)


@lru_cache(maxsize=64)
def _reading(folder: str, metadata: bytes) -> Any:
    return _array(json.loads(metadata), ChunkFiles(folder, read_only=True))


def writing(folder: str, said: dict[str, Any]) -> tuple[Any, NewChunks]:
    """The array that a directory is to be, by what its metadata document says, for `write`; and
    where it goes.
    """
    store = NewChunks(folder)
    return _array(said, store), store


def _array(said: dict[str, Any], store: Store) -> Any:
    """An array without a look at it, with zarr's own pipeline whatever the user has configured, and
    goes on to have.

    What zarr warns of, such as codecs that are not in the specification, is for those who write.
    """
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
        looking = {name: codecs.looking(said[name]) for name in _CODECS if name in said}
        with zarr.config.set(_PIPELINE):
            make: Any = zarr.AsyncArray  # whose types differ by version
            return make(
                {**said, **looking}, StorePath(store), {"order": "C", "write_empty_chunks": True}
            )


def read(
    array: Any,
    slab: Hyperslab,
    block: Array,
    chunk: Sequence[int],
    axes: Sequence[int],
    threads: int,
) -> None:
    """Read a region (strides above 0) into `block`. Raises FormatError for chunks that cannot be
    decoded.
    """
    least = LEAST_NBYTES
    if isinstance(array.store_path.store, ChunkObjects):
        least = MOST_NBYTES
        shard = array.shards or chunk
        if math.prod(shard) * block.dtype.itemsize <= LARGEST_SHARD_NBYTES:
            chunk = shard
    shares = _shares(slab, chunk, axes, block.dtype.itemsize, threads, least)
    finished([partial(_read_parts, array, parts, block) for parts in shares])


def write(array: Any, slab: Hyperslab, block: Array, chunk: Sequence[int]) -> None:
    """Write a region of whole chunks (strides 1). Raises OSError."""
    shares = _shares(slab, chunk, range(slab.ndim), block.dtype.itemsize, 1, LEAST_NBYTES)
    finished([partial(_write_parts, array, parts, block) for parts in shares])


async def _read_parts(array: Any, parts: Sequence[_Part], block: Array) -> None:
    for part, place in parts:
        index: tuple[Any, ...] = (
            ...,
            *place.slices(),
        )  # which is a view also where there are no axes
        out = cpu.buffer_prototype.nd_buffer.from_ndarray_like(block[index])
        try:
            await array.get_orthogonal_selection(
                part.slices(), out=out, prototype=cpu.buffer_prototype
            )
        except HyperslabError:
            raise
        except Exception as error:  # codecs of many makers raise many kinds
            where = array.store_path.store.root
            text = str(error).strip() or type(error).__name__
            why = f"zarr cannot decode the chunks of {part}: {text}; copy the store again"
            raise FormatError(f"{where}: {why}") from error


async def _write_parts(array: Any, parts: Sequence[_Part], block: Array) -> None:
    for part, place in parts:
        await array.setitem(part.slices(), block[place.slices()], prototype=cpu.buffer_prototype)


def _shares(
    slab: Hyperslab,
    chunk: Sequence[int],
    axes: Sequence[int],
    itemsize: int,
    threads: int,
    least: int,
) -> list[list[_Part]]:
    """The parts of a region for each of up to `threads` threads, which together hold no more chunks
    than they may.
    """
    low, high = slab.bounds
    nbytes = math.prod(z - a for a, z in zip(low, high, strict=True)) * itemsize
    held = max(1, max(least, min(MOST_NBYTES, nbytes // 2)) // (math.prod(chunk) * itemsize))
    most = math.prod(-(-z // n) - a // n for a, z, n in zip(low, high, chunk, strict=True))
    threads = min(threads, held, most)
    boxes = _boxes(low, high, chunk, axes, min(held // threads, -(-most // threads)))
    parts = [found for box in boxes if (found := slab.clip(box)) is not None]
    return [parts[first::threads] for first in range(min(threads, len(parts)))]


def _boxes(
    low: Sequence[int], high: Sequence[int], chunk: Sequence[int], axes: Sequence[int], most: int
) -> Iterator[Hyperslab]:
    """Boxes of up to `most` whole chunks that cover a region, long along the fast axes."""
    count = list(chunk)
    for axis in reversed(axes):
        chunks = min(most, -(-high[axis] // chunk[axis]) - low[axis] // chunk[axis])
        count[axis] = chunk[axis] * chunks
        most //= chunks
    firsts = [
        range(a // n * n, z, step) for a, z, n, step in zip(low, high, chunk, count, strict=True)
    ]
    for start in itertools.product(*firsts):
        yield Hyperslab(start, tuple(count))
