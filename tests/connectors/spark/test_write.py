"""Arrays from RDDs as files, read again by h5py, netCDF4, nibabel and zarr."""

from __future__ import annotations

import array
import sys
from pathlib import Path
from typing import Any

import netCDF4
import nibabel
import nrrd
import numpy as np
import pytest
import xarray
import zarr
from pyspark.sql import Row

from hyperslab.arrays.slab import Hyperslab
from hyperslab.connectors.spark import read_blocks
from hyperslab.connectors.spark.writing import h5write
from hyperslab.errors import UsageError
from tests.connectors.spark.staged import h5, staged_file
from tests.formats.test_added_format import forget, install

RNG = np.random.default_rng(6)


def image(path: Path) -> Any:
    loaded: Any = nibabel.load(path)
    return np.asanyarray(loaded.dataobj)


def in_blocks(values: Any, *cuts: tuple[int, ...]) -> list[tuple[Hyperslab, Any]]:
    """An array cut into equal blocks, the last ones smaller."""
    found = []
    for first in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, cuts[0], strict=True))):
        start = tuple(i * c for i, c in zip(first, cuts[0], strict=True))
        count = tuple(min(c, n - a) for c, n, a in zip(cuts[0], values.shape, start, strict=True))
        slab = Hyperslab(start, count)
        found.append((slab, values[slab.slices()]))
    return found


def test_blocks_of_an_rdd_become_an_image_a_variable_or_a_store(sc: Any, tmp_path: Path) -> None:
    values = RNG.integers(-1000, 1000, (21, 18, 13)).astype(np.int16)
    seen = sc.accumulator(0)

    def looked_at(item: Any) -> Any:
        seen.add(1)
        return item

    blocks = in_blocks(values, (8, 7, 13))
    rdd = sc.parallelize(blocks[::-1], 5).map(looked_at)
    h5write(rdd, tmp_path / "x.nii.gz")
    assert seen.value == len(blocks), "the lineage is computed once"
    np.testing.assert_array_equal(image(tmp_path / "x.nii.gz"), values)
    h5write(
        rdd,
        f"file://{tmp_path}/x.nc",
        "rain",
        chunks=(5, 18, 6),
        compression="gzip:2",
        dtype="float32",
    )
    with netCDF4.Dataset(tmp_path / "x.nc") as file:
        assert file["rain"].chunking() == [5, 18, 6]
        assert (file["rain"].dtype, file["rain"].filters()["complevel"]) == (np.float32, 2)
        np.testing.assert_array_equal(file["rain"][...], values)
    fortran = sc.parallelize([(slab, np.asfortranarray(b)) for slab, b in blocks], 3)
    h5write(fortran, str(tmp_path / "x.zarr"), "group/a")
    np.testing.assert_array_equal(
        zarr.open_array(tmp_path / "x.zarr/group/a", mode="r")[...], values
    )
    h5write(fortran, tmp_path / "x.nii", shape=values.shape, overwrite=True)
    np.testing.assert_array_equal(image(tmp_path / "x.nii"), values)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.nc", "x.nii", "x.nii.gz", "x.zarr"]


