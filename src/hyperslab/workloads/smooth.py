"""smooth: a Gaussian filter over the axes of space, the same bit by bit for every partition.

It is scipy.ndimage.gaussian_filter with the boundary that the pipeline sets (`reflect` by default),
computed in the dtype it returns: each voxel is a sum over symmetric pairs of neighbours, from the
nearest to the farthest, so that its rounding depends neither on the block it lies in nor on the
side from which a boundary mirrors it.
"""

from __future__ import annotations

from collections.abc import Mapping
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
SUMMARY = "Gaussian filter over the axes of space; returns float32, or float64 for float64."
PARAMS: Mapping[str, str] = {
    "sigma": "standard deviation in voxels, one for all axes of space or one for each of them",
    "truncate": "radius of the filter in standard deviations",
}
_PIECE_NBYTES = 2**20


def build(
    pipeline: Pipeline, sigma: float | tuple[float, ...] = 1.0, truncate: float = 4.0
) -> Pipeline:
    """Add the filter with the halo that it needs. The axes of space are the first three that are
    not named as time; one `sigma` for every axis of the array filters the others too. Raises
    UsageError.
    """
    dtype = output_dtype(pipeline)
    ndim = pipeline.source.ndim
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(f"smooth needs real numbers of up to 64 bits, not {dtype}")
    asked = sigma
    if not isinstance(asked, tuple):
        asked = (asked,)
    sigmas = along_space(asked, pipeline.source.dims, ndim)
    if not sigmas or not all(0 <= s < float("inf") for s in sigmas):
        space = len(axes_of_space(pipeline.source.dims, ndim))
        raise UsageError(
            f"--param sigma={sigma}: give one number of at least 0, or {space} of them"
        )
    if not 0 < truncate < float("inf"):
        raise UsageError(f"--param truncate={truncate:g}: give a number above 0")
    radii = tuple(_radius(s, truncate) for s in sigmas)
    params = {"sigmas": sigmas, "truncate": truncate}
    halo = (*radii, *(0,) * (ndim - len(radii)))
    return pipeline.map(
        gaussian, params, dtype=_result_dtype(dtype).name, halo=halo, temporaries=0.5
    )


def gaussian(block: Array, sigmas: tuple[float, ...], truncate: float = 4.0) -> Array:
    """Filter the first axes of a block, one sigma each; beyond its edges the block is mirrored.

    Returns a new array of the block's shape, float64 for float64 and float32 for all else.
    """
    order = kernels.storage_order(block)
    stored = block.transpose(order).astype(_result_dtype(block.dtype), order="C")
    for axis, sigma in enumerate(sigmas):
        weights = _weights(sigma, _radius(sigma, truncate)).astype(stored.dtype)
        if len(weights) > 1:
            _filter_axis(stored, order.index(axis), weights)
    return stored.transpose(np.argsort(order))


def _filter_axis(stored: Array, axis: int, weights: Array) -> None:
    """Filter one axis in place, in parts that are whole along it and fit the cache otherwise."""
    layout = Layout(stored.shape, tuple(range(stored.ndim)), stored.itemsize, None)
    for box in cut(layout, Rule("bytes", (_PIECE_NBYTES,), (axis,)), 0):
        part = np.moveaxis(stored[box.slices()], axis, 0)
        part[...] = _filter_lines(part, weights)


def _filter_lines(part: Array, weights: Array) -> Array:
    radius = len(weights) - 1
    n = len(part)
    widths = [(0, 0)] * part.ndim
    widths[0] = (radius, radius)
    padded = np.pad(part, widths, mode="symmetric")
    total: Array = padded[radius : radius + n] * weights[0]
    for distance in range(1, radius + 1):
        before = radius - distance
        after = radius + distance
        pair = padded[before : before + n] + padded[after : after + n]
        pair *= weights[distance]
        total += pair
    return total


def _weights(sigma: float, radius: int) -> Array:
    """(radius + 1,) float64: the weight of the voxel itself, then of those 1, 2, ... voxels away on
    either side.
    """
    if radius == 0:
        return np.ones(1)
    distance = np.arange(radius + 1) / sigma
    weights = np.exp(-0.5 * distance**2)
    total = weights[0] + 2 * weights[1:].sum()
    return np.asarray(weights / total)


def _radius(sigma: float, truncate: float) -> int:
    """Radius of the kernel, voxels, as scipy.ndimage.gaussian_filter1d has it."""
    return int(truncate * sigma + 0.5)


def _result_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.char == "d":
        return np.dtype(np.float64)
    return np.dtype(np.float32)
