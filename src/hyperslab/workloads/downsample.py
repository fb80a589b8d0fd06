"""downsample: the mean of every group of neighbouring voxels along the first three axes.

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
    "factor": "voxels that become one, the same along the first three axes or one for each of them"
}
SPATIAL_AXES = 3
MOST_VOXELS = 2**20
"Most voxels in a group: the sum of so many 32-bit integers is still exact in float64."
_PIECE_NBYTES = 2**20


def build(pipeline: Pipeline, factor: int | tuple[int, ...] = 2) -> Pipeline:
    """Add the step; a fourth axis is kept. Raises UsageError."""
    dtype = output_dtype(pipeline)
    ndim = pipeline.source.ndim
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(f"downsample needs real numbers of up to 64 bits, not {dtype}")
    merged = min(SPATIAL_AXES, ndim)
    if isinstance(factor, tuple):
        factors = factor
    else:
        factors = (factor,) * merged
    if len(factors) != merged or min(factors) < 1 or math.prod(factors) > MOST_VOXELS:
        raise UsageError(
            f"--param factor={factor}: give one integer of at least 1, or {merged} of them; "
            f"together they may merge {MOST_VOXELS} voxels"
        )
    scale = (*factors, *(1,) * (ndim - merged))
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
