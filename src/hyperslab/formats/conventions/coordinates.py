"""Coordinates of an image: names of its dimensions, and the places of its samples along them.

An axis that runs along one axis of space alone is named for it (x to the right, y to the front, z
up, as nibabel's affines have them) and has the places that the affine gives to the voxels' centres.
An axis that does not is named i, j or k, and has the numbers of its voxels. Along time there are
seconds. The axes of a MINC image keep MINC's names, and their places are start and step, along the
direction cosines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import directions
from hyperslab.arrays.header import VOXEL_NUMBER, VOXELS, WORLD
from hyperslab.arrays.sampling import Sampling
from hyperslab.arrays.source import ArraySource
from hyperslab.formats.conventions.variables import Coordinate

TOWARDS = ("left to right", "posterior to anterior", "inferior to superior")
UNITS = {"mm": "mm", "micron": "um", "meter": "m", "unknown": "mm"}
"Units of the affine of a NIfTI image; without one, programs take it for millimetres."


def coordinates_of(
    source: ArraySource, has_named_axes: bool
) -> tuple[tuple[str, ...], tuple[Coordinate, ...]]:
    """Names of the dimensions of an image, and the coordinates along those that have some.

    Axes whose names are the format's own keep them, and have the places that it gives to each.
    """
    placed: dict[int, Coordinate] = {}
    affine = source.header.affine
    if affine is not None and not has_named_axes:
        placed = _in_space(source, affine)
    names = [placed[axis].name if axis in placed else name for axis, name in enumerate(source.dims)]
    if len(set(names)) != len(names):
        return source.dims, ()
    sampled = source.header.sampling(source.dims)
    for axis, (name, extent) in enumerate(zip(source.dims, source.shape, strict=True)):
        one = sampled.get(name)
        if one is not None and one.is_usable:
            placed[axis] = Coordinate(name, one.places(extent), _said(name, one))
    return tuple(names), tuple(placed[axis] for axis in sorted(placed))


def _in_space(source: ArraySource, affine: Array) -> dict[int, Coordinate]:
    """Coordinates of the first three axes."""
    found = {}
    for axis, along in enumerate(directions(affine, source.shape)):
        voxels = np.arange(source.shape[axis])
        if along is None:
            said: dict[str, Any] = {"long_name": VOXEL_NUMBER}
            found[axis] = Coordinate(VOXELS[axis], voxels, said)
        else:
            places = affine[along, axis] * voxels + affine[along, 3]
            said = {"units": _unit(source), "long_name": TOWARDS[along], "axis": "XYZ"[along]}
            found[axis] = Coordinate(WORLD[along], places, said)
    return found


def _unit(source: ArraySource) -> str:
    units = source.header.attributes.get("units")
    space = "unknown"
    if isinstance(units, tuple):
        space = units[0]
    return UNITS.get(space, "")


def _said(name: str, sampling: Sampling) -> Mapping[str, Any]:
    """Attributes of a coordinate."""
    said: dict[str, Any] = {}
    if sampling.unit:
        said["units"] = sampling.unit
    said["step"] = sampling.step  # which a single sample does not show
    if sampling.cosines:  # MINC's names
        said["start"] = sampling.first
        said["direction_cosines"] = np.array(sampling.cosines)
    if sampling.unit == "s":
        said["axis"] = "T"
    return said
