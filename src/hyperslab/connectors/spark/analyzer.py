"""Metadata analyzer: from what a user names to the array that will be loaded, its shape, dtype and
axis of rows.

Metadata are read here, once a file; tasks read byte ranges. Many files are looked at by Spark's own
workers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, get_args

import numpy as np

from hyperslab import formats
from hyperslab.arrays.header import Header
from hyperslab.arrays.sets import Whole, concatenated
from hyperslab.arrays.slab import Hyperslab, Index, from_index
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.gathering import Named, expand
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.view import ArrayView
from hyperslab.connectors.spark.arguments import whole
from hyperslab.errors import FormatError, HyperslabError, UsageError
from hyperslab.storage.location import is_remote
from hyperslab.units import show_count

if TYPE_CHECKING:
    from pyspark import SparkContext

FILES_ALONE = 200
"Most files that the driver opens by itself; more are worth a job of Spark's."
FILES_A_TASK = 500
LISTED = 5
"Skipped files that a warning names."


class Selection(TypedDict, total=False):
    """Choice of the part of an array that is loaded, and how: the options that all readers of this
    package share.
    """

    axis: int | None
    """Rows run along this axis, and partitions are cut along it; the one that is slowest in the
    file, unless given.
    """
    region: Index | tuple[Index, ...] | Hyperslab | None
    "Region of the array: slices, '...' and integers (which keep their axis, with one element)."
    columns: slice | Sequence[int] | None
    """Elements of every row of an array of two dimensions, as a slice or as ascending or other
    numbers.
    """
    values: Values
    "'real' (slope, scale and fill applied, the default) or 'stored'."
    skip: bool
    """True: files that are missing, cannot be read or lack the dataset are left out, with a warning
    that lists them.
    """
    storage_options: Mapping[str, Any] | None
    "What fsspec is given with URLs."


@dataclass(frozen=True, slots=True)
class Analysis:
    """An array to be loaded: one in a file, or several files' one after the other along the axis of
    rows.
    """

    sources: tuple[ArraySource, ...]
    whole: Whole
    values: Values
    axis: int
    region: Hyperslab
    "Region of the whole that is loaded."
    picked: tuple[int, ...] | None
    "Elements that are kept of each row of the region of a 2-D array; None: all."
    skipped: tuple[str, ...]
    "Files that were left out, each with the reason."

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.sources[0].dtype(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is loaded."""
        if self.picked is None:
            return self.region.count
        shape = [len(self.picked)] * self.region.ndim
        shape[self.axis] = self.region.count[self.axis]
        return tuple(shape)

    @property
    def rows(self) -> int:
        """Number of rows that are loaded."""
        return self.region.count[self.axis]

    @property
    def row_size(self) -> int:
        """Elements of a row."""
        return int(
            np.prod([n for axis, n in enumerate(self.shape) if axis != self.axis], dtype=np.int64)
        )

    @property
    def index_bound(self) -> int:
        """One past the largest true index of a row."""
        return self.whole.shape[self.axis]


class _Failed(NamedTuple):
    """A file that could not be opened."""

    url: str
    error: Exception


