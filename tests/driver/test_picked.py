"""A result of one voxel of an axis of space has the place that it was made of, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.driver.learning import learned
from hyperslab.driver.run import run
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from tests.system.end_to_end.command import image_of, save

PLACED = np.diag([2.0, 3.0, 4.0, 1.0])
SHAPE = (6, 7, 33)

Function = Callable[[Array], Array]

PICKING: dict[str, Function] = {
    "first": lambda block: block[:, :, :1],
    "last": lambda block: block[:, :, -1:],
    "beyond a sample": lambda block: block[:, :, 30:31],
    "without the axis": lambda block: block[:, 2],
    "mean of a part": lambda block: block[:, :, :3].mean(axis=2, keepdims=True),
}
MERGING: dict[str, Function] = {
    "mean": lambda block: block.mean(axis=2, keepdims=True),
    "largest": lambda block: block.max(axis=1),
    "place of the least": lambda block: block.argmin(axis=2, keepdims=True),
    "any above": lambda block: np.asarray((block > 118).any(axis=2, keepdims=True)),
    "count below": lambda block: (block < 2).sum(axis=2),
    "nothing of it": lambda block: np.ones_like(block[:, :, :1]),
    "both ends": lambda block: block[:, :, :1] - block[:, :, -1:],
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    values = np.random.default_rng(3).integers(0, 900, SHAPE, dtype=np.int16)
    return save(tmp_path / "in.nii", values, PLACED)


@pytest.mark.parametrize("name", PICKING)
def test_what_comes_of_one_end_is_refused(image: Path, name: str) -> None:
    with pytest.raises(UsageError, match="of one end of the block alone, so where that lies"):
        learned(Pipeline(image).map(PICKING[name]))


@pytest.mark.parametrize("name", MERGING)
def test_what_comes_of_all_of_an_axis_is_not(image: Path, name: str) -> None:
    learned(Pipeline(image).map(MERGING[name]))


def test_what_is_advised_works(image: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        learned(Pipeline(image).map(PICKING["first"]))
    assert "region=':,:,5:6'" in str(told.value)
    assert "drop_axis=2 and new_axis={2: 1}" in str(told.value)
    region = Pipeline(image, region=":,:,5:6").map(lambda block: block + 1)
    run(region.write(tmp_path / "region.nii"), engine="serial", report=False)
    assert list(image_of(tmp_path / "region.nii").affine[:3, 3]) == [0, 0, 5 * 4]
    said = Pipeline(image).map(PICKING["first"], drop_axis=2, new_axis={2: 1})
    run(said.write(tmp_path / "said.nii"), engine="serial", report=False)
    assert list(image_of(tmp_path / "said.nii").affine[:3, 3]) == [0, 0, 16 * 4]


def test_a_region_of_one_voxel_is_all_that_there_is(image: Path, tmp_path: Path) -> None:
    pipeline = Pipeline(image, region=":,:,5:6").map(PICKING["first"])
    run(pipeline.write(tmp_path / "out.nii"), engine="serial", report=False)
    assert list(image_of(tmp_path / "out.nii").affine[:3, 3]) == [0, 0, 5 * 4]


def test_time_and_arrays_without_a_place_are_taken_as_they_are(tmp_path: Path) -> None:
    series = save(tmp_path / "series.nii", np.ones((4, 5, 6, 7), np.int16), PLACED)
    learned(Pipeline(series).map(lambda block: block[..., :1]))
    learned(Pipeline(series).map(lambda block: block[..., 2]))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["v"] = np.ones(SHAPE)
    learned(Pipeline(tmp_path / "in.h5").map(PICKING["first"]))
