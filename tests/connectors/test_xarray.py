"""The engine of xarray: lazy, open to threads and other processes, and chosen only where it is
asked for.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from xarray.backends import plugins

from hyperslab import formats, native
from hyperslab.blocks import reading
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import FormatError, SourceChanged, UsageError
from tests.connectors.calls import noting
from tests.connectors.opened import RAW, assert_same, ours, theirs
from tests.examples import examples
from tests.formats.files import DATA, ROOT
from tests.formats.zarr_made import make


def test_several_files_are_one_dataset(tmp_path: Path) -> None:
    for year in range(3):
        file = xarray.Dataset(
            {"v": (("time", "x"), np.full((2, 4), year))}, {"time": [2 * year, 2 * year + 1]}
        )
        file.to_netcdf(tmp_path / f"{year}.nc")
    with xarray.open_mfdataset(
        f"{tmp_path}/*.nc", engine=HyperslabBackend, combine="by_coords"
    ) as found:
        np.testing.assert_array_equal(found.v.compute().values[:, 0], [0, 0, 1, 1, 2, 2])


def indexers(extent: int) -> st.SearchStrategy[Any]:
    """Slices select something: xarray itself fails to compose an empty one of negative step with
    others.
    """
    inside = st.integers(-extent, extent - 1)
    parts = st.tuples(st.none() | inside, st.none() | inside, st.sampled_from([None, 1, 2, -1, -3]))
    slices = parts.map(lambda part: slice(*part)).filter(
        lambda part: np.arange(extent)[part].size > 0
    )
    return inside | slices | st.lists(inside, max_size=5).map(lambda part: np.array(part, int))


@pytest.fixture(scope="module")
def loaded(netcdf4: Path) -> xarray.Dataset:
    with theirs(netcdf4, **RAW) as dataset:
        return dataset.load()


@pytest.fixture(scope="module")
def lazy(netcdf4: Path) -> Iterator[xarray.Dataset]:
    with ours(netcdf4, cache=False, **RAW) as dataset:
        yield dataset


@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_any_index_selects_what_it_selects_in_memory(
    lazy: xarray.Dataset, loaded: xarray.Dataset, data: st.DataObject
) -> None:
    """Of what is chunked, what is shorter than its records, and text; twice, since the second is
    composed lazily.
    """
    for name in ("packed", "chunked", "counts", "late", "tall"):
        found, expected = lazy[name].variable, loaded[name].variable
        for step in ("first", "second"):
            where = data.draw(indices(found.sizes, step), label=name)
            found, expected = found.isel(where), expected.isel(where)
        xarray.testing.assert_identical(found, expected)


@st.composite
def indices(draw: st.DrawFn, sizes: Any, new: str) -> dict[Any, Any]:
    """What selects along some dimensions; lists each along their own, or together along a new
    one.
    """
    where = {
        dim: draw(indexers(size)) for dim, size in sizes.items() if size and draw(st.booleans())
    }
    lists = {dim: part for dim, part in where.items() if isinstance(part, np.ndarray)}
    if draw(st.booleans()):
        shortest = min((len(part) for part in lists.values()), default=0)
        where |= {dim: xarray.Variable(new, part[:shortest]) for dim, part in lists.items()}
    return where


def test_values_are_read_when_they_are_asked_for(
    netcdf4: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[Any] = []
    module = formats.module("hdf5")
    monkeypatch.setattr(module, "open", noting(described, module.open))
    with ours(netcdf4, decode_times=False) as dataset:
        first = {name for _, name in described}
        assert "/packed" not in first
        dataset.packed[0].load()
        dataset.packed[1].load()
        assert [name for _, name in described if name not in first] == ["/packed"]


def test_threads_share_a_dataset(netcdf4: Path) -> None:
    with ours(netcdf4) as dataset, theirs(netcdf4) as expected:
        values, found = expected.packed.values, []
        workers = [
            threading.Thread(target=lambda: found.append(dataset.packed.variable[...].values))
            for _ in range(8)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(found) == 8
    for each in found:
        np.testing.assert_array_equal(each, values)


def test_variables_load_at_the_same_time(netcdf4: Path) -> None:
    if not hasattr(xarray.Dataset, "load_async"):
        pytest.skip("this xarray loads nothing asynchronously")
    # In another thread, as a test of browsers may have left an event loop in this one.
    with ours(netcdf4) as dataset, theirs(netcdf4) as expected, ThreadPoolExecutor(1) as elsewhere:
        assert_same(elsewhere.submit(asyncio.run, dataset.load_async()).result(), expected)


def test_a_pickled_dataset_knows_where_the_bytes_are(
    netcdf4: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ours(netcdf4) as dataset:
        sent = pickle.dumps(dataset[["packed", "chunked", "counts"]])
    with theirs(netcdf4) as expected:
        wanted = expected[["packed", "chunked", "counts"]].load()
    monkeypatch.setattr(h5py, "File", None)
    assert_same(pickle.loads(sent), wanted)


def test_a_closed_dataset_keeps_no_file_open(netcdf4: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(netcdf4.read_bytes())

    def held() -> int:
        return sum(
            os.path.realpath(entry) == str(path) for entry in Path("/proc/self/fd").iterdir()
        )

    with ours(path, decode_times=False) as dataset:
        dataset.packed.load()
        assert held() > 0
    assert held() == 0


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    xarray.Dataset({"v": ("x", np.arange(10.0)), "w": ("x", np.arange(10.0))}).to_netcdf(path)
    with ours(path, cache=False) as dataset:
        np.testing.assert_array_equal(dataset.v.values, np.arange(10.0))
        with h5py.File(path, "r+") as file:
            file["v"][0] = 5
        with pytest.raises(SourceChanged):
            np.asarray(dataset.v[1:])
        with pytest.raises(
            SourceChanged, match=r"a\.nc: was written to after it was opened; open it again"
        ):
            np.asarray(dataset.w)
    with ours(path) as dataset:
        assert dataset.v[0] == 5


def test_what_this_process_is_writing_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(10.0)
        with ours(path) as dataset:
            np.testing.assert_array_equal(dataset.v, np.arange(10.0))


def test_dask_reads_on_one_thread_for_each_task(
    netcdf4: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(native, "all_threads", lambda: 5)
    monkeypatch.setattr(reading, "read", noting(asked, reading.read))
    with ours(netcdf4, chunks={}) as dataset:
        asked.clear()
        dataset.chunked.sum().compute(scheduler="threads")
        assert {given[4] for given in asked} == {1}
    with ours(netcdf4) as dataset:
        asked.clear()
        dataset.chunked.load()
        assert [given[4] for given in asked] == [5]


def test_what_cannot_be_read_is_left_out_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        file.create_dataset("links", (2,), h5py.ref_dtype)
        file["nothing"] = h5py.Empty("f4")
        file["lost"] = h5py.SoftLink("/nowhere")
        file["good"].attrs["to"] = file["good"].ref
    with pytest.warns(UserWarning, match="is left out") as seen:
        dataset = ours(path)
    assert list(dataset.variables) == ["good"]
    assert dataset.good.attrs == {}
    words = sorted(str(warning.message).split(f"{path}")[0] for warning in seen)
    assert words == ["links is left out: ", "lost is left out: ", "nothing is left out: "]
    with ours(path, drop_variables=["links", "nothing", "lost"]) as dataset:
        np.testing.assert_array_equal(dataset.good, np.arange(3))


def test_links_to_groups_above_come_to_an_end(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/b/v"] = np.arange(3)
        file["a/b/up"] = file["a"]
        file["again"] = file["a/b"]
    assert list(xarray.open_groups(tmp_path / "a.h5", engine=HyperslabBackend)) == [
        "/",
        "/a",
        "/a/b",
        "/again",
        "/again/up",
    ]


def test_a_variable_in_another_file_is_read_there(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["v"] = np.arange(3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = h5py.ExternalLink("other.h5", "/v")
    with ours(tmp_path / "a.h5") as dataset:
        np.testing.assert_array_equal(dataset.v, np.arange(3))


WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ("none.nc", {}, FileNotFoundError, "there is no such file"),
    ("text.nc", {}, FormatError, "its format is unknown"),
    (
        "all.nc",
        {"group": "outside"},
        OSError,
        r"holds no group '/outside'; those in '/' are: inside",
    ),
    ("all.nc", {"group": "inside/none"}, UsageError, r"those in '/inside' are: below"),
    ("all.nc", {"group": 3}, UsageError, "group must be a string, not 3"),
    ("a.zarr", {}, UsageError, "is a Zarr store, which xarray opens itself: say engine='zarr'"),
    ("a.nii", {"group": "a"}, OSError, "only HDF5 files have groups"),
    (b"CDF\x01", {}, UsageError, "opens files by their name, which a bytes is not"),
]


@pytest.mark.parametrize(("name", "options", "error", "words"), WRONG)
def test_wrong_use_gets_a_sentence(
    netcdf4: Path,
    tmp_path: Path,
    name: Any,
    options: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    (tmp_path / "text.nc").write_text("what somebody wrote")
    (tmp_path / "all.nc").symlink_to(netcdf4)
    (tmp_path / "a.nii").symlink_to(DATA / "mri" / "anatomical.nii")
    make(tmp_path / "a.zarr")
    with pytest.raises(error, match=words):
        ours(tmp_path / name if isinstance(name, str) else name, **options)


@pytest.mark.usefixtures("installed")
def test_the_engine_has_a_name(netcdf4: Path) -> None:
    with xarray.open_dataset(netcdf4, engine="hyperslab") as found, theirs(netcdf4) as expected:
        assert_same(found, expected)


@pytest.mark.usefixtures("installed")
def test_only_what_no_other_engine_opens_is_taken_unasked(netcdf4: Path, tmp_path: Path) -> None:
    path = DATA / "mri" / "icbm152_sym09a_brain_T1w.nii.gz"
    assert plugins.guess_engine(str(path)) == "hyperslab"
    with xarray.open_dataset(path) as dataset:
        assert dataset.image.dims == ("x", "y", "z")
    assert plugins.guess_engine(str(netcdf4)) == "netcdf4"
    for version in (2, 3):
        assert (
            plugins.guess_engine(str(make(tmp_path / f"{version}.zarr", version=version))) == "zarr"
        )
    engine = HyperslabBackend()
    guesses: list[tuple[Callable[[], Any], bool]] = [
        (lambda: str(netcdf4), True),
        (lambda: path, True),
        (lambda: ROOT / "pyproject.toml", False),
        (lambda: "https://somewhere/a.nc", False),
        (lambda: b"CDF\x01", False),
    ]
    assert [engine.guess_can_open(named()) for named, _ in guesses] == [
        expected for _, expected in guesses
    ]
