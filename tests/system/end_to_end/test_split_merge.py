"""Splitting volumes and merging them back: bit by bit, in the world's coordinates, and what cannot
be merged.
"""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.storage import renaming
from tests.formats.nifti_made import RGB
from tests.formats.nifti_made import save as save_exactly
from tests.repetitions import few, repeats
from tests.system.end_to_end.command import (
    EPI,
    FUNCTIONAL,
    Finished,
    affine_of,
    call,
    save,
    values_of,
)

nib: Any = nibabel
"Its functions carry no types."

OBLIQUE = np.array([[0.9, -0.3, 0.1, -30], [0.3, 1.1, 0, 12.5], [0, 0.2, 1.7, 7], [0, 0, 0, 1]])


pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return made_volume(tmp_path)


@pytest.fixture(scope="module")
def eighths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the eight blocks of such a volume."""
    folder = tmp_path_factory.mktemp("eighths")
    convert(made_volume(folder), folder / "blocks", "--blocks", "2x2x2", "--no-report")
    return folder / "blocks"


def made_volume(folder: Path) -> Path:
    """uint16 with an extension and both forms, as nibabel would not choose them by itself."""
    fields = {
        "sform_code": 2,
        "srow_x": OBLIQUE[0],
        "srow_y": OBLIQUE[1],
        "srow_z": OBLIQUE[2],
        "qform_code": 1,
        "quatern_d": 0.6,
        "qoffset_x": 3.5,
        "pixdim": [1, 0.5, 0.75, 2, 1, 1, 1, 1],
        "xyzt_units": 2,
        "descrip": b"histology",
    }
    values = np.random.default_rng(0).integers(0, 2**16, (23, 19, 17)).astype("u2")
    return save_exactly(folder / "whole.nii", values, fields=fields, comments=[b"a comment"])


def convert(*arguments: object) -> None:
    done = call("convert", *arguments, "--engine", "serial", "-q")
    assert done == Finished(0, "", ""), done


def refuse(*arguments: object) -> str:
    done = call("convert", *arguments, "--engine", "serial", "-q")
    assert (done.code, done.out) == (2, ""), done
    assert done.err.count("\n") == 1
    return done.err


def blocks_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def identical(a: Path, b: Path) -> bool:
    return a.read_bytes() == b.read_bytes()


SPLITS = {
    "4x4x3": (("--blocks", "4x4x3"), 48),
    "30": (("--blocks", "30"), 34),  # 17 along the slowest axis, and 2 along the next
    "block shape": (("--block-shape", "10,7,17"), 9),
    "one": (("--blocks", "1"), 1),
    "slices": (("--block-shape", "23,19,1"), 17),
}


CUTS = (
    *((split, "nii") for split in SPLITS),
    ("4x4x3", "nii.gz"),
    ("30", "h5"),
    ("block shape", "nc"),
    ("slices", "h5"),
)
PLAYED = (("30", "nii"), ("block shape", "nc"))
"Both options that cut, into blocks of this format and of another one."


@pytest.mark.parametrize(("split", "format"), few(PLAYED, CUTS, "what was split is merged again"))
def test_split_then_merge_is_bit_identical(
    volume: Path, tmp_path: Path, split: str, format: str
) -> None:
    (options, count), out = SPLITS[split], tmp_path / "blocks"
    convert(volume, out, *options, "--format", format)
    assert len(blocks_of(out)) == count
    convert(out, tmp_path / "merged.nii")
    assert identical(volume, tmp_path / "merged.nii")


def test_it_does_not_matter_in_which_order_blocks_are_named(volume: Path, tmp_path: Path) -> None:
    convert(volume, tmp_path / "blocks", "--blocks", "3x2x2")
    blocks = blocks_of(tmp_path / "blocks")
    random.Random(1).shuffle(blocks)
    convert(*blocks, tmp_path / "merged.nii")
    assert identical(volume, tmp_path / "merged.nii")
    (tmp_path / "list.txt").write_text("".join(f"{path}\n" for path in reversed(blocks)))
    convert(tmp_path / "list.txt", tmp_path / "again.nii")
    assert identical(volume, tmp_path / "again.nii")
    convert(f"{tmp_path}/blocks/*.nii", tmp_path / "pattern.nii")
    assert identical(volume, tmp_path / "pattern.nii")


def test_world_coordinates_agree_block_by_block(volume: Path, tmp_path: Path) -> None:
    """nibabel's affine of every block puts its corners where those voxels of the whole are."""
    convert(volume, tmp_path / "blocks", "--blocks", "4x3x2")
    whole, times = nib.load(volume), np.zeros((23, 19, 17), int)
    for path in blocks_of(tmp_path / "blocks"):
        block = nib.load(path)
        first = [int(text) for text in path.name.removesuffix(".nii").split("_")[-3:]]
        box = tuple(slice(a, a + n) for a, n in zip(first, block.shape, strict=True))
        np.testing.assert_array_equal(np.asarray(block.dataobj), np.asarray(whole.dataobj)[box])
        times[box] += 1
        for form in ("get_sform", "get_qform"):
            inside, outside = (getattr(image.header, form)() for image in (block, whole))
            for corner in itertools.product(*((0, n - 1) for n in block.shape)):
                there = [a + i for a, i in zip(first, corner, strict=True)]
                np.testing.assert_allclose(inside @ [*corner, 1], outside @ [*there, 1], atol=1e-3)
    assert (times == 1).all()


