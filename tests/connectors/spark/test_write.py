"""Arrays from RDDs and tables as files, read again by h5py, netCDF4, nibabel and zarr."""

from __future__ import annotations

import array
import pickle
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import netCDF4
import nibabel
import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark import TaskContext
from pyspark.sql import Row, types

from hyperslab.connectors.spark.tablewriter import Message, TableWriter, table_writer
from hyperslab.connectors.spark.writing import h5write
from hyperslab.errors import UsageError
from hyperslab.slab import Hyperslab
from tests.connectors.spark.staged import staged_file

RNG = np.random.default_rng(6)


def h5(path: Path, name: str = "data") -> Any:
    with h5py.File(path) as file:
        return file[name][...]


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
    h5write(rdd, f"file://{tmp_path}/x.nc", "rain", chunks=(5, 18, 6), compression="gzip:2", dtype="float32")
    with netCDF4.Dataset(tmp_path / "x.nc") as file:
        assert file["rain"].chunking() == [5, 18, 6]
        assert (file["rain"].dtype, file["rain"].filters()["complevel"]) == (np.float32, 2)
        np.testing.assert_array_equal(file["rain"][...], values)
    fortran = sc.parallelize([(slab, np.asfortranarray(b)) for slab, b in blocks], 3)
    h5write(fortran, str(tmp_path / "x.zarr"), "group/a")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr/group/a", mode="r")[...], values)
    h5write(fortran, tmp_path / "x.nii", shape=values.shape, overwrite=True)
    np.testing.assert_array_equal(image(tmp_path / "x.nii"), values)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.nc", "x.nii", "x.nii.gz", "x.zarr"]


def test_rows_go_to_their_index_or_follow_each_other(sc: Any, tmp_path: Path) -> None:
    """Also from partitions without rows, after a shuffle, and from MLlib's rows and vectors."""
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.linalg.distributed import IndexedRow

    values = RNG.normal(size=(300, 7))
    pairs = sc.parallelize([(i, values[i]) for i in RNG.permutation(300).tolist()], 6)
    h5write(pairs.filter(lambda pair: True).repartition(9), tmp_path / "a.h5", "deep/er", chunks=(40, 7))
    np.testing.assert_array_equal(h5(tmp_path / "a.h5", "deep/er"), values)
    before = (tmp_path / "a.h5").read_bytes()
    with pytest.raises(UsageError, match=r"a.h5: row 7 is given by no task"):
        h5write(pairs.filter(lambda pair: pair[0] != 7), tmp_path / "a.h5", overwrite=True)
    assert (tmp_path / "a.h5").read_bytes() == before
    numbers = sc.parallelize(range(40), 4).filter(lambda n: not 10 <= n < 20).map(lambda n: n * 0.5)
    h5write(numbers, tmp_path / "a.h5", overwrite=True)
    np.testing.assert_array_equal(h5(tmp_path / "a.h5"), [n * 0.5 for n in range(40) if not 10 <= n < 20])
    rows = sc.parallelize([IndexedRow(i, Vectors.sparse(4, {i % 4: 1.0 + i})) for i in (2, 0, 1)], 2)
    h5write(rows, tmp_path / "b.hdf5")
    np.testing.assert_array_equal(h5(tmp_path / "b.hdf5"), np.diag([1.0, 2, 3, 4])[:3])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.h5", "b.hdf5"]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([[1, 2], (3, 4), range(5, 7)], np.array([[1, 2], [3, 4], [5, 6]], np.int64)),
        ([[1, 2.5], [0.5, 3.0]], np.array([[1, 2.5], [0.5, 3]])),
        ([[True, False]], np.array([[True, False]])),
        ([True, False], np.array([True, False])),
        ([[2**63, 1], [5, 2**64 - 1]], np.array([[2**63, 1], [5, 2**64 - 1]], np.uint64)),
        ([[1j, 2.0, 3]], np.array([[1j, 2, 3]])),
        ([[np.float32(0.1), np.float32(2)]], np.array([[0.1, 2]], np.float32)),
        ([[np.float64(0.1), 0.2, np.int64(3)]], np.array([[0.1, 0.2, 3]])),
        ([np.uint8(3), np.uint8(4)], np.array([3, 4], np.uint8)),
        ([3, 4, 5], np.array([3, 4, 5], np.int64)),
        ([(3, 4), (5, 6)], np.array([[3, 4], [5, 6]], np.int64)),
        ([array.array("h", [1, 2])], np.array([[1, 2]], np.int16)),
        ([np.arange(3, dtype=">i4")], np.array([[0, 1, 2]], np.int32)),
        ([np.ones((2, 3), "f2"), np.zeros((2, 3), "f2")], np.array([np.ones((2, 3)), np.zeros((2, 3))], "f2")),
        ([(1, np.array(7.5)), (0, np.array(2.5))], np.array([2.5, 7.5])),
        ([Row(index=0, vector=[3, 4])], np.array([[3, 4]], np.int64)),
        ([Row(index=1, vector=3, more=5)], np.array([[1, 3, 5]], np.int64)),
        ([(np.int32(1), [3, 4]), (np.int32(0), [1, 2])], np.array([[1, 2], [3, 4]], np.int64)),
        ([np.zeros(0)] * 4, np.zeros((4, 0))),
    ],
)
def test_every_kind_of_row_keeps_its_values_and_type(tmp_path: Path, items: list[Any], expected: Any) -> None:
    for parts in ([items], [[], items[:1], items[1:]]):
        found = h5(staged_file(tmp_path, *parts, overwrite=True))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("items", "dtype"),
    [([[1, 2], [2.5, 3]], "f8"), ([1, 2.0, 3], "i2"), ([[2**60 + 1], [2.0]], "i8"), ([np.uint8(1), 1.0], "c8")],
)
def test_a_dtype_that_holds_every_value_makes_mixed_rows_one_array(tmp_path: Path, items: Any, dtype: str) -> None:
    found = h5(staged_file(tmp_path, items, items, dtype=dtype))
    assert found.dtype == dtype
    assert found.tolist() == [list(item) if isinstance(item, list) else item for item in [*items, *items]]


