"""Where the edge of a mask runs through a slice of an image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource

Bools = npt.NDArray[np.bool_]
Read = Callable[[Hyperslab], Array]
"Reads a region of the mask."


def inside(
    image: ArraySource,
    slab: Hyperslab,
    mask: ArraySource,
    read: Read,
    above: float | None = None,
) -> Bools:
    """Say which voxels of a region of an image lie inside a mask: where the voxel of the mask that
    is nearest in space is above a number, or without one neither 0 nor NaN. Returns an array of the
    region's shape.

    A mask without a place in space lies voxel on voxel. Of further axes the mask's first is taken.
    """
    voxels = _voxels(image, slab, mask)
    sizes = np.array(mask.shape[:3])[:, None]
    is_there = ((voxels >= 0) & (voxels < sizes)).all(axis=0)
    found = np.zeros(voxels.shape[1], np.bool_)
    if is_there.any():
        first = voxels[:, is_there].min(axis=1)
        last = voxels[:, is_there].max(axis=1)
        more = mask.ndim - 3
        start = (*map(int, first), *[0] * more)
        count = (*map(int, last - first + 1), *[1] * more)
        block = np.asarray(read(Hyperslab(start, count))).reshape(count[:3])
        values = block[tuple(voxels[:, is_there] - first[:, None])]
        found[is_there] = _is_inside(values, above)
    return found.reshape(slab.count)


def _is_inside(values: Array, above: float | None) -> Bools:
    if above is not None:
        return np.asarray(values > above)
    return np.asarray((values > 0) | (values < 0))  # NaN is neither


def can_lie_on(mask: ArraySource, image: ArraySource) -> bool:
    """Whether it can be told which voxel of a mask lies at one of an image."""
    if mask.ndim < 3 or mask.size == 0:
        return False
    if not (mask.header.is_placed and image.header.is_placed):
        return mask.shape[:3] == image.shape[:3]
    affine = np.asarray(mask.header.affine_mm)
    return bool(np.isfinite(affine).all()) and bool(np.linalg.det(affine[:3, :3]))


def _voxels(image: ArraySource, slab: Hyperslab, mask: ArraySource) -> npt.NDArray[np.int64]:
    """Voxels of the mask, 3 x n, that are nearest to those of a region of the image."""
    axes = [
        start + step * np.arange(count)
        for start, count, step in zip(slab.start[:3], slab.count[:3], slab.stride[:3], strict=True)
    ]
    own = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(3, -1)
    if not (mask.header.is_placed and image.header.is_placed):
        return own
    way = np.linalg.inv(np.asarray(mask.header.affine_mm)) @ np.asarray(image.header.affine_mm)
    return np.asarray(np.rint(way[:3, :3] @ own + way[:3, 3:]), np.int64)


def edge(inner: Bools) -> Bools:
    """Pixels inside that have a neighbour outside; beyond the picture's border there is none."""
    padded = np.pad(inner, 1, mode="edge")
    surrounded = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(inner & ~surrounded)
