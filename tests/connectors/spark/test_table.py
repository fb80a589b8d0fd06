"""Arrays in files as tables of Spark, by the Data Source: found by its name, exact in every dtype,
and listed.
"""

from __future__ import annotations

import decimal
import json
import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from hyperslab.connectors.spark.datasource import HyperslabSource
from hyperslab.errors import HyperslabError
from tests.connectors.spark import arrays
from tests.repetitions import few, repeats

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


def load(spark: Any, path: object, **options: object) -> Any:
    named = [str(p) for p in path] if isinstance(path, list) else str(path)
    return spark.read.format("hyperslab").options(**options).load(named)


def expected_rows(values: Any, axis: int) -> Any:
    turned = np.moveaxis(values, axis, 0)
    return turned.reshape(len(turned), -1)


TABLES = ["compressed", "packed", "nifti", "gzipped"]


@pytest.mark.parametrize("kind", few(["nifti"], TABLES, "parts of all kinds: test_parts.py"))
def test_a_table_of_every_kind(kind: str, tmp_path: Path, spark: Any) -> None:
    stored = arrays.KINDS[kind](tmp_path)
    named = {"dataset": stored.variable} if stored.variable else {}
    table = load(spark, stored.path, partitions=3, **named)
    expected = expected_rows(stored.values, stored.axis)
    rows = sorted(table.collect())
    assert [row["index"] for row in rows] == list(range(len(expected)))
    np.testing.assert_array_equal([row["values"] for row in rows], expected)
    assert table.rdd.getNumPartitions() == 3


def test_every_dtype_to_its_ends(tmp_path: Path, spark: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in DTYPES:
            dtype = np.dtype(name)
            ends = (
                [0, 1]
                if dtype.kind == "b"
                else (np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype))
            )
            values = ends if isinstance(ends, list) else [ends.min, ends.max]
            file[dtype.name] = np.array([*values, 1, 0], dtype)
        file["c"] = np.zeros(3, "c8")
    tables = [
        load(spark, tmp_path / "a.h5", dataset=np.dtype(name).name, layout="scalars").select(
            f.lit(np.dtype(name).name).alias("dtype"),
            "index",
            f.col("value").cast("string"),
            f.typeof("value").alias("t"),
        )
        for name in DTYPES
    ]
    joined = tables[0]
    for table in tables[1:]:
        joined = joined.union(table)
    found: dict[str, list[str]] = {}
    kinds = {}
    for row in sorted(joined.collect(), key=lambda row: (row.dtype, row["index"])):
        found.setdefault(row.dtype, []).append(row.value)
        kinds[row.dtype] = row.t
    with h5py.File(tmp_path / "a.h5") as file:
        for name, texts in found.items():
            if name == "bool":
                assert texts == ["false", "true", "true", "false"]
            elif file[name].dtype.kind in "iu":
                assert [int(text) for text in texts] == [int(value) for value in file[name][()]]
            else:
                assert [file[name].dtype.type(text) for text in texts] == list(file[name][()])
    assert (kinds["uint8"], kinds["uint64"], kinds["float16"]) == (
        "smallint",
        "decimal(20,0)",
        "float",
    )
    assert len(found) == len(DTYPES)
    array = load(spark, tmp_path / "a.h5", dataset="uint64").where("index = 1").collect()
    assert array[0]["values"] == [decimal.Decimal(2**64 - 1)]
    with pytest.raises(PySparkException, match="holds complex64, which no column"):
        load(spark, tmp_path / "a.h5", dataset="c").schema  # noqa: B018  # Spark asks for it


def test_sql_on_selections_and_several_files(tmp_path: Path, spark: Any) -> None:
    values = np.random.default_rng(0).normal(size=(40, 5))
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset(
                "x", data=values[20 * number :][:20], chunks=(4, 5), compression="gzip"
            )
    files = [tmp_path / "0.h5", tmp_path / "1.h5"]
    load(spark, files, Dataset="x", layout="scalars", partitions=4).createOrReplaceTempView("x")
    spark.sql(f"create temporary view y using hyperslab options (path '{files[1]}', dataset 'x')")
    assert spark.sql("select count(*) n from y").collect()[0].n == 20
    (row,) = spark.sql(
        "select count(*) n, sum(c2) s, max(index) m from x where index >= 10 and c0 > 0"
    ).collect()
    chosen = values[10:][values[10:, 0] > 0]
    assert (row.n, row.m) == (len(chosen), 10 + np.flatnonzero(values[10:, 0] > 0)[-1])
    assert row.s == pytest.approx(chosen[:, 2].sum(), rel=1e-12)
    rows = sorted(load(spark, files, dataset="x", region="30:3:-3, 1:").collect(), reverse=True)
    assert [row["index"] for row in rows] == list(range(30, 3, -3))
    np.testing.assert_array_equal([row["values"] for row in rows], values[30:3:-3, 1:])
    rows = sorted(load(spark, tmp_path, dataset="x", columns="4, 0").collect())
    np.testing.assert_array_equal([row["values"] for row in rows], values[:, [4, 0]])


