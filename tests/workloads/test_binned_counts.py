"""Counts in bins: exactly those of numpy.histogram, with the native core and without."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab.workloads import kernels
from tests.examples import of_each
from tests.repetitions import each_value
from tests.workloads.made_blocks import both, both_ways, values_of  # noqa: F401


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64", "int32"])
@given(data=st.data(), bins=st.integers(1, 50))
def test_equal_bins_are_those_of_numpy(dtype: str, data: st.DataObject, bins: int) -> None:
    values = data.draw(values_of(dtype))
    low, high = values.min(), values.max()
    edges, bounds = kernels.equal_edges(low, high, bins, values.dtype)
    counts, below, above, nan = both_ways(lambda: kernels.binned_counts(values, edges, bounds))
    assert (edges[1:] > edges[:-1]).all()
    assert (int(counts.sum()), below, above, nan) == (len(values), 0, 0, 0)
    if len(edges) == bins + 1 and numpy_can_bin(edges.dtype.type(low), edges.dtype.type(high)):
        expected, expected_edges = np.histogram(values, bins)
        np.testing.assert_array_equal(edges, expected_edges)
        np.testing.assert_array_equal(counts, expected)


def numpy_can_bin(low: Any, high: Any) -> bool:
    """It overflows near the largest numbers, and loses the 0.5 that it adds to both sides of a
    single large number.
    """
    moderate = max(abs(low), abs(high)) < np.finfo(low.dtype).max / 4
    return bool(moderate and (low < high or low - 0.5 < low < high + 0.5))


@pytest.mark.usefixtures("both")
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


@pytest.mark.usefixtures("both")
def test_values_on_the_edges_belong_to_the_bin_above_them() -> None:
    edges, bounds = kernels.equal_edges(0.0, 1.0, 10, np.dtype(np.float64))
    values = np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 2)])
    counts, below, above, _ = kernels.binned_counts(values, edges, bounds)
    np.testing.assert_array_equal(counts, np.histogram(values, 10, (0.0, 1.0))[0])
    assert (below, above) == (1, 1)


@pytest.mark.usefixtures("both")
def test_other_values_are_counted_apart() -> None:
    values = np.array([np.nan, -np.inf, np.inf, np.inf, -3.0, 0.5, 7.0, 8.0], np.float32)
    edges, bounds = kernels.equal_edges(0.0, 1.0, 2, values.dtype)
    counts, below, above, nan = kernels.binned_counts(values, edges, bounds)
    assert (counts.tolist(), below, above, nan) == ([0, 1], 2, 4, 1)


@pytest.mark.usefixtures("both")
def test_half_floats_are_binned_as_float32() -> None:
    values = np.arange(0, 2000, dtype=np.float16)
    edges, bounds = kernels.equal_edges(np.float32(0), np.float32(1999), 4096, values.dtype)
    counts = kernels.binned_counts(values, edges, bounds)[0]
    np.testing.assert_array_equal(counts, np.histogram(values.astype(np.float32), 4096)[0])


BINNED = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32")
"What the native core bins."


@pytest.mark.parametrize("dtype", BINNED)
@given(data=st.data(), bins=st.sampled_from([1, 2, 3, 10, 100, 4096, 65536, 70_000]))
@settings(max_examples=of_each(100))
def test_bins_of_a_given_range_are_those_of_numpy(
    dtype: str, data: st.DataObject, bins: int
) -> None:
    """With values on and beside edges, NaN and infinite ones, in any layout and byte order."""
    kind = np.dtype(dtype)
    limit = 2.0**100 if kind.kind == "f" else 300
    low, high = sorted(
        data.draw(st.lists(st.floats(-limit, limit, width=32), min_size=2, max_size=2, unique=True))
    )
    edges, bounds = kernels.equal_edges(low, high, bins, kind)
    anywhere = data.draw(hnp.arrays(kind, st.integers(0, 60), elements=hnp.from_dtype(kind)))
    near = edges[data.draw(hnp.arrays(np.int64, 30, elements=st.integers(0, len(edges) - 1)))]
    with np.errstate(invalid="ignore", over="ignore"):
        beside = np.concatenate(
            [near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)]
        ).astype(kind)
    values = np.concatenate([anywhere, beside])
    block = np.repeat(values, 2).astype(kind.newbyteorder(data.draw(st.sampled_from("<>"))))[::2][
        :, None
    ]
    with np.errstate(invalid="ignore"):
        counts, below, above, nan = both_ways(
            lambda: kernels.binned_counts(block[::-1], edges, bounds)
        )
        expected = np.histogram(values, len(counts), bounds)[0]
    np.testing.assert_array_equal(counts, expected)
    assert nan == int(np.isnan(values).sum())
    assert (below, above) == (int((values < bounds[0]).sum()), int((values > bounds[1]).sum()))


@each_value("every dtype, and every number of bins")
@pytest.mark.parametrize("dtype", BINNED)
@pytest.mark.parametrize("bins", [1, 7, 1024, 65536])
def test_bins_of_many_values_are_those_of_numpy(dtype: str, bins: int) -> None:
    rng = np.random.default_rng(13)
    spread = (
        rng.normal(0, 40, (60, 70, 50)) if dtype[0] in "fi" else rng.integers(0, 200, (60, 70, 50))
    )
    block = np.clip(spread, -128, 127).astype(dtype) if dtype[0] != "u" else spread.astype(dtype)
    for layout in (
        block,
        np.asfortranarray(block),
        block[::-1, 3:60, ::2],
        block.astype(block.dtype.newbyteorder()),
    ):
        for low, high in ((layout.min(), layout.max()), (-20.5, 50.25)):
            edges, bounds = kernels.equal_edges(low, high, bins, layout.dtype)
            counts, below, above, nan = both_ways(
                functools.partial(kernels.binned_counts, layout, edges, bounds)
            )
            np.testing.assert_array_equal(counts, np.histogram(layout, len(counts), bounds)[0])
            assert int(counts.sum()) + below + above == layout.size
            assert nan == 0


@each_value("every range, by both ways")
@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(
    ("low", "high", "dtype", "bins"),
    [
        (7.066815e-37, 7.1257843e-37, "float32", 65536),
        (-7.237244e-38, -6.881139e-38, "float32", 4096),
        (2.508e-41, 2.5449e-41, "float32", 1024),
        (-4.0064320748e-313, -4.006400545e-313, "float64", 65536),
        (1.0, 3.0, "float32", 2**20),
        (0.1, 1e5, "float32", 2**20),
    ],
)
def test_bins_that_numpy_rounds_are_those_of_numpy(
    low: float, high: float, dtype: str, bins: int
) -> None:
    """It puts values beyond the edges of their bins where these are subnormal numbers apart."""
    kind = np.dtype(dtype).type
    edges, bounds = kernels.equal_edges(kind(low), kind(high), bins, np.dtype(dtype))
    values = np.concatenate(
        [edges, np.nextafter(edges[:-1], kind(np.inf)), np.nextafter(edges[1:], kind(-np.inf))]
    )
    counts = kernels.binned_counts(values, edges, bounds)[0]
    np.testing.assert_array_equal(counts, np.histogram(values, len(counts), bounds)[0])


def test_edges_are_used_as_they_are() -> None:
    """Nobody has to guess a bin right for it to be found."""
    values = np.concatenate([np.linspace(-1, 3, 20_001), [0.0, 1e-300, 1e-3, 2.0]])
    edges = np.array([0.0, 1e-300, 1e-3, 2.0])
    counts, below, above, _ = kernels.binned_counts(values, edges, (0.0, 2.0))
    np.testing.assert_array_equal(counts, np.histogram(values, edges)[0])
    assert (below, above) == (int((values < 0).sum()), int((values > 2).sum()))