def test_rows_go_to_their_index_or_follow_each_other(sc: Any, tmp_path: Path) -> None:
    """Also from partitions without rows, after a shuffle, and from MLlib's rows and vectors."""
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.linalg.distributed import IndexedRow

    values = RNG.normal(size=(300, 7))
    pairs = sc.parallelize([(i, values[i]) for i in RNG.permutation(300).tolist()], 6)
    h5write(
        pairs.filter(lambda pair: True).repartition(9), tmp_path / "a.h5", "deep/er", chunks=(40, 7)
    )
    np.testing.assert_array_equal(h5(tmp_path / "a.h5", "deep/er"), values)
    before = (tmp_path / "a.h5").read_bytes()
    with pytest.raises(UsageError, match=r"a.h5: row 7 is given by no task"):
        h5write(
            pairs.filter(lambda pair: pair[0] != 7), tmp_path / "a.h5", "deep/er", overwrite=True
        )
    assert (tmp_path / "a.h5").read_bytes() == before
    numbers = sc.parallelize(range(40), 4).filter(lambda n: not 10 <= n < 20).map(lambda n: n * 0.5)
    h5write(numbers, tmp_path / "a.h5", "deep/er", overwrite=True)
    np.testing.assert_array_equal(
        h5(tmp_path / "a.h5", "deep/er"), [n * 0.5 for n in range(40) if not 10 <= n < 20]
    )
    rows = sc.parallelize(
        [IndexedRow(i, Vectors.sparse(4, {i % 4: 1.0 + i})) for i in (2, 0, 1)], 2
    )
    h5write(rows, tmp_path / "b.hdf5")
    np.testing.assert_array_equal(h5(tmp_path / "b.hdf5"), np.diag([1.0, 2, 3, 4])[:3])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "b.hdf5"]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([[1, 2], [3, 4], range(5, 7)], np.array([[1, 2], [3, 4], [5, 6]], np.int64)),
        ([[1, 2.5], [0.5, 3.0]], np.array([[1, 2.5], [0.5, 3]])),
        ([[True, False]], np.array([[True, False]])),
        ([True, False], np.array([True, False])),
        ([[2**63, 1], [5, 2**64 - 1]], np.array([[2**63, 1], [5, 2**64 - 1]], np.uint64)),
        ([[1j, 2.0, 3]], np.array([[1j, 2, 3]])),
        ([[np.float32(0.1), np.float32(2)]], np.array([[0.1, 2]], np.float32)),
        ([[np.float64(0.1), 0.2, np.int64(3)]], np.array([[0.1, 0.2, 3]])),
        ([np.uint8(3), np.uint8(4)], np.array([3, 4], np.uint8)),
        ([3, 4, 5], np.array([3, 4, 5], np.int64)),
        ([(3.0, 4), (5.0, 6)], np.array([[3.0, 4], [5, 6]])),
        ([array.array("h", [1, 2])], np.array([[1, 2]], np.int16)),
        ([np.arange(3, dtype=">i4")], np.array([[0, 1, 2]], np.int32)),
        (
            [np.ones((2, 3), "f2"), np.zeros((2, 3), "f2")],
            np.array([np.ones((2, 3)), np.zeros((2, 3))], "f2"),
        ),
        ([(1, np.array(7.5)), (0, np.array(2.5))], np.array([2.5, 7.5])),
        ([Row(index=0, vector=[3, 4])], np.array([[3, 4]], np.int64)),
        ([Row(index=1, vector=3, more=5)], np.array([[1, 3, 5]], np.int64)),
        ([(np.int32(1), [3, 4]), (np.int32(0), [1, 2])], np.array([[1, 2], [3, 4]], np.int64)),
        ([np.zeros(0)] * 4, np.zeros((4, 0))),
    ],
)
def test_every_kind_of_row_keeps_its_values_and_type(
    tmp_path: Path, items: list[Any], expected: Any
) -> None:
    for parts in ([items], [[], items[:1], items[1:]]):
        found = h5(staged_file(tmp_path, *parts, overwrite=True))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("items", "dtype"),
    [
        ([[1, 2], [2.5, 3]], "f8"),
        ([1, 2.0, 3], "i2"),
        ([[2**60 + 1], [2.0]], "i8"),
        ([np.uint8(1), 1.0], "c8"),
    ],
)
def test_a_dtype_that_holds_every_value_makes_mixed_rows_one_array(
    tmp_path: Path, items: Any, dtype: str
) -> None:
    found = h5(staged_file(tmp_path, items, items, dtype=dtype))
    assert found.dtype == dtype
    assert found.tolist() == [
        list(item) if isinstance(item, list) else item for item in [*items, *items]
    ]


