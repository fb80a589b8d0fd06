"""Dask arrays whose tasks read byte ranges: no library's lock, no metadata, one open file per
worker process.

- a task carries a region; what says where the bytes are is one key of the graph, whatever the
  number of tasks (`tests/connectors/test_dask.py`)
- slicing the array makes its tasks read less, since Dask joins slices with the reads before them
- a file that was written to after `to_dask` is SourceChanged where it is read
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.sets import Kind, SourceSet, Whole
from hyperslab.arrays.slab import Hyperslab, from_index
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.gathering import Named, gather, several
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.view import ArrayView
from hyperslab.connectors.views import read_whole, shared
from hyperslab.errors import FormatError, MissingExtra, UsageError
from hyperslab.formats.identity import identify_files
from hyperslab.storage.location import is_remote

if TYPE_CHECKING:
    import dask.array

    Chunks = str | int | tuple[Any, ...] | dict[int, Any]

MOST_LOOKED_AT = 10_000
"Chunk files of a Zarr array whose sizes and times of change are part of the array's name in Dask."


def to_dask(
    source: Named | Sequence[Named] | SourceSet,
    chunks: Chunks = "auto",
    values: Values | None = None,
    axis: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dask.array.Array:
    """Make a Dask array of an array in a file, or of several one after the other along `axis`.

    `source` is PATH, PATH::DATASET, what `hyperslab.open` or `hyperslab.gather` returned, or
    several paths. `chunks` is what Dask's arrays take; "auto", or a size as "64MiB", is whole
    stored chunks up to Dask's `array.chunk-size`, or that size, and long runs of storage where an
    array is stored in one piece. `values` is 'real' (the default, unless a view says else) or
    'stored', as in `hyperslab.open`. `storage_options` are what fsspec is given with URLs.

    Nothing but metadata is read now, save for a .nii.gz of more than 4 MiB, which is inflated once
    and indexed. Raises FormatError for a file that cannot be read, UsageError for arrays that do
    not fit together or chunks that Dask does not take, MissingExtra without Dask.
    """
    try:
        import dask.array as da
        from dask.base import tokenize
    except ImportError as error:
        raise MissingExtra(f"to_dask needs {error.name}: pip install 'hyperslab[dask]'") from error
    stored = _stored(source, values or _values(source), axis, storage_options)
    cuts = _normal(chunks, stored)
    states = [_state(s) for s in stored.sources]
    boxes = [box for _, box in stored.whole.members]
    name = "hyperslab-" + tokenize(states, stored.shape, boxes, stored.values, cuts)
    # The array is a key of its own (inline_array=False), so that a task names it instead of
    # bringing it along; and may be given lists (fancy=True), without which Dask 2026.8 does not
    # join slices with reads.
    array: dask.array.Array = da.from_array(
        stored, cuts, name=name, lock=False, meta=np.empty((0,) * stored.ndim, stored.dtype)
    )
    return array


def _state(source: ArraySource) -> tuple[Any, ...]:
    """What differs where the values do: Dask takes what has the same name for the same values, and
    keeps them.
    """
    told = (source.url, source.name, source.version, source.file_size, source.mtime_ns)
    if not source.document:
        return told
    found = None
    if not is_remote(source.url):
        found = identify_files(os.path.dirname(source.watched), MOST_LOOKED_AT)
    return *told, found or secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class StoredArray:
    """What Dask's tasks index: one array, or several that make one."""

    sources: tuple[ArraySource, ...]
    whole: Whole
    values: Values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.sources[0].dtype(self.values)

    def __getitem__(self, index: Any) -> Array:
        """A block by integers and slices, and by lists, each along its own axis."""
        parts = (index,)
        if isinstance(index, tuple):
            parts = index
        lists = {
            axis: part for axis, part in enumerate(parts) if isinstance(part, list | np.ndarray)
        }
        if lists:
            return self._listed(parts, lists)
        slab, dropped = from_index(parts, self.shape)
        place: list[Any] = [slice(None)] * self.ndim
        for axis in dropped:
            place[axis] = 0
        block: Array = self._read(slab)[tuple(place)]
        return block

    def _listed(self, parts: tuple[Any, ...], lists: dict[int, Any]) -> Array:
        """Read the smallest region with all that is listed, integers last, so that no axis changes
        its place.
        """
        full = (*parts, *(slice(None),) * (self.ndim - len(parts)))
        kept = [axis for axis, part in enumerate(full) if axis in lists or isinstance(part, slice)]
        whole = list(full)
        for axis in lists:
            whole[axis] = slice(None)
        block = self[tuple(whole)]
        for axis, part in lists.items():
            block = block[(slice(None),) * kept.index(axis) + (np.asarray(part),)]
        return block

    def _read(self, slab: Hyperslab) -> Array:
        return read_whole(
            self.whole,
            self.sources,
            slab,
            self.values,
            lambda source: shared(source, self.values),
        )


def _values(source: Named | Sequence[Named] | SourceSet) -> Values:
    """The kind of values that the views among the sources give."""
    items = []
    if not isinstance(source, SourceSet):
        items = several(source)
    kinds: set[Values] = set()
    for item in items:
        if isinstance(item, ArrayView):
            kinds.add(item.values)
        else:
            kinds.add("real")
    if len(kinds) > 1:
        raise UsageError(
            "to_dask: some sources give real values, others stored values: give values="
        )
    if kinds:
        return kinds.pop()
    return "real"


