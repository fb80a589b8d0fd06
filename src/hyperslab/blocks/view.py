"""ArrayView: an array in a file that is read when it is indexed, as NumPy's arrays are."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.slab import Hyperslab, Index, from_index
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.reading.kept import Reader
from hyperslab.errors import UsageError
from hyperslab.formats import open_array, open_source
from hyperslab.machine.forklock import ForkLock
from hyperslab.units import show_bytes

_ANY = "name a file by its path, a dataset in it as 'PATH::DATASET', or give a NumPy array"
_INSTEAD = {
    "nibabel.": "give its path, image.get_filename(), or its values, numpy.asarray(image.dataobj)",
    "xarray.": "give the path of its file, or its values, array.to_numpy()",
    "dask.": "give the files that it was made from, or its values, array.compute()",
    "h5py.": "give 'PATH::DATASET', or its values, dataset[...]",
}
"What to give instead of an object of another library, by how the names of its modules begin."
_SHOWN = 40
"Characters of an object that are shown, at most."
_Positions = npt.NDArray[np.intp]
_Indices = Index | Sequence[int] | Array | tuple[Any, ...]


def open(  # noqa: A001  # the public name of the verb
    url: str | os.PathLike[str] | Array | SourceSet,
    values: Values = "real",
    storage_options: Mapping[str, Any] | None = None,
) -> ArrayView:
    """Open PATH, PATH::DATASET, URL::DATASET, an array in memory or one of `hyperslab.gather`;
    nothing but metadata is read now.

    `values` is 'real' for values as meant (slope and intercept applied, NaN where they are missing)
    or 'stored' for those in the file. A view is of the file as it was when it was opened: where it
    changes, reads raise SourceChanged; what this process writes through h5py is seen by views
    opened after that. `storage_options` are what fsspec is given with a URL (s3://, https:// ...).
    Raises FormatError for a file that cannot be read, Missing, which is a FileNotFoundError too,
    for one that is not there, UsageError for a dataset that is not there, Unavailable for a store
    that does not answer.
    """
    if values not in ("real", "stored"):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    if isinstance(url, np.ndarray):
        return ArrayView(open_array(url), values)
    if isinstance(url, SourceSet):
        return ArrayView(_only_source(url), values)
    if not isinstance(url, str | os.PathLike):
        raise no_source(url)
    return ArrayView(open_source(os.fspath(url), storage_options), values)


def _only_source(gathered: SourceSet) -> ArraySource:
    """The one file of what was gathered. Raises UsageError for several."""
    if len(gathered) > 1:
        raise UsageError(
            f"these are {len(gathered):,} arrays: open one of them, as in"
            " hyperslab.open(sources[0])"
        )
    if len(gathered.sources) > 1:
        raise UsageError(
            f"this array lies in {len(gathered.sources):,} files: read it with"
            " hyperslab.to_dask(sources), or write it as one file with hyperslab.convert"
        )
    return gathered.sources[0]


def no_source(given: object) -> UsageError:
    """The error for an object that names no array."""
    kind = type(given)
    place = kind.__module__
    if place == "builtins":
        what = f"{_short(given)} ({kind.__qualname__})"
    else:
        what = f"a {place}.{kind.__qualname__}"
    remedies = (remedy for library, remedy in _INSTEAD.items() if place.startswith(library))
    remedy = next(remedies, _ANY)
    return UsageError(f"{what} is not a source: {remedy}")


def _short(given: object) -> str:
    """What an object looks like, cut where that is long."""
    shown = repr(given)
    if len(shown) <= _SHOWN:
        return shown
    return shown[:_SHOWN] + "..."


class ArrayView:
    """What NumPy code asks of an array; indexing with integers, slices, '...' and one list reads
    those elements.
    """

    __slots__ = ("_indexing", "_reader", "_threads", "source", "values")

    def __init__(
        self,
        source: ArraySource,
        values: Values = "real",
        threads: Callable[[], int] = native.all_threads,
    ) -> None:
        """`threads` is asked before each read how many threads it decodes with."""
        self.source = source
        self.values: Values = values
        self._reader = Reader(source)
        self._indexing = ForkLock()
        self._threads = threads

    def __reduce__(self) -> tuple[type[ArrayView], tuple[ArraySource, Values, Callable[[], int]]]:
        return ArrayView, (self.source, self.values, self._threads)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype(self.values)

    @property
    def ndim(self) -> int:
        return self.source.ndim

    @property
    def size(self) -> int:
        return self.source.size

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array in memory."""
        return self.size * self.dtype.itemsize

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return self.source.dims

    @property
    def affine(self) -> Array | None:
        """(4, 4) float64: voxel indices along the axes of space, in the array's order, to places in
        the file's unit, millimetres nearly always; None where the array has none. Time may be
        before them, as in a series of MINC.

        The identity where an array in HDF5 or Zarr says none: its place is then counted in voxels.
        """
        return self.source.header.affine

    def read(self, where: Hyperslab | _Indices, out: Array | None = None) -> Any:
        """Read a region, or what an index as of `__getitem__` selects, into a new array or into
        `out` (any strides).

        `out` has the shape of what is read and this view's dtype. The first read of a large gzip
        file takes as long as inflating it. Raises IndexError, and what
        `hyperslab.blocks.reading.read` raises.
        """
        if isinstance(where, Hyperslab):
            return self._read(where, out)
        basic, axis, positions = _split(where, self.shape)
        slab, dropped = from_index(basic, self.shape)
        count = slab.count
        if positions is not None:
            count = (*slab.count[:axis], len(positions), *slab.count[axis + 1 :])
        room = None
        if out is not None:
            room = _room(out, self.dtype, count, dropped)
        if positions is None:
            block = self._read(slab, room)
        else:
            block = self._take(slab, axis, positions, room)
        if out is not None:
            return out
        if self.ndim and not dropped:
            return block
        return block[_picking(dropped, 0, self.ndim)]

    def _read(self, slab: Hyperslab, out: Array | None) -> Array:
        """Read a region; the first of a large gzip file has the whole file checked and indexed, in
        memory.
        """
        if slab.size and gzipindex.can_be_indexed(self.source):
            self._index()
        return reading.read(self.source, slab, out, self.values, self._threads(), self._reader)

    def _index(self) -> None:
        with self._indexing:  # threads that share a view wait for the one index
            if self.source.gzip is None:
                self.source = gzipindex.index(self.source)

    def __getitem__(self, index: _Indices) -> Any:
        """Read a basic index: a block, or a scalar where every axis is given an integer.

        Along one axis it may be a list or 1-D array of indices, in any order and with repetitions,
        or a mask; that axis stays where it is, also beside integers (as in h5py; NumPy may move it
        to the front). Raises IndexError.
        """
        return self.read(index)

    def _take(self, slab: Hyperslab, axis: int, positions: _Positions, out: Array | None) -> Array:
        """The region with these positions along one axis; what lies in one stored chunk is read at
        once.
        """
        wanted, order = np.unique(positions, return_inverse=True)
        block = np.empty((*slab.count[:axis], len(wanted), *slab.count[axis + 1 :]), self.dtype)
        before: tuple[Any, ...] = (slice(None),) * axis
        for first, last in _runs(wanted, self._extent_read(axis)):
            low = int(wanted[first])
            count = int(wanted[last - 1] - wanted[first]) + 1
            part = self._read(_with_axis(slab, axis, low, count), None)
            block[(*before, slice(first, last))] = part[(*before, wanted[first:last] - low)]
        if out is None:
            return block.take(order, axis)
        out[...] = block.take(order, axis)
        return out

    def _extent_read(self, axis: int) -> int:
        """How many positions along an axis are best read together: those of a chunk, or all that a
        library reads.
        """
        chunks = self.source.own_chunk_shape
        if chunks:
            return chunks[axis]
        if self.source.chunks is None and self.shape:
            return self.shape[axis]
        return 1

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array in a file cannot be read without a copy")
        block = self._read(Hyperslab.full(self.shape), None)
        if dtype is None:
            return block
        return block.astype(dtype, copy=False)

    def _repr_html_(self) -> str:
        if not self._is_known:
            return self.source.html(
                {"values": f"real; they cannot be computed: {self.source.unscalable}"}
            )
        return self.source.html(
            {"values": f"{self.values}, {self.dtype}, {show_bytes(self.nbytes)} in memory"}
        )

    def __repr__(self) -> str:
        if self._is_known:
            kind = f"{self.dtype} {self.values}, {self.nbytes:,} bytes"
        else:
            kind = f"real, which cannot be computed: {self.source.unscalable}"
        return f"<ArrayView {self.source.label} {self.shape} {kind}>"

    @property
    def _is_known(self) -> bool:
        """Whether the values can be computed, so that their dtype is known."""
        return self.values == "stored" or not self.source.unscalable


def _room(
    out: Array, dtype: np.dtype[Any], count: tuple[int, ...], dropped: Sequence[int]
) -> Array:
    """`out` with the axes that an index drops, each of one element."""
    shape = tuple(n for axis, n in enumerate(count) if axis not in dropped)
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        raise UsageError(f"out has to be a writable array of shape {shape} and dtype {dtype}")
    return out[(..., *_picking(dropped, np.newaxis, len(count)))]


def _picking(dropped: Sequence[int], what: Any, ndim: int) -> tuple[Any, ...]:
    """An index of all that is along every axis, and of something else along the dropped ones."""
    index: list[Any] = [slice(None)] * ndim
    for axis in dropped:
        index[axis] = what
    return tuple(index)


def _split(index: Any, shape: Sequence[int]) -> tuple[tuple[Index, ...], int, _Positions | None]:
    """An index as (its basic part, the axis of the list in it, the list's positions), or as
    (itself, 0, None).
    """
    parts = index
    if not isinstance(index, tuple):
        parts = (index,)
    lists = [number for number, part in enumerate(parts) if _is_list(part)]
    if not lists:
        return parts, 0, None
    if len(lists) > 1:
        raise IndexError(
            "lists of indices select along one axis at a time: read in two steps, or use slices"
        )
    (where,) = lists
    axis = where
    if any(part is Ellipsis for part in parts[:where]):
        axis = len(shape) - len(parts) + where
    if not 0 <= axis < len(shape):
        raise IndexError(f"too many indices for an array of {len(shape)} dimensions")
    basic = (*parts[:where], slice(None), *parts[where + 1 :])
    return basic, axis, _positions(parts[where], shape[axis], axis)


def _is_list(part: object) -> bool:
    return isinstance(part, list | range) or (isinstance(part, np.ndarray) and part.ndim > 0)


def _positions(part: Any, extent: int, axis: int) -> _Positions:
    found = np.asarray(part)
    if not len(part):
        found = np.empty(0, np.intp)
    if found.dtype == np.bool_ and found.shape == (extent,):
        return np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise IndexError(
            f"axis {axis}: a list selects by integers, or by one truth value for each of {extent}"
            " elements"
        )
    wrong = found[(found < -extent) | (found >= extent)]
    if wrong.size:
        raise IndexError(f"axis {axis}: index {wrong[0]} is out of range for {extent} elements")
    whole: _Positions = found.astype(np.intp)
    return np.where(whole < 0, whole + extent, whole)


def _runs(wanted: _Positions, together: int) -> Iterator[tuple[int, int]]:
    """First and one past the last of ascending positions that follow one another or lie in the same
    `together`.
    """
    if not len(wanted):
        return iter(())
    has_gap = np.diff(wanted) > 1
    is_elsewhere = np.diff(wanted // together) > 0
    cuts = np.flatnonzero(has_gap & is_elsewhere) + 1
    return itertools.pairwise([0, *cuts.tolist(), len(wanted)])


def _with_axis(slab: Hyperslab, axis: int, start: int, count: int) -> Hyperslab:
    """The region with other elements along one axis."""
    changed = ((slab.start, start), (slab.count, count), (slab.stride, 1))
    return Hyperslab(*((*part[:axis], value, *part[axis + 1 :]) for part, value in changed))