def analyze(
    named: Named | Sequence[Named | tuple[str | os.PathLike[str], str | os.PathLike[str]]],
    variable: str = "",
    context: SparkContext | None = None,
    *,
    axis: int | None = None,
    region: Index | tuple[Index, ...] | Hyperslab | None = None,
    columns: slice | Sequence[int] | None = None,
    values: Values = "real",
    skip: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Analysis:
    """Open everything that is named, and see it as one array along the axis of rows.

    `named` is a file, a directory, a glob, a text file of lines `path,dataset`, a URL, an array, a
    view, a pair (path, dataset), or a list of files and pairs. `variable` is the dataset where none
    is named. Raises UsageError and FormatError.
    """
    if values not in get_args(Values):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    found = list(_opened(named, variable, context, skip, storage_options))
    failed = [one for one in found if isinstance(one, _Failed)]
    sources = [one for one in found if not isinstance(one, _Failed)]
    if failed and not (skip and sources):
        raise failed[0].error
    skipped = tuple(f"{one.url}: {one.error}" for one in failed)
    if skipped:
        more = ""
        if len(skipped) > LISTED:
            more = f", and {len(skipped) - LISTED} more"
        text = "; ".join(skipped[:LISTED])
        warnings.warn(f"{show_count(len(skipped), 'file')} skipped: {text}{more}", stacklevel=4)
    for source in sources:
        _require_numbers(source, values, sources[0])
    first = sources[0]
    along = _axis(first, axis)
    if any(source.ndim != first.ndim for source in sources):
        odd = next(source for source in sources if source.ndim != first.ndim)
        raise UsageError(
            f"{odd.url} has {show_count(odd.ndim, 'dimension')}, {first.url} has {first.ndim}:"
            " load them one"
            " by one"
        )
    # Where arrays lie in space does not matter to rows.
    whole = concatenated([replace(source, header=Header()) for source in sources], along).wholes[0]
    where = _region(region, whole.shape)
    where, picked = _columns(columns, where, along, whole.shape)
    return Analysis(tuple(sources), whole, values, along, where, picked, skipped)


def _opened(
    named: Any,
    variable: str,
    context: SparkContext | None,
    skip: bool,
    storage_options: Mapping[str, Any] | None,
) -> Iterator[ArraySource | _Failed]:
    urls: list[str] = []
    items = [named]
    if isinstance(named, list):
        items = named
    for item in items:
        if isinstance(item, np.ndarray | ArraySource | ArrayView):
            if len(items) > 1:
                raise UsageError(
                    "arrays and views are loaded one at a time; of files a list can be given"
                )
            yield _of_an_object(item)
            return
        urls += _urls(item, variable, skip)
    if not urls:
        raise UsageError("there is no source: name a file, a directory, a glob or a list of paths")
    if context is None or len(urls) <= FILES_ALONE:
        yield from (_open(url, storage_options) for url in urls)
        return
    tasks = -(-len(urls) // FILES_A_TASK)
    options = dict(storage_options or {})
    yield from context.parallelize(urls, tasks).map(lambda url: _open(url, options)).collect()


def _of_an_object(item: np.ndarray[Any, Any] | ArraySource | ArrayView) -> ArraySource:
    if isinstance(item, np.ndarray):
        return formats.open_array(item)
    source = item.source if isinstance(item, ArrayView) else item
    return gzipindex.indexed(source)


def _urls(item: Any, variable: str, skip: bool) -> Iterator[str]:
    """The files that one item stands for, each as PATH or PATH::DATASET."""
    if isinstance(item, tuple):
        if len(item) != 2 or not all(isinstance(part, str | os.PathLike) for part in item):
            raise UsageError(
                f"{item!r}: a pair is (path, dataset); several files are given as a list"
            )
        item, variable = item[0], os.fspath(item[1])
    if not isinstance(item, str | os.PathLike):
        raise UsageError(
            f"{type(item).__name__}: name files by their paths, or as pairs (path, dataset)"
        )
    text = os.fspath(item)
    try:
        found = expand(text, are_there=not skip)
    except UsageError:
        if not skip:
            raise
        found = [os.path.expanduser(text)]
    for url in found:
        path, dataset = formats.split_url(url)
        place = path
        if not is_remote(path):
            place = os.path.abspath(path)  # for workers, who may stand elsewhere
        name = dataset or variable.strip("/")
        if name:
            place = f"{place}::{name}"
        yield place


def _open(url: str, storage_options: Mapping[str, Any] | None) -> ArraySource | _Failed:
    """An array, with an index where it is a large gzip file; or what keeps it from being opened."""
    try:
        source = formats.open_source(url, storage_options)
        return gzipindex.indexed(source)
    except (HyperslabError, OSError) as error:
        return _Failed(url, error)


def _require_numbers(source: ArraySource, values: Values, first: ArraySource) -> None:
    """Raise UsageError for what Spark is not given, FormatError for a file that cannot be
    understood.
    """
    if source.broken:
        raise FormatError(source.broken)
    where = source.url
    if source.name:
        where = f"{source.url}::{source.name}"
    dtype = source.dtype(values)
    if dtype.kind not in "biufc":
        raise UsageError(f"{where} holds {dtype}, not numbers: only arrays of numbers are loaded")
    if dtype != first.dtype(values):
        raise UsageError(
            f"{where} holds {dtype}, {first.url} holds {first.dtype(values)}: convert one of them"
        )
    if not source.ndim:
        raise UsageError(f"{where} is a single number, which has no rows")


def _axis(source: ArraySource, axis: int | None) -> int:
    if axis is None:
        return source.axes[0]
    along = whole("axis", axis)
    if not -source.ndim <= along < source.ndim:
        raise UsageError(f"axis {axis}: {source.url} has axes 0 to {source.ndim - 1}")
    return along % source.ndim


def _region(region: Any, shape: tuple[int, ...]) -> Hyperslab:
    if region is None:
        return Hyperslab.full(shape)
    if isinstance(region, Hyperslab):
        if region.ndim != len(shape) or any(
            high > n for high, n in zip(region.bounds[1], shape, strict=False)
        ):
            raise UsageError(f"region {region} reaches beyond the array's shape {shape}")
        return region
    try:
        slab, _ = from_index(region, shape)
    except IndexError as error:
        raise UsageError(f"region {region!r}: {error}") from error
    return slab


def _columns(
    columns: Any, region: Hyperslab, axis: int, shape: tuple[int, ...]
) -> tuple[Hyperslab, tuple[int, ...] | None]:
    """The region that has the columns, and which of its elements in a row are kept."""
    if columns is None:
        return region, None
    if len(shape) != 2:
        raise UsageError(
            f"columns are of arrays of two dimensions, this one has {len(shape)}: use region="
        )
    other = 1 - axis
    if region.count[other] != shape[other]:
        raise UsageError("region= and columns= both choose elements of the rows: give one of them")
    if isinstance(columns, slice):
        index = [slice(None), slice(None)]
        index[other] = columns
        return region.compose(from_index(tuple(index), region.count)[0]), None
    numbers = np.asarray(columns)
    extent = shape[other]
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise UsageError(f"columns {columns!r}: give a slice, or a list of whole numbers")
    wrong = [int(n) for n in numbers if not -extent <= n < extent]
    if wrong:
        raise UsageError(f"columns: {wrong[0]} is out of range for {extent} columns")
    wanted = [int(n) % extent for n in numbers]
    low = min(wanted)
    high = max(wanted) + 1
    index = [slice(None), slice(None)]
    index[other] = slice(low, high)
    return region.compose(from_index(tuple(index), region.count)[0]), tuple(n - low for n in wanted)