def _stored(
    source: Named | Sequence[Named] | SourceSet,
    values: Values,
    axis: int | None,
    storage_options: Mapping[str, Any] | None,
) -> StoredArray:
    """The one array that is named, with an index of every gzip file that can be entered in the
    middle.
    """
    if values not in ("real", "stored"):
        raise UsageError(f"values is {values!r}; it can be 'real' or 'stored'")
    named = source
    if isinstance(source, SourceSet) and axis is not None:
        named = source.sources
    kind: Kind = "concatenated"
    if axis is None:
        kind = "independent"
    found = gather(named, kind, axis or 0, storage_options=storage_options)
    if len(found.wholes) > 1:
        raise UsageError(
            f"to_dask: these are {len(found.wholes)} arrays; give axis= to join them one after the"
            " other, or place them with hyperslab.gather(..., 'mosaic')"
        )
    for part in found.sources:
        if part.broken:
            raise FormatError(part.broken)
    first = found.sources[0]
    odd = next((part for part in found.sources if part.dtype(values) != first.dtype(values)), None)
    if odd is not None:
        raise UsageError(
            f"to_dask: {odd.url} holds {odd.dtype(values)}, {first.url} {first.dtype(values)}:"
            " convert one of them"
        )
    sources = tuple(map(gzipindex.indexed, found.sources))
    return StoredArray(sources, found.wholes[0], values)


def _normal(chunks: Chunks, stored: StoredArray) -> tuple[tuple[int, ...], ...]:
    """What the user says of chunks, as their extents along every axis."""
    from dask import config
    from dask.array.core import normalize_chunks
    from dask.utils import parse_bytes

    try:
        if isinstance(chunks, str):
            text = chunks
            if chunks == "auto":
                text = config.get("array.chunk-size")
            limit = parse_bytes(text)
            if limit < 1:
                raise ValueError("a chunk has at least one byte")
            return _aligned(stored, limit)
        before = stored.sources[0].own_chunk_shape or None
        extents: tuple[tuple[int, ...], ...] = normalize_chunks(
            chunks, stored.shape, dtype=stored.dtype, previous_chunks=before
        )
        if any(extent < 0 for along in extents for extent in along):
            raise ValueError("a chunk has at least one element along every axis")
    except (ValueError, TypeError, NotImplementedError, ZeroDivisionError) as error:
        raise UsageError(
            f"to_dask: chunks={chunks!r} does not fit the shape {stored.shape}: {error}"
        ) from error
    return extents


def _aligned(stored: StoredArray, limit_nbytes: int) -> tuple[tuple[int, ...], ...]:
    """Chunks of at most so many bytes, unless a stored one is larger, that end where stored chunks
    and files do.

    An array without elements is one chunk.
    """
    if 0 in stored.shape:
        return tuple((extent,) for extent in stored.shape)
    members = stored.whole.members
    axis = stored.whole.axis
    itemsize = max(1, stored.dtype.itemsize)
    first = stored.sources[members[0].source]
    bounds = [box.bounds for _, box in members]
    largest = tuple(
        max(extents) for extents in zip(*(box.count for _, box in members), strict=True)
    )
    block = list(_block(first, largest, itemsize, limit_nbytes))
    if len(members) > 1 and tuple(block) == largest:  # small files: several to a chunk
        unit = 1
        if first.own_chunk_shape:
            unit = first.own_chunk_shape[axis]
        nbytes = math.prod(block) * itemsize
        fitting = limit_nbytes * block[axis] // max(1, nbytes)
        block[axis] = max(block[axis], fitting // unit * unit)
    extents = []
    for a, longest in enumerate(block):
        edges = {end[a] for ends in bounds for end in ends}
        extents.append(_extents(sorted(edges), longest))
    return tuple(extents)


def _block(
    source: ArraySource, shape: tuple[int, ...], itemsize: int, limit_nbytes: int
) -> tuple[int, ...]:
    """The longest run of storage, or several stored chunks together as Dask would have them, within
    so many bytes.
    """
    from dask.array.core import normalize_chunks

    unit = tuple(min(pair) for pair in zip(source.own_chunk_shape, shape, strict=False))
    if not unit:
        return cut(
            Layout(shape, source.axes, itemsize, None), Rule("bytes", (limit_nbytes,)), limit_nbytes
        ).largest
    if math.prod(unit) * itemsize >= limit_nbytes:
        return unit
    found = normalize_chunks(
        "auto", shape, limit_nbytes, np.dtype((np.void, itemsize)), previous_chunks=unit
    )
    return tuple(
        _whole_units(n, u, extent) for (n, *_), u, extent in zip(found, unit, shape, strict=True)
    )


def _whole_units(n: int, unit: int, extent: int) -> int:
    """Largest number up to `n` that is whole units, or all elements that there are."""
    if n >= extent:
        return extent
    return max(unit, n // unit * unit)


def _extents(edges: Sequence[int], longest: int) -> tuple[int, ...]:
    """Intervals of at most `longest` that end at these positions, or cut up what lies between two
    of them.
    """
    cuts = [0]
    reached = 0
    for edge in edges[1:]:
        if edge - cuts[-1] > longest and reached > cuts[-1]:
            cuts.append(reached)
        cuts += range(cuts[-1] + longest, edge, longest)
        reached = edge
    if reached > cuts[-1]:
        cuts.append(reached)
    return tuple(high - low for low, high in itertools.pairwise(cuts)) or (0,)
