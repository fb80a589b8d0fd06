"""Where an array lies, as attributes of a dataset: for formats that have no geometry of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import OF_SPACE, SPACE_AFFINE, Header
from hyperslab.formats.conventions.placement import header_by
from hyperslab.formats.conventions.uncut import AFFINE, SAID, marks, numbers_of
from hyperslab.formats.conventions.variables import Coordinate
from hyperslab.formats.nifti.header import carried, taken_over

CORNER = "corner"
"""Position of a block's first element in the array that it was cut from, along the axes that no
affine places.
"""
WHOLE_SHAPE = "whole_shape"
"Shape of the array that a block was cut from, so that a missing block is noticed."
NIFTI_HEADER = "nifti_header"
"Header of what was a NIfTI image, for files that become NIfTI again."
NAMES = SAID | {SPACE_AFFINE, CORNER, WHOLE_SHAPE, NIFTI_HEADER}


def attributes_of(header: Header, shape: Sequence[int]) -> dict[str, Any]:
    """The attributes above that a new array of this shape has."""
    affine = header.affine
    if affine is None:
        affine = header.motion()
    corner = _corner_of(header, len(shape))
    nifti = carried(tuple(shape), header)
    placed = not np.array_equal(affine, np.eye(4))  # without it, places are counted in voxels
    said: dict[str, Any] = {}
    if placed:
        said[AFFINE] = affine
        said |= marks(header.dims, shape)
    if header.space_affine is not None:
        space = [axis for axis, name in enumerate(header.dims) if name in OF_SPACE]
        said[SPACE_AFFINE] = header.space_affine
        said |= marks([header.dims[axis] for axis in space], [shape[axis] for axis in space])
    if corner.any():
        said[CORNER] = corner
    if nifti:
        said[NIFTI_HEADER] = nifti
    if header.whole_shape:
        said[WHOLE_SHAPE] = np.array(header.whole_shape, np.int64)
    return said


def _corner_of(header: Header, ndim: int) -> Array:
    corner = np.zeros(max(0, ndim - 3))
    corner[: len(header.corner)] = header.corner[: len(corner)]
    if len(header.origin) == ndim:
        corner += header.origin[3:]
    return corner


def header_of(
    attributes: Mapping[str, Any],
    shape: Sequence[int],
    dims: tuple[str, ...] = (),
    coordinates: Mapping[str, Coordinate] = MappingProxyType({}),
) -> Header:
    """The header that attributes, without those for NIfTI, and coordinates say, of an array with
    these names of axes; without an affine, a place is counted in voxels.
    """
    shown = {name: value for name, value in attributes.items() if name != NIFTI_HEADER}
    header = header_by(shown, dims, shape, coordinates)
    corner = numbers_of(attributes.get(CORNER))
    place = ()
    if corner is not None and corner.ndim == 1 and np.isfinite(corner).all():
        place = tuple(corner.tolist())
    nifti = None
    if header.base_affine is not None:
        nifti = taken_over(attributes.get(NIFTI_HEADER, ""), shape, header.base_affine)
    cut_from = _whole_shape(attributes.get(WHOLE_SHAPE), len(shape))
    return replace(header, native=nifti, corner=place, dims=dims, whole_shape=cut_from)


def _whole_shape(value: Any, ndim: int) -> tuple[int, ...]:
    found = numbers_of(value)
    known = found is not None and found.shape == (ndim,) and np.isfinite(found).all()
    if known and found is not None:
        return tuple(map(int, found))
    return ()
