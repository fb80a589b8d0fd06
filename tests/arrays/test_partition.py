"""Whatever the shape and the rule, the blocks of a partition cover the array exactly once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from hyperslab.arrays.partition import Layout, Rule, RuleKind, cut
from hyperslab.errors import UsageError


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    # each as often as any other: most arrays are to have elements
    shape = tuple(draw(st.lists(st.sampled_from(range(18)), min_size=1, max_size=4)))
    axes = tuple(draw(st.permutations(range(len(shape)))))
    chunk = tuple(draw(st.integers(1, max(1, n))) for n in shape) if draw(st.booleans()) else None
    return Layout(shape, axes, draw(st.sampled_from([1, 2, 8])), chunk)


@st.composite
def rules(draw: st.DrawFn, ndim: int) -> Rule:
    kind: RuleKind = draw(
        st.sampled_from(["auto", "block-shape", "blocks", "chunks", "slabs", "bytes"])
    )
    lengths = {"block-shape": [ndim], "blocks": [1, ndim], "bytes": [1]}.get(kind, [0])
    length = draw(st.sampled_from(lengths))
    value = tuple(
        draw(
            st.lists(
                st.integers(1, 300 if kind == "bytes" else 20), min_size=length, max_size=length
            )
        )
    )
    return Rule(kind, value, tuple(draw(st.lists(st.integers(-ndim, ndim - 1), max_size=ndim))))


@given(layouts(), st.data())
def test_every_element_is_in_one_block(layout: Layout, data: st.DataObject) -> None:
    rule = data.draw(rules(len(layout.shape)))
    align = tuple(data.draw(st.integers(1, 5)) for _ in layout.shape)
    try:
        partition = cut(layout, rule, data.draw(st.integers(1, 5000)), align)
    except UsageError:
        assert rule.kind == "chunks" or (rule.kind == "blocks" and rule.axes_whole)
        assume(False)
    blocks = list(partition)
    assert len(blocks) == len(partition) == math.prod(partition.grid)
    times = np.zeros(layout.shape, np.int8)
    for block in blocks:
        assert block.is_box
        times[block.slices()] += 1
        assert all(first % a == 0 for first, a in zip(block.start, align, strict=True))
        assert all(n <= most for n, most in zip(block.count, partition.largest, strict=True))
    assert (times == 1).all()
    for axis in rule.axes_whole:
        assert partition.grid[axis] <= 1


@given(layouts(), st.integers(1, 5000))
def test_automatic_blocks_keep_their_limit(layout: Layout, limit: int) -> None:
    """They keep it where the smallest block does: one element, or one chunk."""
    partition = cut(layout, Rule(), limit)
    unit = layout.chunk_shape or (1,) * len(layout.shape)
    least = math.prod(min(u, n) for u, n in zip(unit, layout.shape, strict=True)) * layout.itemsize
    assert math.prod(partition.largest) * layout.itemsize <= max(limit, least)


@given(layouts(), st.integers(1, 40))
def test_blocks_are_nearly_equal(layout: Layout, number: int) -> None:
    partition = cut(layout, Rule("blocks", (number,)), 1)
    blocks = [block.count for block in partition]
    assert len(blocks) >= min(number, math.prod(layout.shape)) or not blocks
    for extents in zip(*blocks, strict=True):
        assert max(extents) - min(extents) <= 1


@given(layouts())
def test_blocks_come_in_the_order_of_storage(layout: Layout) -> None:
    def place(block: Any) -> tuple[int, ...]:
        return tuple(block.start[axis] for axis in layout.axes)

    starts = [place(block) for block in cut(layout, Rule("bytes", (40,)), 1)]
    assert starts == sorted(starts)