SERIES = (
    ("1x1x1x5", "nii"),
    ("1x1x1x5", "nii.gz"),
    ("1x1x1x5", "h5"),
    ("2x3x1x4", "nii"),
    ("2x3x1x4", "nii.gz"),
    ("2x3x1x4", "h5"),
)


@pytest.mark.parametrize(
    ("grid", "format"),
    few([("1x1x1x5", "h5"), ("2x3x1x4", "nii")], SERIES, "what was split is merged again"),
)
def test_series_are_split_along_time_too(tmp_path: Path, grid: str, format: str) -> None:
    convert(FUNCTIONAL, tmp_path / "whole.nii")
    convert(tmp_path / "whole.nii", tmp_path / "blocks", "--blocks", grid, "--format", format)
    convert(tmp_path / "blocks", tmp_path / "merged.nii")
    assert identical(tmp_path / "whole.nii", tmp_path / "merged.nii")


RICH: dict[str, Any] = {
    "dim_info": 3 << 4,
    "slice_end": 8,
    "slice_code": 1,
    "slice_duration": 0.0666,
    "toffset": 0.3,
    "cal_max": 3,
    "pixdim": [-1, 0.5, 0.75, 2, 3, 0.25, 7, 9],
    "xyzt_units": 10,
    "intent_p1": 2,
    "aux_file": b"aux",
}
"Fields that cutting changes, and such as no reader needs."
FORMS: dict[str, dict[str, Any]] = {
    "both forms": {
        "sform_code": 2,
        "srow_x": OBLIQUE[0],
        "srow_y": OBLIQUE[1],
        "srow_z": OBLIQUE[2],
        "qform_code": 1,
        "quatern_b": 0.1,
        "quatern_c": 0.25,
        "quatern_d": 0.3,
        "qoffset_x": 1 / 3,
        "qoffset_y": 2 / 7,
    },
    "no form": {},
}


WHOLES = tuple(itertools.product((0, 1), FORMS, ("nii", "h5")))
"Slope, forms and format; NIfTI-1 without a slope, NIfTI-2 with one."
PAIRS = ((0, "no form", "nii"), (1, "both forms", "h5"))
"Each of them."


@pytest.mark.parametrize(("slope", "forms", "format"), few(PAIRS, WHOLES, "the whole survives"))
def test_what_belongs_to_the_whole_survives(
    tmp_path: Path, slope: int, forms: str, format: str
) -> None:
    """The order and times of slices that come to lie in several files, also in stages."""
    values = np.random.default_rng(0).integers(0, 99, (6, 5, 9, 3)).astype("i2")
    fields = {**RICH, **FORMS[forms]}
    whole = save_exactly(
        tmp_path / "whole.nii", values, 1 + slope, slope=slope, inter=5 - 5 * slope, fields=fields
    )
    convert(whole, tmp_path / "blocks", "--block-shape", "6,5,5,2", "--format", format)
    convert(tmp_path / "blocks", tmp_path / "merged.nii")
    assert identical(whole, tmp_path / "merged.nii")
    first = blocks_of(tmp_path / "blocks")[0]
    convert(first, tmp_path / "smaller", "--blocks", "2x1x2x1", "--format", format)
    convert(tmp_path / "smaller", tmp_path / first.name)
    convert(tmp_path / first.name, *blocks_of(tmp_path / "blocks")[1:], tmp_path / "by-stages.nii")
    assert identical(whole, tmp_path / "by-stages.nii")


