"""Indexes of gzip files: made in one pass, and kept in a file or in memory. `ways.gzip` reads
through them.

- a file's own checksums are checked when it is indexed (`tests/formats/test_gzip_damage.py`)
- an index belongs to one state of one file: with any other it is not used
- a damaged index is made again where it is loaded, and an error where a task reads through it,
  never a wrong value

A file of an index, little-endian: the windows; the points, int64; about what they are, as JSON;
lengths of these two, uint64; xxh3_128 of all that; and the eight bytes of `_MAGIC`.
"""

from __future__ import annotations

import functools
import json
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.source import LEAST_INDEXED_NBYTES, ArraySource, GzipIndex
from hyperslab.errors import AGAIN, FormatError, SourceChanged
from hyperslab.formats import facts_of
from hyperslab.storage.unfinished import beside
from hyperslab.storage.whole import appearing

SPACING_NBYTES = 1024**2
"""Plain bytes between two points; their windows then take about 3 % of the file, and a read
inflates 1 MiB in vain.
"""
_COLUMNS = 8
_MAGIC = b"hysgzi01"
_TAIL = struct.Struct("<QQ16s8s")
WINDOW_NBYTES = 32 * 1024

Watch = Callable[[int], None]
"Called now and then with the position in the file; what it raises ends the pass."


def can_be_indexed(source: ArraySource) -> bool:
    """Whether a source is one gzip stream of this machine, large enough, not indexed yet, and the
    core is there.
    """
    if not source.is_here or source.broken or native.core is None:
        return False
    if not facts_of(source.format).is_stream or not is_one_gzip_stream(source):
        return False
    return source.gzip is None and _is_large(source)


def is_one_gzip_stream(source: ArraySource) -> bool:
    """Whether all values are in one gzip stream; chunks in files of their own, as a store has them,
    are not.
    """
    is_piece = source.chunks is None and not source.chunk_shape
    is_file = not source.document and source.data is None
    return is_piece and is_file and [codec.name for codec in source.codecs] == ["gzip"]


