"""Where arrays lie that have other axes than their source: what nibabel reads of their headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.driver.result import Result
from tests.formats.minc_made import SPACE, write_minc2
from tests.formats.minc_rows import volume
from tests.system.end_to_end.command import (
    FUNCTIONAL,
    affine_of,
    image_of,
    outputs,
    real_values_of,
)


def highest(source: Path, made: Path, axis: int, **more: Any) -> Result:
    """Write the maximum along an axis."""

    def maximum(block: Array) -> Array:
        return np.asarray(block.max(axis=axis))

    pipeline = hyperslab.Pipeline(source, region=more.pop("region", None)).map(maximum)
    written = pipeline.write(made, keep=more.pop("keep", None))
    return hyperslab.run(written, engine="serial", report=False, **more)


def sizes_and_units(path: Path) -> tuple[tuple[float, ...], tuple[str, str]]:
    header = image_of(path).header
    space, time = header.get_xyzt_units()
    return tuple(float(size) for size in header.get_zooms()), (space, time)


def codes(path: Path) -> tuple[int, int]:
    """Those of sform and qform."""
    header = image_of(path).header
    return int(header["sform_code"]), int(header["qform_code"])


def test_a_series_that_gets_shorter_keeps_its_step_in_time(tmp_path: Path) -> None:
    """As by numpy.diff; every second volume is another axis, of which nothing is known."""
    affine = np.diag([2.0, 3, 4, 1])
    image: Any = nib.Nifti1Image(np.zeros((3, 4, 5, 9), np.int16), affine)  # type: ignore[no-untyped-call]
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_zooms((2.0, 3.0, 4.0, 2.5))
    nib.save(image, tmp_path / "bold.nii")
    functions = {
        "shorter": lambda block: np.diff(block, axis=3),
        "other": lambda block: block[..., ::2],
    }
    found = {}
    for name, function in functions.items():
        out = tmp_path / f"{name}.nii"
        pipeline = hyperslab.Pipeline(tmp_path / "bold.nii").map(function).write(out)
        hyperslab.run(pipeline, engine="serial", report=False)
        found[name] = sizes_and_units(out)
    assert image_of(tmp_path / "shorter.nii").shape == (3, 4, 5, 8)
    assert found["shorter"] == ((2.0, 3.0, 4.0, 2.5), ("mm", "sec"))
    assert found["other"] == ((2.0, 3.0, 4.0, 1.0), ("mm", "unknown"))


def test_time_first_gets_shorter_as_well(tmp_path: Path, timed: Path) -> None:
    """Space keeps its place, time its step; what is cut off space has to be said."""
    values = np.asarray(hyperslab.open(timed))
    pipeline = hyperslab.Pipeline(timed).map(lambda block: block[1:]).write(tmp_path / "o.nc")
    hyperslab.run(pipeline, engine="serial", report=False)
    made = hyperslab.open(tmp_path / "o.nc")
    assert np.array_equal(np.asarray(made), values[1:])
    assert made.dims == hyperslab.open(timed).dims
    assert np.array_equal(np.array(made.affine), np.array(hyperslab.open(timed).affine))
    cut = hyperslab.Pipeline(timed).map(lambda block: block[:, 1:]).write(tmp_path / "cut.nc")
    with pytest.raises(hyperslab.errors.UsageError, match=r"say drop_axis=1 and new_axis={1: 3}"):
        hyperslab.run(cut, engine="serial", report=False)


@pytest.fixture
def timed(tmp_path: Path) -> Path:
    """A MINC series, time first, whose axes all have other steps."""
    path = tmp_path / "timed.mnc"
    steps = {"time": 2.5, "zspace": 4.0, "yspace": 3.0, "xspace": -2.0}
    said = {name: {"units": "mm"} for name in SPACE} | {"time": {"units": "s"}}
    dims = ["time", *SPACE]
    write_minc2(path, volume("f4", None, dims, steps=steps, dimensions=said))
    return path


@pytest.mark.parametrize(
    ("axis", "sizes"), [(1, (2.5, 3.0, 2.0)), (2, (2.5, 4.0, 2.0)), (3, (2.5, 4.0, 3.0))]
)
def test_a_map_with_time_among_its_first_axes_has_no_place(
    timed: Path, tmp_path: Path, axis: int, sizes: tuple[float, ...]
) -> None:
    made = tmp_path / "made.nii"
    highest(timed, made, axis)
    assert np.array_equal(real_values_of(made), hyperslab.open(timed)[...].max(axis=axis))
    assert codes(made) == (0, 0)
    assert sizes_and_units(made) == (sizes, ("unknown", "unknown"))


def test_blocks_of_a_map_without_a_place_have_none(tmp_path: Path) -> None:
    out = tmp_path / "out"
    highest(FUNCTIONAL, out, 0, keep="blocks", blocks="1x3x1x1")
    sizes, _ = sizes_and_units(FUNCTIONAL)
    assert len(outputs(out)) == 3
    for path in outputs(out):
        assert codes(path) == (0, 0)
        assert sizes_and_units(path) == (sizes[1:], ("unknown", "unknown"))


def test_a_minc_series_without_its_time_lies_where_its_space_does(
    timed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    highest(timed, out, 0, keep="blocks", region="0:2,1:4,2:5,1:3")
    (made,) = outputs(out)
    space = hyperslab.open(timed).affine
    assert space is not None
    assert np.allclose(affine_of(made)[:, 3], space @ (1, 2, 1, 1))
    assert np.allclose(affine_of(made)[:3, :3], space[:3, :3])
    assert sizes_and_units(made) == ((4.0, 3.0, 2.0), ("mm", "unknown"))


def test_an_image_whose_voxels_are_its_millimetres_has_a_place_to_lose(tmp_path: Path) -> None:
    path = tmp_path / "series.mnc"
    dims = ["xspace", "yspace", "zspace", "time"]
    plain: dict[str, Any] = {name: {"start": 0.0} for name in dims}
    write_minc2(path, volume("f4", None, dims, dimensions=plain))
    affine = hyperslab.open(path).source.header.base_affine
    assert affine is not None
    assert np.array_equal(affine, np.eye(4))
    made = tmp_path / "made.nii"
    highest(path, made, 0)
    assert codes(made) == (0, 0)


@pytest.mark.parametrize("affine", [None, np.diag([2.0, 3, 4, 1])], ids=["no place", "a place"])
def test_a_region_of_an_image_lies_where_nibabel_has_it(
    tmp_path: Path, affine: Array | None
) -> None:
    image: Any = nib.Nifti1Image(np.zeros((5, 6, 7), np.int16), affine)  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "in.nii")
    pipeline = hyperslab.Pipeline(tmp_path / "in.nii", region="2:4,1:5,:").map(np.negative)
    hyperslab.run(pipeline.write(tmp_path / "o.nii"), engine="serial", report=False)
    saved: Any = nib.load(tmp_path / "in.nii")
    expected = saved.slicer[2:4, 1:5]
    np.testing.assert_array_equal(affine_of(tmp_path / "o.nii"), expected.affine)


def test_a_region_of_an_array_without_a_place_has_none(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["v"] = np.zeros((5, 6, 7), np.int16)
    pipeline = hyperslab.Pipeline(tmp_path / "in.h5", region="2:4,1:5,:").map(np.negative)
    hyperslab.run(pipeline.write(tmp_path / "o.nii"), engine="serial", report=False)
    assert codes(tmp_path / "o.nii") == (0, 0)
    blocks = pipeline.write(tmp_path / "b", format="nii", keep="blocks")
    hyperslab.run(blocks, engine="serial", report=False, blocks=(2, 1, 1))
    places = {tuple(affine_of(path)[:3, 3]) for path in (tmp_path / "b").glob("*.nii")}
    assert places == {(2.0, 1.0, 0.0), (3.0, 1.0, 0.0)}, "blocks say where in their whole they lie"
