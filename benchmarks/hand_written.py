"""What a scientist writes by hand: two processes over slabs of an uncompressed NIfTI, with no
records and no safety; and a job for other programs that start processes.

    python -m benchmarks.hand_written increment|histogram VOLUME OUT THICKNESS FIRST,FIRST,...
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt

PROCESSES = 2


def increment(volume: Path, out: Path, thickness: int) -> None:
    """Add one to every voxel; a NIfTI per slab."""
    out.mkdir(parents=True)
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        for _ in pool.imap_unordered(
            functools.partial(_increment_slab, volume, out, thickness), _slabs(volume, thickness)
        ):
            pass


def histogram(volume: Path, out: Path, thickness: int) -> npt.NDArray[Any]:
    """Count the values of all voxels; a CSV."""
    out.mkdir(parents=True)
    total = np.zeros(65536, np.int64)
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        for counts in pool.imap_unordered(
            functools.partial(_count_slab, volume, thickness), _slabs(volume, thickness)
        ):
            total += counts
    np.savetxt(
        out / "histogram.csv", np.column_stack([np.arange(65536), total]), fmt="%d", delimiter=","
    )
    return total


def _slabs(volume: Path, thickness: int) -> range:
    image: Any = nibabel.load(volume)
    return range(0, image.shape[2], thickness)


def _read_slab(
    volume: Path, thickness: int, first: int
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[Any]]:
    image: Any = nibabel.load(volume)
    width, height, depth = image.shape
    shape = (width, height, min(thickness, depth - first))
    block = np.empty(width * height * shape[2], np.uint16)
    fd = os.open(volume, os.O_RDONLY)
    try:
        os.preadv(fd, [block.data], image.dataobj.offset + first * width * height * 2)
    finally:
        os.close(fd)
    affine = image.affine.copy()
    affine[:3, 3] += first * affine[:3, 2]
    return block.reshape(shape, order="F"), affine


def _increment_slab(volume: Path, out: Path, thickness: int, first: int) -> None:
    block, affine = _read_slab(volume, thickness, first)
    block += 1
    nibabel.save(nibabel.Nifti1Image(block, affine), out / f"slab_{first:05d}.nii")  # type: ignore[no-untyped-call]


def _count_slab(volume: Path, thickness: int, first: int) -> npt.NDArray[Any]:
    block, _ = _read_slab(volume, thickness, first)
    return np.bincount(block.ravel(order="K"), minlength=65536)


def _main(job: str, volume: str, out: str, thickness: str, firsts: str) -> None:
    """One job: the slabs that begin at these planes."""
    total = np.zeros(65536, np.int64)
    for first in map(int, firsts.split(",")):
        if job == "increment":
            _increment_slab(Path(volume), Path(out), int(thickness), first)
        else:
            total += _count_slab(Path(volume), int(thickness), first)
    if job == "histogram":
        np.save(Path(out) / firsts.partition(",")[0], total)


if __name__ == "__main__":
    _main(*sys.argv[1:])
