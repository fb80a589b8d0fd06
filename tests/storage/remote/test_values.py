"""Remote files hold the values that the formats' own libraries read from a copy on this machine."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import nibabel as nib
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab
from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks import reading
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.storage.location import Remote
from hyperslab.testing.formats import assert_same, slabs
from tests.examples import examples
from tests.formats.files import DATA
from tests.storage.remote.conftest import S3
from tests.storage.remote.server import Server

HDF5 = ("contiguous", "gzip", "small", "raw", "scaled", "partly", "empty")
ARRAYS = [
    *(f"made.h5::{name}" for name in HDF5),
    *(
        f"{file}::{name}"
        for file in ("four.nc", "classic.nc")
        for name in ("packed", "other", "fixed")
    ),
    "plain.nii",
    "packed.nii.gz",
]
MINC = ["small.mnc", "tiny.mnc", "minc2_1_scale.mnc", "minc2-4d-d.mnc"]


@pytest.fixture(params=["s3", "web"])
def place(request: pytest.FixtureRequest) -> Any:
    """A store by what puts a file into it: its URL and options."""
    store: S3 | Server = request.getfixturevalue(request.param)

    def put(path: Path) -> tuple[str, dict[str, Any]]:
        if isinstance(store, S3):
            return store.put(path.name, path.read_bytes()), store.options
        store.objects[f"/{path.name}"] = path.read_bytes()
        return f"{store.url}/{path.name}", {}

    return put


def reference(path: Path, name: str) -> Array:
    """Stored values as h5py, netCDF4 and nibabel read them."""
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            return np.asarray(file[name][...])
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return np.asarray(file[name][...])
    return np.asarray(nib.load(path).dataobj.get_unscaled())  # type: ignore[attr-defined]


def real_reference(path: Path, name: str) -> Array:
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            found = np.ma.asarray(file[name][...])
            return found.filled(np.nan) if found.dtype.kind == "f" else found.data
    return reference(path, name) if path.suffix == ".h5" else np.asarray(nib.load(path).dataobj)  # type: ignore[attr-defined]


@pytest.mark.parametrize("array", ARRAYS)
def test_whole_arrays(array: str, folder: Path, place: Any) -> None:
    file, _, name = array.partition("::")
    url, options = place(folder / file)
    view = hyperslab.open(f"{url}::{name}" if name else url, "stored", storage_options=options)
    assert isinstance(view.source.url, Remote)
    assert_same(view[...], reference(folder / file, name))
    real = hyperslab.ArrayView(view.source)
    assert_same(real[...], real_reference(folder / file, name))
    local = hyperslab.open(str(folder / array))
    assert (view.source.chunks is None) == (local.source.chunks is None)
    assert view.source.header.affine is None or (view.source.header.affine == local.affine).all()


@pytest.mark.parametrize("name", MINC)
def test_minc2(name: str, place: Any) -> None:
    path = DATA / "minc" / name
    url, options = place(path)
    view, image = hyperslab.open(url, storage_options=options), nib.load(path)
    np.testing.assert_array_equal(view[...], np.asarray(image.dataobj))  # type: ignore[attr-defined]
    assert view.affine is None or (view.affine == image.affine).all()  # type: ignore[attr-defined]


def test_contents_are_listed(folder: Path, s3: S3) -> None:
    url = s3.put("made.h5", (folder / "made.h5").read_bytes())
    assert formats.arrays(url, s3.options) == formats.arrays(str(folder / "made.h5"))
    assert [info.name for info in formats.arrays(f"{url}::raw", s3.options)] == ["/raw"]


@cache
def _kept(array: str, folder: Path, server: Server) -> tuple[ArraySource, Array]:
    file, _, name = array.partition("::")
    server.objects[f"/kept/{file}"] = (folder / file).read_bytes()
    source = formats.open_source(f"{server.url}/kept/{array}")
    return source, reference(folder / file, name)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_regions(data: st.DataObject, folder: Path, lasting_web: Server) -> None:
    """Any region of any array, into memory of any layout."""
    source, expected = _kept(data.draw(st.sampled_from(ARRAYS)), folder, lasting_web)
    slab = data.draw(slabs(source.shape))
    block = reading.read(source, slab, values="stored", threads=data.draw(st.integers(1, 3)))
    low, high = slab.bounds
    turned = tuple(slice(None, None, -1 if s < 0 else 1) for s in slab.stride)
    forward = tuple(slice(a, z, abs(s)) for a, z, s in zip(low, high, slab.stride, strict=True))
    assert_same(
        block, expected[forward][turned] if slab.size else np.empty(slab.count, expected.dtype)
    )
    room = np.zeros(tuple(2 * n for n in slab.count), block.dtype)
    out = room[tuple(slice(None, None, -2) for _ in slab.count)]
    reading.read(source, slab, out, values="stored")
    assert_same(out, block)


@pytest.mark.parametrize("name", ["four.nc", "classic.nc", "plain.nii", "packed.nii.gz"])
def test_xarray_and_dask_read_urls(place: Any, folder: Path, name: str) -> None:
    url, options = place(folder / name)
    with (
        xarray.open_dataset(
            url, engine=HyperslabBackend, storage_options=options, chunks={}
        ) as found,
        xarray.open_dataset(folder / name, engine=HyperslabBackend) as expected,
    ):
        xarray.testing.assert_identical(found.load(), expected)
        assert {variable.encoding["source"] for variable in found.data_vars.values()} == {url}
        again = pickle.loads(pickle.dumps(found))
        xarray.testing.assert_identical(again, expected)
    dataset = "" if ".nii" in name else "::packed"
    np.testing.assert_array_equal(
        hyperslab.to_dask(url + dataset, storage_options=options).compute(),
        np.asarray(hyperslab.open(f"{folder / name}{dataset}")),
    )


def test_groups_are_opened_by_url(place: Any, folder: Path) -> None:
    url, options = place(folder / "made.h5")
    with xarray.open_datatree(url, engine=HyperslabBackend, storage_options=options) as tree:
        np.testing.assert_array_equal(
            tree["gzip"], np.asarray(hyperslab.open(f"{folder}/made.h5::gzip", "stored"))
        )
    with pytest.raises(OSError, match="holds no group '/none'"):
        xarray.open_dataset(url, engine=HyperslabBackend, storage_options=options, group="none")
