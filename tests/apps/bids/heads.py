"""The head of Colin27 as other scanners and programs might have stored it, with the brain that is
known of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks.heads_dataset import HALVED, HEAD, SLICES, TURNED, load, seen, store
from hyperslab.arrays import Array
from tests.system.end_to_end.command import MRI

__all__ = ["BRAIN", "HEAD", "Head", "anisotropic", "big_endian_and_turned", "two_millimetres"]
BRAIN = MRI / "colin27_ch2bet_brain.nii.gz"
"The same head after FSL's bet, in the version that Debian ships."


class Head(NamedTuple):
    """A version of the head, and the brain that FSL has found, seen in its voxels."""

    path: Path
    reference: Array


def two_millimetres(folder: Path) -> Head:
    """Means of eight voxels, in an uncompressed file of 16 bits."""
    return _stored(HALVED, folder / "2mm.nii")


def anisotropic(folder: Path) -> Head:
    """Slices of 3 mm, in floating point."""
    return _stored(SLICES, folder / "slices.nii.gz")


def big_endian_and_turned(folder: Path) -> Head:
    """Sagittal slices from left to right, other byte order, a tilted head, slope and intercept: as
    2 mm, as that takes less time.
    """
    return _stored(TURNED, folder / "turned.nii.gz")


def _stored(version: str, path: Path) -> Head:
    store(version, HEAD, path)
    return Head(path, seen(version, load(BRAIN)).values > 0)
