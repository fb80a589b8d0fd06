"""Dask arrays of arrays in files: values, chunks, what their tasks carry, and what they do not
touch.
"""

from __future__ import annotations

import importlib
import itertools
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array
import distributed
import h5py
import nibabel as nib
import numpy as np
import pytest
import xarray
import zarr

import hyperslab
from hyperslab import native
from hyperslab.arrays import Array
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.connectors import dask as connector
from hyperslab.connectors.dask import StoredArray
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import FormatError, MissingExtra, SourceChanged, UsageError
from tests.connectors.calls import noting
from tests.formats.files import DATA
from tests.formats.zarr_made import make
from tests.repetitions import each_value, repeats

SHAPE = (50, 60, 70)
UNIT = (8, 16, 32)


@pytest.fixture(scope="module")
def data() -> Array:
    return np.random.default_rng(0).integers(-(2**15), 2**15, SHAPE, dtype=np.int16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: Array) -> Path:
    folder = tmp_path_factory.mktemp("dask")
    with h5py.File(folder / "a.h5", "w") as file:
        made = file.create_dataset(
            "packed", data=data, chunks=UNIT, compression="gzip", shuffle=True
        )
        made.attrs["scale_factor"] = 0.5
        file["contiguous"] = data
        file["single"] = 3.5
        file["words"] = np.array(["a", "b"], object)
        file.create_dataset("empty", (0, 5), "f4", chunks=(1, 5), maxshape=(None, 5))
    image: Any = nib.Nifti1Image(data, np.eye(4))  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(0.5, -3)
    nib.save(image, folder / "a.nii")
    large = nib.Nifti1Image(np.tile(data, (1, 6, 3)), np.eye(4))  # type: ignore[no-untyped-call]
    nib.save(large, folder / "a.nii.gz")
    return folder


ALL = [
    "a.h5::packed",
    "a.h5::contiguous",
    "a.h5::single",
    "a.h5::words",
    "a.h5::empty",
    "a.nii",
    "a.nii.gz",
]


@each_value("every file, in chunks of every kind")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("chunks", ["auto", "100KiB", -1])
def test_values_are_those_of_the_view(folder: Path, name: str, chunks: Any) -> None:
    view = hyperslab.open(f"{folder}/{name}")
    array = hyperslab.to_dask(f"{folder}/{name}", chunks)
    assert (array.shape, array.dtype) == (view.shape, view.dtype)
    np.testing.assert_array_equal(
        array.compute(scheduler="threads", num_workers=2), np.asarray(view)
    )


def test_values_may_be_the_stored_ones(folder: Path, data: Array) -> None:
    url = f"{folder}/a.h5::packed"
    for array in (
        hyperslab.to_dask(url, values="stored"),
        hyperslab.to_dask(hyperslab.open(url, "stored")),
    ):
        assert array.dtype == np.int16
        np.testing.assert_array_equal(array.compute(scheduler="synchronous"), data)


@pytest.mark.parametrize(
    "path",
    sorted(p for p in DATA.rglob("*") if p.suffix in (".nii", ".mnc")),
    ids=lambda path: path.name,
)
def test_real_images(path: Path) -> None:
    values = np.asarray(hyperslab.open(str(path)))
    np.testing.assert_array_equal(
        hyperslab.to_dask(path, "32KiB").compute(scheduler="threads"), values
    )


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (17, ((17, 17, 16), (17, 17, 17, 9), (17, 17, 17, 17, 2))),
        ((25, -1, (30, 40)), ((25, 25), (60,), (30, 40))),
        ({0: 20}, ((20, 20, 10), (60,), (70,))),
        ((10, None, None), ((10,) * 5, (60,), (70,))),
    ],
)
def test_chunks_are_what_dask_takes(folder: Path, chunks: Any, expected: Any) -> None:
    assert hyperslab.to_dask(f"{folder}/a.h5::packed", chunks).chunks == expected


@pytest.mark.parametrize(
    "chunks", [(1, 2), "many", (-5, 1, 1), ((1, 1), -1, -1), object(), 0, -3, "0B", "-5MiB"]
)
def test_chunks_that_dask_does_not_take(folder: Path, chunks: Any) -> None:
    with pytest.raises(UsageError, match=r"chunks=.* does not fit the shape \(50, 60, 70\)"):
        hyperslab.to_dask(f"{folder}/a.h5::packed", chunks)