def test_a_place_that_blocks_were_given_since_is_not_undone(tmp_path: Path) -> None:
    values = np.zeros((6, 5, 9), "i2")
    whole = save_exactly(tmp_path / "whole.nii", values, fields={**RICH, **FORMS["both forms"]})
    convert(whole, tmp_path / "blocks", "--blocks", "1x1x3")
    turn = np.diag([2.0, 2, 2, 1])
    for path in blocks_of(tmp_path / "blocks"):
        image = nib.load(path)
        placed = nib.Nifti1Image(np.asarray(image.dataobj), turn @ image.affine, image.header)
        path.unlink()
        nib.save(placed, path)
    convert(tmp_path / "blocks", tmp_path / "merged.nii")
    np.testing.assert_allclose(
        affine_of(tmp_path / "merged.nii"), turn @ affine_of(whole), rtol=1e-5
    )
    assert nib.load(tmp_path / "merged.nii").header["slice_code"] == 1


@pytest.mark.parametrize("format", few(["h5"], ["nii", "h5"], "what was split is merged again"))
def test_blocks_along_a_fifth_axis_say_where_they_lie(tmp_path: Path, format: str) -> None:
    values = np.arange(4 * 3 * 2 * 2 * 4, dtype="i2").reshape(4, 3, 2, 2, 4)
    whole = save_exactly(tmp_path / "whole.nii", values)
    convert(whole, tmp_path / "blocks", "--blocks", "1x1x1x2x4", "--format", format)
    convert(*reversed(blocks_of(tmp_path / "blocks")), tmp_path / "merged.nii")
    assert identical(whole, tmp_path / "merged.nii")


def test_colours_become_hdf5_and_colours_again(tmp_path: Path) -> None:
    values = np.arange(180, dtype="u1").view(RGB).reshape(3, 4, 5)
    whole = save_exactly(tmp_path / "whole.nii", values)
    convert(whole, tmp_path / "new.h5")
    convert(tmp_path / "new.h5", tmp_path / "again.nii")
    assert identical(whole, tmp_path / "again.nii")


@pytest.mark.parametrize("shape", [(40,), (9, 8), (4, 3, 5, 2, 6)], ids=str)
def test_arrays_of_any_number_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["signal"] = values
    convert(
        tmp_path / "in.h5",
        tmp_path / "blocks",
        "--blocks",
        "x".join("2" * len(shape)),
        "--format",
        "h5",
    )
    assert len(blocks_of(tmp_path / "blocks")) == 2 ** len(shape)
    convert(tmp_path / "blocks", tmp_path / "merged.h5")
    with h5py.File(tmp_path / "merged.h5") as file:
        np.testing.assert_array_equal(file["signal"][()], values)


@repeats("blocks are merged by stages: in test_what_belongs_to_the_whole_survives")
def test_blocks_are_split_again_and_merged_by_stages(volume: Path, tmp_path: Path) -> None:
    convert(volume, tmp_path / "halves", "--blocks", "1x1x2")
    for number, half in enumerate(blocks_of(tmp_path / "halves")):
        convert(half, tmp_path / f"split{number}", "--blocks", "2x2x2", "--format", "h5")
        convert(tmp_path / f"split{number}", tmp_path / f"half{number}.nii.gz")
        np.testing.assert_array_equal(values_of(tmp_path / f"half{number}.nii.gz"), values_of(half))
        np.testing.assert_array_equal(affine_of(tmp_path / f"half{number}.nii.gz"), affine_of(half))
    convert(tmp_path / "half0.nii.gz", tmp_path / "half1.nii.gz", tmp_path / "merged.nii")
    assert identical(volume, tmp_path / "merged.nii")


def test_a_compressed_volume_is_split_and_merged(tmp_path: Path) -> None:
    convert(EPI, tmp_path / "blocks", "--blocks", "3x3x2x2", "--format", "nii")
    convert(tmp_path / "blocks", tmp_path / "merged.nii.gz")
    np.testing.assert_array_equal(values_of(tmp_path / "merged.nii.gz"), values_of(EPI))
    np.testing.assert_array_equal(affine_of(tmp_path / "merged.nii.gz"), affine_of(EPI))


def test_merging_into_chunks_that_blocks_do_not_fit(volume: Path, tmp_path: Path) -> None:
    convert(volume, tmp_path / "blocks", "--blocks", "3x2x4")
    convert(tmp_path / "blocks", tmp_path / "new.h5", "--chunks", "8,8,8", "--compression", "gzip")
    with h5py.File(tmp_path / "new.h5") as file:
        np.testing.assert_array_equal(file["data"][()], values_of(volume))
        affine = file["data"].attrs["affine"].reshape(4, 4)
        np.testing.assert_allclose(affine, affine_of(volume), rtol=1e-6)
    convert(tmp_path / "new.h5", tmp_path / "back.nii")
    assert identical(volume, tmp_path / "back.nii")


