"""check_locality: which functions depend on the blocks, by how much, and which halo mends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import hyperslab
from hyperslab import Pipeline, workloads
from hyperslab.apps.locality import check_locality
from hyperslab.apps.samples import cut_of, is_nearly_constant
from hyperslab.arrays import Array
from hyperslab.arrays.partition import Rule
from hyperslab.errors import BlockError, DoesNotFit, UsageError
from tests.system.end_to_end.command import ANATOMICAL, FUNCTIONAL, call, real_values_of

BLUR = """
from scipy import ndimage

def blur(block):
    return ndimage.gaussian_filter(block, 2)
"""
MINE = """def wrong(block):
    return block / (1 // 0)

def detrended(block):
    return block - block.mean(axis=3, keepdims=True)
"""


def gaussian(block: Array) -> Array:
    return np.asarray(ndimage.gaussian_filter(block, 2))


def along_time(block: Array) -> Array:
    return np.asarray(ndimage.uniform_filter1d(block, 3, axis=3))


def standardised(block: Array) -> Array:
    return np.asarray((block - block.mean()) / block.std())


def detrended(block: Array) -> Array:
    return np.asarray(block - block.mean(axis=3, keepdims=True))


def random(block: Array) -> Array:
    return block + np.random.default_rng().normal(size=block.shape)


def failing(block: Array) -> Array:
    raise ValueError("not to my liking")


def summed(block: Array) -> Array:
    """Rounding depends on where the block begins, as in sums that run along an axis."""
    sums = np.cumsum(block, axis=0)
    return np.diff(sums, axis=0, prepend=0)


def noise(shape: tuple[int, ...]) -> Array:
    return np.asarray(np.random.default_rng(5).normal(1000, 100, shape))


def test_a_gaussian_without_a_halo_is_told_with_the_halo_that_it_needs() -> None:
    values = noise((90, 60, 40))
    found = check_locality(Pipeline(values).map(gaussian))
    assert not found.ok
    assert found.enough == (8, 8, 8)  # scipy's truncate of 4 standard deviations
    whole = gaussian(values[found.window.slices()])
    for difference in found.differences:
        assert difference.reach == 8
        cut_at = cut_of(found.window.count[difference.axis])
        parts = np.split(values[found.window.slices()], [cut_at], difference.axis)
        cut = np.concatenate([gaussian(part) for part in parts], difference.axis)
        assert difference.largest == np.abs(whole - cut).max()
        assert difference.elements == np.count_nonzero(whole != cut)
        place = tuple(np.subtract(difference.at, found.window.start))
        assert (difference.whole, difference.cut) == (whole[place], cut[place])
    assert check_locality(Pipeline(values).map(gaussian, halo=8)).ok
    assert check_locality(Pipeline(values).map(gaussian, halo=5)).enough == (8, 8, 8)


def echoed(block: Array) -> Array:
    """Each plane with what is 70 planes before it."""
    made = block.copy()
    made[70:] += block[:-70]
    return made


def test_what_reaches_farther_than_half_a_cubic_sample_is_seen_in_a_long_one() -> None:
    values = noise((300, 20, 10))
    found = check_locality(Pipeline(values).map(echoed))
    assert not found.ok
    assert found.window.count == (300, 20, 10)
    assert found.axes == (0,)
    (difference,) = found.differences
    assert difference.reach == 70
    assert found.enough == (70, 0, 0)


def test_the_extent_of_the_longest_samples_is_told() -> None:
    found = check_locality(Pipeline(noise((200, 20, 70))).map(np.abs))
    assert found.ok
    assert found.longest == (200, 20, 70)
    (extents,) = found.lines()[1:]
    assert extents.startswith("tried      up to 200,20,70 elements along axes 0,1,2: what reaches")
    short = check_locality(Pipeline(noise((30, 20, 10))).map(np.abs))
    assert len(short.lines()) == 1


def test_planes_that_are_counted_by_twos_or_threes_are_told() -> None:
    """Which a cut after 32 planes, or after 33, does not show."""
    for step in (2, 3):

        def thinned(block: Array, step: int) -> Array:
            return np.asarray(block * (np.arange(len(block)) % step == 0)[:, None, None])

        found = check_locality(Pipeline(noise((64, 5, 4))).map(thinned, step=step))
        assert [difference.axis for difference in found.differences] == [0]
    assert [cut_of(extent) for extent in (2, 3, 4, 5, 6, 7, 40, 60, 64)] == [
        *(1, 2, 3, 3, 3, 5, 23, 31, 35)
    ]


def test_what_is_voxel_by_voxel_is_local() -> None:
    for pipeline in (
        Pipeline(noise((9, 8, 7))).map(np.sqrt),
        Pipeline(ANATOMICAL).map(np.negative),
        workloads.build("smooth", Pipeline(ANATOMICAL), {}),
    ):
        found = check_locality(pipeline)
        assert found.ok
        assert found.differences == ()


def test_a_filter_along_time_needs_a_halo_there_alone() -> None:
    values = real_values_of(FUNCTIONAL)
    found = check_locality(Pipeline(values).map(along_time))
    assert found.enough == (0, 0, 0, 1)
    assert [difference.axis for difference in found.differences] == [3]
    assert check_locality(Pipeline(values).map(along_time), axes_whole=[3]).ok


@pytest.mark.parametrize(("function", "axes"), [(standardised, [0, 1, 2, 3]), (detrended, [3])])
def test_no_halo_helps_what_needs_the_whole_array(function: Any, axes: list[int]) -> None:
    found = check_locality(Pipeline(noise((12, 10, 8, 30))).map(function))
    assert found.enough is None
    assert [difference.axis for difference in found.differences] == axes
    told = tuple(axes) if len(axes) > 1 else axes[0]
    assert f"axes_whole={told}, with" in found.lines()[-1]


@pytest.mark.parametrize(("width", "halo"), [(2, 8), (0.3, 1)])
def test_a_halo_may_be_longer_than_an_axis(width: float, halo: int) -> None:
    def blurred(block: Array) -> Array:
        return np.asarray(ndimage.gaussian_filter1d(block, width, axis=2))

    found = check_locality(Pipeline(noise((20, 20, 3))).map(blurred))
    assert found.enough == (0, 0, halo)
    assert check_locality(Pipeline(noise((20, 20, 3))).map(blurred, halo=found.enough)).ok
    assert ("axes_whole=2, which costs less" in found.lines()[-1]) == (halo >= 3)


def test_axes_that_no_halo_mends_are_told_beside_the_halo_of_the_others() -> None:
    def mixed(block: Array) -> Array:
        return np.asarray(ndimage.uniform_filter1d(block - block.mean(axis=2, keepdims=True), 3, 0))

    found = check_locality(Pipeline(noise((90, 20, 12))).map(mixed))
    *_, tried, remedy = found.lines()
    assert re.search(r"along axis 2 a halo of \d+ is not enough: a longer", tried)
    assert "remedy     halo=(1, 0, 0) axes_whole=2 (at least this halo), with which the" in remedy
    assert check_locality(Pipeline(noise((90, 20, 12))).map(mixed, halo=(1, 0, 0)), [2]).ok


def test_what_a_sample_cannot_show_is_said() -> None:
    found = check_locality(Pipeline(noise((200, 4, 4))).map(standardised))
    assert (
        "along axis 0 the values differ nearly as far as the sample goes, which has 64 of 200"
        " elements: whether a longer halo is enough was not tried"
    ) in "\n".join(found.lines())


def test_axes_that_no_halo_mends_are_told_in_one_line() -> None:
    for shape, axes in (((12, 10, 9), "axes 0,1,2 a halo"), ((200, 4, 4), "axes 1,2 a halo")):
        lines = check_locality(Pipeline(noise(shape)).map(standardised)).lines()
        (tried,) = [line for line in lines if line.startswith("tried")]
        assert axes in tried
        assert tried.count("is not enough: a longer one was not tried") == 1


def test_every_array_of_a_function_is_compared() -> None:
    def both(block: Array) -> dict[str, Array]:
        return {"twice": 2 * block, "blurred": np.asarray(ndimage.uniform_filter1d(block, 3, 0))}

    def pair(block: Array) -> tuple[Array, Array]:
        return block.max(axis=3), block.mean(axis=3)

    found = check_locality(Pipeline(noise((12, 10, 8))).map(both))
    assert [(odd.axis, odd.output) for odd in found.differences] == [(0, "blurred")]
    assert "elements of 'blurred' differ by up to" in found.lines()[1]
    assert found.enough == (1, 0, 0)
    assert check_locality(Pipeline(FUNCTIONAL).map(pair)).ok


def test_maps_of_a_series_are_cut_in_space_alone() -> None:
    def smooth_mean(block: Array) -> Array:
        return np.asarray(ndimage.uniform_filter(block.mean(axis=3), 3))

    values = noise((12, 10, 8, 30))
    found = check_locality(Pipeline(values).map(smooth_mean))
    assert [difference.axis for difference in found.differences] == [0, 1, 2]
    assert found.enough == (1, 1, 1, 0)
    assert check_locality(Pipeline(values).map(smooth_mean, halo=(1, 1, 1, 0))).ok


def test_other_values_each_time() -> None:
    found = check_locality(Pipeline(noise((12, 10, 8))).map(random))
    assert not found.ok
    assert "returns different values for the same block each time" in found.lines()[0]


def test_rounding_is_no_difference() -> None:
    found = check_locality(Pipeline(noise((30, 10, 8))).map(summed))
    assert found.ok


def test_inputs_beside_it_are_cut_with_it() -> None:
    values = noise((20, 20, 20))
    mask = values > 1000
    pipeline = Pipeline([values, values], mask=mask)
    assert check_locality(pipeline.map(lambda block, mask: np.where(mask, block, 0))).ok


def test_the_sample_is_where_there_is_something() -> None:
    values = np.zeros((200, 200, 130))
    values[:90, :, :] = noise((90, 200, 130))
    values[60:] = 0
    found = check_locality(Pipeline(values).map(gaussian))
    assert not found.ok


def test_axes_that_the_blocks_leave_whole_are_not_cut() -> None:
    pipeline = Pipeline(noise((30, 20, 12))).map(gaussian)
    for rule in (Rule("blocks", (1, 1, 4)), Rule("block-shape", (30, 20, 3))):
        found = check_locality(pipeline, rule=rule)
        assert found.axes == (2,)
        assert found.enough == (0, 0, 8)
        assert "remedy     halo=(0, 0, 8) (at least this halo), with which" in found.lines()[2]
    enough = Pipeline(noise((30, 20, 12))).map(gaussian, halo=(0, 0, 8))
    (line,) = check_locality(enough, rule=Rule("blocks", (1, 1, 4))).lines()
    assert line.endswith("is the same however it is cut along axis 2")
    assert check_locality(enough, rule=Rule("blocks", (4,))).axes != (2,)
    (line,) = check_locality(pipeline, rule=Rule("blocks", (1, 1, 1))).lines()
    assert line.startswith("local      the blocks are not cut along any axis")


def labelled(block: Array) -> Array:
    return np.asarray(ndimage.label(block > 1200)[0])


def test_samples_in_which_hardly_anything_happens_tell_nothing() -> None:
    lesions = np.zeros((60, 60, 60))
    lesions[10, 30, 10:14] = 2000
    lesions[20, 20, 20:23] = 2000
    background = lesions + noise((60, 60, 60)) / 10
    for values in (lesions, background):
        found = check_locality(Pipeline(values).map(labelled))
        assert not found.ok
        (line,) = found.lines()
        assert line.startswith("not told   nothing happens in the samples: ")
    lesions[20:50, 20:50, 20:50] = noise((30, 30, 30)) * 2
    assert check_locality(Pipeline(lesions).map(lambda block: block > 2000)).ok


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "complex64"])
def test_values_are_nearly_constant_where_less_than_one_in_a_hundred_is_another(dtype: str) -> None:
    for other, most in ((1, 0), (0, 1)):
        values = np.full((20, 50), most, dtype)
        values[0, :9] = other
        assert is_nearly_constant(values)
        values[0, :10] = other
        assert not is_nearly_constant(values)


def test_nan_is_one_value() -> None:
    values = np.full(1000, np.nan)
    assert is_nearly_constant(values)
    values[:10] = 1
    assert not is_nearly_constant(values)


def test_what_cannot_be_tried() -> None:
    with pytest.raises(UsageError, match="works only for functions that are mapped"):
        hyperslab.check_locality(workloads.build("stats", Pipeline(ANATOMICAL), {}))
    with pytest.raises(UsageError, match="merge no voxels"):
        check_locality(workloads.build("downsample", Pipeline(ANATOMICAL), {"factor": 2}))
    with pytest.raises(BlockError, match="ValueError: not to my liking") as raised:
        check_locality(Pipeline(ANATOMICAL).map(failing))
    (place,) = raised.value.__notes__
    assert re.search(r'test_locality.py:\d+, in failing: raise ValueError\("not to', place)


def test_a_halo_beyond_memory_is_told_as_that() -> None:
    pipeline = Pipeline(ANATOMICAL).map(gaussian, halo=100_000)
    sentence = r"a sample of [\dx]+ elements needs [\d.]+ PB of memory with its halo, but this"
    with pytest.raises(DoesNotFit, match=f"{sentence} machine has .*: use a smaller halo$"):
        hyperslab.check_locality(pipeline)


def test_the_command_says_where_and_how_much_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(BLUR)
    given = ("run", f"{path}:blur", ANATOMICAL, "-o", tmp_path / "out", "--check-locality")
    done = call(*given)
    assert done.code == 1, done
    assert "not local  with a halo of 0,0,0, the result depends on the blocks" in done.out
    assert "differ by up to" in done.out
    remedy = done.out.splitlines()[-1]
    halo = remedy.split()[2].rstrip(",")
    assert min(map(int, halo.split(","))) >= 4
    whole = call(*given, "--halo", halo, "--blocks", "1x1x2")
    assert whole.code == 0
    assert "however it is cut along axis 2" in whole.out
    assert not (tmp_path / "out").exists()


def test_the_command_says_where_a_function_failed_and_leaves_a_series_whole(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    given = ("-o", tmp_path / "out", "--check-locality")
    done = call("run", f"{path}:wrong", ANATOMICAL, *given)
    assert done.code == 1
    headline, place = done.err.splitlines()
    assert "ZeroDivisionError" in headline
    assert place.endswith("mine.py:2, in wrong: return block / (1 // 0)")
    assert call("run", f"{path}:detrended", FUNCTIONAL, *given).code == 0
    assert call("run", f"{path}:detrended", FUNCTIONAL, *given, "--blocks", "1x1x1x2").code == 1
