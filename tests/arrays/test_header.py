"""Headers of arrays that have other axes than the one that they were made of."""

from __future__ import annotations

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.axes import Axes
from hyperslab.arrays.header import FIRST, Header

AFFINE = np.array([[2.0, 0, 0, 10], [0, 3, 0, 20], [0, 0, 4, 30], [0, 0, 0, 1]])
SHAPE = (9, 8, 7, 6, 5)
SERIES = Header(base_affine=AFFINE, corner=(100.0, 200.0), space=(1, 2, 3)).moved(
    (4, 1, 2, 3, 5), (1, 1, 2, 1, 1)
)
"A block of an image whose first and last axes are none of space."


def same(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


def test_a_block_lies_along_its_axes_of_space() -> None:
    assert SERIES.affine is not None
    assert SERIES.affine[:3, 3].tolist() == [10 + 2, 20 + 6, 30 + 12]
    assert SERIES.affine[:3, :3].tolist() == np.diag([2.0, 6.0, 4.0]).tolist()


def test_without_the_axis_before_them_they_are_the_first() -> None:
    made = SERIES.with_axes(Axes.changed(5, (0,), {}), SHAPE)
    assert made.space == FIRST
    assert made.corner == (200.0,)
    assert same(made.affine, SERIES.affine)


def test_a_new_axis_before_them_moves_them() -> None:
    made = SERIES.with_axes(Axes.changed(5, (4,), {0: 2}), SHAPE)
    assert made.space == (2, 3, 4)
    assert made.corner == (0.0, 100.0)
    assert same(made.affine, SERIES.affine)


def test_without_one_of_them_nothing_has_a_place() -> None:
    made = SERIES.with_axes(Axes.changed(5, (2,), {}), SHAPE)
    assert made.affine is None
    assert made.space == FIRST
