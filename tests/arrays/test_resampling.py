"""Resampling by blocks against nibabel.processing.resample_from_to over the whole images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nibabel.processing import resample_from_to

from hyperslab.arrays import Array
from hyperslab.arrays.boxes import Boxes
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.resampling import Resampling, needed, resampled, voxels_of
from hyperslab.arrays.slab import Hyperslab
from tests.examples import examples

ORDERS: dict[Resampling, int] = {"nearest": 0, "linear": 1}


def turned(degrees: Sequence[float], sizes: Sequence[float], origin: Sequence[float]) -> Array:
    """An affine of voxels of these sizes, turned about x, y and z."""
    turn = np.eye(3)
    for axis, angle in enumerate(np.radians(degrees)):
        one = np.eye(3)
        a, b = (i for i in range(3) if i != axis)
        one[a, a] = one[b, b] = np.cos(angle)
        one[a, b] = -np.sin(angle)
        one[b, a] = np.sin(angle)
        turn = turn @ one
    affine = np.eye(4)
    affine[:3, :3] = turn * sizes
    affine[:3, 3] = origin
    return affine


def by_nibabel(
    values: Array, affine: Array, shape: Sequence[int], grid: Array, order: int
) -> Array:
    image: Any = nib.Nifti1Image(values, affine)  # type: ignore[no-untyped-call]
    made: Any = resample_from_to(image, (tuple(shape), grid), order=order)  # type: ignore[no-untyped-call]
    return np.asarray(made.dataobj)


def by_blocks(
    values: Array, affine: Array, shape: Sequence[int], grid: Array, how: Resampling, blocks: int
) -> tuple[Array, int]:
    """The resampled image, put together from blocks, and the most voxels that one was made from."""
    between = voxels_of(affine, grid)
    made = np.empty((*shape, *values.shape[3:]), values.dtype)
    most = 0
    rule = Rule("blocks", (blocks,) * 3)
    for wanted in cut(Layout(tuple(shape), (2, 1, 0), 1, None), rule, 0):
        (held,) = needed(between, Boxes.of([wanted]), values.shape[:3])
        most = max(most, held.size)
        part = values[held.slices()]
        made[wanted.slices()] = resampled(part, held, values.shape[:3], between, wanted, how)
    return made, most


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f4", "f8", "c8"])
@pytest.mark.parametrize("how", ORDERS)
def test_every_block_is_that_of_the_whole_image(how: Resampling, dtype: str) -> None:
    rng = np.random.default_rng(4)
    values = (rng.normal(size=(14, 11, 9)) * 1000).astype(dtype)
    affine = turned((10, -20, 5), (2, 2.5, 3), (-10, 4, 3))
    grid = turned((0, 3, 0), (-1.5, 2, 2.2), (15, 0, -2))
    expected = by_nibabel(values, affine, (17, 13, 12), grid, ORDERS[how])
    assert np.count_nonzero(expected) > 200
    assert np.count_nonzero(expected == 0) > 200
    for blocks in (1, 3):
        found, _ = by_blocks(values, affine, (17, 13, 12), grid, how, blocks)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.tuples(*[st.sampled_from([-2, -1, 0.5, 1, 1.5, 3])] * 3),
    origin=st.tuples(*[st.sampled_from([-3, -0.5, 0, 0.25, 0.5, 1, 2.75])] * 3),
    order=st.permutations(range(3)),
    how=st.sampled_from(list(ORDERS)),
    seed=st.integers(0, 99),
)
def test_ties_and_edges_fall_as_in_the_whole_image(
    sizes: tuple[float, ...],
    origin: tuple[float, ...],
    order: list[int],
    how: Resampling,
    seed: int,
) -> None:
    """Voxels half-way between two others, and at the very edge, with NaN and infinities."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(5, 4, 6))
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.05] = np.inf
    affine = np.diag([*sizes, 1.0])[[*order, 3]]
    affine[:3, 3] = origin
    with np.errstate(invalid="ignore"):
        expected = by_nibabel(values, affine, (6, 7, 5), np.eye(4), ORDERS[how])
        found, _ = by_blocks(values, affine, (6, 7, 5), np.eye(4), how, 2)
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_series_is_resampled_volume_by_volume() -> None:
    values = np.random.default_rng(1).normal(size=(6, 5, 4, 3)).astype(np.float32)
    affine = turned((4, 0, 9), (3, 3, 3), (1, 2, 3))
    for how, order in ORDERS.items():
        found, _ = by_blocks(values, affine, (9, 8, 7), np.diag([2.0, 2, 2, 1]), how, 2)
        for volume in range(3):
            one = by_nibabel(values[..., volume], affine, (9, 8, 7), np.diag([2.0, 2, 2, 1]), order)
            assert np.array_equal(found[..., volume], one)


def test_a_block_is_made_from_what_it_needs() -> None:
    values = np.zeros((40, 40, 40), np.uint8)
    _, most = by_blocks(values, np.eye(4), (20, 20, 20), np.diag([2.0, 2, 2, 1]), "linear", 4)
    assert most <= (2 * 5 + 3) ** 3


def test_where_images_do_not_meet_there_is_nothing() -> None:
    values = np.ones((4, 4, 4))
    far = turned((0, 0, 0), (1, 1, 1), (1e30, 0, 0))
    wanted = Hyperslab.full((3, 3, 3))
    between = voxels_of(far, np.eye(4))
    (held,) = needed(between, Boxes.of([wanted]), values.shape)
    assert held.size == 0
    made = resampled(values[held.slices()], held, values.shape, between, wanted, "linear")
    assert not made.any()


@pytest.mark.parametrize("seed", range(5))
def test_regions_are_the_same_beside_others(seed: int) -> None:
    """Bit by bit: a plan looks at all together, a task at its own."""
    rng = np.random.default_rng(seed)
    image, grid = (
        turned(rng.uniform(-180, 180, 3), rng.uniform(0.5, 3, 3), rng.uniform(-9, 9, 3))  # type: ignore[arg-type]
        for _ in range(2)
    )
    between = voxels_of(image, grid)
    blocks = list(cut(Layout((20, 17, 13), (2, 1, 0), 1, None), Rule("blocks", (4, 3, 5)), 0))
    together = list(needed(between, Boxes.of(blocks), (15, 14, 16)))
    alone = [next(iter(needed(between, Boxes.of([one]), (15, 14, 16)))) for one in blocks]
    assert together == alone


def test_whole_numbers_beyond_float64_stay_what_they_are() -> None:
    values = np.arange(27, dtype=np.int64).reshape(3, 3, 3) + 2**60
    found, _ = by_blocks(values, np.eye(4), (3, 3, 3), np.eye(4), "nearest", 1)
    assert np.array_equal(found, values)
