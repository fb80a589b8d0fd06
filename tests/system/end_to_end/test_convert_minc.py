"""MINC volumes become NIfTI without a flag: nibabel's values and places of the two are the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from nibabel.testing import data_path  # MINC1 and MINC2, of 3 and 4 axes

from hyperslab import convert as convert_in_python
from tests.formats.files import DATA
from tests.repetitions import few
from tests.system.end_to_end.command import SMALL, call, convert, succeed

EXTRA = Path(os.environ.get("HYPERSLAB_EXTRA_DATA", DATA))
OF_NIBABEL = sorted(Path(str(data_path)).glob("*.mnc"))
REAL = {path.name: path for path in (*OF_NIBABEL, *EXTRA.rglob("*.mnc"), *DATA.rglob("*.mnc"))}

pytestmark = [
    pytest.mark.usefixtures("hurried"),
    pytest.mark.filterwarnings("ignore:Invalid spacing declaration"),
]


def by_nibabel(path: Path) -> tuple[Any, Any]:
    """Values and affine, the axes of space first."""
    image: Any = nib.load(path)
    values = np.asarray(image.dataobj)
    if path.suffix == ".mnc" and values.ndim > 3:
        values = np.moveaxis(values, 0, -1)
    return values, image.affine


@pytest.mark.parametrize("name", sorted(REAL))
def test_a_real_file_becomes_nifti(tmp_path: Path, name: str) -> None:
    convert(REAL[name], tmp_path / "new.nii.gz")
    values, affine = by_nibabel(tmp_path / "new.nii.gz")
    expected, placed = by_nibabel(REAL[name])
    np.testing.assert_array_equal(values, expected, strict=True)
    np.testing.assert_allclose(affine, placed, rtol=1e-6)
    assert nib.load(tmp_path / "new.nii.gz").header.get_xyzt_units()[0] == "mm"  # type: ignore[attr-defined]


OTHERS = ["h5", "nc", "zarr"]
PLACED = "formats keep the place: test_time_first.py"


@pytest.mark.parametrize("suffix", few(["nc"], OTHERS, PLACED))
def test_blocks_in_other_formats_become_nifti_in_their_place(tmp_path: Path, suffix: str) -> None:
    source = DATA / "minc" / "minc2-4d-d.mnc"
    options = ("--format", suffix, "--block-shape", "5,8,16,16")
    convert(source, tmp_path / "new", *options, "--sources", "independent")
    (last,) = (tmp_path / "new").glob(f"*_0_08_00_00.{suffix}")
    convert(last, tmp_path / "last.nii")
    values, affine = by_nibabel(tmp_path / "last.nii")
    expected, placed = by_nibabel(source)
    np.testing.assert_array_equal(values, expected[8:])
    np.testing.assert_allclose(affine[:3, 3], (placed @ [8, 0, 0, 1])[:3], rtol=1e-6)


OF_TIME = ["minc1_4d.mnc", "minc2_4d.mnc", "minc2-4d-d.mnc"]


@pytest.mark.parametrize("name", few(OF_TIME[:2], OF_TIME, "blocks of a series are parts of it"))
def test_blocks_of_a_series_are_parts_of_it(tmp_path: Path, name: str) -> None:
    source = next(path for path in OF_NIBABEL if path.name == name)
    convert(source, tmp_path / "new", "--format", "nii", "--blocks", "2x1x2x2")
    convert(tmp_path / "new", tmp_path / "again.nii")
    values, affine = by_nibabel(tmp_path / "again.nii")
    expected, placed = by_nibabel(source)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_allclose(affine, placed, rtol=1e-6)
    blocks: list[Any] = [nib.load(path) for path in (tmp_path / "new").glob("*.nii")]
    times = {float(block.header["toffset"]) for block in blocks}
    assert times == {0, expected.shape[3] // 2}


def test_what_is_written_instead_of_the_stored_numbers_is_said(tmp_path: Path) -> None:
    tiny = DATA / "minc" / "tiny.mnc"
    said = succeed("convert", tiny, tmp_path / "new.nii", *SMALL[:2], "--dry-run")
    assert "note       real values, as float64, for the stored uint8 of " in said
    assert "tiny.mnc::image: NIfTI cannot say what these stored values mean: some" in said
    for end in ("nc", "zarr"):
        said = succeed("convert", tiny, tmp_path / f"new.{end}", *SMALL[:2], "--dry-run")
        assert "they are scaled by slices or clipped to a range)\n" in said, "without a remedy"
    functional = DATA / "mri" / "functional.nii"
    assert "note" not in succeed("convert", functional, tmp_path / "new.h5", "--dry-run")
    with pytest.raises(Exception, match="use values='real'"):
        convert_in_python(tiny, tmp_path / "new.nii", values="stored", engine="serial")


def test_a_run_over_a_series_with_time_first_makes_no_nifti_out_of_place(tmp_path: Path) -> None:
    out = ("-o", tmp_path / "out", *SMALL)
    done = call("run", "increment", DATA / "minc" / "minc2-4d-d.mnc", *out)
    assert done.code == 2
    assert "NIfTI needs the axes of space first, but this array has time, xspace, " in done.err
    succeed("run", "increment", DATA / "minc" / "minc2-4d-d.mnc", *out, "--format", "h5")
