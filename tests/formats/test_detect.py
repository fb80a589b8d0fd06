"""Files are told apart by what they hold, and bad ones get a sentence; corrupt HDF5 is a typed
error, soon.
"""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import FormatError, HyperslabError, UsageError
from hyperslab.formats import memory
from tests.formats.files import DATA, EXAMPLES
from tests.formats.nifti_made import save

CORRUPT = sorted((DATA / "hdf5" / "corrupt").iterdir())
ATTRIBUTES_ONLY = {"err_attr_dspace.h5", "tCVE-2021-37501_attr_decode.h5"}


@pytest.mark.parametrize("path", CORRUPT, ids=lambda path: path.name)
def test_corrupt_hdf5_is_a_format_error(path: Path) -> None:
    tracemalloc.start()
    try:
        if path.name in ATTRIBUTES_ONLY:
            read_all(path)
        else:
            with pytest.raises(FormatError) as raised:
                read_all(path)
            assert str(path) in str(raised.value)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def read_all(path: Path) -> None:
    for info in formats.arrays(str(path)):
        source = formats.open_source(f"{path}::{info.name}")
        reading.read(source, Hyperslab.full(source.shape))


def test_corrupt_attributes_raise_nothing_but_our_errors(tmp_path: Path) -> None:
    path = tmp_path / "attribute.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros(3)
        file["data"].attrs["note"] = np.arange(3, dtype="i4")
    raw = path.read_bytes()
    where = raw.index(b"note")
    for offset in range(where - 8, where + 40, 4):
        path.write_bytes(raw[:offset] + b"\xff\xff\xff\x7f" + raw[offset + 4 :])
        try:
            read_all(path)
        except HyperslabError:
            continue


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (EXAMPLES / "colin27_ch2_T1w.nii.gz", "nifti"),
        (DATA / "mri" / "example_nifti2.nii.gz", "nifti"),
        (DATA / "mri" / "anatomical.nii", "nifti"),
        (DATA / "hdf5" / "layout" / "deflate.h5", "hdf5"),
        (DATA / "minc" / "small.mnc", "hdf5"),
        (DATA / "netcdf" / "ref_hdf5_compat1.nc", "hdf5"),
        (DATA / "netcdf" / "bad_cdf5_begin.nc", "netcdf"),
        (DATA / "minc" / "tiny.mnc", "netcdf"),
    ],
)
def test_real_files_are_detected(path: Path, kind: str) -> None:
    assert formats.detect(str(path)) == kind


def test_hdf5_behind_a_user_block_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "odd.name"
    h5py.File(path, "w", userblock_size=2048).close()
    assert formats.detect(str(path)) == "hdf5"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.nii.gz", b"", r"is empty \(0 bytes\)"),
        ("text.nii", b"hello" * 200, "not a NIfTI file although"),
        ("text.dat", b"hello" * 200, r"format is unknown; supported are NIfTI-1"),
        ("short.nii", b"\x5c\x01", "not a NIfTI file although"),
        ("pointer.nii", b"/annex/objects/MD5E-s1--0.nii\n", "datalad get"),
        ("words.nii.gz", b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 50, "gzip data are corrupt"),
        ("pair.hdr", b"\x5c\x01\0\0" + bytes(340) + b"ni1\0" + bytes(4), "hdr/.img pair"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match=sentence) as raised:
        formats.detect(str(path))
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize("kind", [nib.Nifti1Pair, nib.Nifti2Pair])
def test_both_files_of_a_pair_are_told_as_that(tmp_path: Path, kind: Any) -> None:
    kind(np.zeros((3, 4, 5), "i2"), np.eye(4)).to_filename(tmp_path / "pair.img")
    for name in ("pair.hdr", "pair.img"):
        with pytest.raises(FormatError, match=r"belongs to a \.hdr/\.img pair, .* to one \.nii"):
            formats.detect(str(tmp_path / name))
    (tmp_path / "pair.hdr").write_bytes(b"hello" * 200)
    with pytest.raises(FormatError, match="its format is unknown"):
        formats.detect(str(tmp_path / "pair.img"))


@pytest.mark.parametrize("nbytes", [1, 100, 351])
def test_a_compressed_image_may_begin_with_small_members(tmp_path: Path, nbytes: int) -> None:
    values = np.arange(60, dtype="i2").reshape(3, 4, 5)
    plain, path = save(tmp_path / "image.nii", values).read_bytes(), tmp_path / "image.nii.gz"
    parts = [b"", *(plain[first : first + nbytes] for first in range(0, len(plain), nbytes))]
    path.write_bytes(bytes(3).join(gzip.compress(part) for part in parts))
    assert formats.detect(str(path)) == "nifti"
    source, slab = formats.open_source(str(path)), Hyperslab((2, 0, 1), (1, 4, 3))
    np.testing.assert_array_equal(reading.read(source, slab), values[slab.slices()])
    np.testing.assert_array_equal(
        reading.read(gzipindex.index(source), slab), values[slab.slices()]
    )