@pytest.mark.parametrize(
    ("parts", "said", "sentence"),
    [
        (
            [[[1, 2]], [[1.5, 2.5]]],
            {},
            "partition 1 of the data holds float64, partition 0 int64: say dtype=",
        ),
        (
            [[[1, 2], [1.5, 2.5]]],
            {},
            "row 1 of partition 0 holds float64, row 0 of partition 0 int64: say dtype=",
        ),
        (
            [[1, 2.5]],
            {},
            "row 1 of partition 0 holds float64, row 0 of partition 0 int64: say dtype=",
        ),
        (
            [[[1, 2], [3]]],
            {},
            r"row 1 of partition 0 has the shape \(1,\), row 0 of partition 0 \(2,\)",
        ),
        (
            [[[1, 2]], [[3]]],
            {},
            r"partition 1 of the data has rows of shape \(1,\), partition 0 \(2,\)",
        ),
        ([[[1, True]]], {}, "a sequence of bool and int is not a row of numbers of one type"),
        (
            [[[2**60 + 1, 0.5]]],
            {},
            (
                "row 0 of partition 0: .*the value 1152921504606846977 among them cannot be"
                " represented"
            ),
        ),
        ([[[2**63, -1]]], {}, "row 0 of partition 0: holds whole numbers that no 64 bits hold"),
        (
            [[2**64]],
            {},
            "row 0 of partition 0 or a later one holds whole numbers that no 64 bits hold",
        ),
        ([["ab"]], {}, "row 0 of partition 0: a str is not a row of numbers"),
        ([[None]], {}, "row 0 of partition 0: a NoneType is not a row of numbers"),
        ([[(0, None)]], {}, "row 0: a NoneType is not a row of numbers"),
        ([[[[1, 2], [3, 4]]]], {}, "a sequence of list is not a row of numbers"),
        ([[np.array(["a"])]], {}, "holds <U1, which is not a number"),
        ([[np.ma.masked_equal([1, 2], 2)]], {}, "holds masked values"),
        (
            [[(3, 4), (5, 6)]],
            {},
            r"the pair \(3, 4\) may be a row of two numbers, or a number with its index",
        ),
        ([[(-1, [1])]], {}, "a row has the index -1: indices are whole numbers from 0"),
        ([[(0, [1])], [(0, [2])]], {}, "row 0 is given more than once"),
        ([[(1, [1])], [(2, [2])]], {}, "row 0 is given by no task"),
        ([[(1, [1])], [(0, [2])]], {"shape": (3, 1)}, "row 2 is given by no task"),
        ([[(1, [1])], [(0, [2])]], {"shape": (1, 1)}, r"row 1 lies beyond shape=\(1, 1\)"),
        (
            [[(0, [1])], [[2]]],
            {},
            "partition 1 of the data holds rows, partition 0 rows with an index",
        ),
        ([[(0, [1]), [2]]], {}, "partition 0 holds rows with an index and others"),
        (
            [in_blocks(np.ones((4, 4)), (2, 4))[:1]],
            {"shape": (4, 4)},
            r"element \(2, 0\) is given by no task",
        ),
        (
            [in_blocks(np.ones((4, 4)), (2, 4)), in_blocks(np.ones(4), (4,))],
            {},
            "has blocks of 1 axes, partition 0 of",
        ),
        (
            [in_blocks(np.ones(4), (4,)), in_blocks(np.ones(4), (4,))],
            {},
            r"element \(0,\) is given more than once",
        ),
        (
            [[(Hyperslab((0,), (3,)), np.ones(4))]],
            {},
            r"the block at \[0:3\] is an array of shape \(4,\)",
        ),
        (
            [[(Hyperslab((0,), (2,), (2,)), np.ones(2))]],
            {},
            r"\[0:4:2\] is an array of shape .*, with strides of 1",
        ),
        ([[(Hyperslab((), ()), np.ones(()))]], {}, r"the block at \[\] is an array of shape \(\)"),
        (
            [[0.5, 300.0]],
            {"dtype": "uint8"},
            "dtype=uint8: the value 0.5 of row 0 of partition 0 cannot be represented",
        ),
        (
            [[(4, [1, 2, 256])]],
            {"dtype": "uint8"},
            "the value 256 of row 4 at 2 cannot be represented",
        ),
        (
            [[[0.1], [1]]],
            {"dtype": "float32"},
            "the value 0.1 of row 0 of partition 0 at 0 cannot be",
        ),
        (
            [[(Hyperslab((3, 2), (1, 2)), np.array([[1, 1j]]))]],
            {"dtype": "f8"},
            r"the value 1j at \(3, 3\) cannot be represented",
        ),
        ([[], []], {}, "the data have no rows: say shape= and dtype= of an array without elements"),
        ([[]], {"shape": (3,), "dtype": "f4"}, "the data have no rows"),
        ([[[1j]]], {"path": "x.nc"}, "netCDF cannot hold complex128"),
        ([[[1, -9223372036854775806]]], {"path": "x.nc"}, "would be taken for a missing one"),
    ],
)
def test_what_is_not_one_array_is_refused_in_a_sentence(
    tmp_path: Path, parts: Any, said: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / said.get("path", "out.h5")
    path.write_bytes(b"old")
    with pytest.raises(UsageError, match=sentence) as caught:
        staged_file(tmp_path, *parts, **{**said, "overwrite": True})
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_truth_values_in_netcdf_are_those_of_xarray(tmp_path: Path) -> None:
    path = staged_file(tmp_path, [[True, False, True]], path="x.nc")
    with xarray.open_dataset(path) as found:
        assert found["data"].dtype == np.bool_
        np.testing.assert_array_equal(found["data"], [[True, False, True]])


def test_an_array_without_elements_is_written_if_it_is_asked_for(tmp_path: Path) -> None:
    found = h5(staged_file(tmp_path, [], [], shape=(0, 4), dtype="f4"))
    assert (found.shape, found.dtype) == ((0, 4), np.float32)


@pytest.mark.parametrize(
    ("path", "said", "sentence"),
    [
        ("x.txt", {}, "the suffix names no format that can be written"),
        ("x.mnc", {}, "MINC files are not written"),
        ("no/x.h5", {}, "there is no folder"),
        (
            "old.h5",
            {},
            "exists, and a file is written as a whole: choose another name, or overwrite=True",
        ),
        ("folder.h5", {"overwrite": True}, "is a folder, which a file cannot replace"),
        ("folder.zarr", {"overwrite": True}, "is a folder, which a file cannot replace"),
        ("s3://b/x.h5", {}, "give a directory on this machine"),
        ("x.h5", {"compression": "lzma"}, "can be compressed by gzip:1 to gzip:9"),
        ("x.nii", {"compression": "gzip"}, "a .nii is not compressed"),
        ("x.nii", {"dataset": "name"}, "NIfTI has neither chunks"),
        ("x.nii", {"dtype": "f2"}, "NIfTI cannot hold float16"),
        ("x.h5", {"dataset": "/"}, "names no dataset"),
        ("x.h5", {"dataset": "a/../b"}, "cannot name a dataset"),
        ("x.h5", {"chunks": (0, 3)}, "give one number of at least 1"),
        ("x.h5", {"chunks": (2, 3), "shape": (8,)}, "give one extent of at least 1 for each axis"),
        ("x.h5", {"shape": (2, -3)}, r"shape=\(2, -3\): give one whole number"),
        ("x.h5", {"shape": 2.5}, "shape=2.5: give one whole number"),
        ("x.h5", {"dtype": "U3"}, "dtype=U3: not a NumPy dtype of numbers"),
        ("x.h5", {"dtype": "nonsense"}, "dtype=nonsense: not a NumPy dtype of numbers"),
        ("x" * 230 + ".h5", {}, "choose a shorter one"),
    ],
)
def test_what_needs_no_data_is_refused_before_a_job(
    tmp_path: Path, path: str, said: dict[str, Any], sentence: str
) -> None:
    for folder in ("folder.h5", "folder.zarr"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine").touch()
    (tmp_path / "old.h5").write_bytes(b"old")
    before = sorted(tmp_path.rglob("*"))

    class Untouched:
        def mapPartitionsWithIndex(self, _: Any) -> Any:  # noqa: N802
            raise AssertionError("a job was started")

    with pytest.raises(UsageError, match=sentence):
        h5write(Untouched(), path if "://" in path else tmp_path / path, **said)  # type: ignore[arg-type]
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(
        UsageError, match=r"h5write takes an RDD, not a list: a DataFrame is written by df.write"
    ):
        h5write([], tmp_path / "new.h5")  # type: ignore[arg-type]


def test_a_format_of_another_package_is_loaded_and_written(
    sc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that are started from now on have its package on their path; those that run already
    would not know of it.
    """
    monkeypatch.syspath_prepend(install(tmp_path))
    monkeypatch.setitem(sc.environment, "PYTHONPATH", str(tmp_path))
    forget()
    try:
        values = RNG.integers(0, 1000, (13, 7, 9)).astype(np.int16)
        nrrd.write(str(tmp_path / "in.nrrd"), values, {"encoding": "raw"})
        blocks = read_blocks(sc, str(tmp_path / "in.nrrd"), partitions=3)
        h5write(blocks, tmp_path / "out.nrrd")
        np.testing.assert_array_equal(nrrd.read(str(tmp_path / "out.nrrd"))[0], values)
    finally:
        forget()
        sys.modules.pop("nrrd_format", None)