def test_a_query_does_not_narrow_the_next_one(tmp_path: Path, spark: Any) -> None:
    """As it would if bounds were pushed down, which this session allows."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(800.0).reshape(100, 8), chunks=(10, 8))
    table = load(spark, tmp_path / "a.h5", dataset="x", partitions=10)
    some = table.where("index >= 42 and index < 51 and index != 44")
    assert sorted(row["index"] for row in some.collect()) == [42, 43, 45, 46, 47, 48, 49, 50]
    assert table.count() == 100
    assert table.where("index < 5").union(table.where("index > 95")).count() == 9
    narrow = load(spark, tmp_path / "a.h5", dataset="x", region="42:51")
    assert narrow.rdd.getNumPartitions() == 2, "of chunks 40 to 50 and 50 to 60"
    assert sorted(row["index"] for row in narrow.collect()) == list(range(42, 51))


def test_tasks_get_their_own_part_of_a_reader(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((5000, 2)), chunks=(1, 2), compression="gzip")
    source = HyperslabSource({"path": str(tmp_path / "a.h5"), "dataset": "x"})
    reader = source.reader(source.schema())
    assert len(reader.partitions()) > 0
    assert len(pickle.dumps((reader, source))) < 2000, "what tasks get with every partition"


def test_the_catalogue(tmp_path: Path, spark: Any, standing: Path) -> None:
    made = {
        kind: arrays.KINDS[kind](tmp_path)
        for kind in ("contiguous", "compressed", "packed", "nifti")
    }
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["group/data"].attrs.update({"units": "mm", "range": [1, 2]})
    (tmp_path / "junk.h5").write_bytes(b"junk")
    table = load(spark, os.path.relpath(tmp_path, standing), catalogue="true")
    rows = {(Path(row.path).name, (row.dataset or "").strip("/")): row for row in table.collect()}
    row = rows["a.h5", "group/data"]
    assert (row.shape, row.dtype, row.chunks, row.codecs) == ([60, 7, 11], ">i4", [], [])
    assert row.attributes["units"] == "mm"
    assert json.loads(row.attributes["range"]) == [1, 2]
    row = rows["b.h5", "x"]
    assert (row.chunks, row.codecs, row.error) == ([8, 3, 11], ["shuffle", "deflate"], None)
    assert rows["e.nii", ""].shape == [60, 7, 11]
    assert rows["c.nc", "t2m"].attributes["scale_factor"] == "[0.5]"
    assert "junk.h5" in rows["junk.h5", ""].error
    assert table.where("error is null and dataset like '%t2m'").count() == 1
    assert len(made) == len({name for name, _ in rows}) - 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dataset": "y"}, "y"),
        (
            {"dataset": "x", "variable": "x"},
            "option variable: there is no such option; the options are path",
        ),
        ({"dataset": "x", "axis": "rows"}, "option axis: 'rows' is not a whole number"),
        ({"dataset": "x", "region": "1:2:3:4"}, "option region"),
        ({"dataset": "x", "columns": "a"}, "option columns"),
        ({"dataset": "x", "skip": "maybe"}, "option skip: 'maybe'; it can be true or false"),
        ({"dataset": "x", "layout": "wide"}, "option layout: 'wide'; it can be array or scalars"),
        ({"dataset": "x", "storage_options": "[1]"}, "an object in JSON"),
        ({"dataset": "x", "catalogue": "true"}, "option dataset: a catalogue does not take it"),
        ({"dataset": "x", "partitions": "-1"}, "partitions is -1"),
    ],
    ids=str,
)
def test_what_is_refused_is_said_in_a_sentence(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    """As Spark calls the source, which the next test has it do."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((4, 3))
    source = HyperslabSource({"path": str(tmp_path / "a.h5"), **options})
    with pytest.raises(HyperslabError, match=said):
        source.reader(source.schema()).partitions()


@repeats("what is refused is said: above; as Spark asks for it: test_every_dtype_to_its_ends")
def test_what_is_refused_is_said_when_it_is_planned(tmp_path: Path, spark: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((4, 3))
    with pytest.raises(PySparkException, match="option skip: 'maybe'; it can be true or false"):
        load(spark, tmp_path / "a.h5", dataset="x", skip="maybe").schema  # noqa: B018
    with pytest.raises(PySparkException, match="partitions is -1"):
        load(spark, tmp_path / "a.h5", dataset="x", partitions=-1).count()
    with pytest.raises(PySparkException, match="leave schema\\(\\) out"):
        spark.read.format("hyperslab").option("dataset", "x").schema("a int").load(
            str(tmp_path / "a.h5")
        ).count()
    uri = load(spark, (tmp_path / "a.h5").as_uri(), dataset="x")
    assert uri.count() == 4
