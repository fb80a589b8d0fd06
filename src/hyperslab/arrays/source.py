"""ArraySource: what is known of an array in a file, as plain data.

Nothing here opens a file. A source is made once, by the driver, from the file's metadata; it is
picklable, and a task that holds it needs one open, one fstat and its positioned reads. "Stored
order" means the axes as they lie in the file, slowest first (C order); `axes` maps it to the
array's own axes: stored axis i is the array's axis `axes[i]`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError
from hyperslab.storage.location import Remote
from hyperslab.units import show_bytes

Values = Literal["real", "stored"]
"""Two kinds of value: as meant (slope and intercept applied, fill as NaN) or as the bytes in the
file say.
"""


_WORTH_FINDING = 8
"Times as many rows to be looked at as a region has cells, from which on its rows are looked up."
_MOST_CELLS = 2**62


@dataclass(frozen=True, slots=True)
class Codec:
    """One filter of a stored chunk."""

    name: str
    "deflate, shuffle, ..."
    options: tuple[int, ...] = ()
    "The filter's own parameters, as the format stores them."
    undoing: tuple[str, tuple[int, ...]] = ("", ())
    "Name and numbers by which the native core undoes it; no name where others read."


def _exact(number: Any) -> tuple[tuple[int, ...], str, bytes]:
    """A number or array by its bits, so that NaN is equal to NaN."""
    array = np.asarray(number)
    return array.shape, array.dtype.str, array.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """What turns stored values into real ones, one by one: real = stored * slope + inter, NaN for
    what is missing.

    Precision: a Python float is computed with in the real dtype, where a slope of 1 and an
    intercept of 0 change nothing (NIfTI-1 standard, scl_slope and scl_inter). A NumPy number or
    array has its own: the product is of dtype result_type(stored, slope), the sum of
    result_type(product, inter), as NumPy's arithmetic gives them. What comes out is then converted
    to the array's real dtype. `hyperslab.arrays.scaling` applies it.
    """

    slope: float | np.generic | Array = 1.0
    "A number, or an array that broadcasts over the array's own axes (MINC: one slope per slice)."
    inter: float | np.generic | Array = 0.0
    "A number, or an array that broadcasts, like the slope."
    clip: tuple[float, float] | None = None
    "Stored values beyond these bounds count as the bound, in float64 (MINC: valid_range)."
    missing: tuple[np.generic, ...] = ()
    "Stored values that become NaN; of the stored dtype (netCDF: _FillValue, missing_value)."
    valid: tuple[np.generic | None, np.generic | None] | None = None
    """Stored values below the first or above the second become NaN; None is an open end (netCDF:
    valid_min, valid_max).
    """
    unsigned: bool = False
    "The stored integers, and those above, are meant without sign (netCDF: _Unsigned)."

    @property
    def is_linear(self) -> bool:
        """True when one slope and one intercept say it all."""
        more = self.clip is not None or self.missing or self.valid is not None or self.unsigned
        return not more and np.ndim(self.slope) == np.ndim(self.inter) == 0

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal scalings, NaN included."""
        numbers = [self.slope, self.inter, *self.missing]
        ends = None
        if self.valid is not None:
            numbers += [end for end in self.valid if end is not None]
            ends = tuple(end is None for end in self.valid)
        exact = tuple(map(_exact, numbers))
        return (exact, len(self.missing), ends, self.clip, self.unsigned)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaling) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGrid:
    """Chunks by their place among all that an array may have, so that a few of millions are found
    without looking at the others.
    """

    shape: tuple[int, ...]
    "Cells along each axis; () where chunks do not lie on a grid."
    numbers: npt.NDArray[np.int64] | None
    "(rows,): number of each row's cell, in C order; None where every cell has a row."

    @property
    def is_regular(self) -> bool:
        return bool(self.shape)

    def rows(self, cells: Sequence[range]) -> npt.NDArray[np.intp]:
        """The rows of the cells in these ranges, one range per axis."""
        wanted = np.zeros(1, np.intp)
        for axis, extent in zip(cells, self.shape, strict=True):
            along = np.arange(axis.start, min(axis.stop, extent))
            wanted = (wanted[:, None] * extent + along).ravel()
        if self.numbers is None:
            return wanted
        near = np.searchsorted(self.numbers, wanted)
        near = np.minimum(near, len(self.numbers) - 1)
        rows: npt.NDArray[np.intp] = near[self.numbers[near] == wanted]
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """Where the bytes of an array are: one row per stored chunk, in columns. All in stored order.

    A contiguous array is one chunk of the array's own shape. Chunks that were never written have no
    row: they hold the fill value. Rows are sorted by `start` (lexicographically).
    """

    chunk_shape: tuple[int, ...]
    "Shape of every chunk, in stored order; chunks at the far edges may reach beyond the array."
    start: npt.NDArray[np.int64]
    "(rows, ndim): first element of the chunk in the array, in stored order."
    offset: npt.NDArray[np.int64]
    "(rows,): first byte in the file."
    nbytes: npt.NDArray[np.int64]
    "(rows,): stored bytes."
    mask: npt.NDArray[np.int64]
    "(rows,): bit i is set where the chunk was stored without the i-th filter."
    _grid: ChunkGrid | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.offset)

    def overlapping(self, slab: Hyperslab) -> ChunkTable:
        """The rows whose chunk touches the bounds of `slab` (in stored order)."""
        if not self.chunk_shape:
            return self
        low, high = slab.bounds
        # Rows are sorted by their first axis, so that most of a long table is left out before it is
        # looked at.
        first, last = np.searchsorted(self.start[:, 0], (low[0] - self.chunk_shape[0] + 1, high[0]))
        cells = _cells(low, high, self.chunk_shape)
        if math.prod(map(len, cells)) * _WORTH_FINDING < last - first and self.grid.is_regular:
            return self.take(self.grid.rows(cells))
        touches = np.ones(last - first, np.bool_)
        for axis, extent in enumerate(self.chunk_shape):
            column = self.start[first:last, axis]
            touches &= column < high[axis]
            touches &= column > low[axis] - extent
        return self.take(first + np.flatnonzero(touches))

    @property
    def grid(self) -> ChunkGrid:
        """The rows by their cells, found out at the first question."""
        if self._grid is None:
            object.__setattr__(self, "_grid", _grid_of(self))
        assert self._grid is not None
        return self._grid

    def take(self, rows: npt.NDArray[np.intp]) -> ChunkTable:
        columns = (self.start[rows], self.offset[rows], self.nbytes[rows], self.mask[rows])
        return ChunkTable(self.chunk_shape, *columns)


