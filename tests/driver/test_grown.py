"""A run is not gone on with by a function that makes other arrays than those it began with."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.system.end_to_end.command import call

FAILING = """
import numpy as np

def own(block):
    if block.max() > 1000 and {is_failing}:
        raise ValueError("not yet")
    return {made}
"""
REMEDY = ["--accept-changed-function", "--resume"]


def start(tmp_path: Path, made: str, *more: str, is_failing: bool = False) -> tuple[int, str]:
    """Run a function that makes this of a block, of files of two dtypes."""
    path = tmp_path / "mine.py"
    path.write_text(FAILING.format(made=made, is_failing=is_failing))
    sources = []
    for dtype in ("int16", "float32"):
        sources.append(tmp_path / f"{dtype}.h5")
        if not sources[-1].exists():
            with h5py.File(sources[-1], "w") as file:
                file["v"] = np.arange(0, 1200, 10, dtype=dtype).reshape(12, 10)
    order = ("run", f"{path}:own", *sources, "-o", tmp_path / "out", "--blocks", "2x1")
    done = call(*order, "--engine", "serial", "--no-report", "--retries", 0, *more)
    return done.code, " ".join(done.err.split())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("block[:, :6]", "block[:, :5]", ("int16 of shape (12, 6)", "int16 of shape (12, 5)")),
        ("block", "block * 1.5", ("int16 of shape (12, 10)", "float64 of shape (12, 10)")),
        ("block / np.int16(2)", "block", ("float64 of shape", "int16 of shape")),
        ("block.sum(axis=1)", "block.sum(axis=1)[:, None]", ("(12,)", "(12, 1)")),
    ],
)
def test_other_arrays_than_a_run_began_with_are_refused_with_both(
    tmp_path: Path, before: str, after: str, said: tuple[str, str]
) -> None:
    assert start(tmp_path, before, is_failing=True)[0] != 0
    code, told = start(tmp_path, after, *REMEDY)
    assert code == 2
    for part in said:
        assert part in told
    assert "own made" in told
    assert "and makes" in told


def test_a_function_that_makes_the_same_goes_on(tmp_path: Path) -> None:
    assert start(tmp_path, "block * 2", is_failing=True)[0] != 0
    code, told = start(tmp_path, "block + block", *REMEDY)
    assert code == 0, told
