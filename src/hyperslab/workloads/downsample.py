"""downsample: the mean of every group of neighbouring voxels along the axes of space.

A group at the far edge may have fewer voxels: its mean is over those present. Sums of integers are
exact, those of floats are in float64 and in an order that does not depend on the block, so that
every partition gives the same values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.axes import along_space, axes_of_space
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import output_dtype
from hyperslab.plan.pipeline import Pipeline
from hyperslab.workloads import kernels

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."
SUMMARY = (
    "Mean of every 2 x 2 x 2 voxels, or of another factor; returns float32, or float64 for float64."
)
PARAMS: Mapping[str, str] = {
    "factor": "voxels that become one, the same along the axes of space or one for each of them"
}
MOST_VOXELS = 2**20
"Most voxels in a group: the sum of so many 32-bit integers is still exact in float64."
_PIECE_NBYTES = 2**20


def build(pipeline: Pipeline, factor: int | tuple[int, ...] = 2) -> Pipeline:
    """Add the step. The axes of space are the first three that are not named as time; one `factor`
    for every axis of the array merges along the others too. Raises UsageError.
    """
    dtype = output_dtype(pipeline)
    ndim = pipeline.source.ndim
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(f"downsample needs real numbers of up to 64 bits, not {dtype}")
    asked = factor
    if not isinstance(asked, tuple):
        asked = (asked,)
    factors = along_space(asked, pipeline.source.dims, ndim)
    if not factors or min(asked) < 1 or math.prod(asked) > MOST_VOXELS:
        space = len(axes_of_space(pipeline.source.dims, ndim))
        raise UsageError(
            f"--param factor={factor}: give one integer of at least 1, or {space} of them; "
            f"together they may merge {MOST_VOXELS} voxels"
        )
    merged = (max(1, int(one)) for one in factors)
    scale = (*merged, *(1,) * (ndim - len(factors)))
    name = _mean_dtype(dtype).name
    return pipeline.map(block_mean, {"factors": scale}, dtype=name, scale=scale, temporaries=0.5)


def _mean_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of means of values of a dtype: float64 for float64, else float32."""
    if dtype.char == "d":
        return np.dtype(np.float64)
    return np.dtype(np.float32)


def block_mean(block: Array, factors: tuple[int, ...]) -> Array:
    """Means over groups of `factors` voxels per axis, groups starting at the block's first voxel.

    Returns ceil(n / factor) voxels per axis, float64 for float64 and float32 for all else.
    """
    order = kernels.storage_order(block)
    stored = block.transpose(order)
    by_axis = [factors[axis] for axis in order]
    dtype = _mean_dtype(block.dtype)
    counts = [math.ceil(n / f) for n, f in zip(stored.shape, by_axis, strict=True)]
    means = np.empty(counts, dtype).transpose(np.argsort(order))
    layout = Layout(block.shape, order, block.itemsize, None)
    rule = Rule("bytes", (_PIECE_NBYTES,))
    for box in cut(layout, rule, 0, factors):
        low, high = box.bounds
        place = tuple(
            slice(a // f, math.ceil(z / f)) for a, z, f in zip(low, high, factors, strict=True)
        )
        means[place] = _means(block[box.slices()], factors)
    return means


def _means(part: Array, factors: Sequence[int]) -> Array:
    present = []
    for n, factor in zip(part.shape, factors, strict=True):
        left = n - np.arange(0, n, factor)
        present.append(np.minimum(factor, left))
    voxels = functools.reduce(np.multiply.outer, present)
    return np.asarray(_sums(part, factors) / voxels)


def _sums(part: Array, factors: Sequence[int]) -> Array:
    """float64 sums over the groups; 64-bit integers in two halves of 32 bits, so that nothing
    overflows.
    """
    if part.dtype.kind in "iu" and part.dtype.itemsize == 8:
        high = part >> part.dtype.type(32)
        low = part & part.dtype.type(2**32 - 1)
        upper = _add_up(high, factors, np.int64) * 2.0**32
        return np.asarray(upper + _add_up(low, factors, np.int64))
    if part.dtype.kind == "f":
        return _add_up(part, factors, np.float64)
    return _add_up(part, factors, np.int64)


def _add_up(part: Array, factors: Sequence[int], dtype: Any) -> Array:
    """Sums over the groups, along the last axis first: an order that memory layouts and blocks do
    not change.
    """
    sums = part.astype(dtype, casting="unsafe")
    for axis, factor in reversed(list(enumerate(factors))):
        if factor > 1:
            lines = np.moveaxis(sums, axis, 0)
            added = lines[::factor].copy(order="K")
            for offset in range(1, min(factor, len(lines))):
                taken = lines[offset::factor]
                added[: len(taken)] += taken
            sums = np.moveaxis(added, 0, axis)
    return sums
