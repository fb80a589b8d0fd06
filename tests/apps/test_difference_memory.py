"""hyperslab.diff: what a comparison holds at once is no more than it is allowed, measured."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab.arrays import Array
from tests.repetitions import few
from tests.system.end_to_end.command import growth, save

ALLOWED_NBYTES = 48_000_000


def save_h5(path: Path, values: Array) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "data", data=values, chunks=(50, 50, 50), compression="gzip", compression_opts=1
        )
    return path


OTHERS = ["b.nii", "b.h5"]


@pytest.mark.parametrize("other", few(["b.h5"], OTHERS, "memory is bounded: in another order"))
def test_memory_is_bounded(tmp_path: Path, other: str) -> None:
    """Of two volumes of 50 MB, in the same order and in another one."""
    values = np.random.default_rng(0).integers(0, 2**12, (100, 500, 500), "u2").T
    a, little = save(tmp_path / "a.nii", values), values[:50, :50, :50]
    keep = save if other == "b.nii" else save_h5
    b = keep(tmp_path / other, values)
    small = save(tmp_path / "small.nii", little), keep(tmp_path / f"small_{other}", little)
    del values
    line = ("--values-only", "-q")
    found = growth(("diff", *small, *line), ("diff", a, b, *line, "--memory", ALLOWED_NBYTES))
    assert found < ALLOWED_NBYTES