@pytest.mark.parametrize("size", ["8KiB", "16KiB", "60KiB", "100KiB", "1MiB", "auto"])
def test_automatic_chunks_are_whole_stored_chunks(folder: Path, size: str) -> None:
    array = hyperslab.to_dask(f"{folder}/a.h5::packed", size, "stored")
    for extents, unit in zip(array.chunks, UNIT, strict=True):
        assert all(n % unit == 0 for n in extents[:-1])
    nbytes = int(np.prod(array.chunksize)) * 2
    limit = dask.utils.parse_bytes("128MiB" if size == "auto" else size)
    assert nbytes <= max(limit, int(np.prod(UNIT)) * 2)
    assert nbytes >= min(limit, int(np.prod(SHAPE)) * 2) / 8


def test_automatic_chunks_of_an_image_are_long_runs_of_storage(folder: Path) -> None:
    with dask.config.set({"array.chunk-size": "100KiB"}):
        array = hyperslab.to_dask(folder / "a.nii", values="stored")
    assert array.chunks == ((50,), (60,), (17, 17, 17, 17, 2))
    assert hyperslab.to_dask(f"{folder}/a.h5::contiguous", "100KiB").chunks == (
        (12, 12, 12, 12, 2),
        (60,),
        (70,),
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `reading.read` is asked for."""
    calls: list[Any] = []
    monkeypatch.setattr(reading, "read", noting(calls, reading.read))
    return calls


def test_slices_make_tasks_read_less(folder: Path, data: Array, asked: list[Any]) -> None:
    array = hyperslab.to_dask(f"{folder}/a.h5::packed", UNIT, "stored")
    part = array[3:5, 20, ::7]
    np.testing.assert_array_equal(part.compute(scheduler="threads"), data[3:5, 20, ::7])
    assert sum(slab.size for _, slab, *_ in asked) == part.size
    assert float(array[40:].mean().compute(scheduler="threads")) == pytest.approx(data[40:].mean())
    assert sum(slab.size for _, slab, *_ in asked) == part.size + data[40:].size


def test_one_thread_decodes_for_each_task(
    folder: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "all_threads", lambda: 5)
    array = hyperslab.to_dask(f"{folder}/a.h5::packed", UNIT)
    array.sum().compute(scheduler="threads", num_workers=2)
    assert {given[4] for given in asked} == {1}
    asked.clear()
    array[:3].sum().compute(scheduler="synchronous")
    assert {given[4] for given in asked} == {5}


INDICES: list[Any] = [
    np.s_[3],
    np.s_[-1, ..., 5],
    np.s_[::-2, 3:40, [5, 1, 1, 69]],
    np.s_[[4, 2], 7, :],
    np.s_[2, :, [3, 9]],
    np.s_[5:5],
    np.s_[1, 2, 3],
]


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("files", [1, 3])
def test_any_index_selects_as_in_steps(folder: Path, index: Any, files: int) -> None:
    """Each part of an index along its own axis, as Dask understands it, whatever tasks it is cut
    into.
    """
    image = str(folder / "a.nii")
    array = hyperslab.to_dask([image] * files, "50KiB", axis=2)
    whole = dask.array.from_array(
        np.concatenate([np.asarray(hyperslab.open(image))] * files, axis=2), -1
    )
    np.testing.assert_array_equal(
        array[index].compute(scheduler="threads"), whole[index].compute(scheduler="threads")
    )


@pytest.mark.parametrize("index", INDICES)
def test_what_tasks_index_takes_any_index_itself(folder: Path, index: Any) -> None:
    """Dask may hand on lists to what it indexes."""
    (stored,) = _stored_arrays(hyperslab.to_dask([folder / "a.nii"] * 2, axis=0))
    values = np.concatenate([np.asarray(hyperslab.open(str(folder / "a.nii")))] * 2)
    expected = dask.array.from_array(values, -1)[index].compute(scheduler="synchronous")
    np.testing.assert_array_equal(stored[index], expected)


def _stored_arrays(array: dask.array.Array) -> list[StoredArray]:
    graph = dict(array.__dask_graph__())
    found = [getattr(task, "value", task) for task in graph.values()]
    return [value for value in found if isinstance(value, StoredArray)]


def test_tasks_carry_a_region_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.zeros(20_000, "u1"), chunks=(10,), compression="gzip")
    few, many = (hyperslab.to_dask(f"{path}::data", chunks) for chunks in (10_000, 10))
    assert len(pickle.dumps(many)) < len(pickle.dumps(few)) + 8 * 2000
    assert len(pickle.dumps(few)) > 8 * 2000  # it holds the table of where the chunks lie
    assert len(_stored_arrays(many)) == 1
    graph = dict(many.__dask_graph__())
    tasks = [pickle.dumps(task) for key, task in graph.items() if isinstance(key, tuple)]
    assert len(tasks) == 2000
    assert max(map(len, tasks)) < 500


def test_names_tell_states_and_ways_apart(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.nii"
    path.write_bytes((folder / "a.nii").read_bytes())

    def names() -> list[str]:
        ways: list[Any] = [(-1, "real"), (-1, "stored"), (10, "real")]
        return [hyperslab.to_dask(path, chunks, values).name for chunks, values in ways]

    first = names()
    assert names() == first
    assert len(set(first)) == 3
    os.utime(path, ns=(0, 0))
    assert not set(names()) & set(first)


@pytest.mark.parametrize("most", [1000, 1], ids=["all files", "too many files"])
def test_a_zarr_chunk_written_in_place_is_read_again(
    client: distributed.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(connector, "MOST_LOOKED_AT", most)
    # More chunks than the description looks at, so that it stays the same.
    path = make(tmp_path / "a.zarr", shape=(4, 500), chunks=(2, 2))
    before = hyperslab.to_dask(path).persist()
    assert (hyperslab.to_dask(path).name == before.name) == (most == 1000)
    value = before[2, 10].compute()
    zarr.open_array(path)[2, 10] = value + 1
    assert hyperslab.to_dask(path)[2, 10].compute() == value + 1


def test_tasks_never_touch_the_library(
    folder: Path, data: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = hyperslab.to_dask(f"{folder}/a.h5::packed", UNIT, "stored")
    monkeypatch.setattr(h5py, "File", None)
    np.testing.assert_array_equal(array.compute(scheduler="threads"), data)


def test_a_gzip_file_is_inflated_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Any] = []
    monkeypatch.setattr(gzipindex, "index", noting(passes, gzipindex.index))
    array = hyperslab.to_dask(folder / "a.nii.gz", "1MiB")
    assert array.npartitions > 4
    for _ in range(2):
        array.sum().compute(scheduler="threads")
    assert len(passes) == 1


def test_a_file_that_changes_is_noticed(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes((folder / "a.h5").read_bytes())
    array = hyperslab.to_dask(f"{path}::packed", UNIT)
    array[:8].sum().compute(scheduler="threads")
    with h5py.File(path, "r+") as file:
        file["packed"][0] = 0
    with pytest.raises(SourceChanged, match=r"a\.h5"):
        array.sum().compute(scheduler="threads")
    hyperslab.to_dask(f"{path}::packed", UNIT).sum().compute(scheduler="threads")


def test_files_one_after_the_other(tmp_path: Path) -> None:
    parts = [np.arange(n * 6.0).reshape(n, 6) + 100 * n for n in (2, 1, 7, 3)]
    paths = []
    for number, part in enumerate(parts):
        paths.append(tmp_path / f"part_{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            file["data"] = part
    whole = np.concatenate(parts)
    chunks = {
        size: hyperslab.to_dask(paths, size, axis=0).chunks[0]
        for size in ("100B", "150B", "300B", "10KiB")
    }
    assert chunks == {
        "100B": (2, 1, 2, 2, 2, 1, 2, 1),
        "150B": (3, 3, 3, 1, 3),
        "300B": (3, 6, 4),
        "10KiB": (13,),
    }
    for source in (paths, tmp_path, hyperslab.gather(tmp_path, "concatenated")):
        array = hyperslab.to_dask(source, "150B", axis=0)
        np.testing.assert_array_equal(array.compute(scheduler="threads"), whole)
    with pytest.raises(UsageError, match="these are 4 arrays; give axis="):
        hyperslab.to_dask(paths)
    with h5py.File(paths[1], "r+") as file:
        del file["data"]
        file["data"] = np.zeros((1, 6), "i2")
    with pytest.raises(UsageError, match=r"holds int16, .* float64"):
        hyperslab.to_dask(paths, axis=0)


def test_a_mosaic(tmp_path: Path) -> None:
    values = np.arange(8 * 6.0).reshape(8, 6)
    paths, origins = [], list(itertools.product((0, 5), (0, 2)))
    for number, (row, column) in enumerate(origins):
        paths.append(tmp_path / f"block_{number}.h5")
        with h5py.File(paths[-1], "w") as file:
            file["data"] = values[row : 5 if row == 0 else 8, column : 2 if column == 0 else 6]
    array = hyperslab.to_dask(hyperslab.gather(paths, "mosaic", origins=origins), "200B")
    assert array.chunks == ((5, 3), (2, 4))
    for chunks in ("200B", "auto", 3):
        whole = hyperslab.to_dask(hyperslab.gather(paths, "mosaic", origins=origins), chunks)
        np.testing.assert_array_equal(whole.compute(scheduler="threads"), values)


def test_sets_of_files_are_taken_as_they_are_or_joined(folder: Path) -> None:
    several = hyperslab.gather([folder / "a.nii"] * 2)
    assert hyperslab.to_dask(several, axis=1).shape == (50, 120, 70)
    with pytest.raises(UsageError, match="these are 2 arrays"):
        hyperslab.to_dask(several)
    with pytest.raises(UsageError, match="values is 'true'; it can be 'real' or 'stored'"):
        hyperslab.to_dask(folder / "a.nii", values="true")  # type: ignore[arg-type]


def test_an_array_in_memory(data: Array) -> None:
    np.testing.assert_array_equal(hyperslab.to_dask(data, 20).compute(scheduler="threads"), data)


def test_bad_files_are_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    path.write_bytes(b"nothing that is known here")
    with pytest.raises(FormatError, match="its format is unknown"):
        hyperslab.to_dask(path)
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        hyperslab.to_dask(tmp_path / "none.h5")


def test_without_dask_the_command_that_installs_it_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(MissingExtra, match=r"needs dask.array: pip install 'hyperslab\[dask\]'"):
        hyperslab.to_dask(folder / "a.nii")


def test_without_xarray_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "hyperslab.connectors.xarray", raising=False)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingExtra, match=r"needs xarray: pip install 'hyperslab\[xarray\]'"):
        importlib.import_module("hyperslab.connectors.xarray")


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    quiet = {"distributed.worker.memory.terminate": False, "distributed.admin.tick.limit": "1h"}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=True,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("name", ["a.h5::packed", "a.nii.gz"])
def test_on_a_cluster(client: distributed.Client, folder: Path, name: str) -> None:
    array = hyperslab.to_dask(f"{folder}/{name}", "1MiB" if "gz" in name else UNIT)
    total = client.compute(array.astype("f8").sum()).result(timeout=200)
    assert total == np.asarray(hyperslab.open(f"{folder}/{name}")).astype("f8").sum()


@repeats("an array is read by processes of Dask's own: formats/test_added_format.py")
def test_in_processes(folder: Path, data: Array) -> None:
    array = hyperslab.to_dask(f"{folder}/a.h5::packed", 40, "stored")
    np.testing.assert_array_equal(array.compute(scheduler="processes", num_workers=1), data)


@pytest.mark.parametrize("chunks", ["auto", "1 KiB"])
def test_an_array_without_elements_is_one_chunk(tmp_path: Path, chunks: str) -> None:
    path, shape = tmp_path / "empty.h5", (8, 0, 100, 257)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", shape, "f4", chunks=(1, 1, 1, 1), maxshape=(8, None, 100, 257))
    found = hyperslab.to_dask(f"{path}::data", chunks=chunks)
    assert found.chunks == ((8,), (0,), (100,), (257,))
    assert found.compute().shape == shape
    opened = xarray.open_dataset(path, engine=HyperslabBackend, chunks={})
    assert opened["data"].data.npartitions == 1
    assert opened["data"].compute().shape == shape
