"""What SOURCE can be, and how several files belong together."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab.arrays import Array
from tests.repetitions import few
from tests.system.end_to_end.command import (
    ANATOMICAL,
    EPI,
    FUNCTIONAL,
    affine_of,
    call,
    image_of,
    only_output,
    outputs,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

SCL_SLOPE = 112
"Where a NIfTI-1 header holds its slope, as float32, and then its intercept."
TURNED = np.array([[-0.7, 0.1, 0, 31], [0, 0.9, -0.2, -12.5], [0.05, 0, 1.3, 7], [0, 0, 0, 1]])


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A directory of three small images whose natural order is not the alphabet's."""
    for number in (1, 2, 10):
        save(tmp_path / "series" / f"s{number}.nii", np.full((4, 3, number), number, np.int16))
    return tmp_path / "series"


def incremented(folder: Path) -> dict[str, tuple[Array, Array]]:
    """Output name -> its values and affine."""
    return {path.name: (values_of(path), affine_of(path)) for path in outputs(folder)}


def test_several_files(series: Path, tmp_path: Path) -> None:
    succeed("run", "increment", series / "s1.nii", series / "s10.nii", "-o", tmp_path / "out")
    found = incremented(tmp_path / "out")
    assert list(found) == ["s1.nii", "s10.nii"]
    assert (found["s10.nii"][0] == 11).all()


def test_a_directory_a_glob_and_both_spellings_of_a_list_are_the_same(
    series: Path, tmp_path: Path
) -> None:
    (series / "sub").mkdir()
    (series / "notes.md").write_text("not an array")
    with h5py.File(tmp_path / "more.h5", "w") as file:
        file["a/b"], file["a/c"] = np.full((4, 3, 2), 2, "i2"), np.zeros(3)
    (tmp_path / "list.txt").write_text(
        f"# three images\nseries/s1.nii\n\n{series}/s10.nii\nmore.h5,a/b\n"
    )
    for name, source in {
        "dir": series,
        "glob": series / "s*.nii",
        "list": tmp_path / "list.txt",
    }.items():
        succeed("run", "increment", source, "-o", tmp_path / name)
    plain, listed = incremented(tmp_path / "dir"), incremented(tmp_path / "list")
    assert list(plain) == ["s1.nii", "s10.nii", "s2.nii"]
    assert list(incremented(tmp_path / "glob")) == list(plain)
    assert list(listed) == ["more_a-b.nii", "s1.nii", "s10.nii"]
    assert np.array_equal(listed["more_a-b.nii"][0], np.full((4, 3, 2), 3))


def test_concatenated_in_natural_order(series: Path, tmp_path: Path) -> None:
    succeed(
        "run",
        "increment",
        series,
        "-o",
        tmp_path / "out",
        "--sources",
        "concatenated",
        "--axis",
        "2",
        "--keep",
        "volume",
        "--block-shape",
        "4,3,4",
    )
    values = values_of(only_output(tmp_path / "out"))
    assert values[0, 0].tolist() == [2, *[3] * 2, *[11] * 10]
    assert values.shape == (4, 3, 13)


def test_files_that_cannot_be_concatenated(series: Path, tmp_path: Path) -> None:
    done = call(
        "run",
        "increment",
        series,
        "-o",
        tmp_path / "out",
        "--sources",
        "concatenated",
        "--axis",
        "1",
    )
    assert done.code == 2
    assert "s2.nii has shape (4, 3, 2)" in done.err


ORDERS = ["as written", "shuffled"]


@pytest.mark.parametrize("order", few(["shuffled"], ORDERS, "blocks say where they lie"))
def test_a_mosaic_of_blocks_gives_the_original_back(tmp_path: Path, order: str) -> None:
    values = np.random.default_rng(4).integers(0, 65536, (33, 41, 25), dtype=np.uint16)
    original = save(tmp_path / "in" / "original.nii", values, TURNED)
    succeed("run", "numpy:positive", original, "-o", tmp_path / "blocks", "--blocks", "5x5x5")
    assert len(outputs(tmp_path / "blocks")) == 125
    if order == "shuffled":
        paths = outputs(tmp_path / "blocks")
        for number, path in enumerate(random.Random(5).sample(paths, len(paths))):
            path.rename(path.with_name(f"{number}.nii"))
    succeed(
        "run",
        "numpy:positive",
        tmp_path / "blocks",
        "-o",
        tmp_path / "back",
        "--sources",
        "mosaic",
        "--keep",
        "volume",
        "--blocks",
        "3x1x4",
    )
    back = only_output(tmp_path / "back")
    assert values_of(back).dtype == np.uint16
    assert np.array_equal(values_of(back), values)
    corners = np.array([[0, 0, 0, 1], [32, 0, 0, 1], [0, 40, 0, 1], [32, 40, 24, 1]]).T
    assert np.allclose(affine_of(back) @ corners, affine_of(original) @ corners, atol=1e-4)
    assert back.stat().st_size == original.stat().st_size


