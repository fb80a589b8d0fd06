"""`hyperslab run` with inputs that are not alike, and what their functions return, against nibabel
and NumPy.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from nibabel.processing import resample_from_to

import hyperslab
from hyperslab.arrays import Array
from hyperslab.errors import UsageError
from tests.repetitions import each_value
from tests.system.end_to_end.command import (
    ANATOMICAL,
    DATA,
    FUNCTIONAL,
    affine_of,
    assembled,
    call,
    image_of,
    only_output,
    real_values_of,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

SERIAL = ("--engine", "serial", "--no-report", "-q")
MINE = """
import hyperslab
import numpy as np

def bright(block):
    return block > 9000

def halve(block):
    return block / 2

def inside(block, mask):
    assert mask.shape == block.shape
    return np.where(mask > 0, block, 0).astype(block.dtype)

def spread(block, mask):
    spread = np.maximum(np.roll(block, 1, 0), np.roll(block, -1, 0))
    return np.where(mask > 0, spread, 0).astype(block.dtype)

def other(block, image):
    return np.broadcast_to(image, block.shape).astype(np.float64)

voxels = hyperslab.Fold(
    lift=lambda block, mask: float(block[mask > 0].sum()), merge=lambda a, b: a + b
)

def octuple(block):
    return block.astype(np.float64) * 8
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize("more", [["--keep", "volume"], ["--format", "nii.gz"], ["--blocks", "4"]])
def test_truth_goes_to_nifti_as_uint8(mine: Path, tmp_path: Path, more: list[str]) -> None:
    out = tmp_path / "out"
    succeed("run", f"{mine}:bright", ANATOMICAL, "-o", out, *SERIAL, "--dtype", "bool", *more)
    found = assembled(out, ANATOMICAL)
    assert found.dtype == np.uint8
    assert np.array_equal(found, values_of(ANATOMICAL) > 9000)


