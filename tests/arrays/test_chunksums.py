"""Sums over the chunks of many boxes against a look at the chunks of each."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.byteranges import pieces
from hyperslab.arrays.chunksums import ChunkSums, can_be_summed
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ChunkTable
from tests.examples import examples

Shape = tuple[int, ...]


def table_of(shape: Shape, chunk: Shape, seed: int, share: float) -> ChunkTable:
    """Chunks of many sizes, of which only a share is there."""
    random = np.random.default_rng(seed)
    places = [np.arange(0, n, c) for n, c in zip(shape, chunk, strict=True)]
    start = np.stack(np.meshgrid(*places, indexing="ij"), -1).reshape(-1, len(shape))
    start = start[random.random(len(start)) < share]
    nbytes = random.integers(1, 99, len(start))
    return ChunkTable(chunk, start, np.cumsum(nbytes), nbytes, np.zeros_like(nbytes))


def box_in(shape: Shape, random: np.random.Generator) -> Hyperslab:
    first = random.integers(0, shape)
    count = [int(random.integers(1, n - a + 1)) for a, n in zip(first, shape, strict=True)]
    return Hyperslab(tuple(first.tolist()), tuple(count))


@settings(max_examples=examples(60))
@given(st.data())
def test_sums_are_those_of_the_chunks_of_each_box(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=ndim, max_size=ndim)))
    chunk = tuple(data.draw(st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim)))
    seed = data.draw(st.integers(0, 99))
    table = table_of(shape, chunk, seed, data.draw(st.sampled_from([0.0, 0.1, 0.6, 1.0])))
    random = np.random.default_rng(seed)
    slabs = [box_in(shape, random) for _ in range(5)]
    boxes = Boxes.of(slabs)
    assert can_be_summed(table)
    sums = ChunkSums(table)
    near = [table.overlapping(slab) for slab in slabs]
    assert sums.rows(boxes).tolist() == [len(rows) for rows in near]
    assert sums.nbytes(boxes).tolist() == [rows.nbytes.sum() for rows in near]
    given_by: list[list[Shape]] = [[] for _ in slabs]
    for part in sums.parts(boxes):
        for which, extents, chunks in zip(
            part.which, part.extents.tolist(), part.chunks.tolist(), strict=True
        ):
            given_by[which] += [tuple(extents)] * chunks
    for slab, rows, found in zip(slabs, near, given_by, strict=True):
        assert sorted(found) == sorted(piece.part.count for piece in pieces(rows, slab))


def test_few_chunks_far_apart_are_not_summed() -> None:
    start = np.array([[0, 0, 0], [10**6, 10**6, 10**6]])
    ones = np.ones(2, np.int64)
    assert not can_be_summed(ChunkTable((1, 1, 1), start, ones, ones, ones))
    beside = np.array([[0, 0, 0], [0, 0, 3]])
    assert not can_be_summed(ChunkTable((1, 1, 2), beside, ones, ones, ones)), "on no grid"
    none = np.empty(0, np.int64)
    empty = ChunkTable((2, 2), np.empty((0, 2), np.int64), none, none, none)
    assert can_be_summed(empty)
    box = Boxes.of([Hyperslab((0, 0), (4, 4))])
    assert ChunkSums(empty).rows(box).tolist() == [0]


def test_boxes_are_the_regions_they_are_made_of() -> None:
    slabs = [Hyperslab((1, 2, 3), (4, 5, 6)), Hyperslab((0, 0, 0), (1, 1, 1))]
    boxes = Boxes.of(slabs)
    assert list(boxes) == slabs
    assert list(boxes.permute((2, 0, 1))) == [slab.permute((2, 0, 1)) for slab in slabs]
    assert boxes.size.tolist() == [math.prod(slab.count) for slab in slabs]
