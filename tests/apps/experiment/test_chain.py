"""The chain of increments: right values, by way of files that are gone afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hyperslab.apps.experiment.chain import increment_by_way_of_files
from hyperslab.trace import recording


def test_a_block_goes_by_way_of_a_file_between_two_increments(tmp_path: Path) -> None:
    block = np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(2, 0, 1)
    with recording() as phases:
        made = increment_by_way_of_files(block, str(tmp_path / "deep"), iterations=3)
    np.testing.assert_array_equal(made, block + 3)
    assert made.dtype == block.dtype
    assert [phase.kind for phase in phases] == ["write", "read"] * 2
    assert {phase.nbytes for phase in phases} == {24}
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_single_increment_needs_no_file() -> None:
    block = np.array([255, 1], np.uint8)
    np.testing.assert_array_equal(increment_by_way_of_files(block, "/nowhere"), [0, 2])
    np.testing.assert_array_equal(block, [255, 1])