@pytest.mark.parametrize(
    ("parts", "said", "sentence"),
    [
        ([[[1, 2]], [[1.5, 2.5]]], {}, "partition 1 of the data holds float64, partition 0 int64: say dtype="),
        ([[[1, 2], [1.5, 2.5]]], {}, "row 1 of partition 0 holds float64, row 0 of partition 0 int64: say dtype="),
        ([[1, 2.5]], {}, "row 1 of partition 0 holds float64, row 0 of partition 0 int64: say dtype="),
        ([[[1, 2], [3]]], {}, r"row 1 of partition 0 has the shape \(1,\), row 0 of partition 0 \(2,\)"),
        ([[[1, 2]], [[3]]], {}, r"partition 1 of the data has rows of shape \(1,\), partition 0 \(2,\)"),
        ([[[1, True]]], {}, "a sequence of bool and int is no row of numbers of one type"),
        ([[[2**60 + 1, 0.5]]], {}, "row 0 of partition 0: .*the value 1152921504606846977 among them has no equal"),
        ([[[2**63, -1]]], {}, "row 0 of partition 0: holds whole numbers that no 64 bits hold"),
        ([[2**64]], {}, "row 0 of partition 0 or a later one holds whole numbers that no 64 bits hold"),
        ([["ab"]], {}, "row 0 of partition 0: a str is no row of numbers"),
        ([[None]], {}, "row 0 of partition 0: a NoneType is no row of numbers"),
        ([[(0, None)]], {}, "row 0: a NoneType is no row of numbers"),
        ([[[[1, 2], [3, 4]]]], {}, "a sequence of list is no row of numbers"),
        ([[np.array(["a"])]], {}, "holds <U1, which is no number"),
        ([[np.ma.masked_equal([1, 2], 2)]], {}, "holds masked values"),
        ([[(-1, [1])]], {}, "a row has the index -1: indices are whole numbers from 0"),
        ([[(0, [1])], [(0, [2])]], {}, "row 0 is given more than once"),
        ([[(1, [1])], [(2, [2])]], {}, "row 0 is given by no task"),
        ([[(1, [1])], [(0, [2])]], {"shape": (3, 1)}, "row 2 is given by no task"),
        ([[(1, [1])], [(0, [2])]], {"shape": (1, 1)}, r"row 1 lies beyond shape=\(1, 1\)"),
        ([[(0, [1])], [[2]]], {}, "partition 1 of the data holds rows, partition 0 rows with an index"),
        ([[(0, [1]), [2]]], {}, "partition 0 holds rows with an index and others"),
        ([in_blocks(np.ones((4, 4)), (2, 4))[:1]], {"shape": (4, 4)}, r"element \(2, 0\) is given by no task"),
        ([in_blocks(np.ones((4, 4)), (2, 4)), in_blocks(np.ones(4), (4,))], {}, "has blocks of 1 axes, partition 0 of"),
        ([in_blocks(np.ones(4), (4,)), in_blocks(np.ones(4), (4,))], {}, r"element \(0,\) is given more than once"),
        ([[(Hyperslab((0,), (3,)), np.ones(4))]], {}, r"the block at \[0:3\] is an array of shape \(4,\)"),
        ([[(Hyperslab((0,), (2,), (2,)), np.ones(2))]], {}, r"\[0:4:2\] is an array of shape .*, with strides of 1"),
        ([[(Hyperslab((), ()), np.ones(()))]], {}, r"the block at \[\] is an array of shape \(\)"),
        ([[0.5, 300.0]], {"dtype": "uint8"}, "dtype=uint8: the value 0.5 of row 0 of partition 0 has no equal there"),
        ([[(4, [1, 2, 256])]], {"dtype": "uint8"}, "the value 256 of row 4 at 2 has no equal there"),
        ([[[0.1], [1]]], {"dtype": "float32"}, "the value 0.1 of row 0 of partition 0 at 0 has no equal"),
        ([[(Hyperslab((3, 2), (1, 2)), np.array([[1, 1j]]))]], {"dtype": "f8"}, r"the value 1j at \(3, 3\) has no eq"),
        ([[], []], {}, "the data have no rows: say shape= and dtype= of an array without elements"),
        ([[]], {"shape": (3,), "dtype": "f4"}, "the data have no rows"),
        ([[[True]]], {"path": "x.nii"}, "NIfTI cannot hold bool"),
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


def test_an_array_without_elements_is_written_if_it_is_asked_for(tmp_path: Path) -> None:
    found = h5(staged_file(tmp_path, [], [], shape=(0, 4), dtype="f4"))
    assert (found.shape, found.dtype) == ((0, 4), np.float32)


@pytest.mark.parametrize(
    ("path", "said", "sentence"),
    [
        ("x.txt", {}, "the suffix names no format that can be written"),
        ("x.mnc", {}, "MINC files are not written"),
        ("no/x.h5", {}, "there is no folder"),
        ("old.h5", {}, "exists, and a file is written whole: choose another name, or overwrite=True"),
        ("folder.h5", {"overwrite": True}, "is a folder, which no file replaces"),
        ("folder.zarr", {"overwrite": True}, "is a folder, which no file replaces"),
        ("s3://b/x.h5", {}, "give a directory of this machine"),
        ("x.h5", {"compression": "lzma"}, "can be compressed by gzip:1 to gzip:9"),
        ("x.nii", {"compression": "gzip"}, "a .nii is not compressed"),
        ("x.nii", {"dataset": "name"}, "NIfTI has neither chunks"),
        ("x.nii", {"dtype": "bool"}, "NIfTI cannot hold bool"),
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
    with pytest.raises(UsageError, match=r"h5write takes an RDD, not a list: a DataFrame is written by df.write"):
        h5write([], tmp_path / "new.h5")  # type: ignore[arg-type]


KINDS = {
    "boolean": types.BooleanType(),
    "tinyint": types.ByteType(),
    "smallint": types.ShortType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "decimal": types.DecimalType(10, 2),
    "uint64": types.DecimalType(20, 0),
}


def schema(**columns: str) -> types.StructType:
    """Columns by the names that SQL has for their types, arrays as [double]."""
    made = {n: types.ArrayType(KINDS[k.strip("[]")]) if k.startswith("[") else KINDS[k] for n, k in columns.items()}
    return types.StructType([types.StructField(name, kind) for name, kind in made.items()])


def options(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"path": str(tmp_path / "t.h5"), **more}


def written(writer: TableWriter, partition: int, batches: list[Any]) -> Any:
    """What the task of a partition says."""
    copied: TableWriter = pickle.loads(pickle.dumps(writer))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: partition))
        return copied.write(iter(batches))


def committed(writer: TableWriter, *tasks: list[Any]) -> Any:
    """The values in the file that batches of some tasks become, as Spark has it made: all travels as bytes."""
    messages = [written(writer, number, batches) for number, batches in enumerate(tasks)]
    assert all(isinstance(message, Message) for message in messages)
    pickle.loads(pickle.dumps(writer)).commit(pickle.loads(pickle.dumps([*messages[::-1], None])))
    return h5(Path(writer.destination.path), writer.destination.encoding.name)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def lists(values: Any) -> pa.ListArray:
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))


