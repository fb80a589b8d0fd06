"""Voxels: their sizes along the axes of arrays, for functions that are told millimetres."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hyperslab.arrays.affines import ROUNDINGS, voxel_sizes
from hyperslab.arrays.axes import axes_of_space
from hyperslab.arrays.sets import SourceSet, Whole
from hyperslab.errors import UsageError


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
    if not whole.header.has_known_unit:
        raise UsageError(
            f"{asked}: the voxels of {whole.name} are measured in"
            f" '{whole.header.unit_of_space}', whose length is not known: give sigma in voxels"
        )
    sizes = {axis: found[axis] for axis in space}
    if not all(0 < size < float("inf") for size in sizes.values()):
        raise UsageError(
            f"{asked}: the voxels of {whole.name} have {_shown(sizes)} mm, which is no size: give"
            " sigma in voxels"
        )
    return sizes


def _columns(whole: Whole) -> dict[int, float]:
    """Sizes of voxels in millimetres, by the axis; {} for an array without a place."""
    affine = whole.header.affine_mm
    if affine is None or not whole.header.is_placed:
        return {}
    return dict(zip(whole.header.space, voxel_sizes(affine).tolist(), strict=True))


def _shown(sizes: Mapping[int, float]) -> str:
    return " x ".join(f"{size:.6g}" for size in sizes.values())
