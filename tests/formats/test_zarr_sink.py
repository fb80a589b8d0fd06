"""Zarr arrays that are written: read again by zarr-python and xarray, from many processes at a
time, and again.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling
from hyperslab.blocks import reading, writing
from hyperslab.errors import BlockError, FormatError, UsageError
from hyperslab.formats import zarr as zarr_format
from hyperslab.testing.formats import assert_same
from tests.examples import examples
from tests.formats.zarr_made import values
from tests.formats.zarr_rows import TYPES
from tests.repetitions import few

SHAPE = (20, 13, 31)
PLACE = Header(
    np.diag([2.0, 3, 4, 1]),
    (1.0, 0, 5),
    (1.0, 1, 2),
    None,
    {
        "units": "K",
        "long_name": "heat",
        "scale_factor": 7.0,
        "zooms": (1, 2),
        "_FillValue": 3,
        "odd": object(),
        "nan": np.nan,
        "list": np.arange(3),
        "bytes": b"text",
        "number": np.float32(0.5),
    },
    ("time", "y", "x"),
)
AFFINE = [[2, 0, 0, 2], [0, 3, 0, 0], [0, 0, 8, 20], [0, 0, 0, 1]]
COMPRESSIONS = ("none", "gzip", "zstd", "blosc")
NAMES = ("", "a/b")
CUTS = (((), ()), ((5, 4, 8), ()), ((5, 4, 8), (10, 8, 16)))
"Chunks and shards."
ENCODINGS = [
    Encoding(version=version, compression=compression, name=name, chunks=chunks, shards=shards)
    for version, compression, name in itertools.product((2, 3), COMPRESSIONS, NAMES)
    for chunks, shards in CUTS
    if version == 3 or not shards
]


def _turn(asked: Encoding) -> int:
    """Alternates among names, compressions and cuts: every two of these meet in the even ones."""
    place = COMPRESSIONS.index(asked.compression) // 2
    return NAMES.index(asked.name) + place + CUTS.index((asked.chunks, asked.shards))


EVEN = [asked for asked in ENCODINGS if _turn(asked) % 2 == 0]


def parts(sink: ArraySink) -> Iterator[Hyperslab]:
    """Regions of one or two units, the last of them up to the edge."""
    step = [2 * sink.unit[0], *sink.unit[1:]]
    for start in itertools.product(
        *(range(0, n, s) for n, s in zip(sink.shape, step, strict=True))
    ):
        count = tuple(min(s, n - a) for a, n, s in zip(start, sink.shape, step, strict=True))
        yield Hyperslab(start, count)


def written(
    path: Path, block: Array, header: Header = PLACE, scaling: Scaling | None = None, **asked: Any
) -> ArraySink:
    sink = zarr_format.sink(str(path), block.shape, block.dtype, header, scaling, Encoding(**asked))
    zarr_format.create(sink, str(path))
    for part in parts(sink):
        zarr_format.write_region(sink, str(path), part, block[part.slices()])
    return sink


def read_back(path: Path, part: Hyperslab) -> Array:
    """The stored values of a region as they are now."""
    return reading.read(formats.open_source(str(path)), part, values="stored")


def opened(path: Path, name: str = "") -> Any:
    return zarr.open_array(path, path=name, mode="r")


@pytest.mark.parametrize("asked", few(EVEN, ENCODINGS, "every two settings meet"), ids=str)
def test_what_is_written_is_read_again(asked: Encoding, tmp_path: Path) -> None:
    block = values(SHAPE, "f4")
    sink = zarr_format.sink(str(tmp_path / "final"), SHAPE, np.dtype("f4"), PLACE, None, asked)
    assert sink.unit == (asked.shards or asked.chunks or SHAPE)
    assert not any(tmp_path.iterdir()), "a sink touches no disk"
    path = tmp_path / "partial"
    zarr_format.create(sink, str(path))
    documents = {place.name for place in path.rglob("*") if place.is_file()}
    assert documents
    assert documents <= {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"}
    nbytes = sum(
        zarr_format.write_region(sink, str(path), part, block[part.slices()])
        for part in parts(sink)
    )
    files = [place for place in path.rglob("*") if place.is_file() and place.name not in documents]
    assert files
    assert nbytes == sum(place.stat().st_size for place in files)
    found = opened(path, asked.name)
    np.testing.assert_array_equal(found[...], block)
    assert (found.chunks, found.shards or ()) == (asked.chunks or SHAPE, asked.shards)
    assert found.metadata.zarr_format == asked.version
    source = formats.open_source(f"{path}::{asked.name}" if asked.name else str(path))
    assert_same(reading.read(source, Hyperslab.full(SHAPE)), block)
    assert source.dims == ("time", "y", "x")
    np.testing.assert_array_equal(source.header.affine, AFFINE)
    assert [codec.name for codec in source.codecs if codec.name != "sharding_indexed"] == (
        [] if asked.compression == "none" else [asked.compression]
    )
    for part in (Hyperslab((3, 1, 2), (9, 12, 5)), Hyperslab.full(SHAPE)):
        assert_same(read_back(path, part), block[part.slices()])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", [*TYPES, ">i2", ">f8", ">c16"])
def test_numbers_of_every_kind(dtype: str, version: int, tmp_path: Path) -> None:
    block = values(SHAPE, dtype)
    written(tmp_path / "a.zarr", block, version=version, chunks=(7, 13, 10))
    found = opened(tmp_path / "a.zarr")
    assert found[...].astype(block.dtype).tobytes() == block.tobytes()
    source = formats.open_source(str(tmp_path / "a.zarr"))
    assert source.stored == block.dtype, "byte order included"
    assert source.scaling is None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["heat", "group/heat"])
def test_xarray_opens_what_has_a_name(name: str, version: int, tmp_path: Path) -> None:
    block = np.arange(8060, dtype="i2").reshape(SHAPE)
    scaling = Scaling(0.5, 3.0, missing=(np.int16(7),))
    written(tmp_path / "a.zarr", block, PLACE, scaling, version=version, name=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # there are no consolidated metadata
        found = xarray.open_zarr(
            tmp_path / "a.zarr", group=name.rpartition("/")[0] or None, chunks=None
        )["heat"]
    assert found.dims == ("time", "y", "x")
    expected = np.where(block == 7, np.nan, block * 0.5 + 3.0)
    np.testing.assert_array_equal(found.values, expected)
    kept = {
        "units": "K",
        "long_name": "heat",
        "list": [0, 1, 2],
        "bytes": "text",
        "number": 0.5,
        "affine": np.ravel(AFFINE).tolist(),
        "affine_dims": "time y x",
        "affine_shape": list(SHAPE),
    }
    assert found.attrs == kept
    source = formats.open_source(f"{tmp_path / 'a.zarr'}::{name}")
    assert source.scaling == scaling
    np.testing.assert_array_equal(reading.read(source, Hyperslab.full(SHAPE)), expected)


def test_zeros_of_a_version_2_array_are_zeros_to_xarray(tmp_path: Path) -> None:
    written(tmp_path / "a.zarr", np.zeros(SHAPE, "u1"), version=2, name="v")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = xarray.open_zarr(tmp_path / "a.zarr", chunks=None)["v"]
    assert found.dtype == np.uint8
    assert not found.values.any()


WRITERS = """
import multiprocessing, pickle, sys
from tests.formats.test_zarr_sink import write_in_a_process
method, given = pickle.load(sys.stdin.buffer)
with multiprocessing.get_context(method).Pool(len(given)) as pool:
    print(sum(pool.map(write_in_a_process, given, chunksize=1)[:3]))
