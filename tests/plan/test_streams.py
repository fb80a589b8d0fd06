"""Plans over gzip streams: blocks that have values all over a stream are few."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from hyperslab.arrays.partition import Rule
from hyperslab.plan.compile import Budget, Plan, compile_plan
from hyperslab.plan.pipeline import Pipeline

nib: Any = nibabel
"Its functions carry no types."
GB = 10**9


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5.8 MB of noise, which a gzip stream hardly shrinks, as two files."""
    folder = tmp_path_factory.mktemp("series")
    noise = np.random.default_rng(0).integers(0, 2**16, (30, 32, 30, 100)).astype("u2")
    for name in ("bold.nii", "bold.nii.gz"):
        nib.Nifti1Image(noise, np.eye(4)).to_filename(folder / name)
    return folder


def plan_of(path: Path, axes_whole: tuple[int, ...], slots: int, memory: int = 8 * GB) -> Plan:
    pipeline = Pipeline(path).map(np.negative).write("out", "nii", "blocks")
    return compile_plan(pipeline, Rule("auto", (), axes_whole), Budget(memory, slots))


@pytest.mark.parametrize(("slots", "blocks"), [(2, 3), (4, 6), (1, 1)])
def test_a_series_that_stays_whole_is_inflated_about_once_for_each_slot(
    series: Path, slots: int, blocks: int
) -> None:
    plan = plan_of(series / "bold.nii.gz", (3,), slots)
    assert slots <= len(plan.partitions[0]) <= blocks
    assert plan.times_inflated == pytest.approx(len(plan.partitions[0]), rel=0.2)
    plain = plan_of(series / "bold.nii", (3,), slots)
    assert len(plain.partitions[0]) > slots
    assert plain.times_inflated == 1.0


def test_memory_sets_how_few_they_are(series: Path) -> None:
    few = plan_of(series / "bold.nii.gz", (3,), 2)
    many = plan_of(series / "bold.nii.gz", (3,), 2, memory=60 * 10**6)
    assert len(many.partitions[0]) > len(few.partitions[0])
    assert many.bytes_peak <= 30 * 10**6


@pytest.mark.parametrize(
    ("arrays", "slots", "axes_whole"), [(3, 2, ()), (5, 1, ()), (3, 2, (3,)), (2, 4, (0, 3))]
)
def test_more_streams_than_slots_are_planned(
    series: Path, arrays: int, slots: int, axes_whole: tuple[int, ...]
) -> None:
    """However many blocks there are at least: those of one array are never one with another's."""
    names = ["bold.nii.gz", *["bold.nii"] * (arrays - 1)]
    pipeline = Pipeline([series / name for name in names]).map(np.negative).reduce("stats")
    plan = compile_plan(pipeline, Rule("auto", (), axes_whole), Budget(8 * GB, slots))
    assert len(plan.partitions) == arrays
    assert all(1 <= len(partition) <= 2 * slots + 2 for partition in plan.partitions)


def test_volumes_one_after_the_other_are_read_as_before(series: Path) -> None:
    plan = plan_of(series / "bold.nii.gz", (), 2)
    assert plan.times_inflated < 1.5
