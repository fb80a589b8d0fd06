"""The brain in an image of a head: a demonstration, not for science.

The method is that of S. M. Smith, "Fast robust automated brain extraction", Human Brain Mapping
17:143-155 (2002): a sphere grows until it meets the brain's edge, where intensities fall, while it
is kept smooth. Left out is the paper's search for surfaces that cross themselves, which it smooths
once more. Added is that a long neck is cut off first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hyperslab.apps.bids.surface import (
    Bools,
    Mesh,
    Points,
    inside,
    mean_length,
    mean_of_neighbours,
    normals,
    sphere,
)
from hyperslab.errors import FormatError

Floats = npt.NDArray[np.float32]

SUBDIVISIONS = 3
"""Times that the triangles of an icosahedron are cut: 642 vertices. The paper has 2562 and moves
them 1000 times, which takes ten times as long, and here found no better masks.
"""
ITERATIONS = 300
ROBUST = (2.0, 98.0)
"Percentiles of the intensities between which a head's lie, t2 and t98 of the paper."
HEAD_SHARE = 0.1
"Share of that range which is air, up to the paper's t."
FRACTION = 0.5
"Intensity of the brain's edge between dark and bright ones beside it, the paper's bt."
DARK_MM, BRIGHT_MM = 20, 10
"Depths below the surface down to which the darkest and the brightest voxel are looked for."
LEAST_RADIUS_MM, MOST_RADIUS_MM = 3.33, 10.0
"Radii of curvature between which a surface is smoothed the more the sharper it is."
LENGTH_EVERY = 50
"Iterations for which a mean length of the edges holds."
HEAD_MM = 170.0
"Height below the top of a head that its brain lies in; what is further down is neck."
LEAST_HEAD_MM2 = 1000.0
"Area of a slice that shows some of the head."


@dataclass(frozen=True, slots=True)
class Levels:
    """Intensities of a head, in the paper's names."""

    t2: float
    t: float
    "Threshold between air and head."
    t98: float
    tm: float = math.nan
    "Median within the first sphere."


def brain_mask(
    image: Floats, sizes_mm: Points, affine: Points, fraction: float = FRACTION
) -> Bools:
    """Voxels of a head, (x, y, z), that are brain; a lower `fraction` makes more of them brain.

    `affine` says which way is up. Raises FormatError for an image in which there is no head.
    """
    levels = _levels(image)
    kept = without_neck(image > levels.t, sizes_mm, affine)
    head = image[kept]
    centre, radius_mm, levels = _first_sphere(head, sizes_mm, levels)
    points, mesh = sphere(SUBDIVISIONS)
    grown = _grow(centre + points * radius_mm / 2, mesh, _Depths(head, sizes_mm), levels, fraction)
    found = np.zeros(image.shape, np.bool_)
    found[kept] = inside(grown / sizes_mm, mesh.faces, _three(head.shape))
    return found


def without_neck(is_head: Bools, sizes_mm: Points, affine: Points) -> tuple[slice, slice, slice]:
    """The part of an image from the top of a head down to where its neck begins."""
    directions = affine[2, :3] / sizes_mm
    axis = int(np.argmax(np.abs(directions)))
    others = tuple({0, 1, 2} - {axis})
    area_mm2 = float(np.prod(sizes_mm[list(others)]))
    slices = np.flatnonzero(is_head.sum(axis=others) * area_mm2 >= LEAST_HEAD_MM2)
    kept = [slice(None)] * 3
    layers = math.ceil(HEAD_MM / float(sizes_mm[axis]))
    if slices.size and directions[axis] > 0:
        kept[axis] = slice(max(0, int(slices[-1]) + 1 - layers), None)
    elif slices.size:
        kept[axis] = slice(None, int(slices[0]) + layers)
    return kept[0], kept[1], kept[2]


