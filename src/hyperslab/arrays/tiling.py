"""Tiling: whether blocks that several files hold are all of one array, each voxel once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.errors import UsageError
from hyperslab.units import show_count


def require_exact_cover(
    shape: tuple[int, ...], boxes: Sequence[Hyperslab], sources: Sequence[ArraySource]
) -> None:
    """Raise UsageError for blocks that overlap, or leave a gap."""
    low = np.array([box.bounds[0] for box in boxes])
    high = np.array([box.bounds[1] for box in boxes])
    if overlap := _overlap(low, high):
        one, other = (sources[i].label for i in sorted(overlap))
        raise UsageError(
            f"the blocks {one} and {other} overlap: each voxel must come once (where headers do not"
            " say where blocks lie, a list of 'path,dataset,origin' in a .txt file does)"
        )
    missing = math.prod(shape) - sum(box.size for box in boxes)
    if missing:
        raise UsageError(
            f"the blocks leave {show_count(missing, 'voxel')} of the array of shape {shape}"
            " uncovered: a block is missing"
        )


def require_places(sources: Sequence[ArraySource], origins: Sequence[Sequence[int]]) -> None:
    """Raise UsageError for two sources in one place only because neither says where it lies."""
    there: dict[tuple[int, ...], ArraySource] = {}
    for source, origin in zip(sources, origins, strict=True):
        before = there.setdefault(tuple(origin), source)
        if before is source or source.header.is_placed or before.header.is_placed:
            continue
        raise UsageError(
            f"{before.label} and {source.label} do not say where they lie, so they cannot be put"
            " together as blocks of one array: join them one behind the other with --axis, say"
            " where each lies by 'path,dataset,origin' in a .txt file, or keep them as arrays of"
            " their own with --sources independent"
        )


def require_complete(sources: Sequence[ArraySource], shape: tuple[int, ...]) -> None:
    """Raise UsageError where blocks say that there were others beyond them."""
    odd = next((source for source in sources if source.header.whole_shape not in ((), shape)), None)
    if odd is not None:
        raise UsageError(
            f"{odd.url} was cut from an array of shape {odd.header.whole_shape}, but the blocks"
            f" make one of {shape}: a block is missing (to merge some alone, say where they lie by"
            " 'path,dataset,origin' in a .txt file)"
        )


def _overlap(low: Array, high: Array) -> tuple[int, int] | None:
    """Two boxes that have voxels in common, one box a row; each is compared only with those that
    begin before it ends.

    They are looked at in the order of the axis along which most differ, on which few of a grid's
    boxes meet.
    """
    count, ndim = low.shape
    if ndim == 0 and count > 1:
        return 0, 1
    if ndim == 0:
        return None
    axis = max(range(ndim), key=lambda a: len(np.unique(low[:, a])))
    order = np.argsort(low[:, axis], kind="stable")
    low, high = low[order], high[order]
    ends = np.searchsorted(low[:, axis], high[:, axis])
    for i, end in enumerate(ends.tolist()):
        begins_before = low[i] < high[i + 1 : end]
        ends_after = low[i + 1 : end] < high[i]
        touching = (begins_before & ends_after).all(axis=1)
        if touching.any():
            other = i + 1 + int(np.argmax(touching))
            return int(order[i]), int(order[other])
    return None