@functools.lru_cache(maxsize=64)
def expected(source: ArraySource) -> ArraySource:
    """The source with an index as it will be made of it, about, to estimate what reading through it
    costs.

    Points and stored bytes are evenly spread. A source that is not to be indexed is returned as it
    is.
    """
    if not can_be_indexed(source):
        return source
    nbytes = offset_of(source) + source.nbytes
    points = np.zeros((-(-nbytes // SPACING_NBYTES) + 1, _COLUMNS), np.int64)
    points[:, 0] = np.minimum(np.arange(len(points)) * SPACING_NBYTES, nbytes)
    points[:, 1] = (points[:, 0] / nbytes * source.file_size).astype(np.int64) * 8
    points[:, 2] = 1
    points[:, 4:6] = WINDOW_NBYTES // 2
    return replace(source, gzip=GzipIndex(points, offset_of(source), "an index to be made"))


def index(
    source: ArraySource,
    path: Path | None = None,
    watch: Watch = lambda _: None,
    spacing: int = SPACING_NBYTES,
) -> ArraySource:
    """The source with an index, whose windows are kept in a file, which appears when it is
    complete, or in memory.

    Raises FormatError for a file that is corrupt, SourceChanged for one that is not the one
    described, OSError where the index cannot be written.
    """
    if path is None:
        windows: list[bytes] = []
        points = _points(source, spacing, windows.append, watch)
        if not len(points):
            windows.clear()
        made = GzipIndex(points, offset_of(source), "", b"".join(windows))
        return replace(source, gzip=made, reason=_reason(made))
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path, beside(path)) as temporary, temporary.open("wb") as file:
        writing = _Writing(file)
        points = _points(source, spacing, writing.add, watch)
        writing.finish(points, _about(source))
    made = GzipIndex(points, offset_of(source), str(path))
    return replace(source, gzip=made, reason=_reason(made))


def indexed(source: ArraySource) -> ArraySource:
    """The source with an index in memory where it can be given one, else as it is.

    Raises FormatError, SourceChanged.
    """
    if not can_be_indexed(source):
        return source
    return index(source)


def index_in(folder: Path, source: ArraySource, watch: Watch = lambda _: None) -> ArraySource:
    """The source with an index whose windows are kept in a folder, under a name of its own.

    Raises as `index` does.
    """
    return index(source, folder / file_name(source), watch)


def load_from(folder: Path, source: ArraySource) -> ArraySource | None:
    """The source with the index that `index_in` has left in a folder; None where there is none."""
    return load(source, folder / file_name(source))


def load(source: ArraySource, path: Path) -> ArraySource | None:
    """The source with the index in a file; None where there is none, or it is damaged, or that of
    something else.
    """
    with suppress(OSError, ValueError, struct.error):
        points, about = _load(path)
        if about == _about(source):
            made = GzipIndex(points, offset_of(source), str(path))
            return replace(source, gzip=made, reason=_reason(made))
    return None


def file_name(source: ArraySource) -> str:
    """The name under which the index of a source is kept."""
    return f"{xxhash.xxh3_128(json.dumps(_about(source)).encode()).hexdigest()}.gzipindex"


def _is_large(source: ArraySource) -> bool:
    return source.nbytes >= LEAST_INDEXED_NBYTES and source.header.native is not None


def _reason(index: GzipIndex) -> str:
    if not len(index):
        return "one gzip stream that cannot be read from the middle: every task inflates all of it"
    return f"one gzip stream, indexed: a task starts at the nearest of {len(index):,} points"


def offset_of(source: ArraySource) -> int:
    """First byte of the data: the format keeps all that comes before them."""
    assert source.header.native is not None
    return len(source.header.native)


def _about(source: ArraySource) -> dict[str, Any]:
    """What an index belongs to."""
    state = {"file_size": source.file_size, "mtime_ns": source.mtime_ns, "version": source.version}
    return {
        "format": 1,
        "url": source.url,
        **state,
        "offset": offset_of(source),
        "nbytes": source.nbytes,
    }


def _points(
    source: ArraySource, spacing: int, sink: Callable[[bytes], object], watch: Watch
) -> Array:
    """One pass over the file."""
    assert native.core is not None
    fd = _open_unchanged(source)
    try:
        wanted = offset_of(source) + source.nbytes
        rows, _unfit = native.core.index_gzip(fd, source.file_size, wanted, spacing, sink, watch)
        _check_unchanged(source, fd)
    except native.core.ChunkError as error:
        raise FormatError(f"{source.url}: {error.text}; fetch or copy the file again") from error
    finally:
        os.close(fd)
    return np.frombuffer(rows, np.int64).reshape(-1, _COLUMNS)


def _open_unchanged(source: ArraySource) -> int:
    try:
        fd = os.open(source.url, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SourceChanged(f"{source.url} is no longer there: restore it", AGAIN) from error
    try:
        _check_unchanged(source, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_unchanged(source: ArraySource, fd: int) -> None:
    now = os.fstat(fd)
    if (now.st_size, now.st_mtime_ns) != (source.file_size, source.mtime_ns):
        raise SourceChanged(
            f"{source.url}: was written to while it was opened: open it again",
            "or run again with --resume",
        )


@dataclass(slots=True)
class _Writing:
    """The file of an index under way."""

    file: BinaryIO
    digest: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def add(self, data: bytes) -> None:
        self.digest.update(data)
        self.file.write(data)

    def finish(self, points: Array, about: dict[str, Any]) -> None:
        """What follows the windows."""
        columns = points.astype("<i8").tobytes()
        text = json.dumps(about).encode()
        self.add(columns)
        self.add(text)
        self.add(struct.pack("<QQ", len(columns), len(text)))
        self.file.write(self.digest.digest() + _MAGIC)


def _load(path: Path) -> tuple[Array, dict[str, Any]]:
    """Points, and what they belong to. Raises ValueError or struct.error for a file that is not as
    it was written.
    """
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - _TAIL.size
        file.seek(max(0, end))
        columns_nbytes, text_nbytes, digest, magic = _TAIL.unpack(file.read())
        begin = end - columns_nbytes - text_nbytes
        if magic != _MAGIC or begin < 0 or _digest(file, end + 16) != digest:
            raise ValueError(f"{path} is damaged")
        file.seek(begin)
        columns = file.read(columns_nbytes)
        text = file.read(text_nbytes)
    points: Array = np.frombuffer(columns, "<i8").reshape(-1, _COLUMNS).astype(np.int64)
    return points, json.loads(text)


def _digest(file: BinaryIO, nbytes: int) -> bytes:
    """Digest of the first so many bytes."""
    digest = xxhash.xxh3_128()
    file.seek(0)
    while nbytes and (data := file.read(min(nbytes, SPACING_NBYTES))):
        digest.update(data)
        nbytes -= len(data)
    return digest.digest()
