"""The algebra of hyperslabs is that of NumPy's indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

from hyperslab.arrays.slab import Hyperslab, from_index

WORDS = st.text("a9:", max_size=3)
"Of few letters: to look all of them up takes two seconds."
shapes = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


def numbered(shape: tuple[int, ...]) -> Any:
    return np.arange(np.prod(shape)).reshape(shape)


@st.composite
def slabs(draw: st.DrawFn, shape: tuple[int, ...], least: int = 0) -> Hyperslab:
    """Any region of an array of this shape, strides of either sign, with so many elements at least
    along every axis.
    """
    start, count, stride = [], [], []
    for extent in shape:
        first = draw(st.integers(0, max(0, extent - 1)))
        step = draw(st.sampled_from((-3, -2, -1, 1, 2, 3)))
        room = first // -step + 1 if step < 0 else -(-(extent - first) // step)
        start.append(first)
        count.append(draw(st.integers(least, max(least, room))) if extent else 0)
        stride.append(step)
    return Hyperslab(tuple(start), tuple(count), tuple(stride))


@given(shapes.flatmap(lambda shape: st.tuples(st.just(shape), slabs(shape))))
def test_slices_select_what_the_region_says(case: tuple[tuple[int, ...], Hyperslab]) -> None:
    shape, slab = case
    block = numbered(shape)[slab.slices()]
    assert block.shape == slab.count
    assert block.size == slab.size
    axes = [
        a + s * np.arange(n) for a, n, s in zip(slab.start, slab.count, slab.stride, strict=True)
    ]
    assert np.array_equal(block, numbered(shape)[np.ix_(*axes)])
    low, high = slab.bounds
    for axis, touched in enumerate(axes):
        assert (low[axis], high[axis]) == (
            (touched.min(), touched.max() + 1) if len(touched) else (slab.start[axis],) * 2
        )


@given(st.data(), shapes)
def test_compose_is_indexing_twice(data: st.DataObject, shape: tuple[int, ...]) -> None:
    outer = data.draw(slabs(shape, 1))
    inner = data.draw(slabs(outer.count, 1))
    a = numbered(shape)
    assert np.array_equal(a[outer.slices()][inner.slices()], a[outer.compose(inner).slices()])


@given(st.data(), shapes)
def test_permute_is_transposing(data: st.DataObject, shape: tuple[int, ...]) -> None:
    slab, axes = data.draw(slabs(shape)), data.draw(st.permutations(range(len(shape))))
    a = numbered(shape)
    assert np.array_equal(
        a.transpose(axes)[slab.permute(axes).slices()], a[slab.slices()].transpose(axes)
    )


@given(st.data(), shapes)
def test_clip_finds_what_lies_in_the_box(data: st.DataObject, shape: tuple[int, ...]) -> None:
    slab = data.draw(slabs(shape))
    low = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    box = Hyperslab(
        low, tuple(data.draw(st.integers(1, n - a)) for a, n in zip(low, shape, strict=True))
    )
    a, inside = numbered(shape), np.zeros(shape, bool)
    inside[box.slices()] = True
    clipped = slab.clip(box)
    if clipped is None:
        assert not inside[slab.slices()].any()
        return
    part, place = clipped
    assert np.array_equal(a[part.slices()], a[slab.slices()][place.slices()])
    assert inside[part.slices()].all()
    assert inside[slab.slices()].sum() == part.size > 0


@given(shapes.flatmap(lambda shape: st.tuples(st.just(shape), basic_indices(shape))))
def test_from_index_is_basic_indexing(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    a = numbered(shape)
    slab, dropped = from_index(index, shape)
    block = a[slab.slices()]
    assert np.array_equal(
        block.reshape([n for axis, n in enumerate(block.shape) if axis not in dropped]), a[index]
    )


@given(
    shapes,
    st.one_of(st.none(), st.just([0]), st.floats(), WORDS, st.booleans(), st.integers(9, 99)),
)
def test_from_index_refuses_what_is_not_basic(shape: tuple[int, ...], index: Any) -> None:
    with pytest.raises(IndexError):
        from_index(index, shape)
    with pytest.raises(IndexError):
        from_index((slice(None),) * (len(shape) + 1), shape)
