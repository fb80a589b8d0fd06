"""Inputs whose files say no place, or another one altogether; what a run says that it leaves."""

from __future__ import annotations

import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.errors import MissingExtra
from tests.system.end_to_end.command import ANATOMICAL, affine_of, call, save

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

SERIAL = ("--engine", "serial", "--no-report")


@pytest.mark.parametrize("resample", [(), ("--resample", "nearest")])
def test_a_mask_of_another_place_altogether_is_refused(
    tmp_path: Path, resample: tuple[str, ...]
) -> None:
    affine = affine_of(ANATOMICAL).copy()
    affine[0, 3] += 500
    path = save(tmp_path / "mask.nii", np.ones((33, 41, 25), np.uint8), affine)
    done = call("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--mask", path, *resample)
    assert done.code == 2
    assert "the input 'mask' and the source do not overlap" in done.err
    assert "reaches from (468, -40, -16) to (532, 40, 32) mm" in done.err


def test_a_mask_whose_affine_is_no_place_is_refused(tmp_path: Path) -> None:
    affine = affine_of(ANATOMICAL).copy()
    affine[1, 3] = np.nan
    path = save(tmp_path / "mask.nii", np.ones((33, 41, 25), np.uint8), affine)
    done = call("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--mask", path)
    assert done.code == 2
    assert f"the affine of {path} has entries that are NaN or infinite" in done.err


def test_a_mask_is_not_interpolated_by_a_word_for_all(tmp_path: Path) -> None:
    path = save(tmp_path / "other.nii", np.ones((9, 9, 9), np.uint8), np.diag([8.0, 8, 8, 1]))
    pipeline = hyperslab.Pipeline(ANATOMICAL, t1=path, mask=path, resample="linear")
    assert pipeline.resample == {"t1": "linear", "mask": "nearest"}


def test_an_assumed_place_is_told_where_it_decides(tmp_path: Path) -> None:
    """As the middle of a mask whose file says no place."""
    nowhere = nib.Nifti1Image(np.ones((9, 9, 9), np.uint8), None)  # type: ignore[no-untyped-call]
    nib.save(nowhere, tmp_path / "mask.nii")
    told = hyperslab.Pipeline(ANATOMICAL, mask=tmp_path / "mask.nii", resample="nearest").notes
    assert [f"{tmp_path}/mask.nii does not say where it lies" in note for note in told] == [True]
    assert hyperslab.Pipeline(tmp_path / "mask.nii", mask=tmp_path / "mask.nii").notes == ()


def test_linear_resampling_without_scipy_is_refused_when_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "t1.nii", np.ones((9, 9, 9), np.float32), np.diag([8.0, 8, 8, 1]))
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtra, match="linear resampling needs SciPy") as refused:
        hyperslab.Pipeline(ANATOMICAL, t1=path, resample="linear")
    assert refused.value.__notes__[0].endswith("in a clone: pip install '.[resample]'")
