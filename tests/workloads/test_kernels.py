"""Kernels: piecewise histograms and sums are those of the whole, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.arrays import Array
from hyperslab.workloads import kernels
from tests.workloads.made_blocks import FLOATS, INTEGERS, layouts, values_of


@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize("elements", [1, 7, 40, 1000, 10**6])
def test_pieces_hold_every_value_once(name: str, elements: int) -> None:
    block = layouts()[name]
    found = list(kernels.pieces(block, elements))
    assert max(len(piece) for piece in found) <= elements
    assert all(piece.ndim == 1 and piece.dtype.isnative for piece in found)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.sort(block.reshape(-1)))


@pytest.mark.parametrize("name", ["c", "fortran", "middle axis slowest"])
def test_pieces_of_one_run_of_memory_are_views(name: str) -> None:
    block = layouts()[name]
    assert all(np.shares_memory(piece, block) for piece in kernels.pieces(block, 1000))


def test_pieces_of_nothing() -> None:
    assert list(kernels.pieces(np.empty((3, 0, 2)))) == []


def test_storage_order_is_slowest_first() -> None:
    block = np.empty((4, 5, 6, 7)).transpose(2, 0, 3, 1)
    assert kernels.storage_order(block) == (1, 3, 0, 2)


def test_finite_counts_what_it_leaves_out() -> None:
    split = kernels.finite(np.array([1.0, np.nan, np.inf, -np.inf, -np.inf, 2.0, np.nan, np.nan]))
    np.testing.assert_array_equal(split.values, [1.0, 2.0])
    assert split[1:] == (3, 2, 1)
    whole = np.arange(5.0)
    assert kernels.finite(whole).values is whole
    assert kernels.finite(np.full(4, np.nan)).values.size == 0


@pytest.mark.parametrize("dtype", INTEGERS)
@given(data=st.data())
def test_integer_sums_are_exact(dtype: str, data: st.DataObject) -> None:
    values = data.draw(values_of(dtype))
    exact = [int(v) for v in values]
    assert kernels.integer_sums(values) == (sum(exact), sum(v * v for v in exact))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_sums_of_a_full_piece_of_extremes(dtype: str) -> None:
    n = 2**20
    for extreme in (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)):
        assert kernels.integer_sums(np.full(n, extreme, dtype)) == (
            n * extreme,
            n * extreme * extreme,
        )


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
def test_float_sums_are_exact(dtype: str, data: st.DataObject) -> None:
    values = data.draw(values_of(dtype))
    assert in_numbers(kernels.float_sums(values)) == exact_sums(values)


def test_float_sums_over_the_whole_range_of_float64() -> None:
    rng = np.random.default_rng(3)
    values = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(-1074, 1024, 3000))
    extremes = [
        np.finfo(float).max,
        -np.finfo(float).max,
        5e-324,
        -5e-324,
        0.0,
        -0.0,
        2.0**450,
        2.0**-450,
    ]
    values = np.concatenate([values, extremes])
    assert in_numbers(kernels.float_sums(values)) == exact_sums(values)


def test_float_sums_of_a_full_piece() -> None:
    value, n = 1 / 3, 2**20
    assert in_numbers(kernels.float_sums(np.full(n, value))) == (
        n * Fraction(value),
        n * Fraction(value) ** 2,
    )


def test_float_sums_leave_their_argument_alone() -> None:
    values = np.array([0.1, 1e300, 1e-300])
    kernels.float_sums(values)
    np.testing.assert_array_equal(values, [0.1, 1e300, 1e-300])


def in_numbers(sums: tuple[int, int]) -> tuple[Fraction, Fraction]:
    return Fraction(sums[0], 2**1074), Fraction(sums[1], 2**2148)


def exact_sums(values: Array) -> tuple[Fraction, Fraction]:
    exact = [Fraction(float(v)) for v in values]
    return sum(exact, Fraction()), sum((v * v for v in exact), Fraction())
