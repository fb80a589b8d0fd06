"""MLlib's matrices entry by entry, against the matrix that NumPy makes of the same array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark import matrices
from hyperslab.errors import UsageError
from tests.connectors.spark.cuts import blocks, matrix, pieces
from tests.repetitions import few


def _array(dtype: str) -> Array:
    values = np.random.default_rng(3).integers(-40, 40, (4, 7, 3))
    values[np.abs(values) < 15] = 0
    return values.astype(dtype)


CUT = [(">i2", 1, (1, 4)), ("f4", 0, (3,))]


@pytest.mark.parametrize(("dtype", "axis", "cuts"), few(CUT[:1], CUT, "entries are the matrix's"))
def test_entries(sc: Any, dtype: str, axis: int, cuts: tuple[int, ...]) -> None:
    array = _array(dtype)
    rdd, expected = blocks(sc, array, cuts, axis), matrix(array, axis)
    rows, cols = expected.shape
    indexed = matrices.indexed_row_matrix(rdd, axis, rows, cols)
    found = {row.index: row.vector.toArray().tolist() for row in indexed.rows.collect()}
    assert found == dict(enumerate(expected.tolist()))
    plain = matrices.row_matrix(rdd, axis, rows, cols)
    assert [row.toArray().tolist() for row in plain.rows.collect()] == expected.tolist()
    coordinate = matrices.coordinate_matrix(rdd, axis, rows, cols)
    entries = [(entry.i, entry.j, entry.value) for entry in coordinate.entries.collect()]
    assert entries == [(i, j, expected[i, j]) for i, j in np.argwhere(expected).tolist()]
    assert 0 < len(entries) < expected.size


def test_block_matrix(sc: Any) -> None:
    array = _array("i4")
    expected = matrix(array, 1)
    rows, cols = expected.shape
    for cuts, high, wide in (((2, 6), 2, 5), ((3,), 3, 12), ((), 10, 20)):
        made = matrices.block_matrix(blocks(sc, array, cuts, 1), 1, rows, cols, high, wide)
        made.validate()  # Spark's own check of the extents of every block
        assert np.array_equal(made.toLocalMatrix().toArray(), expected)
        assert (made.numRowBlocks, made.numColBlocks) == (-(-7 // high), -(-12 // wide))


def test_no_job(sc: Any) -> None:
    array = _array("f8")
    rdd = blocks(sc, array, (2,))
    sc.setJobGroup("matrices", "jobs of making them")
    try:
        made = (
            matrices.indexed_row_matrix(rdd, 0, 4, 21),
            matrices.row_matrix(rdd, 0, 4, 21),
            matrices.coordinate_matrix(rdd, 0, 4, 21),
            matrices.block_matrix(rdd, 0, 4, 21, 2, 21),
        )
        assert [(m.numRows(), m.numCols()) for m in made] == [(4, 21)] * 4
        assert not sc.statusTracker().getJobIdsForGroup("matrices")
        rdd.count()
        assert sc.statusTracker().getJobIdsForGroup("matrices")
    finally:
        sc.setLocalProperty("spark.jobGroup.id", None)


def test_refused_at_once(sc: Any) -> None:
    rdd = blocks(sc, _array("f8"))
    for rows, cols in ((0, 3), (3, 0)):
        for make in (matrices.indexed_row_matrix, matrices.row_matrix, matrices.coordinate_matrix):
            with pytest.raises(UsageError, match=f"{rows} rows and {cols} columns is empty"):
                make(rdd, 0, rows, cols)
        with pytest.raises(UsageError, match=f"{rows} rows and {cols} columns is empty"):
            matrices.block_matrix(rdd, 0, rows, cols, 1, 1)
    with pytest.raises(UsageError, match="2147483648 values is longer"):
        matrices.row_matrix(rdd, 0, 4, 2**31)
    for extents, name in (
        ((0, 1), "rows_per_block is 0"),
        ((1, 2**31), "cols_per_block is 2147483648"),
    ):
        with pytest.raises(UsageError, match=name):
            matrices.block_matrix(rdd, 0, 4, 21, *extents)
    with pytest.raises(UsageError, match="raise rows_per_block"):
        matrices.block_matrix(rdd, 0, 2**32, 21, 1, 1)


def test_refused_in_the_task(sc: Any) -> None:
    array = _array("f8")
    rdd = blocks(sc, array, (3,), partitions=1)
    with pytest.raises(
        (PythonException, Py4JJavaError),
        match=r"block \[0:3, 0:7, 0:3\] has rows 0 to 3 .* blocks of 2 rows",
    ):
        matrices.block_matrix(rdd, 0, 4, 21, 2, 21).toLocalMatrix()
    # What tasks run, without Spark's half a second for each of them.
    first, last = pieces(array, (3,))
    with pytest.raises(UsageError, match=r"rows 3 to 4 .* blocks of 2 rows"):
        list(matrices._sub_matrices(0, 5, 21, (2, 21), last))
    strided = Hyperslab((0, 0, 0), (2, 7, 3), (2, 1, 1))
    with pytest.raises(UsageError, match="rows 0 to 4 in steps of 2"):
        list(matrices._sub_matrices(0, 4, 21, (2, 21), (strided, array[::2])))
    assert [index for index, _ in matrices._indexed(0, 4, 21, (strided, array[::2]))] == [0, 2]
    for rows, cols, item in ((4, 20, first), (3, 21, last)):
        for entries in (matrices._indexed, matrices._rows, matrices._entries):
            with pytest.raises(
                UsageError,
                match=f"the matrix {rows} rows of {cols}: cut the array along axis 0 only",
            ):
                list(entries(0, rows, cols, item))
    with pytest.raises(UsageError, match="holds complex128"):
        list(matrices._entries(0, 4, 21, (first[0], first[1] * 1j)))
