"""A plan for many files takes a time that grows as their number does, and of the order of that in
which they are opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hyperslab import formats
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.sets import SourceSet, concatenated, independent
from hyperslab.arrays.source import ArraySource
from hyperslab.plan.compile import Budget, compile_plan
from hyperslab.plan.pipeline import Pipeline
from hyperslab.testing import functions
from tests.repetitions import few as only_some
from tests.repetitions import repeats
from tests.system.end_to_end.command import save

FEW, MANY = 100, 1500
GROWTH, GROWTH_OF_ONE = 2.0, 3.0
"""Times as long that a file may take in a plan of many as in one of few; and where they are one
array, of which few make a single block.
"""
SHARE, SHARE_OF_VOLUMES = 2.5, 5.0
"""Times as long that the plan may take as the opening of the files, which takes some 0.2 ms each;
and one that makes the header of a new file for each.
"""
Ending = Callable[[SourceSet], Pipeline]
ENDINGS: dict[str, Ending] = {
    "blocks": lambda sources: Pipeline(sources).map(np.negative).write("out"),
    "fold": lambda sources: Pipeline(sources).reduce(functions.BLOCKS),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("many") / "image.nii", np.zeros((8, 8, 8), np.int16))


@pytest.fixture
def opened_s(path: Path) -> float:
    """Seconds of a processor that the opening of a file takes at the moment."""
    return least_s(lambda: [formats.open_source(str(path)) for _ in range(FEW)]) / FEW


@pytest.mark.parametrize("ending", only_some(["fold"], ENDINGS, "planning takes its share"))
def test_planning_takes_no_more_than_its_share(path: Path, opened_s: float, ending: str) -> None:
    few = planned_s(ENDINGS[ending], independent(described(path, FEW))) / FEW
    many = planned_s(ENDINGS[ending], independent(described(path, MANY))) / MANY
    assert many < GROWTH * few
    assert many < SHARE * opened_s


@repeats("planning takes its share: of many arrays, above")
def test_so_it_does_for_one_array_of_many_files(path: Path, opened_s: float) -> None:
    few = planned_s(ENDINGS["blocks"], concatenated(described(path, FEW), 0)) / FEW
    many = planned_s(ENDINGS["blocks"], concatenated(described(path, MANY), 0)) / MANY
    assert many < GROWTH_OF_ONE * few
    assert many < SHARE * opened_s


def test_so_it_does_where_a_file_is_made_of_each(path: Path, opened_s: float) -> None:
    def ending(sources: SourceSet) -> Pipeline:
        return Pipeline(sources).map(np.negative).write("out", keep="volume")

    assert planned_s(ending, independent(described(path, FEW))) < SHARE_OF_VOLUMES * opened_s * FEW


def described(path: Path, count: int) -> list[ArraySource]:
    """As many files, which differ in nothing but their names."""
    one = formats.open_source(str(path))
    return [replace(one, url=f"/data/image_{number}.nii") for number in range(count)]


def planned_s(ending: Ending, sources: SourceSet) -> float:
    """Seconds of a processor that a plan takes."""
    return least_s(lambda: compile_plan(ending(sources), Rule(), Budget(2**30, 2)))


def least_s(work: Callable[[], object]) -> float:
    """The less of two times: something else may take a processor's caches meanwhile."""
    taken = []
    for _ in range(2):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)