"""
"""Processes that write at a time. They are of an interpreter of its own: one that is forked in the
middle of what other tests have left may wait for ever.
"""


def write_in_a_process(given: tuple[ArraySink, str, list[Hyperslab], Array]) -> int:
    sink, path, regions, block = given
    return sum(zarr_format.write_region(sink, path, part, block[part.slices()]) for part in regions)


@pytest.mark.parametrize("method", few(["fork"], ["fork", "spawn"], "processes write at a time"))
def test_many_processes_write_at_a_time_also_the_same(method: str, tmp_path: Path) -> None:
    block, path = values((40, 30, 30), "i4"), str(tmp_path / "a.zarr")
    encoding = Encoding(chunks=(5, 5, 5), shards=(10, 10, 10))
    sink = zarr_format.sink(path, block.shape, block.dtype, PLACE, None, encoding)
    zarr_format.create(sink, path)
    regions = list(parts(sink))
    shares = [regions[::3], regions[1::3], regions[2::3], regions[::2]]
    told = pickle.dumps((method, [(sink, path, share, block) for share in shares]))
    words = [sys.executable, "-c", WRITERS]
    done = subprocess.run(words, input=told, stdout=subprocess.PIPE, check=True, timeout=100)
    np.testing.assert_array_equal(opened(tmp_path / "a.zarr")[...], block)
    names = [place.name for place in (tmp_path / "a.zarr").rglob("*") if place.is_file()]
    assert len(names) == 1 + 4 * 3 * 3
    assert not [name for name in names if name.endswith(".part")]
    assert int(done.stdout) == sum(
        place.stat().st_size for place in (tmp_path / "a.zarr" / "c").rglob("*") if place.is_file()
    )


@pytest.mark.parametrize("shards", [(), (10, 13, 31)])
def test_a_region_is_written_again_over_anything(shards: tuple[int, ...], tmp_path: Path) -> None:
    path, block = tmp_path / "a.zarr", values(SHAPE)
    sink = written(path, block, chunks=(5, 13, 31), shards=shards)
    chunk, part = path / "c/0/0/0", next(parts(sink))
    for damage in (b"", b"no chunk", chunk.read_bytes()[:-7]):
        chunk.write_bytes(damage)
        with pytest.raises(FormatError):
            read_back(path, part)
        zarr_format.write_region(sink, str(path), part, block[part.slices()])
        np.testing.assert_array_equal(read_back(path, part), block[part.slices()])
    zeros = np.zeros(part.count, block.dtype)
    assert zarr_format.write_region(sink, str(path), part, zeros), (
        "also values that are the fill value"
    )
    assert chunk.stat().st_size
    np.testing.assert_array_equal(opened(path)[part.slices()], zeros)
    chunk.unlink()
    assert not read_back(path, part).any()


def test_writing_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = zarr_format.sink(
        str(tmp_path / "a"), SHAPE, np.dtype("i2"), PLACE, None, Encoding(chunks=(5, 13, 31))
    )
    part = next(parts(sink))
    zarr_format.write_region(sink, str(tmp_path / "a"), part, np.ones(part.count, "i2"))
    assert not (tmp_path / "a" / "zarr.json").exists(), (
        "the documents are not needed, so they are not looked at"
    )
    zarr_format.create(sink, str(tmp_path / "a"))
    assert opened(tmp_path / "a")[part.slices()].all()


def test_a_failed_write_leaves_the_chunk_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, block = tmp_path / "a.zarr", values(SHAPE)
    sink = written(path, block, chunks=(5, 13, 31))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            zarr_format.write_region(
                sink, str(path), next(parts(sink)), np.zeros((10, 13, 31), "i2")
            )
    assert {place.name for place in path.rglob("*") if place.is_file()} == {"zarr.json", "0"}
    np.testing.assert_array_equal(opened(path)[...], block)


def test_blocks_of_any_layout(tmp_path: Path) -> None:
    block = values(SHAPE)
    for number, other in enumerate(
        (np.asfortranarray(block), block[::-1][::-1], block.astype(">i2"))
    ):
        written(tmp_path / f"{number}.zarr", other.astype(other.dtype, order="K"), chunks=(5, 4, 8))
        np.testing.assert_array_equal(opened(tmp_path / f"{number}.zarr")[...], block)
    sink = zarr_format.sink(str(tmp_path / "turned"), SHAPE, np.dtype(">i2"), PLACE)
    zarr_format.create(sink, str(tmp_path / "turned"))
    zarr_format.write_region(sink, str(tmp_path / "turned"), Hyperslab.full(SHAPE), block)
    np.testing.assert_array_equal(opened(tmp_path / "turned")[...], block)


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0), (1,)])
def test_arrays_of_few_elements(shape: tuple[int, ...], tmp_path: Path) -> None:
    block = np.full(shape, 3, "f4")
    sink = zarr_format.sink(str(tmp_path / "a"), shape, block.dtype, Header())
    zarr_format.create(sink, str(tmp_path / "a"))
    zarr_format.write_region(sink, str(tmp_path / "a"), Hyperslab.full(shape), block)
    np.testing.assert_array_equal(opened(tmp_path / "a")[...], block)
    assert opened(tmp_path / "a").shape == shape
    np.testing.assert_array_equal(read_back(tmp_path / "a", Hyperslab.full(shape)), block)


@given(
    shape=st.lists(st.integers(1, 5000), min_size=1, max_size=5).map(tuple),
    dtype=st.sampled_from(["u1", "i2", "f4", "c16"]),
)
@settings(deadline=None, max_examples=examples(200))
def test_chunks_that_are_chosen_are_even(shape: tuple[int, ...], dtype: str) -> None:
    sink = zarr_format.sink("/nowhere/a.zarr", shape, np.dtype(dtype), Header())
    nbytes = int(np.prod(sink.unit)) * np.dtype(dtype).itemsize
    assert nbytes <= 2**20
    assert all(1 <= chunk <= extent for chunk, extent in zip(sink.unit, shape, strict=True))
    if nbytes < 2**18:
        assert sink.unit == shape
    cut = [chunk for chunk, extent in zip(sink.unit, shape, strict=True) if chunk < extent]
    assert not cut or max(sink.unit) <= 2 * min(cut), "the longest axes are cut"
    assert sink.encoding.chunks == sink.unit
    assert (sink.encoding.version, sink.encoding.compression, sink.encoding.level) == (3, "zstd", 1)


def test_chunks_that_are_chosen_divide_a_shard() -> None:
    for shards in ((128, 256, 512), (125, 81, 100), (97, 1009, 101)):
        sink = zarr_format.sink(
            "/nowhere/a", (1000, 2000, 500), np.dtype("f8"), Header(), None, Encoding(shards=shards)
        )
        assert sink.unit == shards
        assert not any(
            shard % chunk for shard, chunk in zip(shards, sink.encoding.chunks, strict=True)
        )
        assert np.prod(sink.encoding.chunks) * 8 <= 2**20


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"version": 4}, "versions 2 and 3"),
        ({"version": 2, "shards": (5, 13, 31)}, "from version 3 on"),
        ({"compression": "lzf"}, "one of zstd, gzip, blosc, none"),
        ({"compression": "gzip", "level": 11}, "the level of gzip is 0 to 9"),
        ({"compression": "none", "level": 1}, "the level of none is 0 to 0"),
        ({"chunks": (5, 5)}, r"chunks of \(5, 5\) do not fit"),
        ({"chunks": (5, 5, 5), "shards": (10, 10, 12)}, "are not multiples"),
        ({"name": "../a"}, "cannot name a Zarr array"),
        ({"name": "a//b"}, "cannot name a Zarr array"),
        ({"name": "__a"}, "cannot name a Zarr array"),
        ({"virtual": True}, "no virtual datasets"),
    ],
)
def test_encodings_that_zarr_has_not(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        zarr_format.sink(
            "/nowhere/a.zarr", SHAPE, np.dtype("i2"), Header(), None, Encoding(**asked)
        )
    assert str(raised.value).startswith("/nowhere/a.zarr: ")


def test_what_zarr_cannot_hold_is_refused() -> None:
    for dtype in ("M8[s]", "S3", "U2", "O", [("a", "i2")], "g"):
        with pytest.raises(UsageError, match="Zarr cannot hold"):
            zarr_format.sink("/nowhere/a.zarr", (3,), np.dtype(dtype), Header())
    with pytest.raises(UsageError, match="up to 32 axes, not 33"):
        zarr_format.sink("/nowhere/a.zarr", (1,) * 33, np.dtype("i2"), Header())
    with pytest.raises(UsageError, match="--values real"):
        zarr_format.sink("/nowhere/a.zarr", (3,), np.dtype("i2"), Header(), Scaling(clip=(0, 1)))
    with pytest.raises(UsageError, match="the affine holds NaN"):
        zarr_format.sink("/nowhere/a.zarr", (3,), np.dtype("i2"), Header(np.full((4, 4), np.nan)))


def test_regions_that_no_writer_owns_are_refused(tmp_path: Path) -> None:
    sink = zarr_format.sink(
        str(tmp_path), SHAPE, np.dtype("i2"), Header(), None, Encoding(chunks=(5, 4, 8))
    )
    for slab, why in (
        (Hyperslab((1, 0, 0), (4, 13, 31)), "cuts through chunks"),
        (Hyperslab((0, 0, 0), (5, 4, 9)), "cuts through chunks"),
        (Hyperslab((0, 0, 0), (5, 4, 4), (1, 1, 2)), "cuts through chunks"),
        (Hyperslab((20, 0, 0), (5, 13, 31)), "reaches beyond"),
    ):
        with pytest.raises(UsageError, match=why):
            writing.write_region(sink, str(tmp_path), slab, np.zeros(slab.count, "i2"))
    for block in (np.zeros((5, 4, 7), "i2"), np.zeros((5, 4, 8), "i4")):
        with pytest.raises(BlockError, match="the block is"):
            writing.write_region(sink, str(tmp_path), Hyperslab((0, 0, 0), (5, 4, 8)), block)
    assert not any(tmp_path.iterdir())


def test_zarr_checks_what_zstd_has_packed(tmp_path: Path) -> None:
    written(tmp_path / "a.zarr", np.arange(8060, dtype="f8").reshape(SHAPE), chunks=SHAPE)
    chunk = tmp_path / "a.zarr" / "c/0/0/0"
    raw = chunk.read_bytes()
    for place in range(20, len(raw), 97):
        chunk.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        with pytest.raises(FormatError):
            read_back(tmp_path / "a.zarr", Hyperslab.full(SHAPE))


def test_documents_are_strict_json(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    for version in (2, 3):
        written(tmp_path / str(version), values(SHAPE, "c8"), version=version, name="a/b")
        documents = [
            *(tmp_path / str(version)).rglob("*.json"),
            *(tmp_path / str(version)).rglob(".z*"),
        ]
        assert len(documents) >= 3, "of two groups, at least, and of the array"
        for place in documents:
            json.loads(place.read_text(), parse_constant=refuse)
