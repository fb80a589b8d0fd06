"""Affines: how far apart two of them put an array's voxels, and what of that is only rounding.

Voxels may be micrometres or metres, so that what is near is told in voxels; files have float32,
which is coarser far from the origin.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from hyperslab.arrays import Array

ROUNDINGS = 8 * float(np.finfo(np.float32).eps)
"Of a number in a file: what conversions of affines to float32 and back may change."
_NEAR = 1e-3
_TURNED = 1e-4
"Relative: what programs round that write voxel sizes as text."
_TURNED_VOXELS = 1e-6


def apart(a: Array, b: Array, shape: Sequence[int]) -> float:
    """Largest distance of a corner voxel by one affine from the same by another, in millimetres."""
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    return float(np.linalg.norm((a - b)[:3] @ _corners(shape), axis=0).max())


def tolerance(affine: Array, shape: Sequence[int]) -> float:
    """Millimetres that are no distance: a thousandth of a voxel, at most of 1 mm, or what float32
    rounds if more.
    """
    rounded = ROUNDINGS * float(np.abs(affine[:3] @ _corners(shape)).max())
    return max(_NEAR * min(1.0, float(_voxel_sizes(affine).min())), rounded)


def is_turned(a: Array, b: Array) -> bool:
    """Whether the voxels of two affines differ in size or direction."""
    atol = _TURNED_VOXELS * float(_voxel_sizes(a).max())
    return not np.allclose(a[:3, :3], b[:3, :3], rtol=_TURNED, atol=atol)


def is_invertible(affine: Array) -> bool:
    """Whether no two voxels have one place."""
    return bool(np.isfinite(affine).all()) and int(np.linalg.matrix_rank(affine[:3, :3])) == 3


def _voxel_sizes(affine: Array) -> Array:
    return np.asarray(np.linalg.norm(affine[:3, :3], axis=0))


def _corners(shape: Sequence[int]) -> Array:
    """(4, 8): indices of the corner voxels along the first three axes."""
    ends = [(0, max(n - 1, 0)) for n in (*shape[:3], *(1,) * (3 - len(shape[:3])))]
    return np.array([(*corner, 1) for corner in itertools.product(*ends)], np.float64).T
