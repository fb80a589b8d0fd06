"""Where converted arrays lie: joined files, micrometre voxels, affines that place nothing."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from hyperslab.arrays import Array
from tests.repetitions import each_value, few
from tests.system.end_to_end.command import affine_of, call, convert, refuse, save, values_of

FINE = 5e-4
"Voxels of half a micrometre, in millimetres."


pytestmark = pytest.mark.usefixtures("hurried")


def placed(zoom: float, *origin: float) -> Array:
    affine = np.diag([zoom, zoom, zoom, 1])
    affine[: len(origin), 3] = origin
    return affine


def series(folder: Path, *affines: Array) -> Path:
    for number, affine in enumerate(affines):
        save(folder / f"s{number}.nii", np.full((4, 3, 2, 5), number, "i2"), affine)
    return folder


@pytest.mark.parametrize("axis", few([0, -1], [0, 1, 2, 3, -1], "files are joined along an axis"))
def test_files_of_one_affine_are_joined_along_any_axis(tmp_path: Path, axis: int) -> None:
    convert(
        series(tmp_path / "in", placed(2, 5), placed(2, 5)), tmp_path / "new.nii", "--axis", axis
    )
    np.testing.assert_array_equal(affine_of(tmp_path / "new.nii"), placed(2, 5))
    assert values_of(tmp_path / "new.nii").shape[axis] == 2 * (4, 3, 2, 5)[axis]


def test_files_that_lie_one_after_the_other_are_joined(tmp_path: Path) -> None:
    folder = series(tmp_path / "in", placed(2, 5, 0, 1), placed(2, 5, 0, 5), placed(2, 5, 0, 9))
    convert(folder, tmp_path / "new.nii", "--axis", 2)
    np.testing.assert_array_equal(affine_of(tmp_path / "new.nii"), placed(2, 5, 0, 1))
    assert "s1.nii does not lie where joining along axis 0" in refuse(
        folder, tmp_path / "more.nii", "--axis", 0
    )


@pytest.mark.parametrize(
    ("other", "axis"),
    [(placed(3, 50), 3), (placed(2, 50), 3), (placed(2, 0, 0, 3), 2), (placed(3), 2)],
    ids=str,
)
def test_files_that_lie_elsewhere_are_not_joined(tmp_path: Path, other: Array, axis: int) -> None:
    folder = series(tmp_path / "in", placed(2), other)
    said = refuse(folder, tmp_path / "new.nii", "--axis", axis)
    assert f"{folder}/s1.nii does not lie where joining along axis {axis} would put it" in said
    assert "leave out --axis" in said


def save_h5(path: Path, affine: Array, extent: int = 4) -> Path:
    with h5py.File(path, "w") as file:
        file["data"] = np.ones((extent,) * 3, "i2")
        file["data"].attrs["affine"] = affine
    return path


def test_blocks_of_other_micrometre_voxels_are_not_merged(tmp_path: Path) -> None:
    save_h5(tmp_path / "a.h5", placed(5e-7))
    save_h5(tmp_path / "b.h5", placed(9e-7, 4 * 5e-7))
    said = refuse(tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "new.h5")
    assert "b.h5 does not lie on the voxel grid of " in said
    save_h5(tmp_path / "b.h5", placed(5e-7, 4 * 5e-7))
    convert(tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "new.h5")


def test_an_affine_of_micrometres_that_was_changed_holds(tmp_path: Path) -> None:
    """Against the header of the image that the file was once; against coordinates nothing holds."""
    changed = placed(FINE, 0.8 * FINE)
    save(tmp_path / "in.nii", np.ones((4, 4, 4), "i2"), placed(FINE))
    convert(tmp_path / "in.nii", tmp_path / "new.h5")
    with h5py.File(tmp_path / "new.h5", "r+") as file:
        file["data"].attrs["affine"] = changed
    said = call("info", tmp_path / "new.h5").out
    assert "coordinates along x contradict each other (0.0004 to 0.0019, and 0 to 0.0015)" in said
    with h5py.File(tmp_path / "new.h5", "r+") as file:
        file["data"].dims[0].detach_scale(file["x"])
        del file["x"]
    convert(tmp_path / "new.h5", tmp_path / "back.nii")
    np.testing.assert_allclose(affine_of(tmp_path / "back.nii"), changed, rtol=1e-6)


@each_value("every change, and both formats")
@pytest.mark.parametrize(
    "change",
    [np.diag((-1, 1, 1, 1)), np.diag((2, 1, 1, 1)), np.eye(4) + np.eye(4, k=1) * (0, 1, 0, 0)],
    ids=["mirrored", "larger", "sheared"],
)
@pytest.mark.parametrize("end", ["h5", "zarr"])
def test_an_affine_that_was_changed_beside_coordinates_is_told(
    tmp_path: Path, end: str, change: Array
) -> None:
    """Which of the two is right nobody knows: neither is taken."""
    path = tmp_path / f"new.{end}"
    save(tmp_path / "in.nii", np.ones((4, 4, 4), "i2"), placed(2, 5, 6, 7))
    convert(tmp_path / "in.nii", path)
    changed = change @ placed(2, 5, 6, 7)
    if end == "zarr":
        zarr.open_array(path / "data").attrs["affine"] = changed.tolist()
    else:
        with h5py.File(path, "r+") as file:
            file["data"].attrs["affine"] = changed
    assert "contradict each other" in call("info", path).out
    done = call("convert", path, tmp_path / "back.nii", "--engine", "serial")
    assert "contradict each other" in " ".join((done.out + done.err).split())
    assert not np.array_equal(affine_of(tmp_path / "back.nii"), placed(2, 5, 6, 7))


@pytest.mark.parametrize(
    "bad", [np.zeros((4, 4)), np.full((4, 4), np.nan)], ids=["singular", "not finite"]
)
def test_an_affine_that_places_nothing_is_a_sentence(tmp_path: Path, bad: Array) -> None:
    save_h5(tmp_path / "a.h5", bad)
    save_h5(tmp_path / "b.h5", placed(1, 4))
    for one, other in (("a", "b"), ("b", "a")):
        said = refuse(tmp_path / f"{one}.h5", tmp_path / f"{other}.h5", tmp_path / "new.h5")
        assert (
            "a.h5 has an affine that is singular or not finite, so its place in a mosaic is unknown"
            in said
        )
    assert "does not lie where" in refuse(
        tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "new.h5", "--axis", 0
    )
    save_h5(tmp_path / "b.h5", bad)
    convert(tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "new.h5", "--axis", 0)