def test_a_dtype_casts_what_fits(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeed(
        "run",
        f"{mine}:octuple",
        ANATOMICAL,
        "-o",
        out,
        *SERIAL,
        "--dtype",
        "int32",
        "--keep",
        "volume",
    )
    found = values_of(only_output(out))
    assert found.dtype == np.int32
    assert np.array_equal(found, values_of(ANATOMICAL) * np.int32(8))


@pytest.mark.parametrize(
    ("function", "dtype"), [("halve", "int16"), ("octuple", "int16"), ("octuple", "uint8")]
)
def test_a_value_that_does_not_fit_is_named_with_its_block(
    mine: Path, tmp_path: Path, function: str, dtype: str
) -> None:
    values = values_of(ANATOMICAL).astype(np.float64)
    made = values / 2 if function == "halve" else values * 8
    done = call(
        "run",
        f"{mine}:{function}",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--dtype",
        dtype,
        *("--blocks", "1x1x2", "--halo", "1"),
        *SERIAL,
    )
    assert done.code == 1
    said = rf"--dtype {dtype}: the value (\S+) at (\(.*?\)) is (no whole number|above|below)"
    told = re.search(said, done.err)
    assert told, done.err
    assert "first of them: " in done.err
    assert "[0:33, 0:41, 0:13]" in done.err
    where = ast.literal_eval(told[2])
    assert where[2] < 12
    assert float(told[1]) == made[where]
    info = np.iinfo(dtype)
    assert made[where] % 1 or not info.min <= made[where] <= info.max


def elsewhere(tmp_path: Path, grid: Path, dtype: str = "u1") -> Path:
    """An image of voxels of other sizes, turned against those of another, which it covers in part.

    It is smooth enough that linear interpolation and the nearest voxel differ little but surely.
    """
    affine = affine_of(grid).copy()
    extent = np.array(image_of(grid).shape[:3])
    middle = (affine @ [*((extent - 1) / 2), 1])[:3]
    turn = nib.eulerangles.euler2mat(0.1, -0.2, 0.3)  # type: ignore[no-untyped-call]
    affine[:3, :3] = turn @ np.diag([2.5, 3, -2])
    shape = (21, 19, 23)
    affine[:3, 3] = middle + 4 - affine[:3, :3] @ ((np.array(shape) - 1) / 2)
    x, y, z = np.meshgrid(*map(np.arange, shape), indexing="ij")
    values = 120 + 60 * np.sin(x / 3) + 40 * np.cos(y / 4 + z / 5)
    return save(tmp_path / "elsewhere.nii.gz", values.astype(dtype), affine)


def resampled(path: Path, grid: Path, order: int) -> Array:
    """An image in the space of another one, by nibabel."""
    image = image_of(grid)
    space = (image.shape[:3], image.affine)
    made: Any = resample_from_to(image_of(path), space, order=order)  # type: ignore[no-untyped-call]
    return np.asarray(made.dataobj)


@pytest.mark.parametrize("more", [["--blocks", "2x1x1x5"], ["--halo", "1,0,0,0", "--blocks", "4"]])
def test_a_mask_without_time_goes_with_every_volume(
    mine: Path, tmp_path: Path, more: list[str]
) -> None:
    mask = np.random.default_rng(2).integers(0, 2, (17, 21, 3), dtype=np.uint8)
    path = save(tmp_path / "mask.nii", mask, affine_of(FUNCTIONAL))
    function = "spread" if "--halo" in more else "inside"
    out = tmp_path / "out"
    given = ("--mask", path, "--values", "stored", "--keep", "volume", *SERIAL, *more)
    succeed("run", f"{mine}:{function}", FUNCTIONAL, "-o", out, *given)
    values = values_of(FUNCTIONAL)
    if function == "spread":
        padded = np.pad(values, [(1, 1), (0, 0), (0, 0), (0, 0)], mode="symmetric")
        values = np.maximum(padded[:-2], padded[2:])
    assert np.array_equal(values_of(only_output(out)), np.where(mask[..., None] > 0, values, 0))


def test_a_mask_of_one_volume_and_one_for_several_files(mine: Path, tmp_path: Path) -> None:
    mask = np.random.default_rng(2).integers(0, 2, (17, 21, 3, 1), dtype=np.uint8)
    path = save(tmp_path / "mask.nii", mask, affine_of(FUNCTIONAL))
    for name in ("a.nii", "b.nii"):
        shutil.copy(FUNCTIONAL, tmp_path / name)
    sources = (tmp_path / "a.nii", tmp_path / "b.nii")
    result = tmp_path / "out"
    succeed("run", f"{mine}:voxels", *sources, "-o", result, "--with", f"mask={path}", *SERIAL)
    expected = 2 * real_values_of(FUNCTIONAL)[np.broadcast_to(mask, (17, 21, 3, 20)) > 0].sum()
    assert json.loads((result / "result.json").read_text()) == pytest.approx(expected, rel=1e-12)


def test_a_mask_of_an_array_in_memory() -> None:
    series = np.random.default_rng(1).normal(size=(5, 4, 3, 6))
    mask = np.arange(60).reshape(5, 4, 3) % 2
    fold = hyperslab.Fold(lift=lambda block, mask: block[mask > 0].sum(), merge=lambda a, b: a + b)
    result = hyperslab.run(
        hyperslab.Pipeline(series, mask=mask).reduce(fold),
        rule=hyperslab.Rule("blocks", (2, 1, 1, 3)),
        engine="serial",
    )
    assert result.value == pytest.approx(series[mask > 0].sum())


@each_value("a volume and a series, and both ways")
@pytest.mark.parametrize("source", [ANATOMICAL, FUNCTIONAL], ids=["volume", "series"])
@pytest.mark.parametrize("how", ["nearest", "linear"])
def test_an_image_elsewhere_is_resampled_into_the_space_of_the_first(
    mine: Path, tmp_path: Path, source: Path, how: str
) -> None:
    path = elsewhere(tmp_path, source, "f4")
    expected = resampled(path, source, ("nearest", "linear").index(how))
    assert 0 < np.count_nonzero(expected) < expected.size
    cut = ["--blocks", "3"] if source == ANATOMICAL else ["--blocks", "2x3x1x2"]
    given = ("--with", f"image={path}", "--resample", how, "--dtype", "float64", "--halo", "1")
    out = tmp_path / "out"
    succeed("run", f"{mine}:other", source, "-o", out, *given, "--keep", "volume", *SERIAL, *cut)
    found = values_of(only_output(out))
    while expected.ndim < found.ndim:
        expected = expected[..., None]
    assert np.array_equal(found, np.broadcast_to(expected, found.shape))


def test_masks_are_resampled_by_nearest_even_beside_linear(mine: Path, tmp_path: Path) -> None:
    path = elsewhere(tmp_path, ANATOMICAL)
    given = ("--mask", path, "--resample", "linear", "--keep", "volume")
    succeed("run", f"{mine}:inside", ANATOMICAL, "-o", tmp_path / "out", *given, *SERIAL)
    expected = np.where(resampled(path, ANATOMICAL, 0) > 0, values_of(ANATOMICAL), 0)
    assert np.array_equal(values_of(only_output(tmp_path / "out")), expected)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            [(0, 3, 1.5)],
            r"reaches from \(-30.5, -40, -16\) to \(33.5, 40, 32\) mm\n    the source reaches from",
        ),
        ([(0, 0, -2.5)], "\n    voxels of 2.5 x 2 x 2 and 2 x 2 x 2 mm\n"),
        ([(0, 0, 2)], "\n    axes that run RAS and LAS\n"),
        ([(0, 1, 0.1)], "\n    axes turned by 2.9 degrees\n"),
    ],
)
def test_what_lies_elsewhere_is_refused_with_both_places(
    mine: Path, tmp_path: Path, change: list[tuple[int, int, float]], told: str
) -> None:
    affine = affine_of(ANATOMICAL).copy()
    for row, column, value in change:
        affine[row, column] = value + affine[row, column] * (column == 3)
    path = save(tmp_path / "mask.nii", np.ones((33, 41, 25), np.uint8), affine)
    done = call("run", f"{mine}:inside", ANATOMICAL, "-o", tmp_path / "out", "--mask", path)
    assert done.code == 2
    headline = done.err.splitlines()[0]
    assert "the input 'mask' is not in the same space as the source: use --resample" in headline
    assert re.search(told, done.err), done.err
    assert not (tmp_path / "out").exists()


