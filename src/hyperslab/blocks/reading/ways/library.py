"""What only the library of a format can read: it says no places, or its filters need the core, or
cannot be undone by it.

Of a gzip stream that is not entered in the middle, every read inflates all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import touched
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading.gzipindex import is_one_gzip_stream
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.opening import opened, watched
from hyperslab.blocks.reading.ways.memory import Counter
from hyperslab.blocks.reading.ways.way import Costs, Counted, Way
from hyperslab.errors import FormatError
from hyperslab.formats import module
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.file import KEPT_NBYTES

_LIBRARY_NBYTES = 16 * 1024**2
"What libraries hold for themselves, at most."
_CHUNK_OBJECTS_NBYTES = 96 * 1024**2
"""What a Zarr store elsewhere takes: chunks as they arrive, those that wait to be decoded, and what
clients take for themselves.
"""

_Number = TypeVar("_Number", int, npt.NDArray[np.int64])


class Library(Way):
    """Reads through the reference reader of the format."""

    name = "library"
    words = "the reference library"
    uses_library = True
    fills = False

    def fits(self, source: ArraySource) -> bool:
        if source.chunks is None:
            return True
        if native.core is None:
            return bool(source.codecs)
        return any(not codec.undoing[0] for codec in source.codecs)

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        """About: a proportion of what the array takes in the file."""
        return _proportion(source, *_share(source, region))

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        """The chunks that the library has to decode."""
        if not source.chunk_shape:
            return 1
        return math.prod(touched(region, source.chunk_shape))

    def is_even(self, source: ArraySource) -> bool:
        return is_one_gzip_stream(source) or not source.chunk_shape

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        low, high = region.bounds
        extents = [z - a for a, z in zip(low, high, strict=True)]
        return _peak(source, math.prod(extents))

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        if is_one_gzip_stream(source) or not source.chunk_shape:
            return super().costs(source, boxes)
        chunk = np.array(source.chunk_shape, np.int64)
        cells = -(-boxes.high // chunk) - boxes.low // chunk
        read = cells.prod(axis=1)
        numbers, which = np.unique(read, return_inverse=True)
        everywhere = _all_chunks(source)
        nbytes = [_proportion(source, number, everywhere) for number in numbers.tolist()]
        return Costs(np.array(nbytes)[which], read, _peak(source, boxes.size))

    @contextmanager
    def opened(self, source: ArraySource, reader: Reader | None) -> Iterator[Counted]:
        if source.document:
            with watched(source):
                yield Counter()
            return
        with opened(source) as file:
            path = ""
            if isinstance(file, OpenFile) and file.is_copy:
                path = file.path
            yield Counter(path=path)

    def read(
        self,
        file: Counter,
        source: ArraySource,
        slab: Hyperslab,
        out: Array | None,
        threads: int,
        reader: Reader | None,
    ) -> Array:
        block = _read_at(file.path, source, slab, threads)
        file.nbytes = self.nbytes(source, slab.permute(source.axes))
        return block

    def unit(self, source: ArraySource) -> tuple[int, ...]:
        if is_one_gzip_stream(source):
            return source.shape
        return super().unit(source)


def _read_at(path: str, source: ArraySource, slab: Hyperslab, threads: int) -> Array:
    """The stored values of a region, by the library, which is given another path if that is not ''.

    What goes wrong is told of the source all the same.
    """
    if not path:
        return module(source.format).read_reference(source, slab, threads)
    try:
        return module(source.format).read_reference(replace(source, url=path), slab, threads)
    except FormatError as error:
        raise FormatError(str(error).replace(path, source.url)) from error


def _proportion(source: ArraySource, read: int, all_there_is: int) -> int:
    """Bytes of so much of what an array takes in its file."""
    nbytes_stored = source.nbytes_stored or source.nbytes
    return -(-nbytes_stored * read // all_there_is)


def _peak(source: ArraySource, elements: _Number) -> _Number:
    """What is held while the library reads so many elements, gaps between them included."""
    held = 2 * elements + 3 * math.prod(source.chunk_shape)
    return held * source.stored.itemsize + _held_nbytes(source)


def _held_nbytes(source: ArraySource) -> int:
    """What a library, and the store that it reads from, hold for themselves."""
    if isinstance(source.url, RemoteFolder):
        return _LIBRARY_NBYTES + _CHUNK_OBJECTS_NBYTES
    if isinstance(source.url, Remote):
        return _LIBRARY_NBYTES + KEPT_NBYTES
    return _LIBRARY_NBYTES


def _share(source: ArraySource, region: Hyperslab) -> tuple[int, int]:
    """How much a library reads, of how much: all of a gzip stream, the chunks that the region's
    bounds touch, or the elements of a region of what is one piece.
    """
    if is_one_gzip_stream(source):
        return 1, 1
    if not source.chunk_shape:
        return region.size, source.size
    return math.prod(touched(region, source.chunk_shape)), _all_chunks(source)


def _all_chunks(source: ArraySource) -> int:
    """How many chunks an array has."""
    return math.prod(touched(Hyperslab.full(source.stored_shape), source.chunk_shape))
