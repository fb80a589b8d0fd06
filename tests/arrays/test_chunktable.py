"""Looking up the chunks that a region touches finds those that looking at all of them does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ChunkTable


def table(cells: Array, chunk: tuple[int, ...]) -> ChunkTable:
    rows = np.arange(len(cells), dtype=np.int64)
    return ChunkTable(chunk, cells * np.array(chunk, np.int64), rows * 7, rows + 1, rows * 0)


@given(st.data())
def test_the_rows_are_those_whose_chunks_touch_the_region(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 3))
    grid = tuple(data.draw(st.integers(1, 12)) for _ in range(ndim))
    chunk = tuple(data.draw(st.integers(1, 4)) for _ in range(ndim))
    everywhere = np.argwhere(np.ones(grid, bool)).astype(np.int64)
    kept = np.random.default_rng(data.draw(st.integers(0, 99))).random(len(everywhere))
    rows = everywhere[kept < data.draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))]
    chunks = table(rows, chunk)
    start = tuple(data.draw(st.integers(0, g * c - 1)) for g, c in zip(grid, chunk, strict=True))
    count = tuple(
        data.draw(st.integers(1, g * c - first))
        for g, c, first in zip(grid, chunk, start, strict=True)
    )
    found = chunks.overlapping(Hyperslab(start, count))
    low = np.array(start)
    high = low + count
    touches = (chunks.start < high) & (chunks.start + chunk > low)
    assert np.array_equal(found.offset, chunks.offset[touches.all(axis=1)])
    assert np.array_equal(found.start, chunks.start[touches.all(axis=1)])


def test_rows_that_lie_twice_or_on_no_grid_are_looked_at_one_by_one() -> None:
    twice = np.repeat(np.arange(50, dtype=np.int64), 2)[:, None]
    found = table(twice, (4,)).overlapping(Hyperslab((8,), (4,)))
    assert found.start.tolist() == [[8], [8]]
    odd = table(np.arange(100, dtype=np.int64)[:, None], (4,))
    beside = ChunkTable((4,), odd.start + 1, odd.offset, odd.nbytes, odd.mask)
    assert beside.overlapping(Hyperslab((5,), (4,))).start.tolist() == [[5]]