def test_a_mask_that_says_no_place_is_told_so(mine: Path, tmp_path: Path) -> None:
    image: Any = nib.Nifti1Image(np.ones((33, 41, 25), np.uint8), None)  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "mask.nii")
    given = ("--mask", tmp_path / "mask.nii", "-o", tmp_path / "out")
    done = call("run", f"{mine}:inside", ANATOMICAL, *given)
    assert done.code == 2
    assert f"\n    {tmp_path / 'mask.nii'} does not say where it lies (sform and" in done.err


def test_rounded_affines_are_the_same_place(mine: Path, tmp_path: Path) -> None:
    affine = affine_of(ANATOMICAL) + 1e-5
    path = save(tmp_path / "mask.nii", np.ones((33, 41, 25), np.uint8), affine)
    succeed("run", f"{mine}:inside", ANATOMICAL, "-o", tmp_path / "o", "--mask", path, *SERIAL)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--resample", "cubic"], "--resample cubic: choose one of nearest, linear"),
        (["--resample", "t1=linear"], "--resample t1=linear: there is no further input of this"),
        (["--resample", "mask=nearest,b"], "give nearest, linear, or NAME=nearest"),
    ],
)
def test_wrong_words_for_resampling(mine: Path, tmp_path: Path, more: list[str], told: str) -> None:
    given = ("--mask", ANATOMICAL, *more)
    done = call("run", f"{mine}:inside", ANATOMICAL, "-o", tmp_path / "out", *given)
    assert (done.code, told in done.err) == (2, True), done.err


