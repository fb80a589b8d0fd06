"""histogram and histogram-python: counts over any partition are those over the whole array,
exactly.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hyperslab import workloads
from hyperslab.arrays import Array
from hyperslab.plan.pipeline import Pipeline
from hyperslab.workloads import histogram
from tests.blockwise import NUMBERS, SHAPES, arrays, reduce_blocks
from tests.examples import of_each


def count(
    data: Array, seed: int = 0, name: str = "histogram", **params: Any
) -> histogram.Histogram:
    result = reduce_blocks(workloads.build(name, Pipeline(data), params), data, seed)
    assert isinstance(result, histogram.Histogram)
    assert result.counts.dtype == np.int64
    assert len(result.edges) == len(result.counts) + 1
    assert (result.edges[1:] > result.edges[:-1]).all()
    return result


@pytest.mark.parametrize("name", ["histogram", "histogram-python"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
@given(data=st.data())
@settings(max_examples=of_each(100))
def test_narrow_types_have_a_bin_per_value(name: str, dtype: str, data: st.DataObject) -> None:
    values = data.draw(arrays(dtype))
    result = count(values, data.draw(st.integers(0, 99)), name)
    low = 0 if dtype == "bool" else int(np.iinfo(dtype).min)
    assert result.first == low
    np.testing.assert_array_equal(
        result.counts,
        np.bincount(values.astype(np.int64).ravel() - low, minlength=len(result.counts)),
    )
    assert len(result.counts) == {"bool": 2, "int8": 256, "uint8": 256}.get(dtype, 65536)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@given(data=st.data())
def test_wide_integers_that_lie_close_have_a_bin_per_value(dtype: str, data: st.DataObject) -> None:
    info = np.iinfo(dtype)
    low = data.draw(st.integers(int(info.min), int(info.max) - 65535))
    values = data.draw(hnp.arrays(dtype, SHAPES, elements=st.integers(low, low + 65535)))
    result = count(values, data.draw(st.integers(0, 99)))
    assert result.values is not None
    found = {int(v): int(n) for v, n in zip(result.values, result.counts, strict=True) if n}
    assert found == {
        int(v): int(n) for v, n in zip(*np.unique(values, return_counts=True), strict=True)
    }
    assert (int(result.values[0]), int(result.values[-1])) == (int(values.min()), int(values.max()))


FINITE: dict[str, dict[str, Any]] = {
    "float64": {"allow_nan": False, "min_value": -1e9, "max_value": 1e9}
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@given(data=st.data())
def test_equal_bins_are_those_of_numpy_over_the_whole(dtype: str, data: st.DataObject) -> None:
    values = data.draw(
        arrays("int32" if dtype == "float32" else dtype, **FINITE.get(dtype, {}))
    ).astype(dtype)
    result = count(values, data.draw(st.integers(0, 99)), bins=64)
    if len(result.counts) == 64:
        counts, edges = np.histogram(values, 64)
        np.testing.assert_array_equal(result.counts, counts)
        np.testing.assert_array_equal(result.edges, edges)
    assert result.counts.sum() == values.size


def test_the_default_for_floats_is_1024_equal_bins() -> None:
    values = np.random.default_rng(2).normal(size=(20, 30, 10)).astype(np.float32)
    result = count(values)
    counts, edges = np.histogram(values, 1024)
    np.testing.assert_array_equal(result.counts, counts)
    np.testing.assert_array_equal(result.edges, edges)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_range_can_be_given_for_every_dtype(dtype: str) -> None:
    values = (
        np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 100, (9, 8, 7)).astype(dtype)
    )
    plain = values.astype({"bool": "uint8", "float16": "float32"}.get(dtype, dtype))
    result = count(values, bins=7, range=(1, 60.5))
    counts, edges = np.histogram(plain, 7, (1, 60.5))
    np.testing.assert_array_equal(result.counts, counts)
    np.testing.assert_array_equal(result.edges, edges)
    assert (result.below, result.above) == (int((plain < 1).sum()), int((plain > 60.5).sum()))


def test_values_on_edges_and_out_of_range() -> None:
    values = np.array(
        [0, 0.1, 0.2, 0.3, 0.7, 0.9, 1.0, np.nan, np.inf, -np.inf, -0.1, 1.1]
    ).reshape(3, 2, 2)
    result = count(values, bins=10, range=(0.0, 1.0))
    np.testing.assert_array_equal(result.counts, np.histogram(values, 10, (0.0, 1.0))[0])
    assert (result.below, result.above, result.nan) == (2, 2, 1)
    assert "1 NaN" in result.title


def test_the_range_is_that_of_the_finite_values() -> None:
    values = np.array([np.nan, 3.0, np.inf, -np.inf, 5.0, 4.0, np.nan, 3.5], np.float32).reshape(
        2, 2, 2
    )
    result = count(values, bins=4)
    np.testing.assert_array_equal(result.edges, np.array([3, 3.5, 4, 4.5, 5], np.float32))
    assert (result.counts.tolist(), result.below, result.above, result.nan) == (
        [1, 1, 1, 1],
        1,
        1,
        2,
    )


@pytest.mark.parametrize("value", [0.0, 7.5, 1e300, 5e-324, np.finfo(np.float64).max])
def test_a_constant_array(value: float) -> None:
    result = count(np.full((3, 4, 5), value))
    assert result.counts.max() == 60


def test_nothing_but_nan() -> None:
    result = count(np.full((3, 4, 5), np.nan))
    assert (int(result.counts.sum()), result.nan) == (0, 60)


def test_integers_beyond_the_exact_floats_keep_their_values() -> None:
    values = (2**60 + np.array([0, 1, 1, 3])).reshape(1, 2, 2)
    result = count(values)
    assert result.values is not None
    assert result.values.tolist() == [2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3]
    assert result.counts.tolist() == [1, 2, 0, 1]
    assert str(2**60) in result.title


@pytest.mark.parametrize("name", ["histogram", "histogram-python"])
def test_a_histogram_per_value_as_files(name: str, tmp_path: Path) -> None:
    values = np.array([0, 1, 1, 65535], np.uint16).reshape(1, 2, 2)
    paths = histogram.save(count(values, name=name), tmp_path)
    with (tmp_path / "histogram.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[:3] == [["value", "count"], ["0", "1"], ["1", "2"]]
    assert rows[-1] == ["65535", "1"]
    assert len(rows) == 65537
    saved = np.load(tmp_path / "histogram.npz")
    np.testing.assert_array_equal(saved["counts"], np.bincount(values.ravel(), minlength=65536))
    np.testing.assert_array_equal(saved["values"], np.arange(65536))
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_a_histogram_of_equal_bins_as_files(tmp_path: Path) -> None:
    values = np.array([0.1, 0.2, 0.7, np.nan], np.float32).reshape(1, 2, 2)
    result = count(values, bins=2, range=(0.0, 1.0))
    histogram.save(result, tmp_path)
    assert (tmp_path / "histogram.csv").read_text() == "low,high,count\n0.0,0.5,2\n0.5,1.0,1\n"
    saved = np.load(tmp_path / "histogram.npz")
    np.testing.assert_array_equal(saved["edges"], [0, 0.5, 1])
    assert int(saved["nan"]) == 1


def test_a_failed_save_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "histogram.npz").mkdir()
    (tmp_path / "histogram.npz" / "full").touch()
    with pytest.raises(OSError, match=r"histogram\.npz"):
        histogram.save(count(np.zeros((2, 2, 2), np.uint8)), tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"histogram.csv", "histogram.npz"}


def test_a_few_numbers_to_print() -> None:
    per_value = count(np.array([[[3, 3, 9]]], np.uint8)).lines()
    assert per_value == ["histogram  3 values in 256 bins", "fullest    3: 2 values"]
    assert (
        count(np.array([[[0.0, 1.0, 0.9]]]), bins=2).lines()[1] == "fullest    0.5 to 1.0: 2 values"
    )
