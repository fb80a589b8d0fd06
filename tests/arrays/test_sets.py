"""Sets of sources: where their parts lie, and blocks that overlap."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.arrays.header import Header
from hyperslab.arrays.sets import Member, Piece, Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.tiling import _overlap

BOXES = st.lists(
    st.tuples(*[st.tuples(st.integers(0, 5), st.integers(1, 3))] * 2), min_size=1, max_size=8
)


@given(BOXES)
def test_an_overlap_is_found_where_there_is_one(boxes: list[tuple[tuple[int, int], ...]]) -> None:
    cells = [
        set(itertools.product(*(range(first, first + n) for first, n in box))) for box in boxes
    ]
    low = np.array([[first for first, _ in box] for box in boxes])
    found = _overlap(low, low + np.array([[n for _, n in box] for box in boxes]))
    if found:
        assert found[0] != found[1]
        assert cells[found[0]] & cells[found[1]]
    else:
        assert sum(map(len, cells)) == len(set.union(*cells))


def test_many_blocks_take_no_square_of_their_time() -> None:
    """50,000 would be 1,250 million pairs."""
    low = np.stack(np.meshgrid(*[np.arange(37)] * 3, indexing="ij"), -1).reshape(-1, 3) * 10
    assert _overlap(low, low + 10) is None


def test_a_part_of_a_whole_keeps_its_place() -> None:
    """One member alone may lie anywhere in the whole that a task sees a part of."""
    box = Hyperslab((3, 0), (3, 5))
    part = Whole("days", (9, 5), (Member(1, box),), Header(), 0, 3)
    (piece,) = part.pieces(Hyperslab((4, 1), (2, 4)))
    assert piece == Piece(1, Hyperslab((1, 1), (2, 4)), Hyperslab((0, 0), (2, 4)))
    alone = Whole("day", (3, 5), (Member(0, Hyperslab((0, 0), (3, 5))),), Header(), 0, 3)
    assert [piece.slab for piece in alone.pieces(Hyperslab((1, 1), (2, 4)))] == [
        Hyperslab((1, 1), (2, 4))
    ]


def test_blocks_of_one_shape_share_their_place() -> None:
    """There are as many as tasks."""
    whole = Whole("day", (4, 6), (Member(0, Hyperslab((0, 0), (4, 6))),), Header(), 0, 4)
    slabs = [Hyperslab((row, 0), (1, 6)) for row in range(4)]
    places = {id(piece.place) for slab in slabs for piece in whole.pieces(slab)}
    assert len(places) == 1