def test_shapes_that_do_not_fit_are_told_with_their_places(mine: Path, tmp_path: Path) -> None:
    path = elsewhere(tmp_path, ANATOMICAL)
    done = call("run", f"{mine}:inside", ANATOMICAL, "-o", tmp_path / "out", "--mask", path)
    assert done.code == 2
    assert "'mask' has shape (21, 19, 23), the source (33, 41, 25), and lies elsewhere" in done.err
    done = call("run", f"{mine}:inside", path, "-o", tmp_path / "out", "--mask", FUNCTIONAL)
    assert "give the one with more axes as the source" in done.err


def test_a_series_of_minc_with_time_first_and_a_mask_of_nifti(mine: Path, tmp_path: Path) -> None:
    source = DATA / "minc" / "minc2-4d-d.mnc"
    image = image_of(source)  # (time, x, y, z); its affine is for x, y, z
    shape, affine = image.shape[1:], np.asarray(image.affine)
    mask = np.random.default_rng(6).integers(0, 2, shape).astype(np.uint8)
    here = save(tmp_path / "here.nii", mask, affine)
    inside = np.broadcast_to(mask, image.shape) > 0
    values = np.asarray(image.dataobj)
    succeed("run", f"{mine}:voxels", source, "-o", tmp_path / "a", "--mask", here, *SERIAL)
    found = json.loads((tmp_path / "a" / "result.json").read_text())
    assert found == pytest.approx(values[inside].sum(), rel=1e-12)
    moved = save(tmp_path / "moved.nii", mask, affine @ np.diag([1.5, 1.5, 1.5, 1]))
    refused = call("run", f"{mine}:voxels", source, "-o", tmp_path / "b", "--mask", moved)
    assert "voxels of 1.5 x 1.5 x 1.5 and 1 x 1 x 1 mm" in refused.err
    given = ("--mask", moved, "--resample", "nearest", "--blocks", "2x2x1x2")
    succeed("run", f"{mine}:voxels", source, "-o", tmp_path / "b", *given, *SERIAL)
    there: Any = resample_from_to(image_of(moved), (shape, affine), order=0)  # type: ignore[no-untyped-call]
    inside = np.broadcast_to(np.asarray(there.dataobj), image.shape) > 0
    found = json.loads((tmp_path / "b" / "result.json").read_text())
    assert found == pytest.approx(values[inside].sum(), rel=1e-12)


def test_a_mask_of_files_that_are_joined_along_time(mine: Path, tmp_path: Path) -> None:
    mask = np.random.default_rng(2).integers(0, 2, (17, 21, 3), dtype=np.uint8)
    path = save(tmp_path / "mask.nii", mask, affine_of(FUNCTIONAL))
    joined = ("--sources", "concatenated", "--axis", "3", "--mask", path, *SERIAL)
    out = tmp_path / "out"
    succeed("run", f"{mine}:voxels", FUNCTIONAL, FUNCTIONAL, "-o", out, *joined)
    expected = 2 * real_values_of(FUNCTIONAL)[mask > 0].sum()
    assert json.loads((out / "result.json").read_text()) == pytest.approx(expected, rel=1e-12)


def test_what_a_block_does_not_need_is_not_read(tmp_path: Path) -> None:
    """Each task reads the part of the other image that its block is made from."""
    large = save(tmp_path / "large.nii", np.zeros((80, 80, 80), np.float32), np.eye(4))
    small = save(
        tmp_path / "small.nii", np.zeros((16, 16, 16), np.float32), np.eye(4) * [2, 2, 2, 1]
    )
    fold = hyperslab.Fold(lift=lambda block, other: 0, merge=lambda a, b: 0)
    pipeline = hyperslab.Pipeline(small, other=large, resample="linear").reduce(fold)
    plan = hyperslab.prepare(
        pipeline, hyperslab.Options(rule=hyperslab.Rule("blocks", (4, 4, 4)))
    ).plan
    most = max(task.bytes_read for task in plan.tasks)
    assert most < 80**3 * 4 / 8
    assert max(task.bytes_peak for task in plan.tasks) < 2**25


