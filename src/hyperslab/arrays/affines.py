"""Affines: how far apart two of them put an array's voxels, and how much of that is only rounding.

Voxels may be micrometres or metres, so that what is near is told in voxels; files have float32,
which is coarser far from the origin.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from hyperslab.arrays import Array

ROUNDINGS = 8 * float(np.finfo(np.float32).eps)
"Relative change of a number in a file that conversions of affines to float32 and back may make."
_NEAR = 1e-3
_TURNED = 1e-4
"Relative: what programs round that write voxel sizes as text."
_TURNED_VOXELS = 1e-6


def apart(a: Array, b: Array, shape: Sequence[int]) -> float:
    """Largest distance of a corner voxel by one affine from the same by another, in millimetres."""
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    between = (a - b)[:3] @ corners(shape)
    distances = np.linalg.norm(between, axis=0)
    return float(distances.max())


def tolerance(affine: Array, shape: Sequence[int]) -> float:
    """Millimetres that are no distance: a thousandth of a voxel, at most of 1 mm, or what float32
    rounds if more.
    """
    places = affine[:3] @ corners(shape)
    rounded = ROUNDINGS * float(np.abs(places).max())
    smallest = float(voxel_sizes(affine).min())
    return max(_NEAR * min(1.0, smallest), rounded)


def is_turned(a: Array, b: Array) -> bool:
    """Whether the voxels of two affines differ in size or direction."""
    largest = float(voxel_sizes(a).max())
    atol = _TURNED_VOXELS * largest
    return not np.allclose(a[:3, :3], b[:3, :3], rtol=_TURNED, atol=atol)


def is_invertible(affine: Array) -> bool:
    """Whether no two voxels have one place."""
    return not why_placeless(affine)


def why_placeless(affine: Array) -> str:
    """Why an affine does not give every voxel a place of its own; '' where it does."""
    if not np.isfinite(affine).all():
        return "holds numbers that are not finite"
    rank = np.linalg.matrix_rank(affine[:3, :3])
    if int(rank) < 3:
        return "is singular, so that voxels share their places"
    return ""


def order_between(
    image: Array, shape: Sequence[int], grid: Array, extents: Sequence[int]
) -> Array | None:
    """(4, 4) float64: whole numbers that take voxels of a grid to those of an image whose axes are
    the grid's in another order or direction, as far as sizes and directions tell; None for any
    other one. Both have three axes.
    """
    if not (is_invertible(image) and is_invertible(grid)):
        return None
    turn = np.rint(np.linalg.solve(image[:3, :3], grid[:3, :3]))
    is_order = (np.abs(turn).sum(axis=0) == 1).all() and (np.abs(turn).sum(axis=1) == 1).all()
    if not is_order or not np.array_equal(np.abs(turn) @ extents, shape):
        return None
    found = np.eye(4)
    found[:3, :3] = turn
    found[:3, 3] = np.where(turn.sum(axis=1) < 0, np.array(shape) - 1, 0)
    return found


def directions(affine: Array, shape: Sequence[int]) -> tuple[int | None, ...]:
    """Axes of space (0 to 2) along which the first three axes of an array run; None for one that
    does not run along one alone, or not alone along it.

    What is less than `tolerance` over the whole array is taken for rounding.
    """
    spatial = (*shape[:3], 1, 1, 1)[:3]
    if not is_invertible(affine):
        return (None,) * min(3, len(shape))
    extents = np.maximum(np.array(spatial) - 1, 1)
    moves = np.abs(affine[:3, :3]) * extents
    is_moved = moves > tolerance(affine, spatial)
    is_moved[_largest(moves)] = True
    found: list[int | None] = []
    for axis in range(min(3, len(shape))):
        (along,) = np.nonzero(is_moved[:, axis])
        is_alone = along.size == 1 and is_moved[along[0]].sum() == 1
        found.append(int(along[0]) if is_alone else None)
    return tuple(found)


def _largest(moves: Array) -> tuple[Array, Array]:
    """Rows and columns of the largest number in each column."""
    return np.argmax(moves, axis=0), np.arange(moves.shape[1])


def voxel_sizes(affine: Array) -> Array:
    """(3,) millimetres."""
    directions = affine[:3, :3]
    return np.asarray(np.linalg.norm(directions, axis=0))


def corners(shape: Sequence[int]) -> Array:
    """(4, 8): indices of the corner voxels along the first three axes."""
    spatial = (*shape[:3], 1, 1, 1)[:3]
    ends = [(0, max(n - 1, 0)) for n in spatial]
    found = [(*corner, 1) for corner in itertools.product(*ends)]
    return np.array(found, np.float64).T