def test_a_real_scaled_series_comes_back_bit_for_bit(tmp_path: Path) -> None:
    succeed(
        "run",
        "numpy:positive",
        FUNCTIONAL,
        "-o",
        tmp_path / "blocks",
        "--values",
        "stored",
        "--blocks",
        "5x5x1x1",
    )
    succeed(
        "run",
        "numpy:positive",
        tmp_path / "blocks",
        "-o",
        tmp_path / "back",
        "--values",
        "stored",
        "--sources",
        "mosaic",
        "--keep",
        "volume",
    )
    back = image_of(only_output(tmp_path / "back"))
    parent = image_of(FUNCTIONAL)
    assert np.array_equal(back.dataobj.get_unscaled(), parent.dataobj.get_unscaled())
    assert (back.dataobj.slope, back.dataobj.inter) == (parent.dataobj.slope, parent.dataobj.inter)
    assert np.allclose(back.affine, parent.affine, atol=1e-5)


def test_a_mosaic_with_a_hole_or_an_overlap_is_refused(tmp_path: Path) -> None:
    succeed("run", "increment", ANATOMICAL, "-o", tmp_path / "blocks", "--blocks", "2x2x2")
    spare = outputs(tmp_path / "blocks")[3]
    shutil.copy(spare, tmp_path / "blocks" / "copy.nii")
    done = call(
        "run", "increment", tmp_path / "blocks", "-o", tmp_path / "a", "--sources", "mosaic"
    )
    assert done.code == 2
    assert "copy.nii" in done.err
    assert "overlap" in done.err
    (tmp_path / "blocks" / "copy.nii").unlink()
    size = values_of(spare).size
    spare.unlink()
    done = call(
        "run", "increment", tmp_path / "blocks", "-o", tmp_path / "b", "--sources", "mosaic"
    )
    assert done.code == 2
    assert (
        f"the blocks leave {size:,} voxels of the array of shape (33, 41, 25) uncovered" in done.err
    )


def test_sources_of_different_dtypes_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "in" / "a.nii", np.zeros((3, 3, 3), np.int16))
    save(tmp_path / "in" / "b.nii", np.zeros((3, 3, 3), np.float32))
    done = call("run", "increment", tmp_path / "in", "-o", tmp_path / "out")
    assert done.code == 2
    assert "different dtypes (float32, int16): run them one by one" in done.err


def test_sources_of_different_slopes(tmp_path: Path) -> None:
    for name, slope in (("a.nii", 0.5), ("b.nii", 2.0)):
        path = save(tmp_path / "in" / name, np.arange(27, dtype=np.int16).reshape(3, 3, 3))
        image = bytearray(path.read_bytes())
        struct.pack_into("<2f", image, SCL_SLOPE, slope, 1)
        path.write_bytes(image)
    for values in ("real", "stored"):
        succeed(
            "run", "numpy:positive", tmp_path / "in", "-o", tmp_path / values, "--values", values
        )
        for name, slope in (("a.nii", 0.5), ("b.nii", 2.0)):
            written: Any = image_of(tmp_path / values / name)
            assert written.get_fdata()[2, 2, 2] == 26 * slope + 1
            assert written.dataobj.slope == (slope if values == "stored" else 1)
    together = (
        "run",
        "numpy:positive",
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "--sources",
        "concatenated",
    )
    done = call(*together, "--values", "stored")
    assert done.code == 2
    assert "use --values real" in done.err
    succeed(*together, "--keep", "volume")
    assert values_of(only_output(tmp_path / "out"))[[2, 5], 2, 2].tolist() == [14, 53]


def test_one_name_in_two_folders(tmp_path: Path) -> None:
    for folder in ("sub-01", "sub-02"):
        save(tmp_path / "in" / folder / "T1w.nii", np.full((2, 2, 2), int(folder[-1]), np.int16))
    succeed("run", "increment", f"{tmp_path}/in/*/T1w.nii", "-o", tmp_path / "out")
    found = incremented(tmp_path / "out")
    assert {name: int(values[0, 0, 0]) for name, (values, _) in found.items()} == {
        "sub-01_T1w.nii": 2,
        "sub-02_T1w.nii": 3,
    }


def test_a_home_directory_and_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["one"], file["two"] = np.arange(6.0), np.arange(3.0)
    succeed("run", "increment", "~/x.h5::two", "-o", tmp_path / "out", "--format", "h5")
    with h5py.File(only_output(tmp_path / "out")) as file:
        assert file["two"][:].tolist() == [1, 2, 3]


def test_an_epi_against_nibabel(tmp_path: Path) -> None:
    succeed(
        "run", "increment", EPI, "-o", tmp_path / "out", "--partition", "slabs", "--keep", "volume"
    )
    written = only_output(tmp_path / "out")
    assert np.array_equal(values_of(written), values_of(EPI) + np.int16(1))
    assert np.allclose(affine_of(written), affine_of(EPI))