@each_value("a mask is turned as the source is")
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
@pytest.mark.parametrize("flips", [(), (0,), (0, 1, 2)])
@pytest.mark.parametrize("more", [(), ("--resample", "nearest"), ("--resample", "mask=linear")])
def test_a_mask_in_another_order_is_read_in_that_of_the_source(
    mine: Path, tmp_path: Path, order: tuple[int, ...], flips: tuple[int, ...], more: Any
) -> None:
    """At 0.7 mm, and at places whose sums float64 rounds, as edges that lie 1e-15 outside do."""
    shape = (9, 8, 7)
    affine = np.diag([0.7, -0.9, 1.1, 1])
    affine[:3, 3] = -90.3, 126.1, -72.7
    rng = np.random.default_rng(1)
    source = save(tmp_path / "a.nii", rng.integers(1, 9999, shape).astype("i2"), affine)
    mask = rng.integers(0, 2, shape).astype("u1")
    motion = np.eye(4)
    for axis in flips:
        motion[axis, axis] = -1
        motion[axis, 3] = shape[axis] - 1
    turned = np.flip(mask, flips).transpose(order)
    placed = (affine @ motion)[:, [*order, 3]]
    path = save(tmp_path / "m.nii", turned, placed)
    given = ("--mask", path, "--blocks", "2x2x2", *more)
    succeed("run", f"{mine}:inside", source, "-o", tmp_path / "out", *given, *SERIAL)
    np.testing.assert_array_equal(
        assembled(tmp_path / "out", source), values_of(source) * (mask > 0)
    )


def test_a_mask_in_another_order_goes_with_a_series(mine: Path, tmp_path: Path) -> None:
    values = values_of(FUNCTIONAL)
    mask = np.random.default_rng(2).integers(0, 2, values.shape[:3]).astype("u1")
    motion = np.diag([-1.0, 1, 1, 1])
    motion[0, 3] = len(mask) - 1
    path = save(tmp_path / "m.nii", mask[::-1], affine_of(FUNCTIONAL) @ motion)
    succeed("run", "stats", FUNCTIONAL, "-o", tmp_path / "o", "--mask", path, *SERIAL)
    found = json.loads((tmp_path / "o" / "stats.json").read_text())
    assert found["sum"] == pytest.approx(real_values_of(FUNCTIONAL)[mask > 0].sum())


