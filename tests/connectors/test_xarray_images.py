"""Images in the engine of xarray: one variable, packed only where that gives the exact real
values.
"""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.reading import gzipindex
from hyperslab.connectors import xarray as connector
from hyperslab.errors import UsageError
from tests.connectors.calls import noting
from tests.connectors.opened import RAW, ours
from tests.formats.files import DATA

IMAGES = [p for p in (*(DATA / "mri").iterdir(), *(DATA / "minc").iterdir()) if p.is_file()]


@pytest.mark.parametrize("path", sorted(IMAGES), ids=lambda path: path.name)
def test_an_image_is_one_variable_of_real_values(path: Path) -> None:
    view = hyperslab.open(str(path))
    with ours(path) as dataset:
        image = dataset.image
        assert list(dataset.data_vars) == ["image"]
        assert (image.shape, image.dtype) == (view.shape, view.dtype)
        np.testing.assert_array_equal(image.values, np.asarray(view))
        if view.affine is not None:
            np.testing.assert_array_equal(np.reshape(image.attrs["affine"], (4, 4)), view.affine)


@pytest.mark.filterwarnings(
    "ignore:saving variable image with floating point data as an integer dtype"
)
@pytest.mark.parametrize("path", sorted(IMAGES), ids=lambda path: path.name)
def test_an_image_can_be_saved_as_netcdf(path: Path, tmp_path: Path) -> None:
    with ours(path) as dataset:
        dataset.to_netcdf(tmp_path / "a.nc")
        with ours(tmp_path / "a.nc") as again:
            np.testing.assert_array_equal(again.image, dataset.image)
            np.testing.assert_array_equal(
                again.image.attrs.get("affine"), dataset.image.attrs.get("affine")
            )


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f4", "f8", "i8"])
@pytest.mark.parametrize(
    ("slope", "inter"), [(1, 0), (2, 0), (1, -1024), (0.1, 7.3), (3e-5, 1e6), (np.nan, np.nan)]
)
def test_images_are_packed_only_where_that_is_exact(
    tmp_path: Path, dtype: str, slope: float, inter: float
) -> None:
    path, numbers = tmp_path / "a.nii", np.random.default_rng(0)
    values = numbers.integers(0, 100, (4, 5, 6)).astype(dtype)
    if values.dtype.kind in "iu":
        values[0, 0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    image: Any = nib.Nifti1Image(values, np.eye(4), dtype=values.dtype)  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(slope, inter)
    nib.save(image, path)
    expected = np.asarray(nib.load(path).dataobj)  # type: ignore[attr-defined]
    with ours(path) as dataset, ours(path, mask_and_scale=False) as stored:
        assert dataset.image.dtype == expected.dtype
        np.testing.assert_array_equal(dataset.image.values, expected)
        if "scale_factor" in stored.image.attrs:
            np.testing.assert_array_equal(
                stored.image.values, hyperslab.open(str(path), "stored")[...]
            )


def test_large_images_have_chunks_in_long_runs_of_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "BLOCK_NBYTES", 16 * 1024)
    with ours(DATA / "mri" / "anatomical.nii", chunks={}) as dataset:
        assert dataset.image.chunks == ((33,), (41,), (6, 6, 6, 6, 1))
        np.testing.assert_array_equal(
            dataset.image, hyperslab.open(str(DATA / "mri" / "anatomical.nii"))[...]
        )


def test_a_compressed_image_is_inflated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path, passes = DATA / "mri" / "colin27_ch2bet_brain.nii.gz", list[Any]()
    monkeypatch.setattr(gzipindex, "index", noting(passes, gzipindex.index))
    with ours(path, chunks={"z": 20}) as dataset:
        found = dataset.image.max().compute(scheduler="threads")
        sent = pickle.dumps(dataset)
    assert found == nib.load(path).get_fdata().max()  # type: ignore[attr-defined]
    assert pickle.loads(sent).image[90, 100, 90] == hyperslab.open(str(path))[90, 100, 90]
    assert len(passes) == 2  # that of `hyperslab.open` is its own


def test_a_file_that_is_inflated_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, begun, go_on = (
        DATA / "mri" / "colin27_ch2bet_brain.nii.gz",
        threading.Event(),
        threading.Event(),
    )
    xarray.Dataset({"v": ("x", np.arange(5))}).to_netcdf(tmp_path / "a.nc")
    index = gzipindex.index

    def waiting(source: ArraySource) -> ArraySource:
        begun.set()
        assert go_on.wait(250)
        return index(source)

    monkeypatch.setattr(gzipindex, "index", waiting)
    with ours(path) as image, ours(tmp_path / "a.nc") as other:
        thread = threading.Thread(target=image.image.load)
        thread.start()
        assert begun.wait(100)
        reader = threading.Thread(target=other.v.load)
        reader.start()
        reader.join(100)
        was_kept_waiting = reader.is_alive()
        go_on.set()
        thread.join()
        reader.join()
    assert not was_kept_waiting


def test_an_image_without_known_real_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mnc"
    path.write_bytes((DATA / "minc" / "small.mnc").read_bytes())
    with h5py.File(path, "r+") as file:
        del file["/minc-2.0/image/0/image-max"]
    with pytest.raises(
        UsageError,
        match=r"it has no image-min and image-max .*; group='/minc-2.0/image/0' has the stored",
    ):
        ours(path)
    with ours(path, group="/minc-2.0/image/0", **RAW) as dataset:
        assert dataset.image.dtype == np.int16


def test_the_groups_of_minc2_are_there_by_name() -> None:
    path = DATA / "minc" / "small.mnc"
    with ours(path, group="/minc-2.0/image/0", **RAW) as dataset, h5py.File(path) as file:
        np.testing.assert_array_equal(dataset.image, file["/minc-2.0/image/0/image"])
