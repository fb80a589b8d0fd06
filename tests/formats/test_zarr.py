"""Zarr: the conformance suite against zarr-python and xarray, what a read opens, and where it may
take place.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import hyperslab
from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks import gathering, reading
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats.zarr import store as zarr_store
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, traced_memory
from tests.formats.zarr_made import edit, make, named, values
from tests.formats.zarr_rows import by_xarray, by_zarr
from tests.repetitions import few
from tests.system.end_to_end.command import call, succeed

LARGE = (70, 60, 50)
STORES: dict[str, Callable[[Path], Any]] = {
    "version-2": partial(make, version=2, shape=LARGE, chunks=(16, 16, 16), dtype=">f4", order="F"),
    "version-3": partial(
        make, shape=LARGE, chunks=(16, 60, 7), dtype="u2", parts=(np.s_[5:], np.s_[:, 7:9])
    ),
    "shards": partial(
        make, shape=LARGE, chunks=(8, 8, 8), shards=(32, 32, 32), dtype="i4", fill_value=9
    ),
    "turned": partial(
        make, shape=LARGE, chunks=(9, 9, 9), filters=zarr.codecs.TransposeCodec(order=(2, 0, 1))
    ),
    "large-chunks": partial(make, shape=(150, 200, 100), chunks=(150, 200, 50), dtype="f4"),
    "xarray-2": partial(
        named, name="v", version=2, dtype="i2", said={"_FillValue": 5, "scale_factor": 0.5}
    ),
    "xarray-3": partial(
        named, name="v", version=3, dtype="f4", said={"_FillValue": 5.0, "add_offset": -1.5}
    ),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("stores")

    def store(name: str) -> Path:
        if not (path := folder / f"{name}.zarr").exists():
            STORES[name](path)
        return path

    return store


@lru_cache(maxsize=32)
def whole(url: str, kind: Values) -> Array:
    return by_xarray(url, kind) if "xarray" in url else by_zarr(url, kind)


class TestZarr(FormatTests):
    @pytest.fixture(params=STORES)
    def path(self, request: pytest.FixtureRequest, stores: Callable[[str], Path]) -> Path:
        return stores(request.param)

    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        return np.asarray(whole(url, values)[slab.slices()])

    def test_a_changed_file_is_noticed(
        self, path: Path, whole_urls: list[str], tmp_path: Path
    ) -> None:
        copy = shutil.copytree(path, tmp_path / path.name)
        source = formats.open_source(str(copy))
        assert source.version == formats.open_source(str(path)).version, (
            "an untouched copy has the same version"
        )
        document, corner = Path(source.watched), Hyperslab((0,) * source.ndim, (2,) * source.ndim)
        os.utime(document, ns=(source.mtime_ns, source.mtime_ns + 10**9))
        self._is_refused(source, "written to")
        os.utime(document, ns=(source.mtime_ns, source.mtime_ns))
        reading.read(source, corner, values="stored")
        with document.open("ab") as file:
            file.write(b"\n")
        self._is_refused(source, "bytes when")
        shutil.rmtree(copy)
        self._is_refused(source, "no longer there")
        copy.touch()
        self._is_refused(source, "no longer there")


OPENED = """
import os, pickle, sys
from hyperslab.blocks import reading
from hyperslab.formats.zarr import store
from hyperslab.arrays.slab import Hyperslab
source, slab = pickle.loads(sys.stdin.buffer.read())
watch = lambda event, args: event in ("open", "os.scandir", "os.listdir") and print(event, args[0])
sys.addaudithook(watch)
reading.read(source, slab)
"""


LOOKED_AT = ("version-2", "version-3", "shards")
"One of every way in which chunks have names, or lie in a file."


@pytest.mark.parametrize("name", few(LOOKED_AT, STORES, "a task opens what it reads"))
def test_a_task_opens_chunk_files_and_nothing_else(
    name: str, stores: Callable[[str], Path]
) -> None:
    source = formats.open_source(str(stores(name)))
    slab = Hyperslab((0,) * source.ndim, tuple(min(17, n) for n in source.shape))
    given = pickle.dumps((source, slab))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OPENED], input=given, capture_output=True, check=True
    )
    lines = [
        line.split(" ", 1)
        for line in done.stdout.decode().splitlines()
        if str(stores(name)) in line
    ]
    assert {event for event, _ in lines} == {"open"}
    files = [os.path.relpath(path, os.path.join(source.url, source.name)) for _, path in lines]
    assert all(
        path.removeprefix("c/").replace("/", "").replace(".", "").isdigit() for path in files
    ), files
    if name != "shards":  # whose index is read before its chunks
        grid = [-(-n // chunk) for n, chunk in zip(slab.count, source.own_chunk_shape, strict=True)]
        assert len(files) == len(set(files)) == int(np.prod(grid))


def test_bytes_are_those_of_the_chunks_that_are_touched(tmp_path: Path) -> None:
    source = formats.open_source(str(make(tmp_path / "a.zarr", chunks=(2, 3, 7), compressors=None)))
    assert source.nbytes_stored == 3 * 2 * 2 * 3 * 7 * 2
    assert reading.read_nbytes(source, Hyperslab((1, 1, 1), (2, 1, 1))) == 2 * 2 * 3 * 7 * 2
    assert reading.read_nbytes(source, Hyperslab.full(source.shape)) == source.nbytes_stored
    many = make(tmp_path / "b.zarr", shape=(40, 40), chunks=(2, 2), compressors=None)
    assert formats.open_source(str(many)).nbytes_stored == 40 * 40 * 2, (
        "100 of 400 files say it for all"
    )


@pytest.mark.parametrize("threads", [1, 4])
def test_where_many_large_chunks_meet_few_are_held(threads: int, tmp_path: Path) -> None:
    shape = (320, 320, 320)
    path = make(
        tmp_path / "a.zarr", shape=shape, chunks=(160, 160, 160), dtype="u1", compressors=None
    )
    source, slab = formats.open_source(str(path)), Hyperslab((155, 155, 155), (10, 10, 10))
    with traced_memory() as peak:
        block = reading.read(source, slab, threads=threads)
    assert_same(block, whole(str(path), "stored")[slab.slices()])
    assert peak[0] <= reading.read_peak(source, slab, threads=threads) < source.nbytes


def test_other_chunks_make_another_version(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zarr")
    before = formats.open_source(str(path)).version
    zarr.open_array(path, mode="r+")[...] = 1
    assert formats.open_source(str(path)).version != before


@pytest.fixture
def volume(stores: Callable[[str], Path]) -> ArraySource:
    return formats.open_source(str(stores("shards")))


def regions() -> Iterator[Hyperslab]:
    for first in range(0, 60, 5):
        yield Hyperslab((first, first // 2, 3), (7, 11, 40), (1, 1, 1))


def read_all(source: ArraySource) -> list[Array]:
    return [reading.read(source, slab) for slab in regions()]


def test_threads_read_one_array(volume: ArraySource) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read_all, [volume] * 8))
    for blocks in found:
        for slab, block in zip(regions(), blocks, strict=True):
            assert_same(block, whole(volume.url, "stored")[slab.slices()])


@pytest.mark.parametrize("name", ["version-2", "turned", "large-chunks"])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_one_read_may_decode_in_several_threads(
    name: str, threads: int, stores: Callable[[str], Path]
) -> None:
    source = formats.open_source(str(stores(name)))
    slab = Hyperslab(
        tuple(n - 1 for n in source.shape),
        tuple((n + 1) // 2 for n in source.shape),
        (-2,) * source.ndim,
    )
    assert_same(
        reading.read(source, slab, threads=threads), whole(source.url, "stored")[slab.slices()]
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forked_processes_read_after_their_parent_has(volume: ArraySource) -> None:
    expected = whole(volume.url, "stored")  # zarr-python's own thread and loop are in use
    read_all(volume)
    with ThreadPoolExecutor(2) as busy:
        running = [busy.submit(read_all, volume) for _ in range(2)]
        with multiprocessing.get_context("fork").Pool(3) as pool:
            found = pool.map_async(read_all, [volume] * 3).get(timeout=200)
        for blocks in [*found, *(future.result() for future in running)]:
            for slab, block in zip(regions(), blocks, strict=True):
                assert_same(block, expected[slab.slices()])


def test_a_view_is_read_where_an_event_loop_runs(volume: ArraySource) -> None:
    async def in_a_notebook() -> Array:
        return np.asarray(hyperslab.open(volume.url)[::3])

    assert_same(asyncio.run(in_a_notebook()), whole(volume.url, "stored")[::3])


def test_the_configuration_of_zarr_is_not_touched(stores: Callable[[str], Path]) -> None:
    pytest.importorskip("zarrs")
    expected = {name: whole(str(stores(name)), "stored") for name in ("shards", "version-2")}
    with zarr.config.set(
        {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "async.concurrency": 1}
    ):
        before = json.dumps(zarr.config.config)
        zarr_store._reading.cache_clear()
        for name, found in expected.items():
            assert_same(hyperslab.open(str(stores(name)))[3:20], found[3:20])
        assert before == json.dumps(zarr.config.config)


RUN_BY = ["serial", "threads", "processes"]


@pytest.mark.parametrize("engine", few(RUN_BY[1:2], RUN_BY, "runs read stores on every engine"))
def test_runs_read_stores(volume: ArraySource, engine: Any, tmp_path: Path) -> None:
    fold = hyperslab.Fold(lift=lambda block: int(block.sum()), merge=lambda a, b: a + b)
    pipeline = hyperslab.Pipeline(volume.url).reduce(fold)
    workers: Any = {} if engine == "serial" else {"workers": 2}
    result = hyperslab.run(
        pipeline, engine=engine, out=tmp_path, rule=hyperslab.Rule("blocks", (5,)), **workers
    )
    assert result.value == whole(volume.url, "stored").sum()


def test_blocks_are_cut_where_chunks_end(volume: ArraySource, tmp_path: Path) -> None:
    out = succeed(
        "run", "stats", volume.url, "-o", tmp_path / "out", "--partition", "chunks", "--dry-run"
    )
    assert f"{9 * 8 * 7} blocks, the largest 8x8x8" in out


def test_a_folder_of_stores_is_a_folder_of_sources(tmp_path: Path) -> None:
    for number in (10, 2):
        make(tmp_path / f"b_{number}.zarr", shape=(number, 1, 2), chunks=(2, 1, 1))
    make(tmp_path / ".hidden.zarr")
    make(tmp_path / "group.zarr", name="a/v")
    (tmp_path / "else").mkdir()
    found = gathering.gather(str(tmp_path))
    assert [os.path.basename(source.url) for source in found.sources] == [
        "b_2.zarr",
        "b_10.zarr",
        "group.zarr",
    ]
    assert [whole.name for whole in found.wholes] == ["b_2", "b_10", "group_a-v"]
    assert gathering.expand(f"{tmp_path}/group.zarr::a/v") == [f"{tmp_path}/group.zarr::a/v"]
    (tmp_path / "b_2.zarr" / "zarr.json").unlink()
    broken = gathering.gather(str(tmp_path)).sources[0]
    assert "is named like a Zarr store but holds no zarr.json, .zarray or .zgroup" in broken.broken


def test_what_a_store_holds(tmp_path: Path) -> None:
    path = tmp_path / "store.zarr"
    for name in ("x", "a/b/v"):
        make(path, name=name, shape=(5,), chunks=(2,), dimension_names=("x",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(store=path, name="words", shape=(2,), dtype=str)
    (path / "a" / "circle").symlink_to(path)
    assert [info.name for info in formats.arrays(str(path))] == ["a/b/v", "words", "x"]
    assert {info.dtype for info in formats.arrays(str(path))} == {"int16", "string"}
    assert formats.open_source(str(path)).name == "a/b/v", "the others are a coordinate and text"
    assert formats.open_source(f"{path}::/a/b/v/").name == "a/b/v"
    assert "a/b/v" in succeed("info", path)
    assert "zarr" in succeed("info", f"{path}::x")
    for name, why in (("b", "holds no 'b'"), ("a", "is a group"), ("../x", "leaves the store")):
        with pytest.raises(UsageError, match=why):
            formats.open_source(f"{path}::{name}")


def test_an_attribute_places_the_array(tmp_path: Path) -> None:
    affine = [[2, 0, 0, -1], [0, 3, 0, 5], [0, 0, 4.5, 7], [0, 0, 0, 1]]
    said = {"affine": affine, "units": "K", "long": [0] * 20_000}
    source = formats.open_source(str(make(tmp_path / "a.zarr", said=said)))
    np.testing.assert_array_equal(source.header.affine, affine)
    assert source.header.attributes == {
        "affine": affine,
        "units": "K",
        "long": "list of 60000 characters",
    }
    for wrong in ([[1, 2], [3]], "text", [[1] * 4] * 3, None):
        edit(tmp_path / "a.zarr", attributes={"affine": wrong})
        np.testing.assert_array_equal(
            formats.open_source(str(tmp_path / "a.zarr")).header.affine, np.eye(4)
        )


@pytest.mark.parametrize(
    "absent", ["sys.modules['zarr'] = None", "import zarr; zarr.__version__ = '3.2.0'"]
)
def test_without_a_zarr_that_is_known_a_sentence_says_what_to_install(
    tmp_path: Path, absent: str
) -> None:
    make(tmp_path / "a.zarr")
    code = (
        f"import sys; {absent}\nimport hyperslab\nfrom hyperslab.errors import MissingExtra\n"
        "try:\n    hyperslab.open(sys.argv[1])\nexcept MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.zarr"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pip install 'hyperslab[zarr]'" in done.stdout
    assert "zarr 3.1.3 or newer, below 3.2" in done.stdout


def test_bad_stores_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(FormatError, match=r"is named like a Zarr store but holds no zarr\.json"):
        formats.open_source(str(tmp_path / "empty.zarr"))
    done = call("run", "increment", tmp_path / "empty.zarr", "-o", tmp_path / "out")
    assert done.code != 0
    assert "named like a Zarr store" in done.err


def test_values_differ_between_the_stores() -> None:
    assert len({values((3,), dtype).tobytes() for dtype in ("i2", "u4", "f8")}) == 3, (
        "so that comparing them can fail"
    )
