"""smooth: a Gaussian filter over the axes of space, the same bit by bit for every partition.

It is scipy.ndimage.gaussian_filter with the boundary that the pipeline sets (`reflect` by default),
computed in the dtype it returns: each voxel is a sum over symmetric pairs of neighbours, from the
nearest to the farthest, so that its rounding depends neither on the block it lies in nor on the
side from which a boundary mirrors it.
"""

from __future__ import annotations

import math
import re
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
from hyperslab.workloads.voxels import voxel_sizes_mm

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."
SUMMARY = "Gaussian filter over the axes of space; returns float32, or float64 for float64."
PARAMS: Mapping[str, str] = {
    "sigma": (
        "standard deviation in voxels, 1 by default, or in millimetres, as 2.5mm; one for all axes"
        " of space or one for each of them"
    ),
    "fwhm": (
        "full width at half maximum in millimetres, as 6mm, in place of sigma; one for all axes of"
        " space or one for each of them, as 6mm,6mm,4mm"
    ),
    "truncate": "radius of the filter in standard deviations",
}
UNITS: Mapping[str, str] = {"fwhm": "mm"}
"Units of the parameters that are no bare numbers."
FWHM_PER_SIGMA = 2 * math.sqrt(2 * math.log(2))
"Full width at half maximum of a Gaussian, in standard deviations."
_MM = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*mm\s*")
_PIECE_NBYTES = 2**20
_MOST_SURROUNDINGS = 16**3
"""Times that an array with its halo may be larger than without: sigma is then about twice as long
as each of three axes.
"""
_MOST_MIRRORED = 10**7
"Voxels with the halo that take no time to speak of, however small the array."


def build(
    pipeline: Pipeline,
    sigma: float | tuple[float, ...] | str | None = None,
    fwhm: str | None = None,
    truncate: float = 4.0,
) -> Pipeline:
    """Add the filter with the halo that it needs. The axes of space are the first three that are
    not named as time; one `sigma` for every axis of the array filters the others too. What is given
    in millimetres becomes voxels by the voxel sizes of the image. Raises UsageError.
    """
    dtype = output_dtype(pipeline)
    ndim = pipeline.source.ndim
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(f"smooth needs real numbers of up to 64 bits, not {dtype}")
    sigmas = _sigmas(pipeline, sigma, fwhm)
    if not 0 < truncate < float("inf"):
        raise UsageError(f"--param truncate={truncate:g}: give a number above 0")
    radii = tuple(_radius(s, truncate) for s in sigmas)
    _require_room(pipeline, radii)
    params = {"sigmas": sigmas, "truncate": truncate}
    halo = (*radii, *(0,) * (ndim - len(radii)))
    return pipeline.map(
        gaussian, params, dtype=_result_dtype(dtype).name, halo=halo, temporaries=0.5
    )


def _sigmas(
    pipeline: Pipeline, sigma: float | tuple[float, ...] | str | None, fwhm: str | None
) -> tuple[float, ...]:
    """Standard deviations in voxels, for axes from the first one on."""
    if sigma is not None and fwhm is not None:
        raise UsageError(f"--param fwhm={fwhm}: sigma is also given; leave one out")
    if fwhm is not None:
        return _from_mm(pipeline, "fwhm", fwhm, FWHM_PER_SIGMA)
    if isinstance(sigma, str):
        return _from_mm(pipeline, "sigma", sigma, 1.0)
    if sigma is None:
        sigma = 1.0
    asked = sigma if isinstance(sigma, tuple) else (sigma,)
    told = ",".join(f"{one:g}" for one in asked)
    return _along_space(pipeline, f"sigma={told}", asked)


def _from_mm(pipeline: Pipeline, name: str, text: str, per_sigma: float) -> tuple[float, ...]:
    """Standard deviations in voxels of widths in millimetres, each of so many of them."""
    widths = [_MM.fullmatch(part) for part in text.split(",")]
    if None in widths:
        raise UsageError(f"--param {name}={text}: {_advice(text)}")
    asked = tuple(float(width[1]) / per_sigma for width in widths if width is not None)
    sigmas_mm = _along_space(pipeline, f"{name}={text}", asked)
    sizes = voxel_sizes_mm(pipeline.source, f"--param {name}={text}")
    beside = [axis for axis, one in enumerate(sigmas_mm) if one and axis not in sizes]
    if beside:
        raise UsageError(
            f"--param {name}={text}: axis {beside[0]} is none of space, and has no millimetres"
        )
    return tuple(one / sizes.get(axis, 1.0) for axis, one in enumerate(sigmas_mm))


def _advice(text: str) -> str:
    """What to give in place of a text that is no millimetres: the same with the unit where that
    alone is missing.
    """
    parts = [part.strip() for part in text.split(",")]
    corrected = [part if _MM.fullmatch(part) else f"{part}mm" for part in parts]
    if all(map(_MM.fullmatch, corrected)):
        return f"the unit is missing; give {','.join(corrected)}"
    return "give millimetres, as 6mm, or for each axis, as 6mm,6mm,4mm"


def _along_space(pipeline: Pipeline, told: str, asked: tuple[float, ...]) -> tuple[float, ...]:
    """One number for all axes of space, or one for each, as one for each axis."""
    ndim = pipeline.source.ndim
    found = along_space(asked, pipeline.source.dims, ndim)
    if not found or not all(0 <= one < float("inf") for one in found):
        space = len(axes_of_space(pipeline.source.dims, ndim))
        raise UsageError(f"--param {told}: give one number of at least 0, or {space} of them")
    return found


def _require_room(pipeline: Pipeline, radii: tuple[int, ...]) -> None:
    """Raise UsageError for a filter that reaches so far beyond an array that it would take for ever
    to mirror it.
    """
    for whole in pipeline.source.wholes:
        axes = [(n, radius) for n, radius in zip(whole.shape, radii, strict=False) if n]
        mirrored = math.prod(n + 2 * radius for n, radius in axes)
        own = math.prod(n for n, _ in axes)
        if mirrored > max(_MOST_SURROUNDINGS * own, _MOST_MIRRORED):
            reach = " x ".join(str(radius) for _, radius in axes)
            raise UsageError(
                f"smooth reaches {reach} voxels to each side, and {whole.name} has"
                f" {' x '.join(str(n) for n, _ in axes)}: give a smaller sigma, fwhm or truncate"
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