class _Depths:
    """Intensities below places of a surface, inwards in steps of a millimetre."""

    def __init__(self, head: Floats, sizes_mm: Points) -> None:
        """What lies outside of the image is as dark as can be: 0."""
        padded = np.pad(head, 1)
        self._flat = padded.ravel()
        self._sizes = sizes_mm
        self._last = [length - 1 for length in padded.shape]
        self._strides = (padded.shape[1] * padded.shape[2], padded.shape[2], 1)
        self._depths = np.arange(DARK_MM + 1, dtype=np.float32)

    def below(self, points: Points, outwards: Points) -> Floats:
        """Shape (DARK_MM + 1, vertices): intensities from the surface on down."""
        places = ((points / self._sizes) + 1).astype(np.float32)
        steps = (outwards / self._sizes).astype(np.float32)
        number = np.zeros((len(self._depths), len(points)), np.int32)
        for axis, stride in enumerate(self._strides):
            along = places[:, axis] - self._depths[:, None] * steps[:, axis]
            np.rint(along, out=along)
            np.clip(along, 0, self._last[axis], out=along)
            number += along.astype(np.int32) * np.int32(stride)
        return self._flat[number]


def _levels(image: Floats) -> Levels:
    t2, t98 = (float(value) for value in np.percentile(image, ROBUST))
    if not t98 > t2:
        raise FormatError("shows no head: almost all of its voxels have one value")
    return Levels(t2, t2 + HEAD_SHARE * (t98 - t2), t98)


def _first_sphere(head: Floats, sizes_mm: Points, levels: Levels) -> tuple[Points, float, Levels]:
    """Centre of mass of a head, the radius of a sphere of its volume, in millimetres, and its
    levels with the median inside of that.
    """
    weights = np.where(head > levels.t, np.clip(head, levels.t2, levels.t98) - levels.t2, 0)
    whole = float(weights.sum(dtype=np.float64))
    centre = np.zeros(3)
    for axis, size_mm in enumerate(sizes_mm):
        others = tuple({0, 1, 2} - {axis})
        profile = weights.sum(axis=others, dtype=np.float64)
        centre[axis] = profile @ np.arange(len(profile)) / whole * size_mm
    volume_mm3 = np.count_nonzero(weights) * float(np.prod(sizes_mm))
    radius_mm = (3 * volume_mm3 / (4 * math.pi)) ** (1 / 3)
    squares = [
        (np.arange(length) * size_mm - middle) ** 2
        for length, size_mm, middle in zip(head.shape, sizes_mm, centre, strict=True)
    ]
    apart = squares[0][:, None, None] + squares[1][:, None] + squares[2]
    median = float(np.median(head[apart <= radius_mm**2]))
    if not median > levels.t2:
        raise FormatError("shows no head: the middle of what is bright is dark")
    return centre, radius_mm, Levels(levels.t2, levels.t, levels.t98, median)


def _grow(points: Points, mesh: Mesh, depths: _Depths, levels: Levels, fraction: float) -> Points:
    """Move the vertices, all at once and many times: along the surface to the middle of their
    neighbours, across it to be smooth and to meet the brain's edge (the paper's equations 8 to 14).
    """
    length_mm = 0.0
    for iteration in range(ITERATIONS):
        if iteration % LENGTH_EVERY == 0:
            length_mm = mean_length(points, mesh)
        outwards = normals(points, mesh)
        to_middle = mean_of_neighbours(points, mesh) - points
        height = np.einsum("ij,ij->i", to_middle, outwards)
        across = height[:, None] * outwards
        along = to_middle - across
        smooth = _smoothness(height, length_mm)
        pressure = 0.05 * length_mm * _pressure(depths.below(points, outwards), levels, fraction)
        points = points + 0.5 * along + smooth[:, None] * across + pressure[:, None] * outwards
    return points


def _smoothness(height_mm: npt.NDArray[np.float64], length_mm: float) -> npt.NDArray[np.float64]:
    """Share of the way to the middle of the neighbours across the surface: more where it is sharply
    curved (equation 10).
    """
    least = 1 / MOST_RADIUS_MM
    most = 1 / LEAST_RADIUS_MM
    curvature = 2 * np.abs(height_mm) / length_mm**2
    return np.asarray((1 + np.tanh(6 / (most - least) * (curvature - (most + least) / 2))) / 2)


def _pressure(below: Floats, levels: Levels, fraction: float) -> npt.NDArray[np.float64]:
    """How hard the surface is pressed outwards, inwards where negative, by the intensities below
    it (equations 11 to 13).
    """
    darkest = np.clip(below.min(axis=0), levels.t2, levels.tm)
    brightest = np.clip(below[: BRIGHT_MM + 1].max(axis=0), levels.t, levels.tm)
    range_ = brightest - levels.t2
    edge = range_ * fraction + levels.t2
    return np.asarray(2 * (darkest - edge) / range_, np.float64)


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = shape
    return x, y, z