def named(path: Path, values: Array, names: str) -> str:
    """Write an HDF5 file whose axes have names of a letter."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=values)
        for axis, name in enumerate(names):
            dataset.dims[axis].label = name
    return f"{path}::a"


@pytest.mark.parametrize(
    ("shape", "names", "order"),
    [
        ((6, 6, 6), "qpr", (1, 0, 2)),
        ((4, 5, 6), "rpq", (2, 0, 1)),
        ((4, 5, 6), "qpr", (0, 1, 2)),  # extents say that these names are wrong
        ((6, 6, 6), "abc", (0, 1, 2)),
    ],
)
def test_axes_of_arrays_without_a_place_go_by_their_names(
    tmp_path: Path, shape: tuple[int, ...], names: str, order: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(1, 999, shape)
    mask = rng.integers(0, 2, shape, dtype="u1")
    source = named(tmp_path / "values.h5", values, "pqr")
    other = named(tmp_path / "mask.h5", mask.transpose(order), names)
    pipeline = hyperslab.Pipeline(source, mask=other).map(lambda block, mask: block * mask)
    found = pipeline.compute(engine="serial", blocks="2x1x3")
    assert np.array_equal(found, values * mask)


@pytest.mark.parametrize("shape", [(6, 5, 4), (5, 4, 6), (7, 6, 5)])
def test_a_mask_whose_axes_have_no_names_and_another_order_is_told_so(
    shape: tuple[int, ...],
) -> None:
    with pytest.raises(UsageError, match="its axes seem to be in another order than the source's"):
        hyperslab.Pipeline(np.ones((4, 5, 6, 7)), mask=np.ones(shape))


def test_an_input_elsewhere_is_refused_where_it_is_named(tmp_path: Path) -> None:
    path = elsewhere(tmp_path, ANATOMICAL)
    with pytest.raises(
        UsageError, match=r"the input 't1' has shape .* and lies elsewhere"
    ) as raised:
        hyperslab.Pipeline(ANATOMICAL, t1=path)
    first, second, *_ = raised.value.__notes__
    assert first.strip().startswith(f"{path} reaches from (")
    assert second.strip().startswith("the source reaches from (")
    assert first.endswith(" mm")
    assert second.endswith(" mm")
    resampled = hyperslab.Pipeline(ANATOMICAL, t1=path, resample="nearest")
    assert set(resampled.inputs) == {"", "t1"}


@pytest.mark.parametrize("names", ["tzyx", "ztyx", "zytx", "zyxt"])
def test_an_array_without_names_goes_beside_time_wherever_that_is(
    tmp_path: Path, names: str
) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(1, 999, (4, 4, 4, 4))  # extents do not tell time from space
    mask = rng.integers(0, 2, (4, 4, 4), dtype="u1")
    source = named(tmp_path / "values.h5", values, names)
    pipeline = hyperslab.Pipeline(source, mask=mask).map(lambda block, mask: block * mask)
    found = pipeline.compute(engine="serial", blocks="2x2x1x1")
    assert np.array_equal(found, values * np.expand_dims(mask, names.index("t")))


@pytest.mark.parametrize("extents", [(4, 4, 4), (4, 5, 6)])
def test_a_mask_without_a_place_lies_as_a_sagittal_image_does(
    tmp_path: Path, extents: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(1, 999, (*extents, 2), dtype="i2")
    mask = rng.integers(0, 2, extents, dtype="u1")
    affine = np.array([[0, 0, 2, 0], [2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 1.0]])
    source = hyperslab.open(save(tmp_path / "a.nii", values, affine))
    assert source.dims == ("y", "z", "x", "t")
    other = named(tmp_path / "mask.h5", mask, "xyz")
    pipeline = hyperslab.Pipeline(source, mask=other).map(lambda block, mask: block * mask)
    found = pipeline.compute(engine="serial", blocks="1")
    assert np.array_equal(found, values * mask[..., None])


def test_axes_of_a_minc_series_are_dropped_by_their_names(tmp_path: Path) -> None:
    source = DATA / "minc" / "minc2-4d-d.mnc"
    series = image_of(source)  # (time, x, y, z); its affine is for x, y, z
    mean = np.asarray(series.dataobj).mean(axis=0)
    averaged = hyperslab.Pipeline(source).map(lambda block: block.mean(axis=0), drop_axis="time")
    hyperslab.run(averaged.write(tmp_path / "mean.nii"), engine="serial", trial=False)
    made = image_of(tmp_path / "mean.nii")
    np.testing.assert_allclose(np.asarray(made.dataobj), mean)
    np.testing.assert_allclose(made.affine, series.affine, rtol=1e-6)
    with pytest.raises(UsageError, match=r"volume.?: the array has no axis of this name, but"):
        averaged.map(lambda block: block.mean(axis=0), drop_axis="volume")


def test_axes_are_kept_whole_by_their_names(tmp_path: Path) -> None:
    source = named(tmp_path / "a.h5", np.ones((4, 4, 4)), "txy")
    pipeline = hyperslab.Pipeline(source).map(lambda block: block).write(tmp_path / "out", "h5")
    plan = hyperslab.prepare(pipeline, hyperslab.Options(blocks="4", axes_whole="time")).plan
    assert {task.core.count[0] for task in plan.tasks} == {4}
    with pytest.raises(UsageError, match=r"volume.?: the array has no axis of this name, but"):
        hyperslab.prepare(pipeline, hyperslab.Options(axes_whole=["volume"]))
