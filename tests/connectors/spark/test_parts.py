"""What tasks are given: parts that cover an array between its chunks, and of its tables only what
they need.
"""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.arrays import Array
from hyperslab.connectors.spark import seeder
from hyperslab.connectors.spark.analyzer import Analysis, analyze
from hyperslab.connectors.spark.part import Part
from hyperslab.connectors.spark.partitioner import Cuts, cut, cuts_of, share
from hyperslab.connectors.spark.seeder import parts_of
from hyperslab.errors import FormatError, UsageError
from tests.connectors.spark import arrays

np_s: Any = np.s_


def parts(analysis: Analysis, partitions: int | None) -> list[Part]:
    """As they arrive where they are read."""
    cuts = cuts_of(analysis)
    count, _ = share(analysis, cuts, partitions, 2)
    return [pickle.loads(pickle.dumps(part)) for part in parts_of(analysis, cuts, count)]


def joined(parts: list[Part], analysis: Analysis) -> Array:
    """The selection, of blocks that are put where their hyperslabs say; no element twice."""
    values = np.zeros(analysis.whole.shape, analysis.dtype)
    times = np.zeros(analysis.whole.shape, np.uint8)
    for slab, block in itertools.chain.from_iterable(parts):
        values[slab.slices()] = block
        times[slab.slices()] += 1
    where = analysis.region.slices()
    assert (times[where] == 1).all()
    assert times.sum() == analysis.region.size, "what was not asked for was not loaded"
    picked: Array = values[where]
    return picked