def _cells(low: Sequence[int], high: Sequence[int], chunk_shape: Sequence[int]) -> list[range]:
    """The cells that a region between these bounds touches, per axis."""
    cells = []
    for first, last, extent in zip(low, high, chunk_shape, strict=True):
        end = -(-last // extent)
        cells.append(range(first // extent, end))
    return cells


def _grid_of(table: ChunkTable) -> ChunkGrid:
    extents = np.array(table.chunk_shape, np.int64)
    cells, beside = np.divmod(table.start, extents)
    if beside.any():
        return ChunkGrid((), None)
    shape = tuple((cells.max(axis=0) + 1).tolist())
    if math.prod(shape) > _MOST_CELLS:
        return ChunkGrid((), None)
    numbers = np.ravel_multi_index(tuple(cells.T), shape).astype(np.int64)
    if not (np.diff(numbers) > 0).all():
        return ChunkGrid((), None)
    if math.prod(shape) == len(table):
        return ChunkGrid(shape, None)
    return ChunkGrid(shape, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class GzipIndex:
    """Places at which a gzip file can be entered, so that what lies between two of them can be
    inflated by itself.

    Made by `hyperslab.blocks.reading.gzipindex` in one pass over the file. Without rows: the file
    cannot be entered in the middle.
    """

    points: npt.NDArray[np.int64]
    """(rows, 8): plain bytes before the point, bits of the file before it, kind (0 a gzip member, 1
    a block, 2 and 3 between symbols of a block with fixed codes), then of the window before it:
    position, stored bytes, plain bytes, CRC-32 of the stored ones; and the CRC-32 of the plain
    bytes up to the next point. The last row ends the last interval.
    """
    offset: int
    "First byte of the array among the plain bytes."
    path: str = ""
    "File that begins with the windows; '' where they are here."
    windows: bytes = b""

    def __len__(self) -> int:
        return len(self.points)


LEAST_INDEXED_NBYTES = 4 * 1024**2
"""A gzip stream of fewer plain bytes is inflated from its start each time: that takes hundredths of
a second.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ArraySource:
    """An array in a file: what it is and where its bytes are. Data, not behaviour."""

    url: str
    """Absolute path of the file, or of the directory of one array's files; a `Remote`; 'memory:'
    for one in memory.
    """
    name: str
    "Path of the dataset within the file; '' where a file is one array."
    format: str
    "Name of the module in hyperslab.formats that made it and holds its reference reader."
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    axes: tuple[int, ...]
    "Stored axis i (slowest first) is the array's axis axes[i]; (2, 1, 0) for a 3-D NIfTI."
    stored: np.dtype[Any]
    "dtype of the bytes in the file, with its byte order."
    real: np.dtype[Any]
    "dtype of the real values, in native byte order."
    chunks: ChunkTable | None
    "None: only the reference reader can read it, for the reason below."
    reason: str
    "Why the chosen read path is used, in words."
    codecs: tuple[Codec, ...] = ()
    "Filters of every chunk, in the order in which writing applied them."
    scaling: Scaling | None = None
    unscalable: str = ""
    "Why the real values cannot be computed from the stored ones; '' where they can."
    fill: Any = None
    "Stored value of chunks that were never written."
    chunk_shape: tuple[int, ...] = ()
    """Shape of the stored chunks in stored order, also where chunks is None; () where the array is
    one piece.
    """
    header: Header = field(default_factory=Header)
    nbytes_stored: int = 0
    "Bytes the array's data take in the file."
    file_size: int = 0
    mtime_ns: int = 0
    """Time of the last change: with file_size, what a task compares to notice that the file was
    written to after planning.
    """
    version: str = ""
    """Checksum of the size, the metadata bytes and a sample of the data; equal for an untouched
    copy.
    """
    gzip: GzipIndex | None = None
    """Index of a file that is one gzip stream, once somebody has made it; regions are then read
    through it.
    """
    data: Array | None = None
    "The values themselves, for an array in memory."
    document: str = ""
    """Where url is a directory: path in it of the file that file_size and mtime_ns are of; '' where
    it is a file.
    """
    metadata: bytes = b""
    """What the format's library has to know of the array in order to read it without looking at its
    metadata again.
    """
    copy: str = ""
    """Path at which a copy of the file may lie for a while, on faster storage, and is read in its
    place.
    """
    broken: str = ""
    """Why the file cannot be understood: every read of it says so. Its shape and dtype then mean
    nothing.
    """

    @property
    def watched(self) -> str:
        """Path of the file whose size and time of change tell that the array is another one now."""
        if self.document:
            return os.path.join(self.url, self.document)
        return self.url

    @property
    def is_here(self) -> bool:
        """Whether it is in files of this machine, and neither elsewhere nor in memory."""
        return self.data is None and not isinstance(self.url, Remote)

    @property
    def label(self) -> str:
        """Path and dataset, for messages."""
        if self.name:
            return f"{self.url}::{self.name}"
        return self.url

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_image(self) -> bool:
        """Whether it has three axes or more, and a place in space."""
        return self.ndim > 2 and self.header.is_placed

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded array, as stored values."""
        return self.size * self.stored.itemsize

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in stored order."""
        return tuple(self.shape[a] for a in self.axes)

    @property
    def own_chunk_shape(self) -> tuple[int, ...]:
        """Shape of the stored chunks along the array's own axes; () where the array is one
        piece.
        """
        by_axis = dict(zip(self.axes, self.chunk_shape, strict=False))
        return tuple(by_axis[axis] for axis in sorted(by_axis))

    def html(self, more: Mapping[str, str] | None = None) -> str:
        """What it is, as a fragment of HTML without scripts, with further rows in its table."""
        from hyperslab.markup import fragment, grid_svg, regular_cuts

        title = os.path.basename(self.url)
        if self.name:
            title += f"::{self.name}"
        if self.broken:
            return fragment(title, {"file": self.url, "broken": self.broken})
        chunks = self.own_chunk_shape or self.shape
        shown_chunks = "one piece"
        if chunks != self.shape:
            shown_chunks = " x ".join(map(str, chunks))
        rows = {
            "file": self.url,
            "format": self.format,
            "shape": self._shown_shape(),
            "stored as": self._shown_encoding(),
            "chunks": shown_chunks,
            "size": self._shown_size(),
            **(more or {}),
        }
        pieces = [regular_cuts(*axis) for axis in zip(self.shape, chunks, strict=True)]
        return fragment(title, rows, grid_svg(pieces, self.dims))

    def _shown_shape(self) -> str:
        text = " x ".join(f"{n:,}" for n in self.shape) or "scalar"
        if self.dims:
            text += f" ({', '.join(self.dims)})"
        return text

    def _shown_encoding(self) -> str:
        text = str(self.stored)
        if self.codecs:
            names = " then ".join(codec.name for codec in self.codecs)
            text += f", {names}"
        return text

    def _shown_size(self) -> str:
        text = show_bytes(self.nbytes)
        if self.data is None:
            text += f", {show_bytes(self.nbytes_stored)} in the file"
        return text

    def _repr_html_(self) -> str:
        return self.html()

    def dtype(self, values: Values) -> np.dtype[Any]:
        """dtype of a block read as real or as stored values, always in native byte order.

        Raises UsageError for real values that cannot be computed: stored ones in their place would
        be wrong.
        """
        if values == "real" and self.unscalable:
            raise UsageError(
                f"{self.url}::{self.name}: its real values cannot be computed: {self.unscalable}; "
                "use --values stored (values='stored') if the stored numbers are meant"
            )
        if values == "real":
            return self.real
        return self.stored.newbyteorder("=")


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """One entry of a file's table of contents."""

    name: str
    shape: tuple[int, ...]
    dtype: str
