"""Coordinates of an image: names of its dimensions, and the places of its samples along them.

An axis that runs along one axis of space alone is named for it (x to the right, y to the front, z
up, as nibabel's affines have them) and has the places that the affine gives to the voxels' centres.
An axis that does not is named i, j or k, and has the numbers of its voxels. Along time there are
seconds. The axes of a MINC image keep MINC's names, and their places are start and step, along the
direction cosines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import is_invertible, voxel_sizes
from hyperslab.arrays.header import SPACE, VOXEL_NUMBER, VOXELS, WORLD, Header
from hyperslab.arrays.naming import names_in_space
from hyperslab.arrays.sampling import Sampling
from hyperslab.formats.conventions.variables import Coordinate

TOWARDS = ("left to right", "posterior to anterior", "inferior to superior")
UNITS = {"mm": "mm", "micron": "um", "meter": "m", "unknown": "mm"}
"Units of the affine of a NIfTI image; without one, programs take it for millimetres."


def coordinates_of(
    header: Header, dims: Sequence[str], shape: Sequence[int], has_named_axes: bool
) -> tuple[tuple[str, ...], tuple[Coordinate, ...]]:
    """Names of the dimensions of an image, and the coordinates along those that have some.

    Axes whose names are the format's own keep them, and have the places that it gives to each.
    """
    affine, axes = space_of(header, dims)
    placed: dict[int, Coordinate] = {}
    if affine is not None and not has_named_axes:
        placed = _in_space(header, affine, {axis: (dims[axis], shape[axis]) for axis in axes})
    names = [placed[axis].name if axis in placed else name for axis, name in enumerate(dims)]
    if len(set(names)) != len(names):
        return tuple(dims), ()
    sampled = header.sampling(dims)
    if affine is not None and has_named_axes:
        sampled = _along_lines(header, affine, [dims[axis] for axis in axes]) | sampled
    for axis, (name, extent) in enumerate(zip(dims, shape, strict=True)):
        one = sampled.get(name)
        if one is not None and one.is_usable:
            placed[axis] = Coordinate(name, one.places(extent), _said(name, one))
    return tuple(names), tuple(placed[axis] for axis in sorted(placed))


def space_of(header: Header, dims: Sequence[str]) -> tuple[Array | None, tuple[int, ...]]:
    """(4, 4) float64: voxel indices along some axes of a block to millimetres; and these axes."""
    return header.affine, tuple(axis for axis in header.space if axis < len(dims))


def _in_space(
    header: Header, affine: Array, axes: Mapping[int, tuple[str, int]]
) -> dict[int, Coordinate]:
    """Coordinates of the axes of space, of which the names and extents are given."""
    found = {}
    dims = [name for name, _ in axes.values()]
    names = names_in_space(affine, dims, [extent for _, extent in axes.values()])
    for column, (axis, (_, extent)) in enumerate(axes.items()):
        voxels = np.arange(extent)
        name = names[column]
        if name in VOXELS:
            found[axis] = Coordinate(name, voxels, {"long_name": VOXEL_NUMBER})
        else:
            to = WORLD.index(name)
            places = affine[to, column] * voxels + affine[to, 3]
            said = {"units": _unit(header), "long_name": TOWARDS[to], "axis": "XYZ"[to]}
            found[axis] = Coordinate(name, places, said)
    return found


def _along_lines(header: Header, affine: Array, names: Sequence[str]) -> dict[str, Sampling]:
    """Places along axes with MINC's names, which lie on lines that MINC has point to the right, to
    the front and up; {} where they are not three such.
    """
    if set(names) != set(SPACE) or not is_invertible(affine):
        return {}
    main = [SPACE.index(name) for name in names]
    signs = np.where(affine[main, range(3)] < 0, -1.0, 1.0)
    steps = signs * voxel_sizes(affine)
    cosines = affine[:3, :3] / steps
    firsts = np.linalg.solve(cosines, affine[:3, 3])
    return {
        name: Sampling(
            float(firsts[axis]), float(steps[axis]), _unit(header), tuple(cosines[:, axis].tolist())
        )
        for axis, name in enumerate(names)
    }


def _unit(header: Header) -> str:
    """The unit of the affine; millimetres where nothing says one."""
    units = header.attributes.get("units")
    if isinstance(units, tuple):
        return UNITS.get(units[0], "")
    return header.space_unit or UNITS["unknown"]


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
