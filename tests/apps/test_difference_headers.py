"""What differs in two headers, and what is only stored differently."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab.apps.difference.found import Difference
from hyperslab.apps.difference.headers import compare_headers
from hyperslab.arrays import Array
from hyperslab.arrays.sets import SourceSet, mosaic
from hyperslab.arrays.source import Scaling
from hyperslab.blocks.gathering import gather
from tests.system.end_to_end.command import DATA, FUNCTIONAL

VALUES = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
AFFINE = np.array([[-0.7, 0.1, 0, 31], [0, 0.9, -0.2, -12.5], [0.05, 0, 1.3, 7], [0, 0, 0, 1]])


def save(path: Path, values: Array = VALUES, affine: Array = AFFINE, **fields: Any) -> Path:
    image: Any = nib.Nifti1Image(values, affine)  # type: ignore[no-untyped-call]
    for name, value in fields.items():
        image.header[name] = value
    nib.save(image, path)
    return path


def save_h5(
    path: Path, values: Array = VALUES, /, storage: dict[str, Any] | None = None, **attributes: Any
) -> Path:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("data", data=values, **(storage or {}))
        dataset.attrs.update({"affine": AFFINE, **attributes})
    return path


def diff(a: Path, b: Path, **how: Any) -> Difference:
    (pair,) = hyperslab.diff(a, b, **how).pairs
    return pair


def differing(a: Path, b: Path, **how: Any) -> dict[str, tuple[str, str]]:
    """Fields that differ, and what both sides say."""
    return {one.what: (one.a, one.b) for one in diff(a, b, **how).headers}


def moved(by: float, axis: int = 0) -> Array:
    affine = AFFINE.copy()
    affine[axis, 3] += by
    return affine


@pytest.mark.parametrize(
    ("by", "is_told"), [(0.0, False), (0.0005, False), (0.002, True), (3.0, True)]
)
def test_an_affine_that_is_elsewhere(by: float, is_told: bool, tmp_path: Path) -> None:
    pair = diff(save(tmp_path / "a.nii"), save(tmp_path / "b.nii", affine=moved(by, 1)))
    assert pair.same is not is_told
    if is_told:
        (one,) = pair.headers
        assert one.what == "affine"
        assert one.detail == f"corners up to {by:.4g} mm apart, tolerated are 0.0007 mm"


def test_an_empty_text_says_as_little_as_none(tmp_path: Path) -> None:
    plain = save_h5(tmp_path / "plain.h5")
    nothing: dict[str, Any] = {
        "description": "",
        "units": "",
        "history": np.zeros(0),
        "time_units": "unknown",
    }
    empty = save_h5(tmp_path / "empty.h5", **nothing)
    assert differing(plain, empty) == {}
    told = save_h5(tmp_path / "told.h5", description="T1", units="mm")
    assert differing(empty, told) == {
        "attribute description": ("none", "T1"),
        "units": ("none", "mm"),
    }


def test_micrometres_are_not_rounded_away(tmp_path: Path) -> None:
    fine = np.diag([5e-4, 5e-4, 5e-4, 1])
    beside = fine.copy()
    beside[0, 3] = 0.8 * 5e-4
    pair = diff(save(tmp_path / "a.nii", affine=fine), save(tmp_path / "b.nii", affine=beside))
    assert [one.what for one in pair.headers] == ["affine"]


@pytest.mark.parametrize(
    "value",
    [np.longdouble(1) / 3, np.array([np.longdouble(1) / 3, 2]), np.longdouble("nan")],
    ids=str,
)
def test_attributes_longer_than_pythons_numbers(value: Any, tmp_path: Path) -> None:
    one, same, other = (
        save_h5(tmp_path / f"{n}.h5", odd=v) for n, v in enumerate((value, value, value + 1))
    )
    assert diff(one, same).same
    assert diff(one, other).same is bool(np.isnan(value).any())


def test_an_affine_that_is_turned_is_measured_at_the_corners(tmp_path: Path) -> None:
    turned = AFFINE.copy()
    turned[0, 2] += 0.01
    one, *_ = diff(save(tmp_path / "a.nii"), save(tmp_path / "b.nii", affine=turned)).headers
    assert one.detail.startswith("corners up to 0.05 mm apart")


def test_far_away_the_tolerance_is_that_of_float32(tmp_path: Path) -> None:
    far = moved(1e6)
    beside = far.copy()
    beside[0, 3] += 0.5
    pair = diff(save_h5(tmp_path / "a.h5", affine=far), save_h5(tmp_path / "b.h5", affine=beside))
    assert pair.same
    beside[0, 3] += 1
    (one,) = diff(tmp_path / "a.h5", save_h5(tmp_path / "b.h5", affine=beside)).headers
    assert one.detail == "corners up to 1.5 mm apart, tolerated are 0.95 mm"


def test_a_block_that_is_not_quite_in_its_place(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.nii")
    for number, strayed in enumerate((0.0, 0.005)):
        corner = AFFINE.copy()
        corner[:3, 3] += AFFINE[:3, :3] @ [0, 0, 3 * number] + [0, strayed, 0]
        save(tmp_path / f"block_{number}.nii", VALUES[..., 3 * number :][..., :3], corner)
    (one,) = diff(whole, tmp_path / "block_*.nii").headers
    assert (
        one.detail
        == f"corners up to 0.005 mm apart in {tmp_path}/block_1.nii, tolerated are 0.0007 mm"
    )
    assert diff(tmp_path / "block_*.nii", whole).headers[0].detail == one.detail
    assert diff(whole, tmp_path / "block_*.nii", headers=False).same


def test_blocks_placed_by_a_list_are_not_judged_by_their_affines(tmp_path: Path) -> None:
    whole = save_h5(tmp_path / "whole.h5", affine=np.eye(4))
    for number in (0, 1):
        save_h5(tmp_path / f"b{number}.h5", VALUES[..., 3 * number :][..., :3], affine=np.eye(4))
    (tmp_path / "list.txt").write_text("b0.h5,data,0 0 0\nb1.h5,data,0 0 3\n")
    assert diff(whole, tmp_path / "list.txt").same


def test_one_without_an_affine(tmp_path: Path) -> None:
    found = gather(save(tmp_path / "a.nii"))
    without = mosaic(
        [replace(s, header=replace(s.header, base_affine=None)) for s in found.sources], [(0, 0, 0)]
    )
    assert [(one.what, one.b) for one in compare_headers(found, without)] == [("affine", "none")]
    assert compare_headers(without, without) == []


def test_dtypes_and_scaling(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.nii"), save(tmp_path / "b.nii", VALUES.astype(np.float32))
    assert differing(a, b) == {
        "stored dtype": ("int16", "float32"),
        "real dtype": ("int16", "float32"),
    }
    assert differing(a, b, headers=False) == {}
    c = save_h5(tmp_path / "c.h5", VALUES, scale_factor=np.float32(0.5), _FillValue=np.int16(3))
    assert differing(a, c)["scaling"] == ("none", "x 0.5 + 0, with missing values")
    assert differing(a, c)["real dtype"] == ("int16", "float32")
    d = save_h5(tmp_path / "d.h5", VALUES, scale_factor=np.float32(0.5), _FillValue=np.int16(4))
    assert differing(c, d, values="stored") == {"scaling": ("x 0.5 + 0, with missing values",) * 2}
    assert diff(c, d, values="stored").headers[0].detail == "beyond what is shown here"


def test_the_scaling_of_slices(tmp_path: Path) -> None:
    found = gather(f"{DATA}/minc/small.mnc")
    other = _with_scaling(found, Scaling(2.0, 1.0))
    (one,) = compare_headers(found, other)
    assert (one.what, one.b) == ("scaling", "x 2 + 1")
    assert one.a.startswith("x (0.0006")


def _with_scaling(found: SourceSet, scaling: Scaling) -> SourceSet:
    return mosaic(
        [replace(source, scaling=scaling) for source in found.sources], [(0,) * found.ndim]
    )


def test_voxel_sizes_and_units_of_nifti(tmp_path: Path) -> None:
    values = np.zeros((3, 4, 5, 2), np.int16)
    a = save(tmp_path / "a.nii", values, pixdim=[1, 1, 1, 1, 2, 0, 0, 0], xyzt_units=10)
    b = save(tmp_path / "b.nii", values, pixdim=[1, 1, 1, 1, 2.5, 0, 0, 0], xyzt_units=18)
    assert differing(a, b) == {
        "zooms": ("(1.0, 1.0, 1.0, 2.0)", "(1.0, 1.0, 1.0, 2.5)"),
        "units": ("('mm', 'sec')", "('mm', 'msec')"),
    }
    near = np.nextafter(np.float32(2), np.float32(3))
    assert diff(
        a, save(tmp_path / "c.nii", values, pixdim=[1, 1, 1, 1, near, 0, 0, 0], xyzt_units=10)
    ).same


def test_attributes_key_by_key(tmp_path: Path) -> None:
    both: dict[str, Any] = {
        "long_name": "temperature",
        "levels": np.array([1.0, np.nan]),
        "version": 3,
    }
    a = save_h5(tmp_path / "a.h5", VALUES, **both, units="K", only_here=1, note="x" * 100 + "a")
    b = save_h5(tmp_path / "b.h5", VALUES, **both, units="C", other="y", note="x" * 100 + "b")
    assert differing(a, b) == {
        "units": ("K", "C"),
        "attribute only_here": ("1", "none"),
        "attribute note": ("x" * 80 + "...",) * 2,
        "attribute other": ("none", "y"),
    }
    assert differing(a, b, attributes=False) == {"units": ("K", "C")}
    assert differing(
        a, save_h5(tmp_path / "c.h5", VALUES, **{**both, "version": 4}), attributes=False
    ) == {"units": ("K", "none")}


def test_the_same_attribute_in_other_words(tmp_path: Path) -> None:
    a = save_h5(
        tmp_path / "a.h5", VALUES, name=np.bytes_(b"T\0"), number=np.float32(0.5), pair=[1, 2]
    )
    b = save_h5(
        tmp_path / "b.h5", VALUES, name="T", number=np.array([0.5]), pair=np.array([1.0, 2.0])
    )
    assert diff(a, b).same


def test_nifti_and_another_format(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.nii", descrip=b"from the scanner"), save_h5(tmp_path / "b.h5")
    pair = diff(a, b)
    assert pair.same
    assert [(one.what, one.a, one.b) for one in pair.stored] == [("format", "nifti", "hdf5")]
    assert differing(a, save_h5(tmp_path / "c.h5", VALUES, units="K")) == {"units": ("none", "K")}
    assert diff(a, save_h5(tmp_path / "d.h5", VALUES, description="from the scanner")).same
    assert differing(a, save_h5(tmp_path / "e.h5", VALUES, description="by hand", version=2)) == {
        "attribute description": ("from the scanner", "by hand"),
        "attribute version": ("1", "2"),
    }


def test_scaling_in_the_words_of_two_formats(tmp_path: Path) -> None:
    a = save(tmp_path / "a.nii")
    with a.open("r+b") as file:
        file.seek(112)
        file.write(np.array([0.5, 3], "<f4").tobytes())
    b = save_h5(tmp_path / "b.h5", VALUES, scale_factor=0.5, add_offset=3.0)
    assert diff(a, b).same
    assert list(
        differing(a, save_h5(tmp_path / "c.h5", VALUES, scale_factor=0.5, add_offset=4.0))
    ) == ["scaling"]


def test_names_of_axes(tmp_path: Path) -> None:
    for name, dims in (("a.h5", "tyx"), ("b.h5", "zyx")):
        save_h5(tmp_path / name)
        with h5py.File(tmp_path / name, "a") as file:
            for axis, dim in zip(file["data"].dims, dims, strict=True):
                axis.label = dim
    assert differing(tmp_path / "a.h5", tmp_path / "b.h5") == {
        "names of axes": ("t, y, x", "z, y, x")
    }
    assert diff(tmp_path / "a.h5", save(tmp_path / "c.nii")).same


def test_what_is_only_stored_differently(tmp_path: Path) -> None:
    chunked: dict[str, Any] = {
        "chunks": (2, 5, 3),
        "shuffle": True,
        "compression": "gzip",
        "compression_opts": 4,
    }
    pair = diff(
        save_h5(tmp_path / "a.h5", VALUES, chunked),
        save_h5(tmp_path / "b.h5", VALUES.astype(">i2")),
    )
    assert pair.same
    assert {one.what: (one.a, one.b) for one in pair.stored} == {
        "byte order": ("little", "big"),
        "chunks": ("2x5x3", "one piece"),
        "codecs": ("shuffle[2] then deflate[4]", "none"),
    }
    image: Any = nib.Nifti2Image(VALUES, AFFINE)  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "b.nii.gz")
    pair = diff(save(tmp_path / "a.nii"), tmp_path / "b.nii.gz")
    assert pair.same
    assert {one.what: (one.a, one.b) for one in pair.stored} == {
        "codecs": ("none", "gzip"),
        "version": ("1", "2"),
    }


def test_a_shape_is_told_alone(tmp_path: Path) -> None:
    pair = diff(save(tmp_path / "a.nii"), FUNCTIONAL)
    assert [(one.what, one.a, one.b) for one in pair.headers] == [("shape", "4x5x6", "17x21x3x20")]
    assert (pair.values, pair.stored, pair.same) == (None, (), False)
    assert not diff(tmp_path / "a.nii", FUNCTIONAL, headers=False).same


def test_fields_beside_the_geometry_are_named(tmp_path: Path) -> None:
    """Of NIfTI files, and of what other formats carry of them; those that a block cannot have are
    no difference.
    """
    one = save(tmp_path / "a.nii", slice_code=1, slice_end=5, slice_duration=0.0666)
    other = save(tmp_path / "b.nii", cal_max=7)
    hyperslab.convert(one, tmp_path / "a.h5", engine="serial")
    hyperslab.convert(
        one, tmp_path / "blocks", grid=hyperslab.Rule("blocks", (1, 1, 3)), engine="serial"
    )
    expected = {"NIfTI slice_end", "NIfTI slice_code", "NIfTI slice_duration", "NIfTI cal_max"}
    for made in (one, tmp_path / "a.h5", tmp_path / "blocks"):
        assert differing(one, made) == {}
        assert set(differing(made, other)) == expected
    assert differing(one, other)["NIfTI slice_code"] == ("1", "0")
