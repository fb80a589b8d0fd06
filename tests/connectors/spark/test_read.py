"""Arrays in files as RDDs: the constructors of H5Spark and more, each value and each index."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pyspark.errors import PythonException

from hyperslab.arrays import Array
from hyperslab.connectors.spark import (
    block_matrix,
    coordinate_matrix,
    h5read,
    h5read_imat,
    h5read_irow,
    h5read_labeled,
    h5read_point,
    h5read_vec,
    nmf,
    pca,
    read_blocks,
    row_matrix,
    session,
)
from hyperslab.errors import UsageError
from tests.connectors.spark import arrays
from tests.repetitions import few

np_s: Any = np.s_


def rows_of(values: Array, axis: int) -> Array:
    """Everything at one place of an axis, in C order."""
    turned = np.moveaxis(values, axis, 0)
    return turned.reshape(len(turned), -1)


def frozen(blocks: Any) -> list[int]:
    """Objects in which a worker that has read blocks seeks no garbage."""
    import gc

    assert list(blocks)
    return [gc.get_freeze_count()]


def test_a_worker_seeks_no_garbage_in_what_it_has_imported(tmp_path: Path, sc: Any) -> None:
    """Spark has it seek some after every task, which otherwise takes longer than a block."""
    stored = arrays.KINDS["packed"](tmp_path)
    blocks = read_blocks(sc, stored.path, stored.variable, 1)
    (objects,) = blocks.mapPartitions(frozen).collect()
    assert objects > 10_000


STORED = ["compressed", "packed", "nifti"]


@pytest.mark.parametrize("kind", few(["packed"], STORED, "parts of all kinds: test_parts.py"))
def test_the_constructors_of_the_paper(kind: str, tmp_path: Path, sc: Any) -> None:
    """On HDF5, netCDF and NIfTI; indices are true ones in every partition, of which the first has
    nothing special.
    """
    stored = arrays.KINDS[kind](tmp_path)
    path, variable, n = stored.path, stored.variable, 4
    expected = rows_of(stored.values, stored.axis)
    blocks = read_blocks(sc, path, variable, n)
    assert blocks.getNumPartitions() == min(n, -(-len(expected) // stored.unit))
    found = np.zeros(stored.values.shape)
    for slab, block in blocks.collect():
        found[slab.slices()] = block
    np.testing.assert_array_equal(found, stored.values)
    rows = h5read(sc, path, variable, n).collect()
    assert {row.dtype for row in rows} == {stored.values.dtype}
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(
        [v.toArray() for v in h5read_vec(sc, path, variable, n).collect()], expected
    )
    irows = h5read_irow(sc, path, variable, n).collect()
    np.testing.assert_array_equal([row.vector.toArray() for row in irows], expected)
    assert [row.index for row in irows] == list(range(len(expected)))
    points = h5read_point(sc, path, variable, n).collect()
    assert {type(value) for value, _ in points} == {float}
    assert sorted(index for _, index in points) == list(range(stored.values.size))
    np.testing.assert_array_equal(
        [v for v, _ in points], stored.values.reshape(-1)[[i for _, i in points]]
    )


def test_matrices(tmp_path: Path, sc: Any) -> None:
    stored = arrays.compressed(tmp_path)
    path, expected = stored.path, rows_of(stored.values, 0)
    matrix = h5read_imat(sc, path, "x", 3)
    assert (matrix.numRows(), matrix.numCols()) == expected.shape
    found = np.zeros(expected.shape)
    for row in matrix.rows.collect():
        found[row.index] = row.vector.toArray()
    np.testing.assert_array_equal(found, expected)
    plain = row_matrix(sc, path, "x", 3)
    assert (plain.numRows(), plain.numCols()) == expected.shape
    np.testing.assert_allclose(
        plain.computeGramianMatrix().toArray(), expected.T @ expected, rtol=1e-12
    )
    blocked = block_matrix(sc, path, "x", rows_per_block=16, cols_per_block=30)
    np.testing.assert_array_equal(blocked.toLocalMatrix().toArray(), expected)
    entries = coordinate_matrix(sc, path, "x", 3, region=np_s[10:30]).entries.collect()
    assert {(e.i, e.j): e.value for e in entries} == {
        (i, j): expected[i, j] for i in range(10, 30) for j in range(expected.shape[1])
    }
    columns = [75, 0, 3, 3]
    flat = np.arange(60.0 * 77).reshape(60, 77)
    chosen = h5read_imat(sc, flat, partitions=3, columns=columns)
    assert (chosen.numRows(), chosen.numCols()) == (60, 4)
    local = chosen.toBlockMatrix(64, 64).toLocalMatrix().toArray()
    np.testing.assert_array_equal(local, flat[:, columns])
    labeled = h5read_labeled(sc, path, "x", 3, label=-1).collect()
    np.testing.assert_array_equal([p.label for p in labeled], expected[:, -1])
    np.testing.assert_array_equal([p.features.toArray() for p in labeled], expected[:, :-1])


def test_indices_of_selections_are_those_in_the_file(tmp_path: Path, spark: Any, sc: Any) -> None:
    values = arrays.compressed(tmp_path).values
    path, region = tmp_path / "b.h5", np_s[45:3:-7, 2:5, ::3]
    rows = h5read_irow(spark, path, "x", 3, region=region).collect()
    assert [row.index for row in rows] == list(range(45, 3, -7))
    np.testing.assert_array_equal(
        [row.vector.toArray() for row in rows], values[region].reshape(6, -1)
    )
    points = {i: v for v, i in h5read_point(sc, path, "x", 2, region=region, axis=1).collect()}
    places = np.arange(values.size).reshape(values.shape)[region]
    assert points == dict(
        zip(places.reshape(-1).tolist(), values[region].reshape(-1).tolist(), strict=True)
    )


def test_many_files_are_looked_at_by_spark(
    tmp_path: Path, sc: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred and ten files, of which one is not there."""
    with h5py.File(tmp_path / "0.h5", "w") as file:
        file["x"] = np.zeros((2, 3), "i2")
    names = ["0.h5"]
    for number in range(1, 210):
        names.append(f"{number}.h5")
        if number == 100:
            continue
        os.link(tmp_path / "0.h5", tmp_path / names[-1])
    for number in (1, 209):
        (tmp_path / f"{number}.h5").unlink()
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = np.full((2, 3), number, "i2")
    (tmp_path / "list.txt").write_text("".join(f"{name},x\n" for name in names))
    monkeypatch.setattr("hyperslab.formats.open_source", None)  # the driver opens none
    monkeypatch.chdir(tmp_path)  # where the workers do not stand
    with pytest.warns(UserWarning, match=r"1 file skipped: .*100\.h5"):
        rows = h5read_irow(sc, "list.txt", "x", 4, skip=True)
    found = {row.index: row.vector.toArray().tolist() for row in rows.collect()}
    assert sorted(found) == list(range(418))
    assert h5read(sc, "*.h5", "x", 4).count() == 418
    assert {index: row[0] for index, row in found.items() if row[0]} == {
        2: 1,
        3: 1,
        416: 209,
        417: 209,
    }
    with pytest.raises(FileNotFoundError, match="line 101"):
        h5read(sc, tmp_path / "list.txt")


