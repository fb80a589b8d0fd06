"""ChunkSums: how many chunks lie in each of many boxes, and the bytes of these.

Chunks on a grid are added up once, from the first cell on; the sum within any box is then that at
its far corner, less those beyond its near sides (Crow 1984, "Summed-area tables for texture
mapping", doi:10.1145/800031.808600).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.source import ChunkGrid, ChunkTable

_MOST_CELLS_PER_CHUNK = 16
"Cells of a grid for each of its chunks, up to which they are worth the memory of a number each."
_FEW_CELLS = 2**20
"Cells that are worth it anyway."

Numbers = npt.NDArray[np.int64]


class Part(NamedTuple):
    """What chunks of one kind give to boxes, a row for each box that has such ones."""

    which: npt.NDArray[np.intp]
    "(rows,): numbers of the boxes."
    extents: Numbers
    "(rows, ndim): elements that each chunk gives."
    chunks: Numbers
    "(rows,): number of these chunks."


class _Side(NamedTuple):
    """Cells of boxes along an axis, which give as many elements each."""

    first: Numbers
    end: Numbers
    extent: Numbers


class ChunkSums:
    """Sums over the chunks of a table, by their cells. All in stored order."""

    def __init__(self, table: ChunkTable) -> None:
        """The table `can_be_summed`."""
        self._chunk = np.array(table.chunk_shape, np.int64)
        self._nbytes = table.nbytes
        self._grid = ChunkGrid((0,) * len(self._chunk), None)
        self._there: Numbers | None = None
        if len(table):
            self._grid = table.grid
        if self._grid.numbers is not None:
            self._there = self._summed(np.ones(len(table), np.int64))

    def rows(self, boxes: Boxes) -> Numbers:
        """Chunks that each box touches."""
        return self._rows(*self._cells(boxes))

    def nbytes(self, boxes: Boxes) -> Numbers:
        """Stored bytes of the chunks that each box touches."""
        first, end = self._cells(boxes)
        smallest = 0
        if len(self._nbytes):
            smallest = int(self._nbytes.min())
        if (self._nbytes == smallest).all():
            return self._rows(first, end) * smallest
        return _within(self._summed(self._nbytes), first, end)

    def parts(self, boxes: Boxes) -> Iterator[Part]:
        """What the chunks that boxes touch give to them, together: all of those within a box give
        the same, and so do those on the same of its sides, edges or corners.
        """
        sides = [self._sides(boxes, axis) for axis in range(len(self._chunk))]
        for combination in itertools.product(*sides):
            there = np.logical_and.reduce([side.end > side.first for side in combination])
            which = np.flatnonzero(there)
            if not len(which):
                continue
            first, end, extents = (
                np.stack([column[which] for column in columns], -1)
                for columns in zip(*combination, strict=True)
            )
            yield Part(which, extents, self._rows(first, end))

    def _sides(self, boxes: Boxes, axis: int) -> list[_Side]:
        """The cells at the near end of each box along an axis, those between, and those at its far
        end, where that is another one; without those that no box has.
        """
        low = boxes.low[:, axis]
        high = boxes.high[:, axis]
        extent = self._chunk[axis]
        first, end = (column[:, axis] for column in self._cells(boxes))
        second = first + 1
        last = np.maximum(end - 1, second)
        sides = (
            _Side(first, second, np.minimum(high, second * extent) - low),
            _Side(second, last, np.full_like(low, extent)),
            _Side(last, end, high - last * extent),
        )
        return [side for side in sides if (side.end > side.first).any()]

    def _cells(self, boxes: Boxes) -> tuple[Numbers, Numbers]:
        """First cell that each box touches, and one past the last, per axis."""
        return boxes.low // self._chunk, -(-boxes.high // self._chunk)

    def _rows(self, first: Numbers, end: Numbers) -> Numbers:
        if self._there is not None:
            return _within(self._there, first, end)
        extents = np.minimum(end, self._grid.shape) - np.minimum(first, self._grid.shape)
        rows: Numbers = extents.prod(axis=1)
        return rows

    def _summed(self, values: Numbers) -> Numbers:
        """Sums of a value of every chunk over all cells before a corner, for each corner."""
        corners = np.zeros([n + 1 for n in self._grid.shape], np.int64)
        inner = corners[(slice(1, None),) * corners.ndim]
        if self._grid.numbers is None:
            inner[...] = values.reshape(self._grid.shape)
        else:
            inner[np.unravel_index(self._grid.numbers, self._grid.shape)] = values
        for axis in range(corners.ndim):
            np.cumsum(corners, axis=axis, out=corners)
        return corners


def can_be_summed(table: ChunkTable) -> bool:
    """Whether the chunks lie on a grid that most of them fill."""
    if not table.chunk_shape:
        return False
    if not len(table):
        return True
    if not table.grid.is_regular:
        return False
    most = max(_FEW_CELLS, _MOST_CELLS_PER_CHUNK * len(table))
    return math.prod(table.grid.shape) <= most


def _within(summed: Numbers, first: Numbers, end: Numbers) -> Numbers:
    """What lies between corners, by the sums up to each corner."""
    last = np.array(summed.shape, np.int64) - 1
    edges = (np.minimum(end, last), np.minimum(first, last))
    total = np.zeros(len(first), np.int64)
    for corner in itertools.product((0, 1), repeat=summed.ndim):
        at = tuple(edges[side][:, axis] for axis, side in enumerate(corner))
        total += (-1) ** sum(corner) * summed[at]
    return total
