"""Arrays from tables as files, read again by h5py."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types

from hyperslab.connectors.spark.tablewriter import Message, TableWriter, table_writer
from hyperslab.errors import UsageError
from tests.connectors.spark.staged import h5

RNG = np.random.default_rng(6)

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
    made = {
        n: types.ArrayType(KINDS[k.strip("[]")]) if k.startswith("[") else KINDS[k]
        for n, k in columns.items()
    }
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
    """The values in the file that batches of some tasks become, as Spark has it made: all travels
    as bytes.
    """
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
    """Of batches that are slices of larger ones, too; in the order of the partitions, or of an
    index.
    """
    values = RNG.normal(size=(50, 12))
    whole = batch(x=lists(values))
    plain = table_writer(
        schema(x="[double]"), {**options(tmp_path), "Chunks": "7,12", "COMPRESSION": "gzip"}, False
    )
    np.testing.assert_array_equal(
        committed(plain, [whole.slice(0, 9), whole.slice(9, 20)], [], [whole[29:]]), values
    )
    with h5py.File(tmp_path / "t.h5") as file:
        assert (file["data"].chunks, file["data"].compression) == ((7, 12), "gzip")
    order = RNG.permutation(50).astype(np.int32)
    placed = batch(index=pa.array(order), x=lists(values[order]))
    given = options(tmp_path, dataset="data", shape="50,3,4", dtype="complex64")
    writer = table_writer(schema(index="int", x="[double]"), given, True)
    with pytest.raises(UsageError, match=r"the value .* of row \d+ at \d+ cannot be represented"):
        committed(writer, [placed])
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]
    writer = table_writer(schema(index="int", x="[double]"), given | {"dtype": "complex128"}, True)
    found = committed(writer, [placed[40:]], [placed.slice(5, 35), placed[:5]])
    np.testing.assert_array_equal(found, values.reshape(50, 3, 4).astype(complex))


def test_columns_of_numbers_become_an_array_of_the_type_that_holds_them(tmp_path: Path) -> None:
    one, two, three = (
        np.arange(5, dtype=np.int16),
        np.arange(5, dtype=np.int32) * 10**8,
        np.array([True] * 5),
    )
    columns = batch(b=pa.array(two), a=pa.array(one), c=pa.array(three))
    writer = table_writer(schema(b="int", a="smallint", c="boolean"), options(tmp_path), False)
    found = committed(writer, [columns[:2]], [columns[2:]])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.stack([two, one, three], axis=1))
    single = table_writer(schema(a="smallint", Index="tinyint"), options(tmp_path), True)
    found = committed(
        single, [batch(a=pa.array(one), Index=pa.array(np.arange(5, dtype=np.int8)[::-1]))]
    )
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, one[::-1])
    both = batch(l=pa.array([1, 2]), d=pa.array([0.5, 1.0]))
    found = committed(
        table_writer(schema(l="bigint", d="double"), options(tmp_path, dtype="f8"), True), [both]
    )
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
        (
            {"l": "bigint", "d": "double"},
            {},
            r'of the columns l \(bigint\), d \(double\) exactly: say option\("dtype"',
        ),
        ({"x": "string"}, {}, "the column x holds string, neither numbers nor arrays"),
        ({"x": "decimal"}, {}, r"the column x holds decimal\(10,2\), neither numbers"),
        ({"x": "[string]"}, {}, "the column x holds array<string>, neither numbers"),
        ({"x": "[double]", "y": "double"}, {}, "the column x holds arrays, and there are others"),
        (
            {"index": "double", "x": "double"},
            {},
            "the column index holds double: it has to hold whole numbers",
        ),
        ({"index": "int"}, {}, "the table has no column of values"),
        (
            {"x": "double"},
            {"color": "red"},
            r'option\("color"\) is not known where hyperslab writes: choose among path',
        ),
        (
            {"x": "double"},
            {"chunks": "a,b"},
            r'option\("chunks", "a,b"\): give whole numbers such as "100,20"',
        ),
        ({"x": "double"}, {"compression": "lzma"}, "can be compressed by gzip:1"),
        ({"x": "double"}, {"dtype": "what"}, "dtype=what: not a NumPy dtype"),
        ({"x": "double"}, {"path": "t.nc", "dtype": "c16"}, "netCDF cannot hold complex128"),
        ({"x": "double"}, {"path": ""}, r"hyperslab writes to a path: give one to save\(\)"),
        (
            {"x": "double"},
            {"path": "old.h5"},
            "exists, and a file is written as a whole: .*mode 'overwrite'",
        ),
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
        (
            batch(x=pa.array([[1.0], None])),
            "the column x holds nulls, which numbers cannot express",
        ),
        (
            batch(x=pa.array([[1.0, None]])),
            "the column x holds nulls, which numbers cannot express",
        ),
        (batch(x=pa.array([[1.0], [1.0, 2.0]])), "the column x has arrays of 1 and of 2 elements"),
        (batch(x=pa.array([[1.0, 2.0]]), index=pa.array([-1])), "a row has the index -1"),
        (
            batch(x=pa.array([[1.0, 2.0]]), index=pa.array([None], pa.int64())),
            "the column index holds nulls",
        ),
        (batch(x=pa.array([[1.0, 2.0]]), index=pa.array([1])), "row 0 is given by no task"),
    ],
)
def test_a_task_says_what_no_array_holds_and_commit_raises_it(
    tmp_path: Path, found: Any, sentence: str
) -> None:
    columns = {"x": "[double]"} | ({"index": "bigint"} if "index" in found.schema.names else {})
    writer = table_writer(schema(**columns), options(tmp_path), False)
    with pytest.raises(UsageError, match=sentence):
        committed(writer, [found])
    assert not list(tmp_path.iterdir())


def test_what_was_staged_goes_when_a_write_is_aborted_or_another_file_has_appeared(
    tmp_path: Path,
) -> None:
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
        UsageError,
        match=r"has blocks|has rows of \(1,\) and \(2,\)|all rows of an array have one shape",
    ):
        committed(
            table_writer(schema(x="[double]"), options(tmp_path), True),
            [batch(x=pa.array([[1.0]])), batch(x=pa.array([[1.0, 2.0]]))],
        )
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
    frame.write.format("hyperslab").mode("append").option("dataset", "m").option(
        "chunks", "8,5"
    ).save(path)
    np.testing.assert_array_equal(h5(tmp_path / "t.h5", "m"), values)
    with pytest.raises(Exception, match="exists, and a file is written as a whole"):
        frame.write.format("hyperslab").mode("append").save(path)
    again = spark.read.format("hyperslab").load(path)
    missing = (
        again.where("index <> 3").write.format("hyperslab").mode("overwrite").option("dataset", "m")
    )
    with pytest.raises(Exception, match="row 3 is given by no task"):
        missing.save(path)
    np.testing.assert_array_equal(h5(tmp_path / "t.h5", "m"), values)
    turned = again.selectExpr("39 - index as index", again.columns[1])
    turned.write.format("hyperslab").mode("overwrite").option("dataset", "m").save(path)
    np.testing.assert_array_equal(h5(tmp_path / "t.h5", "m"), values[::-1])
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]