def test_a_table_of_arrays_becomes_an_array(tmp_path: Path) -> None:
    """Of batches that are slices of larger ones, too; in the order of the partitions, or of an index."""
    values = RNG.normal(size=(50, 12))
    whole = batch(x=lists(values))
    plain = table_writer(schema(x="[double]"), {**options(tmp_path), "Chunks": "7,12", "COMPRESSION": "gzip"}, False)
    np.testing.assert_array_equal(committed(plain, [whole.slice(0, 9), whole.slice(9, 20)], [], [whole[29:]]), values)
    with h5py.File(tmp_path / "t.h5") as file:
        assert (file["data"].chunks, file["data"].compression) == ((7, 12), "gzip")
    order = RNG.permutation(50).astype(np.int32)
    placed = batch(index=pa.array(order), x=lists(values[order]))
    given = options(tmp_path, dataset="a/b", shape="50,3,4", dtype="complex64")
    writer = table_writer(schema(index="int", x="[double]"), given, True)
    with pytest.raises(UsageError, match=r"the value .* of row \d+ at \d+ has no equal there"):
        committed(writer, [placed])
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]
    writer = table_writer(schema(index="int", x="[double]"), given | {"dtype": "complex128"}, True)
    found = committed(writer, [placed[40:]], [placed.slice(5, 35), placed[:5]])
    np.testing.assert_array_equal(found, values.reshape(50, 3, 4).astype(complex))


