"""What functions return for blocks as long as an array is what a run makes of it, or is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.driver.attempt import FIRST, extents_of
from hyperslab.driver.learning import learned
from hyperslab.driver.prepare import prepare
from hyperslab.driver.run import run
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.promise import PLAIN
from tests.driver.test_unlike import hdf5_of, netcdf_of, numbers
from tests.system.end_to_end.command import image_of, real_values_of, save

LONG = 24
"Longer than any sample that is made up."
PLACED = np.diag([1.0, 2.0, 3.0, 1.0])

Function = Callable[[Array], Array]


def test_no_axis_of_a_sample_is_like_another_with_a_halo_a_border_or_in_halves() -> None:
    pairs = extents_of((LONG,) * len(FIRST), ())
    assert len({second - first for first, second in pairs}) == len(pairs)
    changes: list[Callable[[int], int]] = [lambda n: n // 2, lambda n: -(-n // 2), lambda n: 2 * n]
    for one, other in itertools.permutations(pairs, 2):
        assert all((change(one[0]), change(one[1])) != other for change in changes)


CUTTING: dict[str, Function] = {
    "few": lambda block: block[:5],
    "many": lambda block: block[:20],
    "as many as a sample": lambda block: block[:8],
    "every eighth": lambda block: block[::8],
    "root": lambda block: block[: int(block.shape[0] ** 0.5)],
    "beyond the sixteenth": lambda block: block[16:],
    "last": lambda block: block[-30:],
}
"Functions that keep some of an axis, which samples of other lengths do not tell."


@pytest.mark.parametrize("name", CUTTING)
@pytest.mark.parametrize("length", [3, LONG])
def test_what_is_cut_off_is_that_of_the_whole_array(tmp_path: Path, name: str, length: int) -> None:
    function = CUTTING[name]
    values = numbers(length, 4)
    source = hdf5_of(tmp_path / "in.h5", values)
    expected = function(values)
    for blocks in ((1, 1), (3, 2)):
        made = tmp_path / f"{blocks[0]}-{blocks[1]}.h5"
        pipeline = Pipeline(source).map(function).write(made)
        try:
            run(pipeline, engine="serial", blocks=blocks, report=False)
        except UsageError:
            may_be_refused = not expected.size or blocks[0] > 1
            if not may_be_refused:
                raise
            continue
        with h5py.File(made) as file:
            np.testing.assert_array_equal(file["v"][:], expected)


def test_cutting_an_axis_that_gets_shorter_is_refused_with_what_to_do(tmp_path: Path) -> None:
    source = hdf5_of(tmp_path / "in.h5", numbers(LONG, 4))
    pipeline = Pipeline(source).map(CUTTING["many"]).write(tmp_path / "out.h5")
    with pytest.raises(UsageError, match=r"cuts axis 0, but .* needs all of it in every block"):
        run(pipeline, engine="serial", blocks=(2, 1), report=False)


def test_a_place_that_is_cut_off_is_refused_with_what_works(tmp_path: Path) -> None:
    values = numbers(4, LONG, 5)
    source = save(tmp_path / "in.nii", values, PLACED)

    def first(block: Array) -> Array:
        return block[:, :20]

    with pytest.raises(UsageError, match=r"drop_axis=1 and new_axis=\{1: 20\} together"):
        learned(Pipeline(source).map(first))
    told = Pipeline(source).map(first, drop_axis=1, new_axis={1: 20})
    run(told.write(tmp_path / "out.nii"), engine="serial", report=False)
    np.testing.assert_array_equal(real_values_of(tmp_path / "out.nii"), first(values))


def test_files_of_several_lengths_are_each_cut_off(tmp_path: Path) -> None:
    lengths = (3, LONG, 9)
    sources = [hdf5_of(tmp_path / f"in{n}.h5", numbers(n, 4)) for n in lengths]
    pipeline = Pipeline(sources).map(CUTTING["as many as a sample"])
    run(pipeline.write(tmp_path / "out", format="h5"), engine="serial", report=False)
    made = {}
    for path in (tmp_path / "out").glob("in*.h5"):
        with h5py.File(path) as file:
            made[path.name] = file["v"].shape
    assert made == {"in3_v.h5": (3, 4), f"in{LONG}_v.h5": (8, 4), "in9_v.h5": (8, 4)}


RESIZING: dict[str, tuple[tuple[int, ...], Function]] = {
    "twice": ((3, 6, 6), lambda block: np.tile(block, (2, 1, 1))),
    "longer": ((4, 5, 6), lambda block: np.pad(block, ((0, 1), (0, 0), (0, 0)))),
    "shorter": ((4, 5, 6), lambda block: block[:, :4]),
    "as long as it was": ((6, 6, 6), lambda block: block[:, :6]),
    "within": ((5, 3, 3), lambda block: block[1:-1]),
    "of a place": ((9, 9, 7), lambda block: block.argmax(axis=0)[1:-1]),
    "to the first": ((4, 5, 6), lambda block: np.repeat(block, 2, axis=1)[:, :4]),
    "twice, and one dropped": ((3, 6, 6), lambda block: np.tile(block, (2, 1, 1)).sum(1)),
}
"Functions that give an axis the length of another one, and shapes where they do."
KEPT = {"of a place": (1, 2), "twice, and one dropped": (0, 2)}
"Axes of the block that are left, of functions that drop some."


@pytest.mark.parametrize("name", RESIZING)
@pytest.mark.parametrize("whole", [(), (0, 1, 2)], ids=str)
def test_no_axis_gets_the_coordinates_of_another(
    tmp_path: Path, name: str, whole: tuple[int, ...]
) -> None:
    shape, function = RESIZING[name]
    values = numbers(*shape)
    made = tmp_path / "out.nc"
    pipeline = Pipeline(netcdf_of(tmp_path / "in.nc", values)).map(function).write(made)
    try:
        run(pipeline, engine="serial", axes_whole=whole, report=False)
    except UsageError:
        return
    expected = function(values)
    with netCDF4.Dataset(made) as file:
        np.testing.assert_array_equal(file["v"][:], expected)
        kept = KEPT.get(name, (0, 1, 2))
        for axis, told in enumerate(file["v"].dimensions):
            if told in file.variables:
                assert ("time", "y", "x").index(told) == kept[axis]
                assert file[told].shape == (shape[kept[axis]],)


@pytest.mark.parametrize("name", [name for name in RESIZING if "drop" not in name])
def test_no_axis_gets_the_place_of_another(tmp_path: Path, name: str) -> None:
    shape, function = RESIZING[name]
    values = numbers(*shape)
    made = tmp_path / "out.nii"
    pipeline = Pipeline(save(tmp_path / "in.nii", values, PLACED)).map(function).write(made)
    try:
        run(pipeline, engine="serial", axes_whole=(0, 1, 2), report=False)
    except UsageError:
        assert name != "as long as it was"
        return
    np.testing.assert_array_equal(real_values_of(made), function(values))
    if function(values).shape == shape:
        np.testing.assert_array_equal(image_of(made).affine, PLACED)


def test_what_works_is_told_for_blocks_without_a_halo(tmp_path: Path) -> None:
    values = numbers(6, 8, 4)
    source = save(tmp_path / "in.nii", values, PLACED)

    def shorter(block: Array) -> Array:
        return block[:, 1:]

    with pytest.raises(UsageError, match=r"drop_axis=1 and new_axis=\{1: 7\} together"):
        learned(Pipeline(source).map(shorter, halo=1))
    mean = Pipeline(source).map(lambda block: block.mean(axis=1), halo=1)
    with pytest.raises(UsageError, match=r"say halo=\(1, 0, 1\)"):
        prepare(mean.write(tmp_path / "out.nii"), dry=True)
    with pytest.raises(UsageError, match="neither the whole block nor the block without its halo"):
        learned(Pipeline(source).map(lambda block: block[:, : 2 * block.shape[1]][:, :9], halo=1))
    assert learned(Pipeline(source).map(lambda block: block[1:-1, 1:-1, 1:-1], halo=1)).returns == (
        PLAIN
    )