def test_a_store_of_gzip_files_is_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that gzip alone has compressed are read one by one: a partition has several blocks."""
    values, path = np.arange(64 * 8.0).reshape(64, 8), tmp_path / "x.zarr"
    gzip = zarr.codecs.GzipCodec()
    zarr.create_array(path, data=values, chunks=(4, 8), filters=None, compressors=gzip)
    analysis = analyze(str(path))
    assert [codec.name for codec in analysis.sources[0].codecs] == ["gzip"]
    monkeypatch.setattr(seeder, "BLOCK_NBYTES", 8 * 8 * 8)
    made = parts(analysis, 2)
    assert [len(part.slabs) for part in made] == [4, 4]
    np.testing.assert_array_equal(joined(made, analysis), values)


OFTEN: Mapping[str, Callable[[Path], arrays.Stored]] = {
    **arrays.KINDS,
    "gzipped": partial(arrays.gzipped, shape=(20, 50, 2200)),
}
"Files that are read two dozen times: one that is indexed is no larger than that takes."


@pytest.mark.parametrize("kind", arrays.KINDS)
def test_every_value_of_every_kind(kind: str, tmp_path: Path) -> None:
    stored = OFTEN[kind](tmp_path)
    for axis, partitions in ((None, None), (None, 1), (None, 5), (0, 4), (1, 3), (-1, 2)):
        analysis = analyze(stored.path, stored.variable, axis=axis)
        along = stored.axis if axis is None else axis % 3
        assert analysis.axis == along
        made = parts(analysis, partitions)
        np.testing.assert_array_equal(joined(made, analysis), stored.values)
        unit = (
            stored.unit
            if along == stored.axis
            else analysis.sources[0].own_chunk_shape[along : along + 1] or (1,)
        )
        for part in made[1:]:
            assert part.slabs[0].start[along] % np.max(unit) == 0, "cut between chunks"
    regions = (np_s[5:50, 2:], np_s[::3, ::-2, 4], np_s[..., 1:2], np_s[59:4:-4], np_s[7])
    for region, partitions in itertools.product(regions, (1, 4)):
        analysis = analyze(stored.path, stored.variable, region=region)
        expected = stored.values[analysis.region.slices()]
        np.testing.assert_array_equal(joined(parts(analysis, partitions), analysis), expected)
    raw = analyze(stored.path, stored.variable, values="stored")
    assert raw.dtype == raw.sources[0].dtype("stored")


@st.composite
def chunked_files(draw: st.DrawFn) -> Cuts:
    edges, units, lows = [0], [], []
    for number in range(draw(st.integers(1, 4))):
        units.append(draw(st.integers(1, 6)))
        lows.append(edges[-1] - (draw(st.integers(0, units[-1] - 1)) if number == 0 else 0))
        edges.append(edges[-1] + draw(st.integers(1, 15)))
    return Cuts(tuple(edges), tuple(units), tuple(lows))


@given(chunked_files(), st.integers(1, 20))
def test_partitions_are_as_many_as_asked_for_and_nearly_equal(cuts: Cuts, wanted: int) -> None:
    files = zip(cuts.lows, cuts.edges, cuts.edges[1:], cuts.units, strict=False)
    inner = {row for low, first, end, unit in files for row in range(low, end, unit) if row > first}
    allowed = sorted({*cuts.edges} | inner)
    spans = cut(cuts, wanted)
    assert cuts.most() == len(allowed) - 1
    assert len(spans) == min(wanted, len(allowed) - 1)
    assert [first for first, _ in spans] + [cuts.rows] == sorted({0, *(last for _, last in spans)})
    assert {row for span in spans for row in span} <= set(allowed)


@given(st.integers(1, 500), st.integers(1, 9), st.integers(1, 40))
def test_chunks_are_shared_out_evenly(chunks: int, unit: int, wanted: int) -> None:
    spans = cut(Cuts((0, chunks * unit), (unit,), (0,)), wanted)
    sizes = [(last - first) // unit for first, last in spans]
    assert max(sizes) - min(sizes) <= 1


def test_blocks_of_a_partition_are_some_mebibytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3000, 4096), "f8")[0] = 1
        file.create_dataset("wide", (2, 2**22), "f8")[0] = 1
        file.create_dataset("chunked", (3000, 4096), "f8", chunks=(300, 4096))
    for name, most in (("x", 2**22), ("wide", 2**25), ("chunked", 300 * 2**15)):
        (part,) = parts(analyze(tmp_path / "a.h5", name), 1)
        sizes = [slab.size * 8 for slab in part.slabs]
        assert max(sizes) <= most
        assert len(sizes) > 1
    assert len(parts(analyze(tmp_path / "a.h5", "x"), None)) == 2


def test_a_task_brings_only_its_own_part(tmp_path: Path) -> None:
    """Of the table of chunks, of the index of a gzip file, of an array in memory, of the list of
    files.
    """
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((20_000, 2)), chunks=(1, 2), compression="gzip")
    many = []
    for number in range(64):
        many.append(tmp_path / f"f{number}.h5")
        with h5py.File(many[-1], "w") as file:
            file["x"] = np.full((3, 2), number)
    gzipped = arrays.gzipped(tmp_path)
    for analysis, partitions in (
        (analyze(tmp_path / "a.h5", "x"), 40),
        (analyze(gzipped.path), 6),
        (analyze(np.zeros((1000, 100))), 20),
        (analyze(many, "x"), 32),
    ):
        made = parts(analysis, partitions)
        whole = len(pickle.dumps(analysis))
        assert max(len(pickle.dumps(part)) for part in made) < max(4000, 3 * whole / partitions)
        assert len(made) == partitions
        assert {len(part.sources) for part in made} == {2 if analysis.whole.members[1:] else 1}


def test_tasks_load_neither_the_formats_libraries_nor_what_plans(tmp_path: Path) -> None:
    """Spark collects garbage after every task, which takes as long as it has imported modules."""
    given = [
        made(tmp_path) for kind, made in arrays.KINDS.items() if kind not in ("zarred", "small")
    ]
    sums = [float(np.nansum(stored.values)) for stored in given]
    made = [parts(analyze(stored.path, stored.variable), 3) for stored in given]
    (tmp_path / "parts").write_bytes(pickle.dumps(made))
    code = (
        "import gc, pickle, sys, numpy as np\nmade = pickle.load(open(sys.argv[1],"
        " 'rb'))\nprint([float(sum(np.nansum(block) for part in parts for _, block in part)) for"
        " parts in made])\nprint(sorted({'h5py', 'netCDF4', 'nibabel'} & set(sys.modules)))\n"
        "print(*(name for name in sys.modules if name.startswith('hyperslab.')))\n"
        "print(gc.get_freeze_count())\n"
    )
    line = [sys.executable, "-c", code, str(tmp_path / "parts")]
    said = subprocess.run(
        line, check=True, capture_output=True, text=True, env=os.environ
    ).stdout.splitlines()
    np.testing.assert_allclose(eval(said[0]), sums, rtol=1e-12)
    assert said[1] == "[]"
    loaded = {name.removeprefix("hyperslab.") for name in said[2].split()}
    assert loaded & {"plan", "blocks.gathering", "blocks.writing", "arrays.partition"} == set()
    spark = {name for name in loaded if name.startswith("connectors.spark.")}
    assert spark == {"connectors.spark.part"}
    assert said[3] == "0", "this is no worker of Spark"


def test_files_make_one_array_in_natural_order(tmp_path: Path) -> None:
    folder = tmp_path / "days é"
    folder.mkdir()
    lengths = (1, 3, 12, 4, 5, 6, 7, 8, 9, 2, 3)
    values = np.random.default_rng(1).normal(size=(sum(lengths), 5))
    ends = np.cumsum(lengths)
    for number, (n, end) in enumerate(zip(lengths, ends, strict=True)):
        with h5py.File(folder / f"day_{number}.h5", "w") as file:
            chunks = {"chunks": (2, 5), "compression": "gzip"} if number % 2 else {}
            file.create_dataset("x", data=values[end - n : end], **chunks)
            file["y"] = 0
    listing = tmp_path / "all.txt"
    listing.write_text("".join(f"{folder}/day_{number}.h5,x\n" for number in range(11)))
    pairs = [(str(folder / f"day_{number}.h5"), Path("x")) for number in range(11)]
    for named, variable in (
        (folder.as_uri(), "x"),
        (f"{folder}/*.h5", "/x"),
        (listing, ""),
        (pairs, ""),
    ):
        for partitions in (None, 1, 4, 30):
            analysis = analyze(named, variable)
            np.testing.assert_array_equal(joined(parts(analysis, partitions), analysis), values)
    analysis = analyze(folder, "x", region=np_s[2:20:3, 1:])
    np.testing.assert_array_equal(joined(parts(analysis, 3), analysis), values[2:20:3, 1:])


def test_a_stream_that_cannot_be_entered_is_read_once_by_a_task(tmp_path: Path) -> None:
    """Along an axis whose rows lie all over the file, and where it is too small for an index."""
    stored = arrays.gzipped(tmp_path)
    for analysis in (analyze(stored.path, axis=0), analyze(arrays.small(tmp_path).path)):
        assert [len(part.slabs) for part in parts(analysis, 3)] == [1, 1, 1]
    assert {len(part.slabs) for part in parts(analyze(stored.path), 1)} == {3}


def test_memory_of_a_task(tmp_path: Path) -> None:
    """A partition of 100 MB is read in 40 MB more than the process has anyway: a block, and what
    the reader keeps.
    """
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plain = file.create_dataset("plain", (12_500, 1000), "f8")
        packed = file.create_dataset(
            "gzip", (12_500, 1000), "f8", chunks=(500, 1000), compression=1, shuffle=True
        )
        for first in range(0, 12_500, 2500):
            rows = slice(first, first + 2500)
            plain[rows] = packed[rows] = np.arange(2.5e6).reshape(2500, 1000)
    code = (
        "import pickle, re, sys\n"
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "(part,) = pickle.load(open(sys.argv[1], 'rb'))\n"
        "before = peak()\n"
        "print(sum(block.nbytes for _, block in part), peak() - before)\n"
    )
    for name in ("plain", "gzip"):
        (tmp_path / "parts").write_bytes(pickle.dumps(parts(analyze(tmp_path / "a.h5", name), 1)))
        line = [sys.executable, "-c", code, str(tmp_path / "parts")]
        said = subprocess.run(
            line, check=True, capture_output=True, text=True, env=os.environ
        ).stdout.split()
        assert int(said[0]) == 100e6
        assert int(said[1]) < 40_000


def test_columns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values = np.random.default_rng(1).normal(size=(30, 9))
    for columns in ([4], [7, 2, 2, -1], slice(1, 8, 3), slice(None, None, -1)):
        analysis = analyze(tmp_path / "a.h5", "x", columns=columns, region=np_s[3:25])
        blocks = [block for part in parts(analysis, 4) for _, block in part]
        np.testing.assert_array_equal(np.concatenate(blocks), values[3:25][:, columns])
        assert analysis.shape == values[3:25][:, columns].shape
    analysis = analyze(tmp_path / "a.h5", "x", columns=[3, 0], axis=1)
    blocks = [block for part in parts(analysis, 4) for _, block in part]
    np.testing.assert_array_equal(np.concatenate(blocks, axis=1), values[[3, 0]])


def test_an_array_without_rows(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((0, 3), "f4")
    (part,) = parts(analyze(tmp_path / "a.h5", "x"), 5)
    assert [(block.shape, block.dtype) for _, block in part] == [((0, 3), np.dtype("f4"))]


def test_what_cannot_be_loaded_is_said_at_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"] = np.zeros((4, 3)), np.zeros((4, 3), "i2")
        file["text"], file["one"], file["line"] = [b"a", b"b"], 5.0, np.zeros(4)
        file["wide"] = np.zeros((4, 4))
    (tmp_path / "junk.h5").write_bytes(b"junk" * 100)
    a = str(tmp_path / "a.h5")
    for arguments, options, said in (
        ((a, "none"), {}, "none"),
        ((a,), {}, "holds 4 arrays; choose one"),
        ((a, "x"), {"axis": 2}, "axis 2: .* has axes 0 to 1"),
        ((a, "x"), {"axis": "rows"}, "axis is 'rows'"),
        ((a, "x"), {"region": np_s[9, :]}, "region .*out of range for 4"),
        ((a, "x"), {"region": [1, 2]}, "region .*only integers, slices"),
        ((a, "x"), {"columns": [5]}, "5 is out of range for 3 columns"),
        ((a, "x"), {"columns": []}, "give a slice, or a list"),
        ((a, "x"), {"columns": [1], "region": np_s[:, :2]}, "give one of them"),
        ((a, "line"), {"columns": [1]}, "two dimensions, this one has 1"),
        ((a, "x"), {"values": "raw"}, "'real' or 'stored'"),
        ((a, "text"), {}, "not numbers"),
        ((a, "one"), {}, "single number"),
        (([(a, "x"), (a, "y")],), {}, "holds int16, .* holds float64"),
        (([(a, "x"), (a, "line")],), {}, "has 1 dimension, .* has 2"),
        (([(a, "x"), (a, "wide")],), {}, "cannot concatenate"),
        (([(a, "x", "y")],), {}, r"is \(path, dataset\)"),
        (([a, 5],), {}, "int: name files by their paths"),
        (([],), {}, "there is no source"),
        ((str(tmp_path / "none.h5"), "x"), {}, "no such file"),
        ((str(tmp_path / "*.nii"),), {}, "no file matches"),
        (([np.zeros(3), a],), {}, "one at a time"),
    ):
        with pytest.raises(UsageError, match=said):
            analyze(*arguments, **options)
    with pytest.raises(FormatError, match=r"junk\.h5"):
        analyze(tmp_path / "junk.h5", "x")
    analysis = analyze(a, "x")
    for partitions in (0, -3, 2.5, True, "many"):
        with pytest.raises(UsageError, match="whole number of at least 1"):
            share(analysis, cuts_of(analysis), partitions, 2)  # type: ignore[arg-type]


def test_files_are_skipped_only_on_request_and_then_named(tmp_path: Path) -> None:
    for number in range(3):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x" if number != 1 else "other"] = np.full((2, 2), number)
    (tmp_path / "3.h5").write_bytes(b"junk" * 100)
    (tmp_path / "list.txt").write_text("0.h5,x\ngone.h5,x\n2.h5,x\n")
    with pytest.raises(UsageError):
        analyze(tmp_path, "x")
    with pytest.warns(UserWarning, match=r"2 files skipped: .*1\.h5.*; .*3\.h5"):
        analysis = analyze(tmp_path, "x", skip=True)
    np.testing.assert_array_equal(
        joined(parts(analysis, 2), analysis), np.repeat([[0], [2]], 2, 0) * np.ones(2)
    )
    assert len(analysis.skipped) == 2
    with pytest.raises(UsageError, match="line 2"):
        analyze(tmp_path / "list.txt")
    with pytest.warns(UserWarning, match=r"1 file skipped: .*gone\.h5"):
        assert analyze(tmp_path / "list.txt", skip=True).rows == 4
    with pytest.raises(FormatError, match=r"3\.h5"):
        analyze(tmp_path / "3.h5", "x", skip=True)
