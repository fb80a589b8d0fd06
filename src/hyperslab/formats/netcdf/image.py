"""An image as a netCDF variable: a file of one array, or a MINC volume, as a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab.arrays.header import Header
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.coordinates import coordinates_of, space_of
from hyperslab.formats.conventions.packing import ATTRIBUTES
from hyperslab.formats.conventions.uncut import AFFINE, SPACE_UNITS, marks
from hyperslab.formats.conventions.variables import Group, Variable

IMAGE = "image"
_ZOOMS = "zooms"
_EXACT_IN_FLOAT64 = 4
"Bytes of whole numbers that float64 holds all of."


def image_group(
    source: ArraySource,
    remedy: str = "hyperslab.open reads the stored ones",
    *,
    has_named_axes: bool = True,
) -> Group:
    """A group of one variable and its coordinates: stored values where a factor and an offset say
    exactly what they mean, else the real ones.

    Raises UsageError, with a remedy, where the real values cannot be computed.
    """
    if source.unscalable:
        raise UsageError(
            f"{source.url}: the real values of its image cannot be computed: {source.unscalable};"
            f" {remedy}"
        )
    packing = _packing(source)
    values: Values = "stored"
    if packing is None:
        values = "real"
    encoding: dict[str, Any] = {"dtype": source.dtype(values)}
    dims, coordinates = coordinates_of(source.header, source.dims, source.shape, has_named_axes)
    extents = dict(zip(dims, source.own_chunk_shape, strict=False))
    if extents:
        encoding["preferred_chunks"] = extents
    image = Variable(
        name=IMAGE,
        path=source.name,
        dims=dims,
        shape=source.shape,
        stored_shape=source.shape,
        dtype=source.dtype(values),
        attributes=_shown(source, dims) | (packing or {}),
        encoding=encoding,
        values=values,
        axes=source.axes,
    )
    return Group((image,), {}, frozenset(), coordinates=coordinates)


def _packing(source: ArraySource) -> dict[str, np.float64] | None:
    """The factor and offset from which xarray computes what `hyperslab.blocks.reading.scaling`
    does; None if there are none such.

    Both compute in float64 where both numbers are given as such and the stored ones are whole
    numbers within it.
    """
    scaling = source.scaling
    stored = source.stored
    if scaling is None:
        if source.real == source.dtype("stored"):
            return {}
        return None
    exact = (
        stored.kind in "iu" and stored.itemsize <= _EXACT_IN_FLOAT64 and source.real == np.float64
    )
    if (
        not exact
        or not scaling.is_linear
        or not all(isinstance(n, float) for n in (scaling.slope, scaling.inter))
    ):
        return None
    return {"scale_factor": np.float64(scaling.slope), "add_offset": np.float64(scaling.inter)}


def _shown(source: ArraySource, dims: Sequence[str]) -> dict[str, Any]:
    """What a header says, as a netCDF file can hold it: affines as 16 numbers, row by row.

    Without sizes of voxels, which would stay as they are when the image is cut.
    """
    header = source.header
    not_kept = ATTRIBUTES | {_ZOOMS}
    said = {name: value for name, value in header.attributes.items() if name not in not_kept}
    if isinstance(units := said.pop("units", None), tuple):
        said[SPACE_UNITS], said["time_units"] = units
    said |= _placed(header, dims, source.shape)
    return {name: _plain(value) for name, value in said.items()}


def _placed(header: Header, dims: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """The affine, and what it belongs to: axes of space, which need not be the first three."""
    affine, axes = space_of(header, dims)
    if affine is None:
        return {}
    return {AFFINE: affine, **marks([dims[axis] for axis in axes], [shape[axis] for axis in axes])}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return value.replace("\0", " ").strip()
    if isinstance(value, np.ndarray | tuple):
        return np.ravel(value)
    return value
