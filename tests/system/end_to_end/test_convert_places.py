"""Where conversions may write: never over a source, nor twice to one name."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.repetitions import each_value, few
from tests.system.end_to_end.command import call, convert, refuse, save, tree, values_of

pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return save(
        tmp_path / "v.nii", np.random.default_rng(0).integers(0, 99, (8, 6, 4)).astype("i2")
    )


def test_two_arrays_never_get_one_name(tmp_path: Path) -> None:
    """The name of a block may be that of another array."""
    for name, extent in (("a", 8), ("a_0_0_0", 4)):
        save(tmp_path / "in" / f"{name}.nii", np.ones((extent,) * 3, "u1"))
    said = refuse(tmp_path / "in", tmp_path / "out", "--block-shape", "4,4,4")
    assert (
        "two arrays or blocks would be written to a_0_0_0.nii: give the sources different names"
        in said
    )
    assert not (tmp_path / "out").exists()
    convert(tmp_path / "in", tmp_path / "out", "--block-shape", "2,2,2")
    assert len(list((tmp_path / "out").glob("[!.]*"))) == 72


def test_a_source_in_the_destination_directory_is_kept(tmp_path: Path, volume: Path) -> None:
    """A conversion removes what an earlier one made there, which could be its own source."""
    blocks = tmp_path / "blk"
    convert(volume, blocks, "--blocks", "1x1x2")
    before = tree(blocks)
    (tmp_path / "same").symlink_to(blocks)
    for source, options in (
        (blocks / "v_0_0_0.nii", ("--blocks", "2x1x1")),
        (f"{blocks}/*.nii", ("--format", "h5")),
        (tmp_path / "same" / "v_0_0_2.nii", ("--format", "nii.gz")),
    ):
        for overwrite in ((), ("--overwrite",)):
            assert "blk holds the source " in refuse(source, blocks, *options, *overwrite)
    assert tree(blocks) == before
    convert(blocks, tmp_path / "merged.nii")
    np.testing.assert_array_equal(values_of(tmp_path / "merged.nii"), values_of(volume))


def test_an_array_without_elements_does_not_vanish(tmp_path: Path) -> None:
    for name, shape in (("a", (4, 4)), ("b", (0, 4))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["data"] = np.zeros(shape, "i2")
    said = refuse(tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "out", "--format", "h5")
    assert f"{tmp_path / 'b.h5'}: an array of shape (0, 4) holds no elements" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", [".", "..", "a/./b", "a//b", "/", "line\nbreak", "a\udcff"], ids=repr
)
def test_names_of_datasets_that_hdf5_has_not_are_refused(
    tmp_path: Path, volume: Path, name: str
) -> None:
    assert "cannot name a dataset" in refuse(volume, tmp_path / "new.h5", "--name", name)
    assert tree(tmp_path) == ["v.nii"]


def test_a_group_may_have_the_name_of_a_dimension(tmp_path: Path, volume: Path) -> None:
    convert(volume, tmp_path / "new.nc", "--name", "x/data")
    with h5py.File(tmp_path / "new.nc") as file:
        np.testing.assert_array_equal(file["x/data"][()], values_of(volume))


@pytest.mark.parametrize("length", few([224, 300], [224, 240, 250, 300], "the name is too long"))
def test_a_name_that_is_too_long_while_it_is_unfinished(
    tmp_path: Path, volume: Path, length: int
) -> None:
    said = refuse(volume, tmp_path / ("n" * (length - 4) + ".nii"))
    assert "the name may have up to 223 bytes, since file systems" in said
    assert tree(tmp_path) == ["v.nii"]
    convert(volume, tmp_path / ("n" * 219 + ".nii"))


@pytest.mark.parametrize("suffix", ["nc4", "he5", "cdf", "hdf5"])
def test_every_suffix_is_left_out_of_new_names(tmp_path: Path, volume: Path, suffix: str) -> None:
    convert(volume, tmp_path / f"new.{suffix}", "--name", "v")
    convert(tmp_path / f"new.{suffix}", tmp_path / "out", "--format", "nii")
    assert (tmp_path / "out" / "new_v.nii").exists()


def test_a_name_that_is_not_utf8(tmp_path: Path, volume: Path) -> None:
    convert(volume, tmp_path / "new\udcff.nii")
    assert (tmp_path / "new\udcff.nii").read_bytes() == volume.read_bytes()
    assert call("report", tmp_path / "new\udcff.nii").code == 0


@each_value("a store as source, and places in it")
@pytest.mark.parametrize("source", ["z.zarr::a", "z.zarr", "*.zarr::a"])
@pytest.mark.parametrize("dest", ["z.zarr/sub.h5", "z.zarr/a/sub.nii", "z.zarr"])
def test_a_store_is_not_written_into_while_it_is_read(
    tmp_path: Path, volume: Path, source: str, dest: str
) -> None:
    convert(volume, tmp_path / "z.zarr", "--name", "a")
    before = tree(tmp_path / "z.zarr")
    said = refuse(tmp_path / source, tmp_path / dest, "--overwrite")
    assert "is the source itself" in said or "lies inside the source" in said
    assert tree(tmp_path / "z.zarr") == before
