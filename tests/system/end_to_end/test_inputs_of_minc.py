"""MINC series, time first, as further inputs of images whose voxels are in another order, or lie
elsewhere: what the functions get is what they get of the same series as NIfTI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from tests.formats.minc_made import SPACE, write_minc2
from tests.formats.minc_rows import volume
from tests.system.end_to_end.command import affine_of, image_of, real_values_of, save

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

CUT = hyperslab.Rule("blocks", (2, 1, 2, 2))


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    """A MINC series, time first, whose axes all have other steps."""
    path = tmp_path / "timed.mnc"
    steps = {"time": 2.5, "zspace": 4.0, "yspace": 3.0, "xspace": -2.0}
    write_minc2(path, volume("f4", None, ["time", *SPACE], steps=steps))
    return path


@pytest.fixture
def as_nifti(timed: Path, tmp_path: Path) -> Path:
    """The same series as NIfTI, time last."""
    path = tmp_path / "timed.nii"
    hyperslab.convert(timed, path, engine="serial", report=False)
    return path


def beside(source: Path, other: Path, out: Path, **resample: Any) -> Array:
    """What a function gets of a further input, as a whole image."""
    pipeline = hyperslab.Pipeline(source, other=other, **resample)
    pipeline = pipeline.map(lambda block, other: np.broadcast_to(other, block.shape) * 1.0)
    hyperslab.run(pipeline.write(out), engine="serial", report=False, rule=CUT)
    return real_values_of(out)


@pytest.mark.parametrize("order", [[[0, -1], [1, 1], [2, 1]], [[2, 1], [0, -1], [1, 1]]], ids=str)
def test_a_series_with_time_first_is_read_in_the_order_of_the_source(
    timed: Path, as_nifti: Path, tmp_path: Path, order: list[list[int]]
) -> None:
    turned = tmp_path / "turned.nii"
    nib.save(image_of(as_nifti).as_reoriented(np.array(order)), turned)
    assert not np.array_equal(affine_of(turned), affine_of(as_nifti))
    found = beside(turned, timed, tmp_path / "found.nii")
    assert np.array_equal(found, real_values_of(turned))
    assert len(np.unique(found)) > 9


@pytest.mark.parametrize("how", ["nearest", "linear"])
def test_a_series_with_time_first_is_resampled(
    timed: Path, as_nifti: Path, tmp_path: Path, how: str
) -> None:
    affine = affine_of(as_nifti) @ np.diag([0.75, 1.25, 1, 1])
    times = image_of(as_nifti).shape[3]
    source = save(tmp_path / "source.nii", np.zeros((4, 3, 3, times), "f4"), affine)
    found = beside(source, timed, tmp_path / "a.nii", resample=how)
    assert np.array_equal(found, beside(source, as_nifti, tmp_path / "b.nii", resample=how))
    assert len(np.unique(found)) > 9
