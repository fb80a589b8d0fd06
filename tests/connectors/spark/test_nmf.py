"""Non-negative factors against scikit-learn's multiplicative updates, and what is left in Spark
after them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark.factorization import nmf, random_rows
from hyperslab.errors import UsageError
from tests.connectors.spark.cuts import blocks, matrix, pieces
from tests.repetitions import few


def _volume(dtype: str) -> Array:
    return (np.random.default_rng(2).random((3, 20, 4)) * 90).astype(dtype)


def _stored(sc: Any) -> set[int]:
    """Numbers of the RDDs that are kept; those of earlier tests may go at any time."""
    return set(sc._jsc.getPersistentRDDs().keySet())


def test_blocks_that_are_cut_along_another_axis(sc: Any) -> None:
    for partitions in (1, 2):
        with pytest.raises(
            UsageError, match="nmf: the blocks do not hold whole rows along axis 0: say axis="
        ):
            nmf(blocks(sc, _volume("f8"), (10,), axis=1, partitions=partitions), 2)


CUT = [("f8", (1, 12, 12, 13), 5), ("i2", (7,), 2), (">f4", (5, 6, 19), 2)]


@pytest.mark.parametrize(
    ("dtype", "cuts", "iterations"), few(CUT[2:], CUT, "factors are those of scikit-learn")
)
def test_equals_scikit_learn(sc: Any, dtype: str, cuts: tuple[int, ...], iterations: int) -> None:
    array, before = _volume(dtype), _stored(sc)
    values, random = matrix(array, 1), np.random.default_rng(8)
    w, h = random.random((20, 3)), random.random((3, 12))
    rdd = blocks(sc, array, cuts, axis=1, partitions=2)
    with nmf(rdd, 3, iterations, w=w, h=h, axis=1) as found:
        assert len(_stored(sc) - before) == 1  # W
        assert b"Zipped" not in (
            found.w.toDebugString() or b"Zipped"
        )  # earlier iterations are no part of it
        collected, h_found = found.collect_w(), found.h
        assert all(slab.count == block.shape for slab, block in found.w.collect())
    assert _stored(sc) <= before
    from sklearn.decomposition import NMF  # a second of every process that collects tests

    model = NMF(3, solver="mu", init="custom", tol=0, max_iter=iterations)
    expected_w = model.fit_transform(values, W=w.copy(), H=h.copy())
    np.testing.assert_allclose(collected, expected_w, rtol=1e-10)
    np.testing.assert_allclose(h_found, model.components_, rtol=1e-10)
    np.testing.assert_allclose(found.errors, _errors(values, w, h, iterations), rtol=1e-10)
    assert len(found.errors) == iterations


def test_cut(sc: Any) -> None:
    array = matrix(_volume("f8"), 1)
    with nmf(blocks(sc, array), 3, 3, seed=7) as one:
        w = one.collect_w()
    # Blocks in the wrong order, and a row at a time.
    with nmf(
        sc.parallelize(blocks(sc, array, range(1, 20)).collect()[::-1], 2), 3, 3, seed=7
    ) as many:
        np.testing.assert_allclose(many.collect_w(), w, rtol=1e-10)
    np.testing.assert_allclose(many.h, one.h, rtol=1e-10)
    np.testing.assert_allclose(many.errors, one.errors, rtol=1e-10)
    assert (np.diff(one.errors) < 0).all()


def test_random_rows() -> None:
    rows = random_rows(5, 0, range(30), 6)
    assert rows.shape == (30, 6)
    assert len(np.unique(rows)) == 180
    assert rows.min() > 0
    assert rows.max() <= 1
    assert abs(rows.mean() - 0.5) < 0.1
    for part in (range(4, 9), range(3, 30, 7), range(20, 2, -3), range(4, 4)):
        assert np.array_equal(random_rows(5, 0, part, 6), rows[list(part)])
    far = range(2**40, 2**40 + 2)
    assert np.array_equal(random_rows(5, 0, far, 6)[1:], random_rows(5, 0, far[1:], 6))
    assert not np.isin(random_rows(6, 0, range(30), 6), rows).any()
    assert not np.isin(random_rows(5, 1, range(30), 6), rows).any()


def test_strided_rows_and_tolerance(sc: Any) -> None:
    """Rows 9, 7, 5, 3, 1 of an array take those of w, and come out in the order of their
    indices.
    """
    array, random = matrix(_volume("f8"), 1), np.random.default_rng(9)
    w, h = random.random((20, 2)), random.random((2, 12))
    block = (Hyperslab((9, 0), (5, 12), (-2, 1)), array[9:0:-2])
    with nmf(sc.parallelize([block], 1), 2, 9, tolerance=0.05, w=w, h=h) as found:
        collected = found.collect_w()
    errors = np.array(_errors(array[1:10:2], w[1:10:2], h, 9))
    steps = -np.diff(errors) < 0.05 * errors[0]
    assert 2 <= len(found.errors) == int(steps.argmax()) + 2 < 9
    np.testing.assert_allclose(found.errors, errors[: len(found.errors)], rtol=1e-10)
    rest = np.linalg.norm(array[1:10:2] - collected @ found.h) / np.linalg.norm(array[1:10:2])
    np.testing.assert_allclose(found.errors[-1], rest, rtol=1e-10)


def test_zeros(sc: Any) -> None:
    with nmf(blocks(sc, np.zeros((4, 3), np.uint8), (2,)), 2, 2) as found:
        assert found.collect_w().tolist() == [[0, 0]] * 4
    assert found.errors.tolist() == [0, 0]


def test_wrong_rows(sc: Any) -> None:
    good, before = np.arange(24.0).reshape(6, 4), _stored(sc)
    for odd, text in (
        (-1, "row 4 holds -1.0: values must not be below 0"),
        (np.nan, "row 4 holds nan"),
    ):
        bad = good.copy()
        bad[4, 1] = odd
        with pytest.raises(UsageError, match=f"nmf: {text}"):
            nmf(blocks(sc, bad, (3,)), 2)
    with pytest.raises(UsageError, match=r"block \[0:6, 0:4\] holds complex128.*real part"):
        nmf(blocks(sc, good * 1j), 2)
    with pytest.raises(UsageError, match="too large for float64"):
        nmf(blocks(sc, good * 1e300), 2)
    with pytest.raises(UsageError, match="do not hold whole rows along axis 0"):
        nmf(sc.parallelize(pieces(good, ()) + pieces(good[:, :3], ()), 2), 2)
    with pytest.raises(UsageError, match="no partition"):
        nmf(sc.emptyRDD(), 2)
    with pytest.raises(UsageError, match="no block has a value"):
        nmf(blocks(sc, good[:0]), 2)
    assert _stored(sc) <= before


def test_wrong_arguments(sc: Any) -> None:
    rdd, before = blocks(sc, np.arange(24.0).reshape(6, 4)), _stored(sc)
    w, h = np.ones((6, 2)), np.ones((2, 4))
    for given, text in (
        ({"k": 0}, "k is 0"),
        ({"iterations": 0}, "iterations is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616"),
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"w": w[:, :1]}, r"w has the shape \(6, 1\), where \(6, 2\)"),
        ({"w": w * 1j}, "w holds complex128"),
        ({"w": -w}, "w holds a value that is negative"),
        ({"w": w[:5]}, "w has 5 rows, and the array has a row 5"),
        ({"h": h[:, :3]}, r"h has the shape \(2, 3\), where \(2, 4\)"),
        ({"h": h * np.inf}, "h holds a value that is negative or not finite"),
    ):
        with pytest.raises(UsageError, match=f"nmf: {text}"):
            nmf(rdd, **{"k": 2, **given})  # type: ignore[arg-type]
    assert _stored(sc) <= before


def _errors(values: Array, w: Array, h: Array, iterations: int) -> list[float]:
    """The updates as the paper has them, with the error taken from the product."""
    found = []
    for _ in range(iterations):
        w = w * (values @ h.T) / (w @ h @ h.T)
        h = h * (w.T @ values) / (w.T @ w @ h)
        found.append(float(np.linalg.norm(values - w @ h) / np.linalg.norm(values)))
    return found
