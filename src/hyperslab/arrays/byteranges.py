"""Byte ranges of a region: which chunks it touches, and which spans of bytes to read of each.

Everything is in stored order (axes as they lie in the file, slowest first) and, but for `turns`,
with strides above 0.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ChunkTable

PREAD_COST_NBYTES = 32 * 1024
"""Bytes that could be read in the time that one more system call takes; decides which gaps are read
through.
"""
BUFFER_NBYTES = 8 * 1024**2
"Largest buffer for bytes that do not land in the block directly."


class Piece(NamedTuple):
    """What one stored chunk gives to a region."""

    offset: int
    "First byte of the chunk in the file."
    nbytes: int
    "Stored bytes of the chunk."
    part: Hyperslab
    "The elements taken, in the chunk's own coordinates."
    place: Hyperslab
    "Where they go in the region's block."


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """How a region of a C-ordered array is read: spans that each cover `group` steps along axis
    `level` and all that the region has on the faster axes.
    """

    level: int
    group: int
    step_nbytes: tuple[int, ...]
    "Bytes from one element of the region to the next, per axis."
    inner_nbytes: int
    "Bytes from the first to the last element on the axes faster than `level`."
    spans: int
    nbytes: int
    "Bytes of all spans, gaps included."

    def span_nbytes(self, steps: int) -> int:
        """Bytes of a span that covers so many steps."""
        return (steps - 1) * self.step_nbytes[self.level] + self.inner_nbytes


def ascending(slab: Hyperslab) -> Hyperslab:
    """The same elements from low to high indices; a stride of 1 where there is one element."""
    if slab.is_box:
        return slab
    start, stride = [], []
    for axis in zip(slab.start, slab.count, slab.stride, strict=True):
        first, step = _ascending_axis(*axis)
        start.append(first)
        stride.append(step)
    return Hyperslab(tuple(start), slab.count, tuple(stride))


def turns(slab: Hyperslab) -> tuple[slice, ...]:
    """The index of a block that makes `ascending(slab)` of `slab` and the other way round."""
    return tuple([_turn(step) for step in slab.stride])


def _turn(step: int) -> slice:
    if step < 0:
        return slice(None, None, -1)
    return slice(None, None, 1)


def pieces(chunks: ChunkTable, slab: Hyperslab) -> Iterator[Piece]:
    """The chunks of a table that hold elements of the region, in its order; strides may jump over
    chunks.
    """
    for row in range(len(chunks)):
        start = chunks.start[row].tolist()
        taken = slab.clip(Hyperslab(tuple(start), chunks.chunk_shape))
        if taken is None:
            continue
        part, place = taken
        inside = part.shift([-first for first in start])
        offset = int(chunks.offset[row])
        nbytes = int(chunks.nbytes[row])
        yield Piece(offset, nbytes, inside, place)


def is_covered(overlapping: ChunkTable, slab: Hyperslab) -> bool:
    """True when every chunk that the region's bounds touch is among the rows that overlap it."""
    cells = touched(slab, overlapping.chunk_shape)
    return len(overlapping) == math.prod(cells)


def touched(slab: Hyperslab, chunk_shape: Sequence[int]) -> list[int]:
    """How many chunks the bounds of a region touch, per axis."""
    low, high = slab.bounds
    cells = []
    for first, last, n in zip(low, high, chunk_shape, strict=True):
        end = -(-last // n)
        cells.append(end - first // n)
    return cells


def plan_spans(
    shape: Sequence[int], slab: Hyperslab, itemsize: int, cost_nbytes: int = PREAD_COST_NBYTES
) -> SpanPlan:
    """The cheapest way to read a region that is not empty: few long spans, or many short ones
    without the gaps.

    `cost_nbytes` could be read in the time that one more span takes. Spans with gaps are limited to
    BUFFER_NBYTES; spans without may be of any length.
    """
    row = row_nbytes(shape, itemsize)
    step = tuple(s * n for s, n in zip(slab.stride, row, strict=True))
    plans = (
        _plan_level(slab.count, step, itemsize, level, group)
        for level, group in _choices(slab.count, step, itemsize)
    )
    return min(plans, key=lambda plan: plan.spans * cost_nbytes + plan.nbytes)


def span_offsets(
    plan: SpanPlan, shape: Sequence[int], slab: Hyperslab, itemsize: int
) -> Iterator[tuple[int, tuple[int | slice, ...]]]:
    """Every span as (first byte in the array, index of its elements in the region's block)."""
    row = row_nbytes(shape, itemsize)
    base = sum(first * n for first, n in zip(slab.start, row, strict=True))
    extent = slab.count[plan.level]
    for index in itertools.product(*(range(n) for n in slab.count[: plan.level])):
        outer = base + sum(i * n for i, n in zip(index, plan.step_nbytes, strict=False))
        for first in range(0, extent, plan.group):
            offset = outer + first * plan.step_nbytes[plan.level]
            last = min(first + plan.group, extent)
            yield offset, (*index, slice(first, last))


def covering_nbytes(shape: Sequence[int], slab: Hyperslab, itemsize: int) -> int:
    """Bytes from the first to the last element of a region of a C-ordered array; it is not
    empty.
    """
    row = row_nbytes(shape, itemsize)
    step = map(operator.mul, slab.stride, row)
    return _reach(slab.count, tuple(step), itemsize)


def box_nbytes(overlapping: ChunkTable, box: Hyperslab, itemsize: int) -> int:
    """Bytes from the first to the last element of a box in each of the chunks that overlap it,
    added up.
    """
    low, high = box.bounds
    row = row_nbytes(overlapping.chunk_shape, itemsize)
    first = np.maximum(overlapping.start, low)
    last = np.minimum(overlapping.start + overlapping.chunk_shape, high) - 1
    between = (last - first) @ np.array(row, np.int64)
    return int(between.sum()) + itemsize * len(overlapping)


def row_nbytes(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Bytes from one element of a C-ordered array to the next, per axis."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _ascending_axis(start: int, count: int, stride: int) -> tuple[int, int]:
    if count <= 1:
        return start, 1
    if stride > 0:
        return start, stride
    return start + (count - 1) * stride, -stride


def _choices(count: Sequence[int], step: Sequence[int], itemsize: int) -> Iterator[tuple[int, int]]:
    for level, (steps, step_nbytes) in enumerate(zip(count, step, strict=True)):
        faster = count[level + 1 :]
        inner = _reach(faster, step[level + 1 :], itemsize)
        exact = itemsize * math.prod(faster)
        reach = (steps - 1) * step_nbytes + inner
        if reach == steps * exact:
            yield level, steps
        elif inner <= BUFFER_NBYTES:
            together = 1 + (BUFFER_NBYTES - inner) // step_nbytes
            yield level, max(1, min(steps, together))
            yield level, 1


def _plan_level(
    count: Sequence[int], step: tuple[int, ...], itemsize: int, level: int, group: int
) -> SpanPlan:
    inner = _reach(count[level + 1 :], step[level + 1 :], itemsize)
    outer = math.prod(count[:level])
    groups = -(-count[level] // group)
    nbytes = (count[level] - groups) * step[level] + groups * inner
    return SpanPlan(level, group, step, inner, outer * groups, outer * nbytes)


def _reach(count: Sequence[int], step: Sequence[int], itemsize: int) -> int:
    return itemsize + sum((n - 1) * s for n, s in zip(count, step, strict=True))
