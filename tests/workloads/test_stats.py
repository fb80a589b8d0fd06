"""stats: exact, and the same bit by bit for every partition."""

from __future__ import annotations

import json
import math
import statistics
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import workloads
from hyperslab.arrays import Array
from hyperslab.plan.pipeline import Pipeline
from hyperslab.workloads import stats
from tests.blockwise import NUMBERS, arrays, reduce_blocks
from tests.examples import of_each


def measure(data: Array, seed: int = 0) -> stats.Stats:
    result = reduce_blocks(workloads.build("stats", Pipeline(data), {}), data, seed)
    assert isinstance(result, stats.Stats)
    return result


@pytest.mark.parametrize("dtype", NUMBERS)
@given(data=st.data())
@settings(max_examples=of_each(100))
def test_stats_are_exact_and_the_same_for_every_partition(dtype: str, data: st.DataObject) -> None:
    values = data.draw(arrays(dtype))
    result = measure(values, data.draw(st.integers(0, 99)))
    assert repr(result) == repr(measure(values, data.draw(st.integers(100, 199))))
    plain = [v for v in values.ravel().tolist() if math.isfinite(v)]
    exact = [Fraction(v) for v in plain]
    assert result.count == len(exact)
    assert result.nan + result.infinite == values.size - len(exact)
    if not exact:
        assert (result.min, result.max, result.mean, result.std, result.sum) == (None,) * 5
        return
    mean = sum(exact, Fraction()) / len(exact)
    variance = sum(((x - mean) ** 2 for x in exact), Fraction()) / len(exact)
    assert (result.min, result.max) == (min(plain), max(plain))
    assert result.mean == float(mean)
    assert result.std is not None
    assert within_ulps(result.std, variance, Fraction(51, 100))
    total = sum(exact, Fraction())
    if dtype.startswith("float"):
        largest = Fraction(sys.float_info.max)
        assert result.sum == (float(total) if abs(total) <= largest else result.sum)
    else:
        assert isinstance(result.sum, int)
        assert result.sum == total


def within_ulps(found: float, square: Fraction, bound: Fraction) -> bool:
    """Whether |found - sqrt(square)| <= bound units in the last place, without a square root."""
    unit = Fraction(math.ulp(found)) * bound
    low, high = max(Fraction(found) - unit, Fraction(0)), Fraction(found) + unit
    return low * low <= square <= high * high


def test_stats_agree_with_numpy_and_statistics() -> None:
    values = np.random.default_rng(4).normal(1e4, 3, (40, 50, 60))
    result = measure(values)
    assert result.mean == math.fsum(values.ravel()) / values.size or result.mean == pytest.approx(
        values.mean(), rel=1e-15
    )
    assert result.sum == math.fsum(values.ravel())
    assert result.std == pytest.approx(statistics.pstdev(values.ravel().tolist()), rel=1e-15)
    assert result.std == pytest.approx(values.std(), rel=1e-12)


def test_stats_where_float64_would_cancel() -> None:
    values = np.array([1e16, 1.0, -1e16, 1.0]).reshape(1, 2, 2)
    assert measure(values).sum == 2.0
    assert measure(np.full((2, 2, 2), 0.1)).std == 0.0


def test_a_sum_beyond_float64_is_none(tmp_path: Path) -> None:
    values = np.full((2, 2, 2), np.finfo(np.float64).max)
    result = measure(values)
    assert (result.sum, result.mean, result.std) == (None, np.finfo(np.float64).max, 0.0)
    stats.save(result, tmp_path)
    assert json.loads((tmp_path / "stats.json").read_text())["sum"] is None


def test_stats_as_a_file(tmp_path: Path) -> None:
    result = measure(np.array([[[2**63, 2**64 - 1]]], np.uint64))
    assert stats.save(result, tmp_path) == [tmp_path / "stats.json"]
    saved = json.loads((tmp_path / "stats.json").read_text())
    assert saved["max"] == 2**64 - 1
    assert saved["sum"] == 2**63 + 2**64 - 1
    assert result.lines()[2].split() == ["max", str(2**64 - 1)]
