"""A function after which no batch can go on, as on a disk that is full."""

from __future__ import annotations

from pathlib import Path

from hyperslab.arrays import Array


def removes_the_fence(block: Array, folder: str) -> Array:
    """The block; the fence of the run in folder/out is gone."""
    for path in Path(folder).glob("out/.hyperslab/run-*/workers"):
        path.unlink()
    return block