def test_a_task_that_fails_names_file_dataset_and_hyperslab(tmp_path: Path, sc: Any) -> None:
    """Of a file that is corrupt, gone on a worker, or written to since."""
    stored = arrays.compressed(tmp_path)
    with h5py.File(stored.path) as file:
        where = file["x"].id.get_chunk_info_by_coord((48, 0, 0)).byte_offset
    rows = h5read(sc, stored.path, "x", 4)
    state = os.stat(stored.path)
    with stored.path.open("r+b") as raw:
        raw.seek(where)
        raw.write(b"\xff" * 20)
    os.utime(stored.path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(PythonException) as caught:
        rows.count()
    found = re.search(r"ReadFailed: (.*)", str(caught.value))
    assert found
    assert re.match(
        rf"{re.escape(str(stored.path))}::/?x, hyperslab \[45?8?:60.*\] of the array: ", found[1]
    ), found[1]
    rows = h5read(sc, stored.path, "x", 1)
    stored.path.unlink()
    with pytest.raises(
        PythonException,
        match=r"ReadFailed: .*b\.h5::/?x, hyperslab .*: it is no longer there, or was",
    ):
        rows.count()


def test_more_partitions_than_rows_are_clamped_and_said(tmp_path: Path, sc: Any) -> None:
    arrays.compressed(tmp_path)
    with pytest.warns(
        UserWarning, match="20 partitions were asked for, but there are 60 rows in 8 runs"
    ) as caught:
        assert h5read(sc, tmp_path / "b.h5", "x", 20).getNumPartitions() == 8
    assert caught[0].filename == __file__
    arrays.contiguous(tmp_path)
    with pytest.warns(UserWarning, match="there are 5 rows: there are 5 now") as caught:
        assert (
            read_blocks(sc, tmp_path / "a.h5", "group/data", 9, region=np_s[:5]).getNumPartitions()
            == 5
        )
    assert caught[0].filename == __file__


def test_what_is_refused(tmp_path: Path, sc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["z"], file["none"] = (
            np.ones((4, 3)),
            np.ones((4, 3), "c8"),
            np.zeros((0, 3)),
        )
    path = tmp_path / "a.h5"
    assert h5read(sc, path, "z").collect()[0].dtype == np.complex64
    for call, said in (
        (lambda: h5read(None, path, "x"), "NoneType is not a SparkContext"),
        (lambda: h5read(sc, path, "x", 0), "partitions is 0"),
        (lambda: h5read_vec(sc, path, "z"), "holds complex64, and MLlib's numbers are float64"),
        (lambda: h5read_imat(sc, path, "z"), "holds complex64"),
        (lambda: h5read_imat(sc, path, "none"), "."),
        (lambda: h5read_labeled(sc, path, "x", label=3), "the rows have 3 elements"),
        (lambda: h5read_point(sc, path, "x", columns=[1]), "as a slice only"),
        (lambda: block_matrix(sc, path, "x", rows_per_block=0), "rows_per_block is 0"),
        (lambda: block_matrix(sc, path, "x", cols_per_block="a"), "cols_per_block is 'a'"),  # type: ignore[arg-type]
        (lambda: h5read_labeled(sc, path, "x", label=1.5), r"label is 1\.5"),  # type: ignore[arg-type]
        (lambda: pca(read_blocks(sc, path, "x"), k=2.0), r"pca: k is 2\.0"),  # type: ignore[arg-type]
        (
            lambda: nmf(read_blocks(sc, path, "x"), k=0),
            "nmf: k is 0; it has to be a whole number of at least 1",
        ),
        (lambda: session("local[7]"), "this process has a session on local.2.: stop"),
        (lambda: block_matrix(sc, path, "x", region=np_s[1:]), "begins at the first row"),
    ):
        with pytest.raises(UsageError, match=said):
            call()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        UsageError, match=r"Spark needs Java, and JAVA_HOME=.* holds no bin/java: install"
    ):
        session()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    with pytest.raises(UsageError, match=r"Java 17 or newer, and .*bin/java is version 11"):
        session()


def test_the_session_that_is_there(spark: Any) -> None:
    """Its shuffles stay as its owner has them."""
    assert session().sparkContext is spark.sparkContext
    for name in ("sort.bypassMergeThreshold", "checksum.enabled"):
        assert spark.conf.get(f"spark.shuffle.{name}", None) is None
