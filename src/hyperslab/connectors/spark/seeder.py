"""RDD seeder: an RDD of parts, each with what one task has to know: regions, byte ranges, nothing
of other tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyperslab import formats
from hyperslab.arrays.byteranges import ascending
from hyperslab.arrays.header import Header
from hyperslab.arrays.sets import Member, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.reading.ways import way_of
from hyperslab.connectors.spark.analyzer import Analysis
from hyperslab.connectors.spark.part import Part
from hyperslab.connectors.spark.partitioner import BLOCK_NBYTES, Cuts, cut, regions, rows_of

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


def parts_of(analysis: Analysis, cuts: Cuts, partitions: int) -> Iterator[Part]:
    """What every task is given."""
    row_nbytes = max(1, analysis.region.size // max(1, analysis.rows) * analysis.dtype.itemsize)
    rows = analysis.rows if _is_inflated_each_time(analysis) else max(1, BLOCK_NBYTES // row_nbytes)
    spans = cut(cuts, partitions)
    for (first, last), slab in zip(spans, regions(analysis, spans), strict=True):
        ends = _ends(cuts, first, last, rows)
        blocks = (
            rows_of(slab, analysis.axis, a - first, b - first) for a, b in itertools.pairwise(ends)
        )
        yield _part(analysis, slab, tuple(slab.compose(block) for block in blocks))


def _is_inflated_each_time(analysis: Analysis) -> bool:
    """Whether every read goes through all of a gzip stream, so that a partition had better be
    one.
    """
    streams = [source for source in analysis.sources if gzipindex.is_one_gzip_stream(source)]
    return any(way_of(source).uses_library or analysis.axis != source.axes[0] for source in streams)


def _ends(cuts: Cuts, first: int, last: int, rows: int) -> list[int]:
    """Where the blocks of a partition begin, and the last one ends: about so many rows each, chunks
    in one piece.
    """
    ends = [first]
    while ends[-1] < last:
        reach = cuts.before(min(last, ends[-1] + rows))
        ends.append(min(last, reach if reach > ends[-1] else cuts.after(ends[-1])))
    return ends if len(ends) > 1 else [first, last]


def _part(analysis: Analysis, slab: Hyperslab, blocks: tuple[Hyperslab, ...]) -> Part:
    sources: list[ArraySource] = []
    members: list[Member] = []
    boxes = dict(analysis.whole.near(slab))
    for piece in analysis.whole.pieces(slab):
        source, inside, box = analysis.sources[piece.source], piece.slab, boxes[piece.source]
        if source.data is not None:
            low, high = inside.bounds
            start = tuple(a + b for a, b in zip(box.start, low, strict=True))
            box = Hyperslab(start, tuple(b - a for a, b in zip(low, high, strict=True)))
            source = formats.open_array(
                source.data[tuple(slice(*edge) for edge in zip(low, high, strict=True))]
            )
        members.append(Member(len(sources), box))
        sources.append(_of_a_task(source, inside))
    whole = Whole(
        "",
        analysis.whole.shape,
        tuple(members),
        Header(),
        analysis.whole.axis,
        analysis.whole.longest,
    )
    if not sources:
        sources.append(_bare(analysis.sources[0]))
    return Part(blocks, tuple(sources), whole, analysis.values, analysis.axis, analysis.picked)


def _of_a_task(source: ArraySource, slab: Hyperslab) -> ArraySource:
    """The source with what a region needs of its tables."""
    region = ascending(slab.permute(source.axes))
    return way_of(source).part(_bare(source), region)


def _bare(source: ArraySource) -> ArraySource:
    """Drop what tells people of the array, where it is read without the format's library."""
    if way_of(source).uses_library:
        return source
    return replace(source, header=Header(), reason="")


def seed(context: SparkContext, parts: list[Part]) -> RDD[Any]:
    """The RDD of the parts, one a partition."""
    return context.parallelize(parts, max(1, len(parts)))