def test_columns_of_numbers_become_an_array_of_the_type_that_holds_them(tmp_path: Path) -> None:
    one, two, three = np.arange(5, dtype=np.int16), np.arange(5, dtype=np.int32) * 10**8, np.array([True] * 5)
    columns = batch(b=pa.array(two), a=pa.array(one), c=pa.array(three))
    writer = table_writer(schema(b="int", a="smallint", c="boolean"), options(tmp_path), False)
    found = committed(writer, [columns[:2]], [columns[2:]])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.stack([two, one, three], axis=1))
    single = table_writer(schema(a="smallint", index="tinyint"), options(tmp_path), True)
    found = committed(single, [batch(a=pa.array(one), index=pa.array(np.arange(5, dtype=np.int8)[::-1]))])
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, one[::-1])
    both = batch(l=pa.array([1, 2]), d=pa.array([0.5, 1.0]))
    found = committed(table_writer(schema(l="bigint", d="double"), options(tmp_path, dtype="f8"), True), [both])
    np.testing.assert_array_equal(found, [[1, 0.5], [2, 1.0]])
    large = pa.array([Decimal(2**64 - 1), Decimal(0)], pa.decimal128(20, 0))
    found = committed(table_writer(schema(x="uint64"), options(tmp_path), True), [batch(x=large)])
    assert (found.dtype, found.tolist()) == (np.uint64, [2**64 - 1, 0])
    larger = batch(x=pa.array([Decimal(2**64)], pa.decimal128(20, 0)))
    with pytest.raises(UsageError, match="the column x holds numbers that uint64 does not"):
        committed(table_writer(schema(x="uint64"), options(tmp_path), True), [larger])


