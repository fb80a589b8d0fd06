"""smooth and downsample: blocks give the voxels of the whole, and these are the reference's."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import workloads
from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.workloads import downsample, smooth
from tests.blockwise import NUMBERS, SHAPES, arrays, blocks_of
from tests.examples import of_each
from tests.repetitions import each_value


def smoothed_blockwise(data: Array, seed: int, boundary: str = "symmetric", **params: Any) -> Array:
    """What the engine does with a halo: cut, pad, filter, trim."""
    (step,) = workloads.build("smooth", Pipeline(data), params).steps
    out = np.empty(data.shape, step.dtype)
    padded = np.pad(data, [(h, h) for h in step.halo], mode=boundary)  # type: ignore[call-overload]
    for slab in blocks_of(data.shape, seed):
        wide = tuple(
            slice(a, a + n + 2 * h)
            for a, n, h in zip(slab.start, slab.count, step.halo, strict=True)
        )
        block = np.asfortranarray(padded[wide])
        before = block.copy()
        result = step.ref.load()(block, **step.ref.params)
        np.testing.assert_array_equal(block, before)
        inner = tuple(slice(h, h + n) for h, n in zip(step.halo, slab.count, strict=True))
        out[slab.slices()] = result[inner]
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint16", "int16"])
@given(shape=SHAPES, seed=st.integers(0, 99), sigma=st.floats(0.3, 2.5))
def test_smoothing_is_the_same_bit_by_bit_in_blocks(
    dtype: str, shape: tuple[int, ...], seed: int, sigma: float
) -> None:
    data = (np.random.default_rng(seed).normal(size=shape) * 5000 + 9000).astype(dtype)
    whole = smooth.gaussian(data, (sigma,) * 3)
    blockwise = smoothed_blockwise(data, seed, sigma=sigma)
    assert blockwise.dtype == whole.dtype == ("float64" if dtype == "float64" else "float32")
    assert blockwise.tobytes() == whole.tobytes("C")


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize(
    ("boundary", "mode"), [("symmetric", "reflect"), ("edge", "nearest"), ("constant", "constant")]
)
def test_smoothing_is_that_of_scipy(dtype: str, boundary: str, mode: str) -> None:
    data = (np.random.default_rng(1).random((23, 31, 9)) * 200).astype(dtype)
    found = smoothed_blockwise(data, 3, boundary, sigma=(1.7, 0.6, 3.0), truncate=3.5)
    expected = scipy.ndimage.gaussian_filter(
        data.astype(np.float64), (1.7, 0.6, 3.0), truncate=3.5, mode=mode
    )
    bound = 200 * 3 * 40 * np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def test_smoothing_spares_the_fourth_axis_and_axes_of_sigma_0() -> None:
    data = np.random.default_rng(1).random((8, 9, 7, 3))
    (step,) = workloads.build("smooth", Pipeline(data), {"sigma": (1.0, 0, 2.0)}).steps
    assert step.halo == (4, 0, 8, 0)
    found = step.ref.load()(data, **step.ref.params)
    np.testing.assert_allclose(
        found, scipy.ndimage.gaussian_filter(data, (1.0, 0, 2.0, 0)), rtol=1e-13
    )


AFFINE = np.array(
    [[0.0, 2.5, 0.0, -10.0], [-1.25, 0.0, 0.0, 20.0], [0.0, 0.0, 4.0, 5.0], [0, 0, 0, 1.0]]
)
"Voxels of 1.25 x 2.5 x 4 mm, of an image whose first two axes are turned."


def saved(path: Path, values: Array, affine: Array, unit: str = "mm") -> Any:
    image: Any = nib.Nifti1Image(values, affine)  # type: ignore[no-untyped-call]
    image.header.set_xyzt_units(unit)
    nib.save(image, path)
    return image


@each_value("every unit, and both shapes")
@pytest.mark.parametrize("unit", ["mm", "micron", "unknown"])
@pytest.mark.parametrize("shape", [(23, 19, 11), (15, 14, 9, 3)])
def test_millimetres_become_voxels_by_their_sizes(
    tmp_path: Path, unit: str, shape: tuple[int, ...]
) -> None:
    values = np.random.default_rng(5).random(shape).astype(np.float32)
    scale = 1000 if unit == "micron" else 1
    image = saved(tmp_path / "image.nii", values, np.diag([scale] * 3 + [1]) @ AFFINE, unit)
    zooms = np.array(image.header.get_zooms()[:3]) / scale
    sigma = 6 / (2 * math.sqrt(2 * math.log(2))) / zooms
    expected = scipy.ndimage.gaussian_filter(values, (*sigma, 0)[: len(shape)], output="f8")
    source = Pipeline(tmp_path / "image.nii")
    (step,) = workloads.build("smooth", source, {"fwhm": "6mm"}).steps
    assert step.halo[:3] == tuple(int(4 * one + 0.5) for one in sigma)
    for params in (
        {"fwhm": "6mm"},
        {"fwhm": "6 mm,6mm,6mm"},
        {"sigma": f"{6 / 2.354820045:.9f}mm"},
    ):
        found = source.map("smooth", params).compute(engine="serial", blocks=6)
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"fwhm": "6"}, "--param fwhm=6: the unit is missing; give 6mm"),
        ({"fwhm": "6, 4mm,5"}, "--param fwhm=6, 4mm,5: the unit is missing; give 6mm,4mm,5mm"),
        ({"fwhm": "6vox"}, "--param fwhm=6vox: give millimetres"),
        ({"fwhm": 6.5}, "--param fwhm=6.5: the unit is missing; give 6.5mm: full width at half"),
        ({"fwhm": (6, 6, 4)}, "--param fwhm=6,6,4: the unit is missing; give 6mm,6mm,4mm"),
        ({"fwhm": True}, "--param fwhm=True: give a word: full width at half maximum"),
        ({"fwhm": "6mm,6mm"}, "--param fwhm=6mm,6mm: give one number of at least 0, or 3 of them"),
        ({"fwhm": "6mm", "sigma": 1}, "sigma is also given; leave one out"),
    ],
)
def test_what_is_no_width(tmp_path: Path, params: dict[str, Any], said: str) -> None:
    saved(tmp_path / "a.nii", np.zeros((4, 5, 6), np.float32), AFFINE)
    with pytest.raises(UsageError, match=re.escape(said)):
        workloads.build("smooth", Pipeline(tmp_path / "a.nii"), params)


def test_millimetres_need_voxels_of_one_known_size(tmp_path: Path) -> None:
    values = np.zeros((8, 9, 7), np.float32)
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["data"] = values
    for place, source in (("array", values), ("plain", tmp_path / "plain.h5")):
        with pytest.raises(UsageError, match=rf"fwhm=6mm: {place}.* how large its voxels are"):
            workloads.build("smooth", Pipeline(source), {"fwhm": "6mm"})
    paths = [tmp_path / "a.nii", tmp_path / "b.nii"]
    for path, size in zip(paths, (1.0, 2.0), strict=True):
        saved(path, values, np.diag([size, size, 3.0, 1.0]))
    with pytest.raises(UsageError, match=r"have 1 x 1 x 3 mm, those of .*b\S* 2 x 2 x 3 mm"):
        workloads.build("smooth", Pipeline(paths), {"fwhm": "6mm"})


def test_smoothing_large_blocks_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(1).random((40, 30, 20)).astype(np.float32)
    expected = smooth.gaussian(data, (1.0, 1.0, 1.0))
    monkeypatch.setattr(smooth, "_PIECE_NBYTES", 500)
    np.testing.assert_array_equal(
        smooth.gaussian(np.asfortranarray(data), (1.0, 1.0, 1.0)), expected
    )


@pytest.mark.parametrize("dtype", NUMBERS)
@given(data=st.data(), factors=st.tuples(*[st.integers(1, 4)] * 3), seed=st.integers(0, 99))
@settings(max_examples=of_each(100))
def test_downsampling_is_the_mean_of_those_present(
    dtype: str, data: st.DataObject, factors: tuple[int, int, int], seed: int
) -> None:
    kind = (
        {"allow_nan": False, "min_value": -1000, "max_value": 1000}
        if dtype.startswith("float")
        else {}
    )
    values = data.draw(arrays(dtype, **kind))
    (step,) = workloads.build("downsample", Pipeline(values), {"factor": factors}).steps
    assert step.scale == factors
    out = np.full(
        [math.ceil(n / f) for n, f in zip(values.shape, factors, strict=True)], np.nan, step.dtype
    )
    for slab in blocks_of(values.shape, seed, factors):
        result = step.ref.load()(np.asfortranarray(values[slab.slices()]), **step.ref.params)
        assert result.dtype == out.dtype
        place = tuple(
            slice(a // f, a // f + n)
            for a, f, n in zip(slab.start, factors, result.shape, strict=True)
        )
        out[place] = result
    np.testing.assert_array_equal(out, downsample.block_mean(values, factors))
    for index in itertools.product(*map(range, out.shape)):
        group = values[
            tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factors, strict=True))
        ]
        exact = sum((Fraction(v) for v in group.ravel().tolist()), Fraction()) / group.size
        magnitude = max(abs(Fraction(v)) for v in group.ravel().tolist())
        inexact = Fraction(group.size * 2**-53) * magnitude if dtype.startswith("float") else 0
        allowed = (
            Fraction(float(np.finfo(out.dtype).eps)) * abs(exact)
            + inexact
            + Fraction(float(np.finfo(out.dtype).tiny))
        )
        assert abs(Fraction(float(out[index])) - exact) <= allowed


def test_downsampling_by_large_factors_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(1).integers(0, 65536, (40, 30, 20)).astype(np.uint16)
    expected = (
        data.reshape(2, 20, 2, 15, 2, 10).mean(axis=(1, 3, 5), dtype=np.float64).astype(np.float32)
    )
    np.testing.assert_array_equal(downsample.block_mean(data, (20, 15, 10)), expected)
    monkeypatch.setattr(downsample, "_PIECE_NBYTES", 500)
    np.testing.assert_array_equal(
        downsample.block_mean(np.asfortranarray(data), (20, 15, 10)), expected
    )


def test_downsampling_keeps_the_fourth_axis() -> None:
    data = np.random.default_rng(1).random((4, 6, 2, 3))
    (step,) = workloads.build("downsample", Pipeline(data), {}).steps
    assert step.scale == (2, 2, 2, 1)
    found = step.ref.load()(data, **step.ref.params)
    np.testing.assert_allclose(
        found, data.reshape(2, 2, 3, 2, 1, 2, 3).mean(axis=(1, 3, 5)), rtol=1e-14
    )


def test_time_is_left_alone_wherever_it_is(tmp_path: Path) -> None:
    """A series of volumes whose axes are named, as those of MINC are: time first."""
    data = np.random.default_rng(1).random((6, 5, 4, 8))
    with h5py.File(tmp_path / "series.h5", "w") as file:
        file["data"] = data
        for axis, name in enumerate(("time", "zspace", "yspace", "xspace")):
            file["data"].dims[axis].label = name
    series = Pipeline(str(tmp_path / "series.h5"))
    (step,) = workloads.build("smooth", series, {"sigma": 1.0}).steps
    assert step.halo == (0, 4, 4, 4)
    found = step.ref.load()(data, **step.ref.params)
    expected = scipy.ndimage.gaussian_filter(data, (0, 1, 1, 1))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    (step,) = workloads.build("smooth", series, {"sigma": (2.0, 0.0, 0.0, 1.0)}).steps
    assert step.halo == (8, 0, 0, 4), "unless every axis is given a number"
    (step,) = workloads.build("downsample", series, {"factor": 2}).steps
    assert step.scale == (1, 2, 2, 2)
    with pytest.raises(UsageError, match="or 3 of them"):
        workloads.build("smooth", series, {"sigma": (1.0, 2.0)})


def test_a_filter_far_wider_than_the_array_is_refused(tmp_path: Path) -> None:
    fine = np.diag([0.035, 0.035, 0.035, 1])
    saved(tmp_path / "fine.nii", np.ones((10, 11, 12), "f4"), fine)
    source = Pipeline(tmp_path / "fine.nii")
    with pytest.raises(UsageError, match=r"reaches 291 x 291 x 291 voxels .* has 10 x 11 x 12: "):
        workloads.build("smooth", source, {"fwhm": "6mm"})
    workloads.build("smooth", Pipeline(np.ones((9, 9, 1), "f4")), {"sigma": 3.0})
