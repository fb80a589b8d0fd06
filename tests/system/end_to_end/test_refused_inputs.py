"""Inputs and values that a run refuses: it says the cause, and its advice ends the trouble."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.system.end_to_end.command import ANATOMICAL, call, save, succeed

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

QUICK = ("--engine", "serial", "--no-report", "-q")
MINE = """
import numpy as np

def numbered(block):
    return np.int32(2**24) + np.arange(block.size, dtype=np.int32).reshape(block.shape)
"""


def test_whole_numbers_are_not_rounded_to_floats(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    given = ("run", f"{tmp_path}/mine.py:numbered", ANATOMICAL, "-o", tmp_path / "out", *QUICK)
    done = call(*given, "--dtype", "float32")
    assert done.code == 1
    assert "the value 16777217 at (0, 0, 1) is a whole number that no float32 equals" in done.err
    assert "the nearest being 16777216: choose another dtype" in done.err


@pytest.mark.parametrize("more", [(), ("--resample", "nearest")], ids=["as it lies", "resampled"])
def test_another_number_of_volumes_is_said_wherever_they_lie(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    affine = np.diag([2.0, 2, 2, 1])
    source = save(tmp_path / "bold.nii", np.ones((6, 5, 4, 4), "f4"), affine)
    moved = affine @ np.diag([1.5, 1.5, 1.5, 1])
    mask = save(tmp_path / "mask.nii", np.ones((6, 5, 4, 5), "u1"), moved)
    given = ("run", "stats", source, "-o", tmp_path / "out", *QUICK)
    done = call(*given, "--mask", mask, *more)
    assert done.code == 2
    assert "the input 'mask' has 5 elements along its axis t, the source 4 along t" in done.err
    assert "resample" not in done.err
    one = save(tmp_path / "one.nii", np.ones((6, 5, 4, 1), "u1"), moved)
    succeed(*given, "--mask", one, "--resample", "nearest")
