"""Regions of a gzip stream, read through an index of places at which it can be entered.

- the checksum of each interval is checked when it is read (`tests/formats/test_gzip_damage.py`)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import row_nbytes
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, GzipIndex
from hyperslab.blocks.positioned import OpenFile
from hyperslab.blocks.reading.gzipindex import SPACING_NBYTES, WINDOW_NBYTES
from hyperslab.blocks.reading.kept import Reader
from hyperslab.blocks.reading.ways.way import Costs, Way
from hyperslab.errors import AGAIN, FormatError

_DRESS_NBYTES = 4096
_DECODER_NBYTES = 64 * 1024
"What one decoder takes, and more."
_ANEW = f"{AGAIN}, which makes a new one"


class _Intervals(NamedTuple):
    """Sizes of the intervals that a region needs, one row each, in bytes."""

    stored: Array
    windows: Array
    "Stored bytes of the windows before them."
    plain: Array


class Gzip(Way):
    """A gzip stream, entered at the nearest point before what is wanted."""

    name = "gzip"
    words = "an index"
    seek_nbytes = SPACING_NBYTES

    def fits(self, source: ArraySource) -> bool:
        return source.gzip is not None and len(source.gzip) > 0 and native.core is not None

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        """Windows in a file are read, too."""
        return _nbytes(source, _intervals(source, region))

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        return 1

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        """Intervals being read and those being decoded."""
        return _peak(source, _intervals(source, region), threads)

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        begins, ends = _rows(source, boxes.low, boxes.high)
        rows = zip(boxes, begins.tolist(), ends.tolist(), strict=True)
        found = [_intervals_among(source, *one) for one in rows]
        nbytes = [_nbytes(source, intervals) for intervals in found]
        peak = [_peak(source, intervals, None) for intervals in found]
        return Costs(np.array(nbytes), np.ones(len(boxes), np.int64), np.array(peak))

    def fill(
        self,
        file: OpenFile,
        source: ArraySource,
        region: Hyperslab,
        block: Array,
        threads: int,
        reader: Reader | None,
    ) -> None:
        """Raises FormatError that names the interval that is corrupt."""
        core = native.core
        assert core is not None
        index = _index(source)
        rows, array, box = _arguments(source, region, *_rows_of(source, region))
        depth = max(threads, native.DEPTH)
        with _windows_of(source) as windows:
            try:
                file.nbytes += core.read_gzip(
                    file.fd, array, windows, index.windows, box, block, threads, depth
                )
            except core.ChunkError as error:
                raise _fault(source, rows, error) from error

    def unit(self, source: ArraySource) -> tuple[int, ...]:
        return ()

    def part(self, source: ArraySource, region: Hyperslab) -> ArraySource:
        """A task does not bring all of the index."""
        known = _index(source)
        first, last = _rows_of(source, region)
        points = known.points[first:last].copy()
        if known.path:
            return replace(source, gzip=replace(known, points=points))
        low = int(points[:, 3].min())
        high = int((points[:, 3] + points[:, 4]).max())
        points[:, 3] -= low
        windows = known.windows[low:high]
        return replace(source, gzip=replace(known, points=points, windows=windows))


def _nbytes(source: ArraySource, found: _Intervals) -> int:
    nbytes = found.stored.sum()
    if _index(source).path:
        nbytes += found.windows.sum()
    return int(nbytes)


def _peak(source: ArraySource, found: _Intervals, threads: int | None) -> int:
    count = len(found.stored)
    if count == 0:
        return 0
    threads = threads or max(native.threads(), native.DEPTH)
    reading = min(max(threads, native.DEPTH), count)
    read = int(found.stored.max() + found.windows.max()) + WINDOW_NBYTES + _DRESS_NBYTES
    decoded = int(found.plain.max()) + 2 * WINDOW_NBYTES + _DECODER_NBYTES
    rows = 4 * _index(source).points.nbytes
    return reading * read + min(threads, count) * decoded + rows


def _index(source: ArraySource) -> GzipIndex:
    assert source.gzip is not None
    return source.gzip


@contextmanager
def _windows_of(source: ArraySource) -> Iterator[int | None]:
    """The open file of an index; None where the windows are in memory."""
    path = _index(source).path
    if not path:
        yield None
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise FormatError(f"{source.url}: its index {path} is gone", _ANEW) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _fault(source: ArraySource, rows: Array, error: Any) -> FormatError:
    """What the core says of a row, as an error that names the place in the file."""
    at = int(rows[error.row, 1]) // 8
    told = f"{source.url}: the gzip data that begin at byte {at} {error.text}"
    if error.kind == "misplaced":
        return FormatError(told, _ANEW)
    return FormatError(f"{told}; fetch or copy the file again")


def _arguments(
    source: ArraySource, region: Hyperslab, begin: int, end: int
) -> tuple[Array, Any, Any]:
    """The rows that a region may need, from `begin` to `end`; array and region as the core takes
    them.
    """
    index = _index(source)
    # What came over a network may not be aligned.
    rows = np.require(index.points[begin:end], requirements=("C", "A"))
    array = (rows.reshape(-1), index.offset, list(source.stored_shape), source.stored.itemsize)
    box = (region.start, region.count, region.stride)
    return rows, array, box


def _rows_of(source: ArraySource, region: Hyperslab) -> tuple[int, int]:
    """First and one past the last of the points that a region may need."""
    low, high = (np.array([bound], np.int64) for bound in region.bounds)
    begin, end = _rows(source, low, high)
    return int(begin[0]), int(end[0])


def _rows(source: ArraySource, low: Array, high: Array) -> tuple[Array, Array]:
    """The same of many regions: `low` and `high` are (regions, ndim), their bounds."""
    index = _index(source)
    item = source.stored.itemsize
    steps = np.array(row_nbytes(source.stored_shape, item), np.int64)
    begin = index.offset + low @ steps
    end = index.offset + (high - 1) @ steps + item
    plain = index.points[:, 0]
    first = np.searchsorted(plain, begin, "right") - 1
    last = np.searchsorted(plain, end, "left") + 1
    return np.maximum(0, first), last


def _intervals(source: ArraySource, region: Hyperslab) -> _Intervals:
    return _intervals_among(source, region, *_rows_of(source, region))


def _intervals_among(source: ArraySource, region: Hyperslab, begin: int, end: int) -> _Intervals:
    """The intervals that a region needs, among those between some points."""
    assert native.core is not None
    points, array, box = _arguments(source, region, begin, end)
    rows = np.array(native.core.gzip_intervals(array, box), np.intp)
    here = points[rows]
    there = points[rows + 1]
    stored = (there[:, 1] + 7) // 8 - here[:, 1] // 8
    plain = there[:, 0] - here[:, 0]
    return _Intervals(stored, here[:, 4], plain)
