"""Rows, points and vectors of one block against NumPy's indexing of the whole array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark import vectors
from hyperslab.errors import UsageError

WHOLE = np.arange(6 * 5 * 4, dtype=np.int16).reshape(6, 5, 4)
SLABS = (
    Hyperslab((0, 0, 0), (6, 5, 4)),
    Hyperslab((1, 2, 1), (3, 2, 3)),
    Hyperslab((5, 0, 3), (3, 2, 2), (-2, 3, -1)),
    Hyperslab((2, 1, 0), (0, 4, 4)),
)


@pytest.mark.parametrize("slab", SLABS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows(slab: Hyperslab, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        vectors.row_pieces, "__defaults__", (0, 40)
    )  # several pieces of several rows
    block = WHOLE[slab.slices()]
    turned = np.moveaxis(block, axis, 0)
    indices = np.arange(WHOLE.shape[axis])[slab.slices()[axis]].tolist()
    found = list(zip(vectors.row_indices(slab, axis), vectors.rows(slab, block, axis), strict=True))
    assert [index for index, _ in found] == indices
    assert all(type(index) is int for index, _ in found)
    for (_, row), other, expected in zip(
        found, vectors.rows(slab, block, axis), turned, strict=True
    ):
        assert row.dtype == block.dtype
        assert row.tolist() == other.tolist() == expected.ravel().tolist()
    dense = list(vectors.vectors(slab, block, axis))
    assert [v.toArray().tolist() for v in dense] == [row.tolist() for _, row in found]
    assert all(v.array.dtype == np.float64 for v in dense)
    indexed = list(vectors.indexed_vectors(slab, block, axis))
    assert [(r.index, r.vector) for r in indexed] == list(zip(indices, dense, strict=True))


@pytest.mark.parametrize("slab", SLABS, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_points(slab: Hyperslab, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "POINTS", 7)
    block = np.array(WHOLE[slab.slices()], order=order)
    found = list(vectors.points(slab, block, WHOLE.shape))
    assert [value for value, _ in found] == block.ravel().tolist()
    assert [index for _, index in found] == block.ravel().tolist()  # WHOLE holds its own indices
    assert all(type(part) is int for point in found for part in point)


def test_points_of_other_types() -> None:
    line, slab = np.array([1.5, -2.0]), Hyperslab((3,), (2,))
    for dtype, kind in ((">f4", float), ("c8", complex), ("?", bool), ("u1", int)):
        found = list(vectors.points(slab, line.astype(np.int8).astype(dtype), (10,)))
        assert [(type(value), index) for value, index in found] == [(kind, 3), (kind, 4)]
        assert [value for value, _ in found] == line.astype(np.int8).astype(dtype).tolist()
    assert list(vectors.points(Hyperslab((), ()), np.array(7), ())) == [(7, 0)]


def test_labeled_points() -> None:
    slab = Hyperslab((2, 0), (2, 4))
    block = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint8)
    for label in (1, -3):
        found = list(vectors.labeled_points(slab, block, label))
        assert [(p.label, p.features.toArray().tolist()) for p in found] == [
            (2.0, [1, 3, 4]),
            (6.0, [5, 7, 8]),
        ]
    for label in (4, -5):
        with pytest.raises(UsageError, match=rf"label is column {label}, .* have 4 values"):
            list(vectors.labeled_points(slab, block, label))


def test_types_that_doubles_cannot_hold() -> None:
    slab = Hyperslab((2,), (2,))
    for dtype, remedy in (
        (np.complex64, "real part"),
        (np.longdouble, "convert"),
        ("S3", "convert"),
    ):
        block = np.ones(2).astype(dtype)
        for make in (
            vectors.vectors,
            vectors.indexed_vectors,
            lambda s, b: vectors.labeled_points(s, b, 0),
        ):
            with pytest.raises(UsageError, match=rf"block \[2:4\] holds .*float64: .*{remedy}"):
                list(make(slab, block))
    for axis in (1, -2):
        with pytest.raises(UsageError, match=rf"axis is {axis}, and the block \[2:4\] has 1 axes"):
            list(vectors.rows(slab, np.ones(2), axis))
