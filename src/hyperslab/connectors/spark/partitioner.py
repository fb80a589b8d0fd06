"""Hyperslab partitioner: where the rows of an array are cut into partitions, and those into blocks.

Cuts fall between stored chunks, so that no chunk is decoded twice, and as near as that allows to
equal shares.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.analyzer import Analysis
from hyperslab.connectors.spark.arguments import whole
from hyperslab.units import show_count

PARTITION_NBYTES = 128 * 1024**2
"Bytes of values of a partition, where nothing is said."
BLOCK_NBYTES = 4 * 1024**2
"""Bytes of values of a block, unless the chunks of one row are more: it stays in the processor's
cache for the next step, and its memory is used again for the next block, while that of larger ones
is taken from the system each time.
"""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where rows may be cut: at places of the region, 0 being its first row."""

    edges: tuple[int, ...]
    "First row of every file in the region, and one past the last row."
    units: tuple[int, ...]
    "Rows that belong together in every file: those of a chunk."
    lows: tuple[int, ...]
    "Where the first chunk of every file begins, at or before its first row in the region."

    @property
    def rows(self) -> int:
        return self.edges[-1]

    def before(self, row: int) -> int:
        """The last cut at or before a row."""
        if row >= self.rows:
            return self.rows
        file = bisect.bisect_right(self.edges, row) - 1
        low = self.lows[file]
        unit = self.units[file]
        return max(self.edges[file], low + (row - low) // unit * unit)

    def after(self, row: int) -> int:
        """The first cut behind a row; the end, behind the last one."""
        if row >= self.rows:
            return self.rows
        file = bisect.bisect_right(self.edges, row) - 1
        low = self.lows[file]
        unit = self.units[file]
        return min(self.edges[file + 1], low + ((row - low) // unit + 1) * unit)

    def most(self) -> int:
        """Number of parts into which the rows can be cut, at most."""
        spans = zip(self.edges, self.edges[1:], self.units, self.lows, strict=False)
        return sum(
            math.ceil((high - low) / unit) - (first - low) // unit
            for first, high, unit, low in spans
        )


def cuts_of(analysis: Analysis, unit: int | None = None) -> Cuts:
    """Where the rows of an array may be cut: between stored chunks and between files; or at
    multiples of `unit`.
    """
    axis = analysis.axis
    region = analysis.region
    start = region.start[axis]
    rows = region.count[axis]
    stride = region.stride[axis]
    if unit is not None or stride != 1:
        return Cuts((0, rows), (unit or 1,), (0,))
    edges = []
    units = []
    lows = []
    for number, box in analysis.whole.members:
        first = box.start[axis] - start
        last = box.start[axis] + box.count[axis] - start
        if last <= 0 or first >= rows or first == last:
            continue
        chunks = analysis.sources[number].own_chunk_shape
        edges.append(max(0, first))
        unit_here = 1
        if chunks:
            unit_here = max(1, chunks[axis])
        low = first
        if first < 0:
            low = first + -first // unit_here * unit_here
        units.append(unit_here)
        lows.append(low)
    return Cuts((*(edges or [0]), rows), tuple(units or [1]), tuple(lows or [0]))


def cut(cuts: Cuts, partitions: int) -> list[tuple[int, int]]:
    """First and one past the last row of every partition: as many as asked for, none empty, if the
    rows allow it.
    """
    rows = cuts.rows
    if not rows:
        return [(0, 0)]
    partitions = min(partitions, cuts.most())
    ends = [0]
    for number in range(1, partitions):
        wanted = rows * number // partitions
        low = cuts.before(wanted)
        high = low
        if low != wanted:
            high = cuts.after(low)
        nearest = low
        if high - wanted < wanted - low:
            nearest = high
        ends.append(max(nearest, cuts.after(ends[-1])))
    ends.append(rows)
    for number in range(
        partitions - 1, 0, -1
    ):  # where the cuts ran into the end, earlier ones make room
        if ends[number] < ends[number + 1]:
            break
        ends[number] = cuts.before(ends[number + 1] - 1)
    return list(itertools.pairwise(ends))


def share(
    analysis: Analysis, cuts: Cuts, partitions: int | None, parallelism: int
) -> tuple[int, str]:
    """How many partitions there will be, and what a user has to hear about that. Raises UsageError
    for less than one.

    Without a wish: one for every core, or so many that each holds PARTITION_NBYTES.
    """
    most = max(1, cuts.most())
    if partitions is None:
        nbytes = analysis.rows * analysis.row_size * analysis.dtype.itemsize
        return min(most, max(parallelism, math.ceil(nbytes / PARTITION_NBYTES))), ""
    wanted = whole("partitions", partitions, 1)
    if wanted <= most:
        return wanted, ""
    rows = show_count(analysis.rows, "row")
    kind = ""
    if most != analysis.rows:
        kind = f" in {show_count(most, 'run')} of stored chunks, which are not cut"
    return (
        most,
        f"{wanted} partitions were asked for, but there are {rows}{kind}: there are {most} now",
    )


def regions(analysis: Analysis, spans: list[tuple[int, int]]) -> Iterator[Hyperslab]:
    """The partitions as regions of the whole array."""
    region = analysis.region
    axis = analysis.axis
    for first, last in spans:
        yield region.compose(rows_of(region, axis, first, last))


def rows_of(slab: Hyperslab, axis: int, first: int, last: int) -> Hyperslab:
    """Region of the rows from `first` to before `last`, within the block of a region."""
    start = [0] * slab.ndim
    start[axis] = first
    count = list(slab.count)
    count[axis] = last - first
    return Hyperslab(tuple(start), tuple(count))