def test_members_that_hold_no_image_get_a_sentence(tmp_path: Path) -> None:
    head = save(tmp_path / "image.nii", np.zeros((3, 4), "i2")).read_bytes()[:348]
    empty, first = gzip.compress(b""), gzip.compress(head[:100])
    for stored, sentence in (
        (empty, "compressed, but not NIfTI"),
        (first + gzip.compress(b"words" * 200), "compressed, but not NIfTI"),
        (first + gzip.compress(head[100:])[:-9], "end too early"),
        (first + gzip.compress(head[100:])[:-1], "end too early"),
        (first + b"words", "corrupt"),
        (first[:-5] + b"\xff" + first[-4:] + empty, "corrupt"),
        (
            empty * 5000 + gzip.compress(head),
            "its first 64 KiB inflate to no NIfTI header; unpack it",
        ),
    ):
        path = tmp_path / "image.nii.gz"
        path.write_bytes(stored)
        with pytest.raises(FormatError, match=sentence):
            formats.detect(str(path))


def test_missing_files_links_and_directories_get_a_sentence(tmp_path: Path) -> None:
    annexed, broken = tmp_path / "annexed.nii.gz", tmp_path / "broken.nii.gz"
    annexed.symlink_to("../.git/annex/objects/xx/yy/MD5E-s9.nii.gz")
    broken.symlink_to("nowhere")
    for path, sentence in (
        (tmp_path / "missing.nii", "there is no such file"),
        (annexed, f"not here but in a git-annex; run: datalad get {annexed}"),
        (broken, "symbolic link to nowhere"),
        (tmp_path, "is a directory"),
        (tmp_path / ("x" * 300), "cannot be read"),
    ):
        with pytest.raises(FormatError, match=sentence):
            formats.open_source(str(path))


def test_pipes_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nii")
    with pytest.raises(FormatError, match="not a regular file"):
        formats.detect(str(tmp_path / "pipe.nii"))


def test_urls_split_at_the_dataset(tmp_path: Path) -> None:
    odd = tmp_path / "a::b.nii"
    odd.touch()
    assert formats.split_url(str(odd)) == (str(odd), "")
    assert formats.split_url(f"{odd}::c") == (str(odd), "c")
    assert formats.split_url("x.h5::group/data") == ("x.h5", "group/data")
    assert formats.split_url("x.nii") == ("x.nii", "")


def test_suffixes_choose_the_array_files_of_a_directory() -> None:
    names = [
        "a.nii",
        "b.NII.GZ",
        "c.h5",
        "d.hdf5",
        ".a.nii.0f.part",
        ".hidden.nii",
        "e.json",
        "f.gz",
        "g.mnc",
    ]
    assert [name for name in names if formats.is_array_file(name)] == [
        "a.nii",
        "b.NII.GZ",
        "c.h5",
        "d.hdf5",
        "g.mnc",
    ]
    assert formats.format_of_name("x.nii.gz") == "nifti"
    with pytest.raises(UsageError, match="suffix"):
        formats.format_of_name("x.txt")


def test_a_nifti_file_has_no_datasets() -> None:
    with pytest.raises(UsageError, match="leave out"):
        formats.open_source(f"{DATA / 'mri' / 'anatomical.nii'}::data")
    with pytest.raises(UsageError, match="'tiff' is not a format"):
        formats.module("tiff")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">i2", "<f4", "bool"])
def test_arrays_in_memory_are_sliced_and_never_shared(dtype: str, order: str) -> None:
    data = np.asarray(np.random.default_rng(1).integers(0, 2, (4, 5, 6)), dtype=dtype, order=order)  # type: ignore[call-overload]
    source, slab = formats.open_array(data), Hyperslab((3, 0, 5), (2, 5, 3), (-1, 1, -2))
    block = reading.read(source, slab)
    np.testing.assert_array_equal(block, data[slab.slices()])
    assert block.dtype == source.dtype("real")
    block[...] = 9
    assert (data <= 1).all(), "changing a block changes nobody's array"
    assert (
        source.version
        == memory.open(np.array(data)).version
        != memory.open(data + data.dtype.type(1)).version
    )


def test_arrays_of_objects_are_refused() -> None:
    with pytest.raises(UsageError, match="Python objects"):
        formats.open_array(np.array([None, 1], dtype=object))


def test_a_mask_is_not_dropped_without_a_word() -> None:
    values = np.arange(60.0).reshape(3, 4, 5)
    for take in (hyperslab.open, hyperslab.Pipeline, hyperslab.to_dask):
        with pytest.raises(UsageError, match="masked, and the mask would be lost"):
            take(np.ma.masked_less(values, 5))
    assert np.array_equal(hyperslab.open(np.ma.masked_less(values, 0))[...], values)