MISSING = tuple(itertools.product(("nii", "nii.gz", "h5", "nc", "zarr"), (0, -1)))
ENDS = (("nii", 0), ("h5", -1), ("zarr", 0))
"Files of each header that says what was cut, and both ends: the first one missing, or the last."


class TestMismatchedBlocks:
    """Each is a sentence that names the file, before anything is written."""

    @pytest.fixture
    def blocks(self, eighths: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(eighths, tmp_path / "blocks"))

    def refused(self, blocks: Path) -> str:
        said = refuse(blocks, blocks.parent / "merged.nii")
        assert not (blocks.parent / "merged.nii").exists()
        assert not list(blocks.parent.glob(".merged*"))
        return said

    def replace(self, path: Path, values: Array, affine: Array | None = None) -> None:
        save(path, values, affine_of(path) if affine is None else affine)

    def test_missing(self, blocks: Path) -> None:
        (blocks / "whole_11_00_08.nii").unlink()
        assert (
            "the blocks leave 972 voxels of the array of shape (23, 19, 17) uncovered"
            in self.refused(blocks)
        )

    def test_missing_at_a_corner(self, blocks: Path) -> None:
        (blocks / "whole_00_00_00.nii").unlink()
        assert "a block is missing" in self.refused(blocks)

    @pytest.mark.parametrize(("format", "missing"), few(ENDS, MISSING, "a block is missing"))
    def test_missing_at_an_end(
        self, volume: Path, tmp_path: Path, format: str, missing: int
    ) -> None:
        """What is left has no gap."""
        convert(volume, tmp_path / "blocks", "--blocks", "1x1x4", "--format", format)
        renaming.remove(blocks_of(tmp_path / "blocks")[missing])
        said = self.refused(tmp_path / "blocks")
        assert (
            "was cut from an array of shape (23, 19, 17), but the blocks make one of (23, 19, 1"
            in said
        )
        assert "a block is missing" in said
        lines = (
            f"{path},0 0 {4 * number}" for number, path in enumerate(blocks_of(tmp_path / "blocks"))
        )
        (tmp_path / "list.txt").write_text("\n".join(lines))
        convert(tmp_path / "list.txt", tmp_path / "some.h5")

    def test_overlapping(self, blocks: Path) -> None:
        shutil.copy(blocks / "whole_00_00_00.nii", blocks / "copy.nii")
        said = self.refused(blocks)
        assert "copy.nii and " in said
        assert "whole_00_00_00.nii overlap" in said

    def test_larger_than_its_place(self, blocks: Path) -> None:
        path = blocks / "whole_00_00_00.nii"
        self.replace(path, np.zeros((12, 9, 8), "u2"))
        assert "overlap" in self.refused(blocks)

    def test_another_dtype(self, blocks: Path) -> None:
        path = blocks / "whole_11_09_08.nii"
        self.replace(path, values_of(path).astype("f4"))
        assert "have different dtypes (float32, uint16)" in self.refused(blocks)

    def test_another_affine(self, blocks: Path) -> None:
        path = blocks / "whole_11_09_08.nii"
        self.replace(path, values_of(path), affine_of(path) @ np.diag([1, 1, 1.1, 1]))
        said = self.refused(blocks)
        assert f"{path} does not lie on the voxel grid of " in said

    def test_half_a_voxel_away(self, blocks: Path) -> None:
        path, half = blocks / "whole_11_09_08.nii", np.eye(4)
        half[0, 3] = 0.5
        self.replace(path, values_of(path), affine_of(path) @ half)
        assert "does not lie on the voxel grid" in self.refused(blocks)

    def test_another_slope(self, blocks: Path) -> None:
        path = blocks / "whole_11_09_08.nii"
        image = nib.Nifti1Image(values_of(path), affine_of(path))
        image.header.set_slope_inter(2, 1)
        nib.save(image, path)
        assert "have different slopes and intercepts" in self.refused(blocks)

    def test_another_number_of_axes(self, blocks: Path) -> None:
        path = blocks / "whole_11_09_08.nii"
        self.replace(path, values_of(path)[..., np.newaxis])
        assert f"{path} has 4 dimensions" in self.refused(blocks)

    def test_truncated(self, blocks: Path) -> None:
        path = blocks / "whole_11_09_08.nii"
        path.write_bytes(path.read_bytes()[:-1])
        done = call("convert", blocks, blocks.parent / "merged.nii", "--engine", "serial", "-q")
        assert done.code == 1
        assert f"{path}: truncated: 1 byte missing" in done.err

    def test_joined_along_an_axis_they_have_to_fit(self, blocks: Path) -> None:
        said = refuse(blocks, blocks.parent / "merged.nii", "--axis", "0")
        assert "cannot concatenate along axis 0" in said
        assert "has shape" in said
