"""Conversions from and to object stores: the values that were there, complete, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import zarr

import hyperslab
from hyperslab import Encoding, Rule
from hyperslab.array import Array
from hyperslab.errors import OutputBusy
from tests.remote.conftest import BUCKET, S3

VALUES: Array = np.random.default_rng(5).integers(0, 900, (30, 24, 20)).astype("i2")
AFFINE = np.array([[2.0, 0, 0, -30], [0, 2.0, 0, -24], [0, 0, 3.0, 7], [0, 0, 0, 1]])


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A NIfTI file, and a place for temporary files of its own."""
    staging = tmp_path / "staging"
    staging.mkdir()
    monkeypatch.setenv("TMPDIR", str(staging))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = str(tmp_path / "image.nii")
    nib.save(nib.Nifti1Image(VALUES, AFFINE), path)  # type: ignore[no-untyped-call]
    return path


def convert(source: Any, dest: str, s3: S3, **settings: Any) -> hyperslab.Result:
    return hyperslab.convert(source, dest, engine="threads", workers=1, storage_options=s3.options, **settings)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "a.h5", "a.nc"])
def test_a_file_goes_there_and_comes_back(image: str, s3: S3, tmp_path: Path, name: str) -> None:
    url = f"s3://{BUCKET}/made/{name}"
    convert(image, url, s3)
    back = str(tmp_path / "back.nii")
    convert(url, back, s3)
    found: Any = nib.load(back)
    np.testing.assert_array_equal(np.asarray(found.dataobj), VALUES)
    np.testing.assert_allclose(found.affine, AFFINE)
    made = [path.name for path in (tmp_path / "staging").rglob("*") if path.suffix in Path(name).suffixes]
    assert made == [], "what was uploaded is not kept here"


def test_a_zarr_store_is_complete(image: str, s3: S3) -> None:
    url = f"s3://{BUCKET}/made/image.zarr"
    convert(image, url, s3, encoding=Encoding(chunks=(10, 12, 20)))
    theirs = {name: value for name, value in s3.options.items() if not name.startswith("hyperslab")}
    store: Any = zarr.open_array(url, mode="r", storage_options=theirs)
    np.testing.assert_array_equal(store[:], VALUES)
    assert store.chunks == (10, 12, 20)


def test_blocks_go_to_a_place_of_their_own(image: str, s3: S3, tmp_path: Path) -> None:
    convert(image, f"s3://{BUCKET}/blocks", s3, grid=Rule("blocks", (2, 2, 2)))
    keys = sorted(s3.fs.ls(f"{BUCKET}/blocks", detail=False))
    assert len(keys) == 8
    merged = str(tmp_path / "merged.nii")
    convert([f"s3://{key}" for key in keys], merged, s3)
    assert Path(merged).read_bytes() == Path(image).read_bytes()


def test_what_is_there_is_kept_unless_told(image: str, s3: S3) -> None:
    url = s3.put("made/there.nii", b"somebody's")
    with pytest.raises(OutputBusy, match="exists"):
        convert(image, url, s3)
    assert s3.fs.cat(f"{BUCKET}/made/there.nii") == b"somebody's"
    convert(image, url, s3, overwrite=True)
    assert s3.fs.cat(f"{BUCKET}/made/there.nii") == Path(image).read_bytes()
