"""Kernels: piecewise histograms and sums are those of the whole, exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab import kernels
from hyperslab.array import Array

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")


def layouts() -> dict[str, Array]:
    """Blocks of 24 x 35 x 40 that lie differently in memory."""
    whole = np.random.default_rng(5).integers(0, 65536, (26, 39, 44)).astype(np.uint16)
    fortran = np.asfortranarray(whole[:24, :35, :40])
    return {
        "c": whole[:24, :35, :40].copy(),
        "fortran": fortran,
        "middle axis slowest": whole[:24, :35, :40].transpose(1, 0, 2).copy().transpose(1, 0, 2),
        "without halo": whole[1:25, 2:37, 2:42],
        "strided and flipped": np.repeat(whole, 2, axis=2)[:24, 34::-1, 0:80:2],
        "broadcast": np.broadcast_to(whole[:24, :1, :40], (24, 35, 40)),
        "other byte order": whole[:24, :35, :40].astype(">u2"),
    }


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
def test_value_counts_at_the_ends_of_the_dtype(dtype: str) -> None:
    info = np.iinfo(dtype)
    bins = min(int(info.max) - int(info.min) + 1, 1000)
    for low in (int(info.min), int(info.max) - bins + 1):
        picks = np.random.default_rng(1).integers(0, bins, 5000)
        block = np.array([low + int(i) for i in picks], dtype).reshape(50, 100)
        np.testing.assert_array_equal(kernels.value_counts(block, low, bins), np.bincount(picks, minlength=bins))


def test_value_counts_of_bool() -> None:
    np.testing.assert_array_equal(kernels.value_counts(np.array([[True, False], [True, True]]), 0, 2), [1, 3])


def values_of(dtype: str) -> st.SearchStrategy[Array]:
    finite: dict[str, Any] = {} if dtype in INTEGERS else {"allow_nan": False, "allow_infinity": False}
    elements = hnp.from_dtype(np.dtype(dtype), **finite)
    return hnp.arrays(dtype, st.integers(1, 60), elements=elements)


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
        assert kernels.integer_sums(np.full(n, extreme, dtype)) == (n * extreme, n * extreme * extreme)


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
def test_float_sums_are_exact(dtype: str, data: st.DataObject) -> None:
    values = data.draw(values_of(dtype))
    assert in_numbers(kernels.float_sums(values)) == exact_sums(values)


def test_float_sums_over_the_whole_range_of_float64() -> None:
    rng = np.random.default_rng(3)
    values = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(-1074, 1024, 3000))
    extremes = [np.finfo(float).max, -np.finfo(float).max, 5e-324, -5e-324, 0.0, -0.0, 2.0**450, 2.0**-450]
    values = np.concatenate([values, extremes])
    assert in_numbers(kernels.float_sums(values)) == exact_sums(values)


def test_float_sums_of_a_full_piece() -> None:
    value, n = 1 / 3, 2**20
    assert in_numbers(kernels.float_sums(np.full(n, value))) == (n * Fraction(value), n * Fraction(value) ** 2)


def test_float_sums_leave_their_argument_alone() -> None:
    values = np.array([0.1, 1e300, 1e-300])
    kernels.float_sums(values)
    np.testing.assert_array_equal(values, [0.1, 1e300, 1e-300])


def in_numbers(sums: tuple[int, int]) -> tuple[Fraction, Fraction]:
    return Fraction(sums[0], 2**1074), Fraction(sums[1], 2**2148)


def exact_sums(values: Array) -> tuple[Fraction, Fraction]:
    exact = [Fraction(float(v)) for v in values]
    return sum(exact, Fraction()), sum((v * v for v in exact), Fraction())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64", "int32"])
@given(data=st.data(), bins=st.integers(1, 50))
def test_equal_bins_are_those_of_numpy(dtype: str, data: st.DataObject, bins: int) -> None:
    values = data.draw(values_of(dtype))
    low, high = values.min(), values.max()
    edges, bounds = kernels.equal_edges(low, high, bins, values.dtype)
    counts, below, above, nan = kernels.binned_counts(values, edges, bounds)
    assert (edges[1:] > edges[:-1]).all()
    assert (int(counts.sum()), below, above, nan) == (len(values), 0, 0, 0)
    if len(edges) == bins + 1 and numpy_can_bin(edges.dtype.type(low), edges.dtype.type(high)):
        expected, expected_edges = np.histogram(values, bins)
        np.testing.assert_array_equal(edges, expected_edges)
        np.testing.assert_array_equal(counts, expected)


def numpy_can_bin(low: Any, high: Any) -> bool:
    """It overflows near the largest numbers, and loses the 0.5 that it adds to both sides of a single large number."""
    moderate = max(abs(low), abs(high)) < np.finfo(low.dtype).max / 4
    return bool(moderate and (low < high or low - 0.5 < low < high + 0.5))


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0.0, 5e-324, "float64"),
        (0.0, 3e-323, "float64"),
        (1e300, 1e300, "float64"),
        (np.finfo(np.float64).max, np.finfo(np.float64).max, "float64"),
        (-1.7e308, 1.7e308, "float64"),
        (np.float32(1e9), np.float32(1e9 + 64), "float32"),
        (-np.finfo(np.float32).max, np.finfo(np.float32).max, "float32"),
        (np.int64(2**62), np.int64(2**62 + 100), "int64"),
        (np.uint64(2**64 - 5), np.uint64(2**64 - 1), "uint64"),
    ],
)
def test_edges_increase_however_narrow_or_wide_the_range(low: Any, high: Any, dtype: str) -> None:
    edges, bounds = kernels.equal_edges(low, high, 1024, np.dtype(dtype))
    assert np.isfinite(edges).all()
    assert (edges[1:] > edges[:-1]).all()
    values = np.array([low, high, low], dtype)
    counts, below, above, nan = kernels.binned_counts(values, edges, bounds)
    assert (int(counts.sum()), below, above, nan) == (3, 0, 0, 0)


def test_values_on_the_edges_belong_to_the_bin_above_them() -> None:
    edges, bounds = kernels.equal_edges(0.0, 1.0, 10, np.dtype(np.float64))
    values = np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 2)])
    counts, below, above, _ = kernels.binned_counts(values, edges, bounds)
    np.testing.assert_array_equal(counts, np.histogram(values, 10, (0.0, 1.0))[0])
    assert (below, above) == (1, 1)


def test_other_values_are_counted_apart() -> None:
    values = np.array([np.nan, -np.inf, np.inf, np.inf, -3.0, 0.5, 7.0, 8.0], np.float32)
    edges, bounds = kernels.equal_edges(0.0, 1.0, 2, values.dtype)
    counts, below, above, nan = kernels.binned_counts(values, edges, bounds)
    assert (counts.tolist(), below, above, nan) == ([0, 1], 2, 4, 1)


def test_half_floats_are_binned_as_float32() -> None:
    values = np.arange(0, 2000, dtype=np.float16)
    edges, bounds = kernels.equal_edges(np.float32(0), np.float32(1999), 4096, values.dtype)
    counts = kernels.binned_counts(values, edges, bounds)[0]
    np.testing.assert_array_equal(counts, np.histogram(values.astype(np.float32), 4096)[0])
