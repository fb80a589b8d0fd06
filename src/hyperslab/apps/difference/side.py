"""Side: one of two arrays that are compared; how its blocks are read, and what that costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hyperslab.arrays import Array, DType
from hyperslab.arrays.partition import Partition
from hyperslab.arrays.sets import Piece, SourceSet, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.reading.ways import Way, way_of
from hyperslab.blocks.whole import assemble
from hyperslab.errors import SourceChanged, UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """An array in one file, or in several that make one."""

    sources: tuple[ArraySource, ...]
    whole: Whole
    values: Values
    dtype: DType
    "dtype of the blocks in memory."

    @property
    def first(self) -> ArraySource:
        return self.sources[self.whole.members[0].source]

    @property
    def unit(self) -> tuple[int, ...]:
        """Shape, along the array's own axes, of what is read as a whole: a chunk, or all of a small
        gzip file.
        """
        return self._way.unit(self.first)

    @property
    def _way(self) -> Way:
        """The way in which blocks will be read, when those files are indexed that can be."""
        return way_of(gzipindex.expected(self.first))

    def cost(self, block: Sequence[int]) -> float:
        """About what a block of this shape takes from storage, per byte of it; a seek counts as
        bytes, too.
        """
        source = self.first
        unit = self.unit
        if unit:
            axes = zip(block, unit, self.whole.shape, strict=True)
            return math.prod(_touched(*axis) for axis in axes)
        run = source.stored.itemsize
        for axis in reversed(source.axes):
            run *= min(block[axis], source.shape[axis])
            if block[axis] < source.shape[axis]:
                break
        return 1 + self._way.seek_nbytes / max(1, run)

    def pieces(self, slab: Hyperslab) -> list[Piece]:
        """Where the parts of a region are."""
        return list(self.whole.pieces(slab))

    def read(self, slab: Hyperslab) -> Array:
        """A region, laid out in memory as in the first file."""
        return assemble(self.pieces(slab), slab.count, self.first, self.values, self._read)

    def peak_beside(self, slab: Hyperslab) -> int:
        """Upper bound of what reading a region holds at once beside its block, in bytes."""
        beside = 0
        for piece in self.pieces(slab):
            source = gzipindex.expected(self.sources[piece.source])
            result = piece.slab.size * self.dtype.itemsize
            beside = max(beside, reading.read_peak(source, piece.slab, self.values) - result)
        return beside

    def to_be_indexed(self, partition: Partition) -> list[int]:
        """The gzip files that several blocks read."""
        members = (
            m for m in self.whole.members if gzipindex.can_be_indexed(self.sources[m.source])
        )
        return [member.source for member in members if _visits(partition, member.box) > 1]

    def indexed(self, number: int, folder: Path, watch: gzipindex.Watch) -> ArraySource:
        """One of its gzip files with an index, whose windows are kept in a folder."""
        source = self.sources[number]
        try:
            return gzipindex.index_in(folder, source, watch)
        except SourceChanged as error:
            raise _changed(source) from error

    def over(self, found: dict[int, ArraySource]) -> Side:
        """The same with other descriptions of some files."""
        return replace(
            self, sources=tuple(found.get(n, source) for n, source in enumerate(self.sources))
        )

    def _read(self, piece: Piece, out: Array | None) -> Array:
        source = self.sources[piece.source]
        try:
            return reading.read(source, piece.slab, out, self.values)
        except SourceChanged as error:
            raise _changed(source) from error


def side(found: SourceSet, values: Values) -> Side:
    """The one array of a set of sources. Raises UsageError where its values cannot be read as
    such.
    """
    dtypes = {}
    for source in found.sources:
        if source.stored.hasobject:
            where = f"{source.url}::{source.name}"
            raise UsageError(
                f"{where}: its elements have no fixed size and are not compared here; use"
                " hyperslab.open"
            )
        dtypes[source.dtype(values)] = source
    if len(dtypes) > 1:
        listed = ", ".join(f"{source.url} {dtype}" for dtype, source in dtypes.items())
        raise UsageError(
            f"the files that make one array have different dtypes ({listed}): compare them one"
            " by one"
        )
    return Side(found.sources, found.wholes[0], values, dtypes.popitem()[0])


def _changed(source: ArraySource) -> SourceChanged:
    return SourceChanged(
        f"{source.url}: was written to, or removed, while it was compared; compare it again"
    )


def _touched(block: int, unit: int, extent: int) -> float:
    """Elements along an axis that are read for each that is wanted: intervals of `block` on a grid
    of `unit`.
    """
    if block >= extent:
        return 1.0
    return (block + unit - math.gcd(block, unit)) / max(1, block)


def _visits(partition: Partition, box: Hyperslab) -> int:
    """How many blocks of a partition touch a box."""
    spans = zip(partition.cuts, *box.bounds, strict=True)
    return math.prod(
        sum(first < high and last > low for first, last in itertools.pairwise(cuts))
        for cuts, low, high in spans
    )
