"""A glimpse of an array takes little, and what cannot be read is not seen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest

from hyperslab.blocks import glimpse as glimpses
from hyperslab.blocks.glimpse import glimpse
from hyperslab.blocks.reading.ways.front import has_front, read_front
from hyperslab.errors import FormatError, SourceChanged
from hyperslab.formats import open_source
from tests.system.end_to_end.command import save

nib: Any = nibabel
"Its functions carry no types."

VALUES = np.arange(20 * 30 * 40, dtype="f4").reshape(20, 30, 40)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_a_small_array_is_seen_wholly(tmp_path: Path, name: str) -> None:
    (block,) = glimpse(open_source(str(save(tmp_path / name, VALUES))))
    np.testing.assert_array_equal(block, VALUES)


@pytest.mark.parametrize(("most", "size"), [(5000, 600), (200, 20), (10, 1)])
def test_a_larger_one_in_planes_rows_and_elements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, size: int
) -> None:
    monkeypatch.setattr(glimpses, "MOST_VALUES", most)
    blocks = glimpse(open_source(str(save(tmp_path / "a.nii", VALUES))))
    assert [block.size for block in blocks] == [size] * 5
    assert all(np.isin(block, VALUES).all() for block in blocks)


def test_what_takes_long_or_is_broken_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=VALUES, chunks=VALUES.shape, compression="gzip")
        offset = file["data"].id.get_chunk_info(0).byte_offset
    assert len(glimpse(open_source(str(tmp_path / "a.h5")))) == 1
    with (tmp_path / "a.h5").open("r+b") as raw:
        raw.seek(offset)
        raw.write(bytes(100))
    assert glimpse(open_source(str(tmp_path / "a.h5"))) == []
    monkeypatch.setattr(glimpses, "MOST_NBYTES", 100)
    assert glimpse(open_source(str(save(tmp_path / "a.nii.gz", VALUES)))) == []


@pytest.mark.parametrize("most", [6000, 20000])
def test_the_front_of_a_long_gzip_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    noise = np.random.default_rng(0).integers(0, 999, (6, 7, 8, 60)).astype("i2")
    path = save(tmp_path / "a.nii.gz", noise)
    image = nib.load(path)
    image.header.set_slope_inter(0.5, 3)
    nib.Nifti1Image(noise, image.affine, image.header).to_filename(path)
    monkeypatch.setattr(glimpses, "MOST_NBYTES", most)
    (front,) = glimpse(open_source(str(path)))
    rows = front.shape[3]
    assert 0 < rows < 60
    assert np.array_equal(front, nib.load(path).get_fdata()[..., :rows])
    (stored,) = glimpse(open_source(str(path)), "stored")
    assert np.array_equal(stored, np.asanyarray(nib.load(path).dataobj.get_unscaled())[..., :rows])


def test_the_front_of_a_stream_is_that_of_the_file_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As is every read: another file that has its name now is not taken for it."""
    noise = np.random.default_rng(0).integers(0, 999, (6, 7, 8, 60)).astype(">i2")
    path = save(tmp_path / "a.nii.gz", noise)
    monkeypatch.setattr(glimpses, "MOST_NBYTES", 6000)
    source = open_source(str(path))
    (front,) = glimpse(source)
    assert front.dtype == np.dtype("i2")
    assert np.array_equal(front, noise[..., : front.shape[3]])
    os.utime(path, ns=(source.mtime_ns, source.mtime_ns + 1))
    assert glimpse(source) == []
    with pytest.raises(SourceChanged, match="was written to after"):
        read_front(source, 1, 6000, "real")
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(SourceChanged, match="bytes when the run was planned"):
        read_front(source, 1, 6000, "real")


def test_a_front_that_cannot_be_inflated_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(0, 999, (6, 7, 8, 60)).astype("i2")
    path = save(tmp_path / "a.nii.gz", noise)
    source = open_source(str(path))
    with path.open("r+b") as file:
        file.seek(2000)
        file.write(b"\xff" * 2000)
    os.utime(path, ns=(source.mtime_ns, source.mtime_ns))  # a disk may change what it holds
    monkeypatch.setattr(glimpses, "MOST_NBYTES", 6000)
    assert glimpse(source) == []
    with pytest.raises(FormatError, match="its gzip data are corrupt"):
        read_front(source, 60, 6000, "real")


def test_only_streams_that_are_a_file_from_its_first_byte_on_have_a_front(tmp_path: Path) -> None:
    """Values of other formats may begin anywhere."""
    packed = open_source(str(save(tmp_path / "a.nii.gz", VALUES)))
    assert has_front(packed)
    assert not has_front(replace(packed, format="hdf5"))
    assert not has_front(open_source(str(save(tmp_path / "a.nii", VALUES))))
