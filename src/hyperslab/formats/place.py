"""Where an array lies, as attributes of a dataset and coordinates beside it: for formats that have
no geometry of their own.

The axes of an image are named, and have coordinates, as in xarray (`conventions.coordinates`), so
that an image that xarray has opened, cut or flipped still says where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import FIRST, OF_SPACE, SPACE, Companion, Header
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.coordinates import coordinates_of, space_of
from hyperslab.formats.conventions.placement import header_by
from hyperslab.formats.conventions.uncut import (
    AFFINE,
    SAID,
    SPACE_AFFINE,
    SPACE_UNITS,
    Uncut,
    affine_here,
    marks,
    matrix_of,
    numbers_of,
    says_place,
)
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
DATASET = "data"
"Name of an array in a file that also holds its coordinates, unless another is chosen."
NAMES = SAID | {CORNER, WHOLE_SHAPE, NIFTI_HEADER}


def laid_out(header: Header, shape: Sequence[int]) -> Header:
    """The header of a new array of this shape, whose axes are named as its coordinates are.

    Coordinates that came along and say where another array lay, or this one, are made anew.
    """
    if not _is_image(header, shape):
        return header
    names, made = _axes(header, shape)
    renamed = dict(zip(header.dims, names, strict=True))
    anew = OF_SPACE | {one.name for one in made}
    kept = [
        one
        for one in header.companions
        if one.name not in anew or not says_place(one.name, one.attributes)
    ]
    moved = tuple(
        replace(one, dims=tuple(renamed.get(name, name) for name in one.dims)) for one in kept
    )
    return replace(header, dims=names, companions=moved)


def coordinates_beside(header: Header, shape: Sequence[int]) -> list[Companion]:
    """The coordinates by which readers know where a new array of this shape lies, whose header
    `laid_out` has made; [] for an array that is no image.
    """
    if not _is_image(header, shape):
        return []
    _, found = _axes(header, shape)
    return [Companion(one.name, (one.name,), one.values, one.attributes) for one in found]


def companions_beside(header: Header, shape: Sequence[int]) -> list[Companion]:
    """The variables that go into a new file with its array: those that came along, and these
    coordinates.
    """
    found = {one.name: one for one in coordinates_beside(header, shape)}
    found |= {one.name: one for one in header.companions_here(shape)}
    return list(found.values())


def _is_image(header: Header, shape: Sequence[int]) -> bool:
    """Whether the axes of an array are those of an image: by a header of NIfTI, by MINC's names, or
    by names that are as its affine says.
    """
    if len(header.dims) != len(shape):
        return False
    if not header.is_placed:
        return False
    if header.native is not None or set(SPACE) <= set(header.dims):
        return True
    names, _ = coordinates_of(header, header.dims, shape, has_named_axes=False)
    return names == tuple(header.dims) and not OF_SPACE.isdisjoint(names)


def _axes(header: Header, shape: Sequence[int]) -> tuple[tuple[str, ...], list[Coordinate]]:
    """Names of the axes of an image, and the coordinates along them; those in space only where they
    give its affine back, bit by bit.
    """
    has_named_axes = not set(SPACE).isdisjoint(header.dims)
    names, found = coordinates_of(header, header.dims, shape, has_named_axes)
    in_space = {one.name: one for one in found if one.name in OF_SPACE}
    if _give_back(header, names, shape, in_space):
        return names, list(found)
    return names, [one for one in found if one.name not in in_space]


def _give_back(
    header: Header, names: tuple[str, ...], shape: Sequence[int], found: Mapping[str, Coordinate]
) -> bool:
    affine, axes = space_of(header, header.dims)
    if affine is None:
        return False
    space = [names[axis] for axis in axes]
    extents = {names[axis]: shape[axis] for axis in axes}
    uncut = Uncut(affine, tuple(space), tuple(extents.values()))
    try:
        read = affine_here(uncut, extents, found)
    except UsageError:
        return False
    return np.array_equal(read, affine, equal_nan=True)


def attributes_of(header: Header, shape: Sequence[int]) -> dict[str, Any]:
    """The attributes above that a new array of this shape has."""
    affine = header.affine
    if affine is None:
        affine = header.motion()
    corner = _corner_of(header, len(shape))
    nifti = carried(tuple(shape), header)
    is_image = _is_image(header, shape)
    said: dict[str, Any] = {}
    if is_image or (_has_place(header) and not np.array_equal(affine, np.eye(4))):
        said[AFFINE] = np.ravel(affine)
        said |= _marks(header, shape)
    units = header.attributes.get("units")
    if is_image and isinstance(units, tuple):
        said[SPACE_UNITS] = units[0]
    if corner.any():
        said[CORNER] = corner
    if nifti:
        said[NIFTI_HEADER] = nifti
    if header.whole_shape:
        said[WHOLE_SHAPE] = np.array(header.whole_shape, np.int64)
    return said


def _has_place(header: Header) -> bool:
    """Whether an array has a place of its own, or one as a block of its whole; that of others only
    counts the voxels of what they were cut from.
    """
    is_told = not SAID.isdisjoint(header.attributes)
    return header.is_placed or is_told or header.is_block


def _marks(header: Header, shape: Sequence[int]) -> dict[str, Any]:
    space = [axis for axis in header.space if axis < len(shape)]
    names = [header.dims[axis] for axis in space if header.dims]
    return marks(names, [shape[axis] for axis in space])


def _corner_of(header: Header, ndim: int) -> Array:
    further = header.further(ndim)
    corner = np.zeros(len(further))
    corner[: len(header.corner)] = header.corner[: len(corner)]
    if len(header.origin) == ndim:
        corner += [header.origin[axis] for axis in further]
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
    nifti = None
    if header.base_affine is not None and header.space == FIRST:
        nifti = taken_over(
            attributes.get(NIFTI_HEADER, ""), shape, header.base_affine, header.sampling(dims)
        )
    cut_from = _whole_shape(attributes.get(WHOLE_SHAPE), len(shape))
    corner = _corner_said(attributes, header, len(shape))
    return replace(header, native=nifti, corner=corner, dims=dims, whole_shape=cut_from)


def _corner_said(attributes: Mapping[str, Any], header: Header, ndim: int) -> tuple[float, ...]:
    corner = numbers_of(attributes.get(CORNER))
    said: tuple[float, ...] = ()
    if corner is not None and corner.ndim == 1 and np.isfinite(corner).all():
        said = tuple(corner.tolist())
    counted = matrix_of(attributes.get(AFFINE))
    if SPACE_AFFINE not in attributes or counted is None:
        return said
    beyond = dict(enumerate(said, len(FIRST)))  # earlier versions counted along the first three
    here = dict(enumerate(counted[: len(FIRST), 3].tolist())) | beyond
    return tuple(here.get(axis, 0.0) for axis in header.further(ndim))


def _whole_shape(value: Any, ndim: int) -> tuple[int, ...]:
    found = numbers_of(value)
    known = found is not None and found.shape == (ndim,) and np.isfinite(found).all()
    if known and found is not None:
        return tuple(map(int, found))
    return ()
