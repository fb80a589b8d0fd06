"""Regions of a gzip stream, read through an index of places at which it can be entered.

- the checksum of each interval is checked when it is read (`tests/formats/test_gzip_damage.py`)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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


class _Needed(NamedTuple):
    """Intervals that regions need, one element a region; sizes in bytes."""

    number: Array
    stored: Array
    windows: Array
    "Stored bytes of the windows before them."
    largest_stored: Array
    largest_window: Array
    largest_plain: Array


class Gzip(Way):
    """A gzip stream, entered at the nearest point before what is wanted."""

    name = "gzip"
    words = "an index"
    seek_nbytes = SPACING_NBYTES

    def fits(self, source: ArraySource) -> bool:
        return source.gzip is not None and len(source.gzip) > 0 and native.core is not None

    def nbytes(self, source: ArraySource, region: Hyperslab) -> int:
        """Windows in a file are read, too."""
        return int(_nbytes(source, _needed_by(source, region))[0])

    def operations(self, source: ArraySource, region: Hyperslab) -> int:
        return 1

    def peak(self, source: ArraySource, region: Hyperslab, threads: int | None) -> int:
        """Intervals being read and those being decoded."""
        return int(_peak(source, _needed_by(source, region), threads)[0])

    def costs(self, source: ArraySource, boxes: Boxes) -> Costs:
        begins, ends = _rows(source, boxes.low, boxes.high)
        each = zip(boxes, begins.tolist(), ends.tolist(), strict=True)
        needed = _needed(source, [_among(source, *one) for one in each])
        operations = np.ones(len(boxes), np.int64)
        return Costs(_nbytes(source, needed), operations, _peak(source, needed, None))

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


def _nbytes(source: ArraySource, needed: _Needed) -> Array:
    if _index(source).path:
        return needed.stored + needed.windows
    return needed.stored


def _peak(source: ArraySource, needed: _Needed, threads: int | None) -> Array:
    threads = threads or max(native.threads(), native.DEPTH)
    reading = np.minimum(max(threads, native.DEPTH), needed.number)
    decoding = np.minimum(threads, needed.number)
    read = needed.largest_stored + needed.largest_window + WINDOW_NBYTES + _DRESS_NBYTES
    decoded = needed.largest_plain + 2 * WINDOW_NBYTES + _DECODER_NBYTES
    rows = 4 * _index(source).points.nbytes
    return np.where(needed.number, reading * read + decoding * decoded + rows, 0)


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


def _needed_by(source: ArraySource, region: Hyperslab) -> _Needed:
    """The intervals that one region needs."""
    return _needed(source, [_among(source, region, *_rows_of(source, region))])


def _needed(source: ArraySource, rows: Sequence[Array]) -> _Needed:
    """The intervals that regions need, which begin at these points, one array a region."""
    count = np.array([len(one) for one in rows])
    among = np.concatenate(rows)
    points = _index(source).points
    here = points[among]
    there = points[among + 1]
    stored = (there[:, 1] + 7) // 8 - here[:, 1] // 8
    plain = there[:, 0] - here[:, 0]
    windows = here[:, 4]
    return _Needed(
        count,
        _each(np.add, stored, count),
        _each(np.add, windows, count),
        _each(np.maximum, stored, count),
        _each(np.maximum, windows, count),
        _each(np.maximum, plain, count),
    )


def _each(reduce: np.ufunc, values: Array, count: Array) -> Array:
    """Values of all regions, one region's after the other, reduced to one a region; 0 of none."""
    made = np.zeros(len(count), np.int64)
    has_any = count > 0
    first = np.cumsum(count) - count
    if has_any.any():
        made[has_any] = reduce.reduceat(values, first[has_any])
    return made


def _among(source: ArraySource, region: Hyperslab, begin: int, end: int) -> Array:
    """The points at which the intervals begin that a region needs, among those between two."""
    assert native.core is not None
    _, array, box = _arguments(source, region, begin, end)
    return np.array(native.core.gzip_intervals(array, box), np.intp) + begin
