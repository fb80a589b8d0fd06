"""What a trial has seen to be unlike its block is learned as it is, or refused before a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.driver.learning import learned
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.run import run
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.promise import PLAIN, Promise
from tests.system.end_to_end.command import image_of, real_values_of, save

EDGE = 8
PLACED = np.diag([1.0, 2.0, 3.0, 1.0])
ORDERS = list(itertools.permutations(range(3)))


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def reorder(block: Array, order: tuple[int, ...]) -> Array:
    return np.transpose(block, order)


def netcdf_of(path: Path, values: Array) -> Path:
    """A variable of (time, y, x), with the coordinates of each."""
    with netCDF4.Dataset(path, "w") as file:
        for axis, (name, n) in enumerate(zip(("time", "y", "x"), values.shape, strict=True)):
            file.createDimension(name, n)
            file.createVariable(name, "f8", (name,))[:] = np.arange(n) * 10.0**axis
        file.createVariable("v", values.dtype, ("time", "y", "x"))[:] = values
    return path


def hdf5_of(path: Path, values: Array) -> Path:
    """A dataset whose axes have no names."""
    with h5py.File(path, "w") as file:
        file["v"] = values
    return path


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("blocks", [(1, 1, 1), (2, 2, 2), (1, 2, 2)], ids=str)
@pytest.mark.parametrize("shape", [(EDGE,) * 3, (4, EDGE, EDGE)], ids=str)
def test_reordered_images_are_those_of_numpy_or_refused(
    tmp_path: Path, order: tuple[int, ...], blocks: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    values = numbers(*shape)
    source = save(tmp_path / "in.nii", values, PLACED)
    path = tmp_path / "out.nii"
    if not is_made(source, path, order, blocks):
        return
    image = image_of(path)
    np.testing.assert_array_equal(real_values_of(path), np.transpose(values, order))
    if order == (0, 1, 2):
        np.testing.assert_array_equal(image.affine, PLACED)
    else:
        assert (int(image.header["sform_code"]), int(image.header["qform_code"])) == (0, 0)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("blocks", [(1, 1, 1), (2, 2, 2), (1, 2, 2)], ids=str)
def test_reordered_variables_are_those_of_numpy_or_refused(
    tmp_path: Path, order: tuple[int, ...], blocks: tuple[int, ...]
) -> None:
    values = numbers(EDGE, EDGE, EDGE)
    source = netcdf_of(tmp_path / "in.nc", values)
    path = tmp_path / "out.nc"
    if not is_made(source, path, order, blocks):
        return
    with netCDF4.Dataset(path) as file:
        made = file["v"]
        np.testing.assert_array_equal(made[:], np.transpose(values, order))
        for axis, name in enumerate(made.dimensions):
            if name in file.variables:
                expected = np.arange(EDGE) * 10.0 ** order[axis]
                np.testing.assert_array_equal(file[name][:], expected)


def is_made(source: Path, path: Path, order: tuple[int, ...], blocks: tuple[int, ...]) -> bool:
    """Whether a run has made a file; else it was refused, which that of equal order never is."""
    pipeline = Pipeline(source).map(reorder, order=order)
    try:
        run(pipeline.write(path), engine="serial", blocks=blocks, report=False)
    except UsageError:
        assert order != (0, 1, 2)
        assert not path.exists()
        return False
    return True


def test_reversed_axes_of_one_length_are_refused_with_what_works(tmp_path: Path) -> None:
    values = numbers(EDGE, EDGE, EDGE)
    source = save(tmp_path / "in.nii", values, PLACED)
    seen = r"shape \(6, 7, 5\) for a made-up block of shape \(5, 7, 6\)"
    said = r"drop_axis=\[0, 2\] and new_axis={0: 8, 2: 8} together"
    with pytest.raises(UsageError, match=f"{seen}.*{said}") as refused:
        learned(Pipeline(source).map(np.transpose))
    assert "--no-trial" not in str(refused.value), "it would keep the shape of blocks of one length"
    pipeline = Pipeline(source).map(np.transpose, drop_axis=[0, 2], new_axis={0: 8, 2: 8})
    run(pipeline.write(tmp_path / "out.nii"), engine="serial", report=False)
    np.testing.assert_array_equal(real_values_of(tmp_path / "out.nii"), values.T)
    assert image_of(tmp_path / "out.nii").header["sform_code"] == 0


def test_axes_of_one_length_that_must_be_whole_are_told_apart(tmp_path: Path) -> None:
    source = save(tmp_path / "in.nii", numbers(EDGE, EDGE, EDGE), PLACED)
    pipeline = Pipeline(source).map(reorder, order=(1, 0, 2))
    with pytest.raises(UsageError, match=r"drop_axis=\[0, 1\]"):
        learned(pipeline, axes_whole=(0, 1))
    assert learned(Pipeline(source).map(np.negative), axes_whole=(0, 1)).returns == PLAIN


@pytest.mark.parametrize("seed", range(20))
def test_random_orders_of_random_lengths_are_learned_or_refused(tmp_path: Path, seed: int) -> None:
    """What is promised of an array is its shape and, of axes of one length, which is which."""
    random = np.random.default_rng(seed)
    ndim = int(random.integers(2, 6))
    shape = tuple(map(int, random.choice([2, 4, 6], ndim)))
    order = tuple(map(int, random.permutation(ndim)))
    source = hdf5_of(tmp_path / "in.h5", numbers(*shape))
    whole = [axis for axis in range(ndim) if random.random() < 0.3]
    try:
        pipeline = learned(Pipeline(source).map(reorder, order=order), whole)
    except UsageError:
        assert order != tuple(range(ndim))
        return
    (axes,) = pipeline.axes
    assert axes.shape(shape) == tuple(shape[axis] for axis in order)
    for position, axis in enumerate(axes.kept):
        assert axis in (None, order[position])


RESIZING: dict[str, tuple[Callable[[Array], Array], dict[int, int]]] = {
    "diff": (lambda block: np.diff(block, axis=0), {0: 7}),
    "repeat": (lambda block: block.repeat(2, 0), {0: 16}),
    "first": (lambda block: block[:2], {0: 2}),
    "crop": (lambda block: block[1:-1, 1:-1, 1:-1], {0: 6, 1: 6, 2: 6}),
    "pad": (lambda block: np.pad(block, 1), {0: 10, 1: 10, 2: 10}),
}
"Functions, and the lengths of the axes that they resize."


@pytest.mark.parametrize("name", RESIZING)
def test_resized_axes_of_space_are_refused_with_what_works(tmp_path: Path, name: str) -> None:
    function, lengths = RESIZING[name]
    values = numbers(EDGE, EDGE, EDGE)
    source = save(tmp_path / "in.nii", values, PLACED)
    pipeline = Pipeline(source).map(function)
    with pytest.raises(UsageError) as refused:
        prepare(pipeline.write(tmp_path / "out.nii"), Options(engine="serial"), dry=True)
    assert f"new_axis={lengths} together" in str(refused.value)
    told = Pipeline(source).map(function, drop_axis=list(lengths), new_axis=lengths)
    run(told.write(tmp_path / "out.nii"), engine="serial", report=False)
    np.testing.assert_array_equal(real_values_of(tmp_path / "out.nii"), function(values))


@pytest.mark.parametrize("name", RESIZING)
def test_resized_axes_without_names_are_learned(tmp_path: Path, name: str) -> None:
    function, _ = RESIZING[name]
    values = numbers(EDGE, EDGE, EDGE)
    pipeline = Pipeline(hdf5_of(tmp_path / "in.h5", values)).map(function)
    made = tmp_path / "out.h5"
    run(pipeline.write(made), engine="serial", report=False)
    with h5py.File(made) as file:
        np.testing.assert_array_equal(file["v"][:], function(values))


def test_a_resized_axis_of_one_is_learned(tmp_path: Path) -> None:
    source = hdf5_of(tmp_path / "in.h5", numbers(EDGE))
    (promise,) = learned(Pipeline(source).map(lambda block: block[1:-1])).returns
    assert promise == Promise(drop_axis=(0,), new_axis=((0, 6),), continued=(0,))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda block: block.astype(object), "an array of dtype object"),
        (lambda block: block.astype(str), "an array of dtype <U11"),
        (lambda block: None, "returned None"),
        (lambda block: {"a": block, "b": block.astype(object)}, "as 'b' an array of dtype object"),
        (lambda block: block.ravel(), r"shape \(210,\) for a made-up block of shape \(5, 7, 6\)"),
    ],
)
def test_what_no_block_may_be_is_refused(
    tmp_path: Path, function: Callable[[Array], Any], said: str
) -> None:
    source = save(tmp_path / "in.nii", numbers(EDGE, EDGE, EDGE), PLACED)
    with pytest.raises(UsageError, match=said):
        learned(Pipeline(source).map(function))
