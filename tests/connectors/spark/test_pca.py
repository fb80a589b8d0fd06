"""Principal components against scikit-learn and against NumPy's own decompositions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.principal import (
    Bounds,
    PrincipalComponents,
    _arriving,
    _merge,
    _moments,
    _solve,
    pca,
)
from hyperslab.errors import UsageError
from tests.connectors.spark.cuts import blocks, matrix, pieces
from tests.repetitions import few


def _volume(dtype: str) -> Array:
    """40 rows along axis 1, whose columns have variances apart from each other."""
    random = np.random.default_rng(11)
    values = random.normal(size=(3, 40, 4)) * 10 * np.arange(1, 13).reshape(3, 1, 4) + 50
    return values.astype(dtype)


CUT = [("i2", (1, 12, 13)), ("f4", (30,)), (">f8", (5, 5, 20))]


@pytest.mark.parametrize(
    ("dtype", "cuts"), few(CUT[2:], CUT, "components are those of scikit-learn")
)
def test_equals_scikit_learn(sc: Any, dtype: str, cuts: tuple[int, ...]) -> None:
    array = _volume(dtype)
    found = pca(blocks(sc, array, cuts, axis=1, partitions=2), 5, axis=1)
    rows = matrix(array, 1)
    from sklearn.decomposition import PCA  # a second of every process that collects tests

    expected = PCA(n_components=5, svd_solver="full").fit(rows)
    _assert_close(found, expected.mean_, expected.components_, expected.explained_variance_, 1e-10)
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:5]
    np.testing.assert_allclose(found.explained_variance, values**2 / 39, rtol=1e-10)


def test_cut(sc: Any) -> None:
    array = matrix(_volume("f8"), 1)
    one = pca(blocks(sc, array), 12)
    many = pca(
        blocks(sc, array, tuple(range(2, 39, 3)), partitions=9), 12
    )  # treeReduce has a level between
    _assert_close(many, one.mean, one.components, one.explained_variance, 1e-10)


def test_large_mean(sc: Any) -> None:
    """A mean of 1e8 and deviations of 1: what is squared without a shift keeps no digit of the
    variance.
    """
    rest = np.random.default_rng(5).normal(size=(300, 4)) * [1, 2, 3, 4]
    array = rest + 1e8
    rest = array - 1e8  # without rounding, so that this is the same data
    found = pca(blocks(sc, array, (10, 200), partitions=2), 4)
    variances, directions = np.linalg.eigh(np.cov(rest.T))
    np.testing.assert_allclose(found.explained_variance, variances[::-1], rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.components @ directions[:, ::-1]), np.eye(4), atol=1e-7)
    np.testing.assert_allclose(found.mean - 1e8, rest.mean(axis=0), atol=1e-7)
    squared = array.T @ array - len(array) * np.outer(array.mean(axis=0), array.mean(axis=0))
    assert np.abs(squared / 299 - np.cov(rest.T)).max() > 1  # what the shift is for


def test_wrong_rows(sc: Any) -> None:
    good = np.arange(24.0).reshape(6, 4) ** 2
    for odd in (np.nan, -np.inf):
        bad = good.copy()
        bad[4, 1] = odd
        with pytest.raises(UsageError, match=rf"pca: row 4 holds {odd}"):
            pca(blocks(sc, bad, (3,)), 2)
    with pytest.raises(UsageError, match=r"block \[0:6, 0:4\] holds complex128.*real part"):
        _fold([pieces(good * 1j, ())])
    with pytest.raises(UsageError, match="there are 1 rows, and variance needs at least 2"):
        _fold([pieces(good[:1], ())])
    with pytest.raises(UsageError, match="too large for float64"):
        _fold([pieces(good * 1e300, (2,))])
    whole, narrow = pieces(good, ()), pieces(good[:, :3], ())
    for ragged in ([whole, narrow], [whole + narrow], [whole, narrow, pieces(good[:0], ())]):
        with pytest.raises(UsageError, match="do not hold whole rows along axis 0"):
            _fold(ragged)
    with pytest.raises(UsageError, match="axis is 2"):
        _fold([whole], axis=2)


def test_wrong_numbers(sc: Any) -> None:
    good = np.arange(12.0).reshape(3, 4) ** 2
    with pytest.raises(UsageError, match="k is 0"):
        pca(blocks(sc, good), 0)
    with pytest.raises(UsageError, match="k is 5, and rows have 4 values"):
        _fold([pieces(good, ())], k=5)
    with pytest.raises(UsageError, match="k is 4, and 3 rows of 4 values have at most 3"):
        _fold([pieces(good, ())], k=4)
    with pytest.raises(
        UsageError, match=r"Gram matrix of 4 columns takes 128 B, and limit_nbytes is 127 B"
    ):
        pca(blocks(sc, good), 1, limit_nbytes=127)
    assert pca(blocks(sc, good), 1, limit_nbytes=128).components.shape == (1, 4)
    with pytest.raises(UsageError, match="no partition"):
        pca(sc.emptyRDD(), 1)
    with pytest.raises(UsageError, match="there are 0 rows"):
        _fold([pieces(good[:0], ()), []])


def test_blocks_that_are_cut_along_another_axis() -> None:
    """Whose rows would be taken for those of as many smaller arrays: also where all are equally
    long.
    """
    values = np.random.default_rng(0).normal(size=(6, 5, 8))
    for cuts in ((4,), (2, 4, 6)):
        found = pieces(values, cuts, axis=2)
        for partitions in ([[one] for one in found], [found]):
            with pytest.raises(UsageError, match="do not hold whole rows along axis 0: say axis="):
                _fold(partitions)
    empty = (Hyperslab((0, 0, 0), (0, 0, 0)), np.zeros((0, 0, 0)))
    found = pieces(values, (2, 4, 6), axis=2)
    assert len(_fold([[found[0], empty, *found[1:]], [empty]], axis=2).mean) == 30


def test_bounds() -> None:
    """Spark's own limits, which need more memory to meet than a test has."""
    default, result = 2 << 30, 1 << 30
    Bounds(1, default, 0, 100).check(16384)
    with pytest.raises(UsageError, match="Gram matrix of 16385 columns"):
        Bounds(1, default, 0, 100).check(16385)
    with pytest.raises(UsageError, match="more than Spark sends"):
        Bounds(1, default * 8, 0, 1).check(23170)
    Bounds(1, default, result, 10).check(5000)
    with pytest.raises(
        UsageError, match=r"10 partial Gram matrices .* spark.driver.maxResultSize is 1.07 GB"
    ):
        Bounds(1, default, result, 10).check(5200)
    assert [_arriving(n) for n in (1, 4, 9, 100, 1000)] == [1, 4, 3, 10, 31]


def _fold(
    partitions: list[list[tuple[Hyperslab, Array]]], k: int = 1, axis: int = 0
) -> PrincipalComponents:
    """What tasks and driver do, in this process: a Spark job takes half a second."""
    moments = [
        found for items in partitions for found in _moments(Bounds(k, 2 << 30, 0, 1), axis, items)
    ]
    assert len(moments) == len(partitions)
    return _solve(functools.reduce(functools.partial(_merge, axis), moments), k)


def _assert_close(
    found: PrincipalComponents, mean: Array, components: Array, variance: Array, tolerance: float
) -> None:
    np.testing.assert_allclose(found.mean, mean, rtol=tolerance)
    np.testing.assert_allclose(found.components, components, atol=tolerance)
    np.testing.assert_allclose(found.explained_variance, variance, rtol=tolerance)
    largest = np.abs(found.components).argmax(axis=1)
    assert (found.components[np.arange(len(largest)), largest] > 0).all()
