"""Voxels: their sizes along the axes of arrays, for functions that are told millimetres."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hyperslab.arrays.affines import ROUNDINGS, voxel_sizes
from hyperslab.arrays.axes import axes_of_space
from hyperslab.arrays.sets import SourceSet, Whole
from hyperslab.errors import UsageError

MM = {"": 1.0, "mm": 1.0, "um": 1e-3, "cm": 10.0, "m": 1e3}
"Units of affines in millimetres, for which those are taken whose unit is not said."


def voxel_sizes_mm(sources: SourceSet, asked: str) -> Mapping[int, float]:
    """Sizes of voxels in millimetres, by their axis of space; the same for all arrays. `asked` is
    what needs them, for the message.

    Raises UsageError for an array that does not say them, and for arrays whose voxels differ.
    """
    first, *others = sources.wholes
    sizes = _sizes(first, sources.dims, asked)
    for other in others:
        own = _sizes(other, sources.dims, asked)
        if not np.allclose(list(own.values()), list(sizes.values()), rtol=ROUNDINGS, atol=0):
            raise UsageError(
                f"{asked}: the voxels of {first.name} have {_shown(sizes)} mm, those of"
                f" {other.name} {_shown(own)} mm: give each size a run of its own"
            )
    return sizes


def _sizes(whole: Whole, dims: tuple[str, ...], asked: str) -> dict[int, float]:
    found = _columns(whole)
    space = axes_of_space(dims, len(whole.shape))
    if not space or not set(space) <= found.keys():
        raise UsageError(
            f"{asked}: {whole.name} does not say how large its voxels are: give sigma in voxels"
        )
    unit = whole.header.unit_of_space
    if unit not in MM:
        raise UsageError(
            f"{asked}: the voxels of {whole.name} are measured in '{unit}', whose length is not"
            " known: give sigma in voxels"
        )
    sizes = {axis: found[axis] * MM[unit] for axis in space}
    if not all(0 < size < float("inf") for size in sizes.values()):
        raise UsageError(
            f"{asked}: the voxels of {whole.name} have {_shown(sizes)} mm, which is no size: give"
            " sigma in voxels"
        )
    return sizes


def _columns(whole: Whole) -> dict[int, float]:
    """Sizes of voxels in the unit of the affine, by the axis; {} for an array without a place."""
    header = whole.header
    if header.affine is None or not header.is_placed:
        return {}
    return dict(zip(header.space, voxel_sizes(header.affine).tolist(), strict=True))


def _shown(sizes: Mapping[int, float]) -> str:
    return " x ".join(f"{size:.6g}" for size in sizes.values())