@pytest.mark.parametrize(
    ("columns", "more", "sentence"),
    [
        ({"l": "bigint", "d": "double"}, {}, r'of the columns l \(bigint\), d \(double\) exactly: say option\("dtype"'),
        ({"x": "string"}, {}, "the column x holds string, neither numbers nor arrays"),
        ({"x": "decimal"}, {}, r"the column x holds decimal\(10,2\), neither numbers"),
        ({"x": "[string]"}, {}, "the column x holds array<string>, neither numbers"),
        ({"x": "[double]", "y": "double"}, {}, "the column x holds arrays, and there are others"),
        ({"index": "double", "x": "double"}, {}, "the column index holds double: it has to hold whole numbers"),
        ({"index": "int"}, {}, "the table has no column of values"),
        (
            {"x": "double"},
            {"color": "red"},
            r'option\("color"\) is not known where hyperslab writes: choose among path',
        ),
        ({"x": "double"}, {"chunks": "a,b"}, r'option\("chunks", "a,b"\): give whole numbers such as "100,20"'),
        ({"x": "double"}, {"compression": "lzma"}, "can be compressed by gzip:1"),
        ({"x": "double"}, {"dtype": "what"}, "dtype=what: not a NumPy dtype"),
        ({"x": "boolean"}, {"path": "t.nii"}, "NIfTI cannot hold bool"),
        ({"x": "double"}, {"path": ""}, r"hyperslab writes to a path: give one to save\(\)"),
        ({"x": "double"}, {"path": "old.h5"}, "exists, and a file is written whole: .*mode 'overwrite'"),
    ],
)
def test_tables_that_are_no_array_are_refused_before_a_job(
    tmp_path: Path, columns: dict[str, str], more: dict[str, str], sentence: str
) -> None:
    (tmp_path / "old.h5").touch()
    given = {**options(tmp_path), **more}
    if more.get("path"):
        given["path"] = f"{tmp_path}/{more['path']}"
    with pytest.raises(UsageError, match=sentence):
        table_writer(schema(**columns), given, False)
    assert [p.name for p in tmp_path.iterdir()] == ["old.h5"]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (batch(x=pa.array([[1.0], None])), "the column x holds nulls, which no number says"),
        (batch(x=pa.array([[1.0, None]])), "the column x holds nulls, which no number says"),
        (batch(x=pa.array([[1.0], [1.0, 2.0]])), "the column x has arrays of 1 and of 2 elements"),
        (batch(x=pa.array([[1.0, 2.0]]), index=pa.array([-1])), "a row has the index -1"),
        (batch(x=pa.array([[1.0, 2.0]]), index=pa.array([None], pa.int64())), "the column index holds nulls"),
        (batch(x=pa.array([[1.0, 2.0]]), index=pa.array([1])), "row 0 is given by no task"),
    ],
)
def test_a_task_says_what_no_array_holds_and_commit_raises_it(tmp_path: Path, found: Any, sentence: str) -> None:
    columns = {"x": "[double]"} | ({"index": "bigint"} if "index" in found.schema.names else {})
    writer = table_writer(schema(**columns), options(tmp_path), False)
    with pytest.raises(UsageError, match=sentence):
        committed(writer, [found])
    assert not list(tmp_path.iterdir())


def test_what_was_staged_goes_when_a_write_is_aborted_or_another_file_has_appeared(tmp_path: Path) -> None:
    good = batch(x=pa.array([1.0, 2.0]))
    writer = table_writer(schema(x="double"), options(tmp_path), False)
    with pytest.raises(UsageError, match="a table is written by tasks of Spark"):
        writer.write(iter([good]))
    message = written(writer, 0, [good])
    assert [len(list(p.iterdir())) for p in tmp_path.iterdir()] == [1]
    writer.abort([message, None])
    writer.abort([None])
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="it went with a write that failed"):
        written(writer, 0, [good])
    writer = table_writer(schema(x="double"), options(tmp_path), False)
    (tmp_path / "t.h5").write_bytes(b"new")
    with pytest.raises(UsageError, match="has appeared since the start, and stays"):
        committed(writer, [good])
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"new"]
    other = table_writer(schema(x="double"), options(tmp_path), True)
    with pytest.raises(
        UsageError, match=r"has blocks|has rows of \(1,\) and \(2,\)|all rows of an array have one shape"
    ):
        committed(table_writer(schema(x="[double]"), options(tmp_path), True),
                  [batch(x=pa.array([[1.0]])), batch(x=pa.array([[1.0, 2.0]]))])  # fmt: skip
    other.abort([])
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]


def test_a_data_frame_is_written_and_read_again(spark: Any, tmp_path: Path) -> None:
    from hyperslab.connectors.spark.datasource import register

    register(spark)
    values = np.arange(40)[:, None] * 10 + np.arange(5.0)
    frame = spark.range(40, numPartitions=2).selectExpr(
        "39 - id as index", "transform(sequence(0, 4), k -> (39 - id) * 10d + k) as x"
    )
    path = f"file:{tmp_path}/t.h5"
    frame.write.format("hyperslab").mode("append").option("dataset", "m").option("chunks", "8,5").save(path)
    np.testing.assert_array_equal(h5(tmp_path / "t.h5", "m"), values)
    with pytest.raises(Exception, match="exists, and a file is written whole"):
        frame.write.format("hyperslab").mode("append").save(path)
    again = spark.read.format("hyperslab").load(path)
    missing = again.where("index <> 3").write.format("hyperslab").mode("overwrite")
    with pytest.raises(Exception, match="row 3 is given by no task"):
        missing.save(path)
    np.testing.assert_array_equal(h5(tmp_path / "t.h5", "m"), values)
    turned = again.selectExpr("39 - index as index", again.columns[1])
    turned.write.format("hyperslab").mode("overwrite").save(path)
    np.testing.assert_array_equal(h5(tmp_path / "t.h5"), values[::-1])
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]
