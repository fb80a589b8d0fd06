"""Places in micrometres, millimetres and metres mean the same, wherever files are compared or users
give millimetres.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import hyperslab
from hyperslab import Pipeline
from hyperslab.apps.bids import brain
from hyperslab.arrays import Array
from hyperslab.arrays.header import length_mm
from hyperslab.errors import UsageError
from hyperslab.report import outline
from tests.formats.minc_made import SPACE, write_minc2
from tests.system.end_to_end.command import call, convert, image_of, succeed

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

MM = {"micron": 1e-3, "mm": 1.0, "meter": 1e3, "unknown": 1.0}
"Units of NIfTI in millimetres."
SHAPE = (5, 6, 7)


def write(path: Path, values: Array, affine_mm: Array, unit: str) -> Path:
    """Write an image whose voxels lie at these millimetres, said in a unit."""
    said = affine_mm.copy()
    said[:3] /= MM[unit]
    image: Any = nib.Nifti1Image(values, said)  # type: ignore[no-untyped-call]
    image.header.set_xyzt_units(unit, "sec")
    image.to_filename(path)
    return path


def drawn(rng: np.random.Generator) -> tuple[Array, Array]:
    """Values and a place: voxels of micrometres or of centimetres, some axes to the left."""
    sizes = 10.0 ** rng.uniform(-3, 1) * rng.uniform(0.5, 2, 3)
    affine = np.diag([*sizes * rng.choice([-1, 1], 3), 1.0])
    affine[:3, 3] = rng.uniform(-50, 50, 3) * sizes
    return rng.normal(size=SHAPE).astype("f4"), affine


def write_minc(path: Path, unit: str, **others: str) -> Path:
    """Write an image of MINC with voxels of half a unit, some axes in others."""
    said = {
        "dims": SPACE,
        "values": np.arange(60, dtype="i2").reshape(3, 4, 5),
        "low": 0.0,
        "high": 59.0,
        "range": (0, 59),
        "steps": dict.fromkeys(SPACE, 0.5),
        "dimensions": {name: {"units": others.get(name, unit)} for name in SPACE},
    }
    write_minc2(path, said)
    return path


def inside(block: Array, mask: Array) -> Array:
    return np.where(mask > 0, block, 0)


@pytest.mark.parametrize("seed", range(4))
def test_one_place_in_any_two_units(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, affine = drawn(rng)
    units = rng.permutation(list(MM))[:2]
    mask = rng.integers(0, 2, SHAPE).astype("u1")
    source = write(tmp_path / "source.nii", values, affine, units[0])
    beside = write(tmp_path / "mask.nii", mask, affine, units[1])
    found = Pipeline(str(source), mask=str(beside)).map(inside).compute(engine="serial")
    np.testing.assert_array_equal(found, np.where(mask, values, 0))
    again = Pipeline(str(source), mask=str(beside), resample="nearest").map(inside)
    np.testing.assert_array_equal(again.compute(engine="serial"), np.where(mask, values, 0))


@pytest.mark.parametrize("seed", range(2))
def test_a_resampled_input_is_taken_where_it_lies(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, affine = drawn(rng)
    to_fine = np.diag([1.7, 1.7, 1.7, 1])
    to_fine[:3, 3] = -0.4
    coarse = affine @ to_fine  # no voxel at a border, or between two, where rounding would decide
    mask = rng.integers(0, 2, SHAPE).astype("u1")
    made = []
    for units in (("mm", "mm"), ("micron", "mm"), ("mm", "meter"), ("meter", "micron")):
        source = write(tmp_path / "source.nii", values, affine, units[0])
        beside = write(tmp_path / "mask.nii", mask, coarse, units[1])
        pipeline = Pipeline(str(source), mask=str(beside), resample="nearest").map(inside)
        made.append(pipeline.compute(engine="serial"))
    assert np.count_nonzero(made[0])
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])


@pytest.mark.parametrize("unit", ["micron", "meter"])
def test_equal_numbers_in_other_units_are_other_places(tmp_path: Path, unit: str) -> None:
    values = np.ones(SHAPE, "f4")
    affine = np.diag([20.0, 20, 20, 1])
    said = affine * np.array([MM[unit]] * 3 + [1])[:, None]
    source = write(tmp_path / "source.nii", values, said, unit)
    beside = write(tmp_path / "mask.nii", values, affine, "mm")
    assert np.array_equal(image_of(source).affine, image_of(beside).affine)
    refused = call("run", "stats", source, "--mask", beside, "-o", tmp_path / "out", "-q")
    assert refused.code == 2
    size = f"{20 * MM[unit]:g}"
    assert f"voxels of 20 x 20 x 20 and {size} x {size} x {size} mm" in refused.err
    short = {"micron": "um", "meter": "m"}[unit]
    assert f"says its places in mm, the source in {short}" in " ".join(refused.err.split())


@pytest.mark.parametrize("unit", sorted(MM))
def test_a_region_is_in_millimetres(tmp_path: Path, unit: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=SHAPE).astype("f4")
    source = write(tmp_path / "source.nii", values, np.diag([0.02, 0.02, 0.02, 1]), unit)
    region = "mm:0.02:0.06,:0.04,0.06:"
    found = Pipeline(str(source), region=region).compute(engine="serial")
    np.testing.assert_array_equal(found, values[1:4, :3, 3:])
    with pytest.raises(UsageError, match=r"from \(0, 0, 0\) to \(0\.08, 0\.1, 0\.12\) mm"):
        Pipeline(str(source), region="mm:20:60").compute(engine="serial")


@pytest.mark.parametrize("end", ["h5", "nc", "zarr"])
def test_other_formats_keep_the_unit(tmp_path: Path, end: str) -> None:
    values = np.random.default_rng(8).normal(size=SHAPE).astype("f4")
    straight = np.diag([0.02, 0.03, 0.04, 1])
    tilted = straight @ np.array([[0.8, -0.6, 0, 0], [0.6, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    for name, affine in (("straight", straight), ("tilted", tilted)):
        source = write(tmp_path / f"{name}.nii", values, affine, "micron")
        there = tmp_path / f"{name}.{end}"
        convert(source, there)
        beside = write(tmp_path / f"{name}-mm.nii", np.ones(SHAPE, "u1"), affine, "mm")
        found = Pipeline(str(there), mask=str(beside)).map(inside).compute(engine="serial")
        np.testing.assert_array_equal(found, values)


def test_blocks_of_a_mosaic_lie_where_their_units_say(tmp_path: Path) -> None:
    values = np.random.default_rng(9).normal(size=(6, 4, 4)).astype("f4")
    affine = np.diag([0.02, 0.02, 0.02, 1])
    behind = affine.copy()
    behind[0, 3] = 0.06
    write(tmp_path / "a.nii", values[:3], affine, "micron")
    write(tmp_path / "b.nii", values[3:], behind, "mm")
    convert(tmp_path / "a.nii", tmp_path / "b.nii", tmp_path / "all.nii", "--sources", "mosaic")
    made = image_of(tmp_path / "all.nii")
    np.testing.assert_array_equal(made.get_fdata(dtype=np.float32), values)
    assert made.header.get_xyzt_units()[0] == "micron"
    assert made.affine[0, 0] == 20


def test_a_difference_of_places_is_one_of_millimetres(tmp_path: Path) -> None:
    values = np.ones(SHAPE, "f4")
    a = write(tmp_path / "a.nii", values, np.diag([0.02, 0.02, 0.02, 1]), "micron")
    b = write(tmp_path / "b.nii", values, np.diag([0.02, 0.02, 0.02, 1]), "mm")
    c = write(tmp_path / "c.nii", values, np.diag([20.0, 20, 20, 1]), "mm")
    assert "affine" not in call("diff", a, b).out
    far = call("diff", a, c).out
    apart = math.dist((0, 0, 0), (4, 5, 6)) * (20 - 0.02)
    assert f"corners up to {apart:.4g} mm apart" in far


def test_the_edge_of_a_mask_is_drawn_where_it_lies(tmp_path: Path) -> None:
    mask = np.zeros(SHAPE, "u1")
    mask[1:3, 2:4, 3:5] = 1
    affine = np.diag([0.02, 0.02, 0.02, 1])
    image = hyperslab.open(write(tmp_path / "a.nii", mask, affine, "micron"))
    beside = hyperslab.open(write(tmp_path / "b.nii", mask, affine, "mm"))
    whole = hyperslab.Hyperslab.full(SHAPE)
    found = outline.inside(image.source, whole, beside.source, beside.read)
    np.testing.assert_array_equal(found, mask > 0)


def test_volumes_of_brains_are_in_millilitres(tmp_path: Path) -> None:
    made = {}
    for unit in ("mm", "meter"):
        path = tmp_path / f"{unit}.nii"
        source = write(path, np.ones(SHAPE, "f4"), np.diag([2.0, 2, 2, 1]), unit)
        made[unit] = brain._sizes_mm(hyperslab.open(source).source)
    np.testing.assert_allclose(made["meter"], made["mm"], rtol=1e-6)


@pytest.mark.parametrize("unit", ["cm", "centimeters"])
def test_centimetres_of_minc_become_millimetres_of_nifti(tmp_path: Path, unit: str) -> None:
    convert(write_minc(tmp_path / "a.mnc", unit), tmp_path / "a.nii")
    made = image_of(tmp_path / "a.nii")
    assert made.header.get_xyzt_units()[0] == "mm"
    assert made.header.get_zooms() == (5, 5, 5)
    assert np.linalg.norm(made.affine[:3, :3], axis=0).tolist() == [5, 5, 5]
    assert made.affine[:3, 3].tolist() == [-72.5, -72.5, -72.5]


def test_a_unit_of_unknown_length_is_compared_with_itself_alone(tmp_path: Path) -> None:
    odd = write_minc(tmp_path / "a.mnc", "furlong")
    beside = write_minc(tmp_path / "b.mnc", "mm")
    given = ("run", "stats", odd, "-o", tmp_path / "out", "-q", "--no-report")
    refused = call(*given, "--mask", beside)
    assert refused.code == 2
    assert "measures places in 'furlong', whose length is not known" in refused.err
    refused = call(*given, "--region", "mm:0:1")
    assert refused.code == 2
    assert "give the region in voxels" in " ".join(refused.err.split())
    succeed(*given, "--mask", odd)


def test_axes_in_units_of_several_lengths_have_no_millimetres(tmp_path: Path) -> None:
    """An affine has one unit; an axis that says none counts as millimetres."""
    values = np.arange(60, dtype="i2").reshape(3, 4, 5)
    there = write(tmp_path / "there.nii", values, np.diag([0.5, 0.5, 0.5, 1]), "mm")
    for unit, other in (("mm", "cm"), ("cm", ""), ("degrees_east", "mm")):
        mixed = write_minc(tmp_path / "mixed.mnc", unit, xspace=other)
        with pytest.raises(
            UsageError, match=r"measures places in '\w+ and \w+', whose length is not"
        ):
            Pipeline(mixed, other=there)
        with pytest.raises(UsageError, match=r"whose length in millimetres is not known"):
            Pipeline(mixed, region="mm:0:1,0:1,0:1").compute(engine="serial")
    one = write_minc(tmp_path / "one.mnc", "mm", xspace="Millimeters", yspace="")
    made = Pipeline(one, region="mm:-7:-6,-7:-6,-7:-6").compute(engine="serial")
    assert made.size > 0


@pytest.mark.parametrize(
    ("unit", "length"),
    [
        *(
            (one, 1e-3)
            for one in ("um", "\u00b5m", "\u03bcm", "Micrometres", "micrometre", "microns")
        ),
        *((one, 1.0) for one in ("", "mm", "Millimeters", "millimetre")),
        *((one, 10.0) for one in ("cm", "centimetres")),
        *((one, 1e3) for one in ("m", "metres", "Meter")),
        *((one, None) for one in ("Mm", "degrees_east", "voxel", "feet")),
    ],
)
def test_units_are_known_as_they_are_spelled(unit: str, length: float | None) -> None:
    assert length_mm(unit) == length
