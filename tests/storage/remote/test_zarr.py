"""Zarr stores in object stores and on web servers hold what zarr-python reads from a copy on this
machine.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab
from hyperslab import Encoding, Pipeline, formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks import reading
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats.zarr import objects
from hyperslab.storage.location import Remote
from hyperslab.testing.formats import assert_same, slabs, traced_memory
from tests.examples import examples
from tests.formats import zarr_rows
from tests.formats.matrix import Row
from tests.formats.zarr_made import make
from tests.repetitions import each_value, few, repeats
from tests.storage.remote.conftest import BUCKET, S3
from tests.storage.remote.server import Server
from tests.storage.remote.zarr_stores import KINDS, by_zarr, put
from tests.system.end_to_end.command import call, succeed
from tests.system.faults.command import program as command

OF_THE_SERVER = 8192
"Bytes that the threads of the server, in this process, hold meanwhile."
ROWS = [
    row
    for row in zarr_rows.rows()
    if row.group in ("Layout", "Shards", "Fill values", "Shapes", "Groups")
]


@pytest.fixture(params=["s3", "web"])
def place(request: pytest.FixtureRequest) -> S3 | Server:
    store: S3 | Server = request.getfixturevalue(request.param)
    return store


PLAYED = [row for row in ROWS if row.group in ("Layout", "Shards", "Groups")]
"What differs in which objects there are, and where in them values lie."


@pytest.mark.parametrize(
    "row",
    few(PLAYED, ROWS, "a store elsewhere is read as on this machine"),
    ids=lambda row: f"{row.group}: {row.name}",
)
def test_stores_of_every_kind(row: Row, web: Server, tmp_path: Path) -> None:
    """Values, real ones too, axes and fill value are those of the same store on this machine."""
    path = tmp_path / f"made{row.suffix or '.zarr'}"
    row.make(path)
    put(web, tmp_path, "rows")
    for url in zarr_rows.ZARR.urls(row, path):
        view = hyperslab.open(url.replace(str(tmp_path), f"{web.url}/rows"))
        local = hyperslab.open(url)
        assert isinstance(view.source.url, Remote)
        assert (view.source.dims, view.source.axes, view.source.chunk_shape) == (
            local.source.dims,
            local.source.axes,
            local.source.chunk_shape,
        )
        assert_same(np.asarray(view.source.fill), np.asarray(local.source.fill))
        assert_same(view[...], local[...])
        assert_same(
            hyperslab.ArrayView(view.source, "stored")[...], zarr_rows.by_zarr(url, "stored")
        )


@each_value("a store elsewhere is read as on this machine")
@pytest.mark.parametrize("kind", KINDS)
def test_whole_arrays_and_regions(kind: str, place: S3 | Server, tmp_path: Path) -> None:
    path = KINDS[kind](tmp_path / "a")
    url, options = put(place, path, f"whole {kind}.zarr")
    view = hyperslab.open(url, storage_options=options)
    expected = by_zarr(path)
    assert_same(view[...], expected)
    assert_same(
        np.ascontiguousarray(view[20:3:-3, 11, 5:7]),
        np.ascontiguousarray(expected[20:3:-3, 11, 5:7]),
    )
    assert_same(np.asarray(hyperslab.to_dask(url, storage_options=options)), expected)


@cache
def _kept(kind: str, folder: Path, server: Server) -> tuple[ArraySource, Array]:
    path = KINDS[kind](folder / f"kept-{kind}")
    url, _ = put(server, path, f"kept/{kind}.zarr")
    return formats.open_source(url), by_zarr(path)


@given(data=st.data())
@settings(max_examples=examples(40))
def test_regions(data: st.DataObject, folder: Path, lasting_web: Server) -> None:
    """Any region, by any number of threads, in the memory that was said."""
    source, expected = _kept(data.draw(st.sampled_from(sorted(KINDS))), folder, lasting_web)
    slab, threads = data.draw(slabs(source.shape)), data.draw(st.integers(1, 3))
    with traced_memory() as peak:
        block = reading.read(source, slab, threads=threads)
    low, high = slab.bounds
    turned = tuple(slice(None, None, -1 if s < 0 else 1) for s in slab.stride)
    forward = tuple(slice(a, z, abs(s)) for a, z, s in zip(low, high, slab.stride, strict=True))
    assert_same(
        block, expected[forward][turned] if slab.size else np.empty(slab.count, expected.dtype)
    )
    assert peak[0] <= reading.read_peak(source, slab, threads=threads) + OF_THE_SERVER


SEVERAL = [row for row in ROWS if len(row.arrays) > 1]
LISTED = [SEVERAL[0], SEVERAL[-1]]
"Of either version of Zarr, with and without consolidated metadata."


@pytest.mark.parametrize(
    "row", few(LISTED, SEVERAL, "a store elsewhere lists its arrays"), ids=lambda row: row.name
)
def test_what_a_store_holds(row: Row, s3: S3, web: Server, tmp_path: Path) -> None:
    """By its consolidated metadata, else by listing, which a web server does not do."""
    row.make(tmp_path / "a.zarr")
    name = row.name.replace(" ", "-")
    url, options = put(s3, tmp_path / "a.zarr", f"{name}.zarr")
    assert formats.arrays(url, options) == formats.arrays(str(tmp_path / "a.zarr"))
    with pytest.raises(
        UsageError, match=r"holds 3 arrays; choose one as '.*::NAME' from: a/b/v, a/v, v"
    ):
        hyperslab.open(url, storage_options=options)
    for named in (f"{url}::a/v", f"{url}::/a/v", f"{url}/a/v", f"{url}/::a/v"):
        assert_same(
            hyperslab.open(named, storage_options=options)[...], by_zarr(tmp_path / "a.zarr", "a/v")
        )
    page, _ = put(web, tmp_path / "a.zarr", "a.zarr")
    if "consolidated" in name:
        assert formats.arrays(page) == formats.arrays(str(tmp_path / "a.zarr"))
    else:
        with pytest.raises(
            UsageError, match="a web server does not list what it holds: name an array"
        ):
            formats.arrays(page)


def test_names_without_suffix(place: S3 | Server, tmp_path: Path) -> None:
    """A place where no object is, but documents below it."""
    make(tmp_path / "a", name="in/b c")
    url, options = put(place, tmp_path / "a", "plain/study")
    expected = by_zarr(tmp_path / "a", "in/b c")
    assert_same(hyperslab.open(f"{url}::in/b c", storage_options=options)[...], expected)
    assert_same(
        hyperslab.open(
            f"{url}/in/b%20c" if url[:4] == "http" else f"{url}/in/b c", storage_options=options
        )[...],
        expected,
    )


def test_what_is_not_there(place: S3 | Server, tmp_path: Path) -> None:
    url, options = put(place, make(tmp_path / "a", name="b"), "some.zarr")
    for name, why in (
        ("none.zarr", "there is no such Zarr store, which has zarr.json"),
        ("none", "there is no such object"),
        ("none.zarr/x", "there is no such Zarr store"),
        ("some.zarr::c", "holds no 'c'"),
        ("some.zarr::../x", "leaves the store"),
    ):
        with pytest.raises((FormatError, UsageError), match=why):
            hyperslab.open(url.replace("some.zarr", name), storage_options=options)


@pytest.mark.parametrize("is_sharded", few([True], [False, True], "a volume goes there"))
def test_a_volume_goes_there_and_is_the_same(is_sharded: bool, s3: S3, tmp_path: Path) -> None:
    shards = (20, 24, 20) if is_sharded else ()
    values = np.random.default_rng(5).integers(0, 900, (30, 24, 20)).astype("i2")
    image, url = str(tmp_path / "a.nii"), f"s3://{BUCKET}/made{len(shards)}.zarr"
    nib.save(nib.Nifti1Image(values, np.diag([2.0, 2, 3, 1])), image)  # type: ignore[no-untyped-call]
    options = [f"--storage-option={name}={value}" for name, value in s3.options.items()]
    settings = {"engine": "threads", "workers": 1, "report": False, "storage_options": s3.options}
    hyperslab.convert(image, url, encoding=Encoding(chunks=(10, 12, 20), shards=shards), **settings)  # type: ignore[arg-type]
    assert hyperslab.diff(image, url, storage_options=s3.options).same
    assert "range requests" not in succeed("info", url, *options)
    hyperslab.convert(url, back := str(tmp_path / "back.nii"), **settings)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.asarray(nib.load(back).dataobj), values)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="is the source itself, or holds it"):
        hyperslab.convert(url, url, overwrite=True, **settings)  # type: ignore[arg-type]
    s3.fs.rm(f"{BUCKET}/made{len(shards)}.zarr/data/c/0/0/0")
    assert call("diff", image, url, *options).code == 1


@repeats("workers read what is elsewhere: test_processes.py")
def test_worker_processes_read_it(s3: S3, tmp_path: Path) -> None:
    path = KINDS["sharded"](tmp_path / "a")
    url, options = put(s3, path, "workers.zarr")
    pipeline = Pipeline(url, storage_options=options).reduce("hyperslab.workloads.stats:FOLD")
    result = hyperslab.run(
        pipeline,
        engine="processes",
        workers=2,
        out=tmp_path / "out",
        rule=hyperslab.Rule("blocks", (3,)),
    )
    assert result.ok
    assert json.loads((tmp_path / "out" / "stats.json").read_text())["sum"] == by_zarr(path).sum()
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    done = command(
        *("run", "increment", url, "-o", tmp_path / "more", "--engine", "threads"),
        *("--keep", "volume", *given),
    )
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "more").glob("workers*")
    np.testing.assert_array_equal(hyperslab.open(str(made))[...], by_zarr(path) + 1)


def test_any_store_of_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store whose answers do not say what they are of, chunks are looked at and then read."""
    import fsspec

    memory: Any = fsspec.filesystem("memory", skip_instance_cache=True)
    monkeypatch.setattr(objects, "LARGEST_NBYTES", 512)
    try:
        for kind in ("v2", "raw", "sharded", "partly"):
            path = KINDS[kind](tmp_path / kind)
            memory.put(str(path), f"/shelf/{kind}.zarr", recursive=True)
            view = hyperslab.open(f"memory://shelf/{kind}.zarr")
            assert_same(view[...], by_zarr(path))
            assert_same(view[1:3, 4:, :5], by_zarr(path)[1:3, 4:, :5])
    finally:
        memory.rm("/shelf", recursive=True)
