"""Where an array lies, by its attributes and coordinates, as a header says it.

What they cannot say together is left out, and said in `Header.unplaced`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.axes import UNNAMED
from hyperslab.arrays.header import FIRST, OF_SPACE, SPACE, VOXELS, WORLD, Header
from hyperslab.arrays.references import named_in
from hyperslab.arrays.sampling import Sampling
from hyperslab.arrays.scaling import real_values
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.packing import ATTRIBUTES, text_of, unpack
from hyperslab.formats.conventions.uncut import (
    AFFINE,
    NDIM,
    SAID,
    SPACE_AFFINE,
    SPACE_UNITS,
    TIME,
    Uncut,
    affine_here,
    cosines_of,
    finite_numbers,
    listed,
    numbers_of,
    says,
    says_place,
    spaced,
    uncut_of,
    unit_of,
)
from hyperslab.formats.conventions.variables import Coordinate

LARGEST_SIZE = 2**20
"Samples of a coordinate that is read."


def wanted(dims: Sequence[str], attributes: Mapping[str, Any]) -> list[str]:
    """Names of the coordinates that may say where an array lies: along its axes, and those that
    were left of axes which it has lost.
    """
    beside = named_in(attributes, ("coordinates",))
    return [
        *dims,
        *(name for name in dict.fromkeys(beside) if name in OF_SPACE and name not in dims),
    ]


def is_asked(name: str, said: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    """Whether a coordinate has to be read to know where the array with these attributes lies."""
    if uncut_of(attributes) is not None and name in (*OF_SPACE, TIME):
        return True
    return says_place(name, said)


def coordinate(name: str, stored: Array, said: Mapping[str, Any]) -> Coordinate:
    """A coordinate of stored values."""
    packing = {key: value for key, value in said.items() if key in ATTRIBUTES}
    meant = unpack(packing, stored.dtype, default_fill=False)
    values = stored.astype(stored.dtype.newbyteorder("="))
    if meant.scaling is not None:
        values = real_values(meant.scaling, values, meant.real)
    return Coordinate(name, values, said)


def header_by(
    attributes: Mapping[str, Any],
    dims: Sequence[str],
    shape: Sequence[int],
    coordinates: Mapping[str, Coordinate],
) -> Header:
    """What attributes and coordinates say of an array's place; without both, it is counted in
    voxels.
    """
    dims = tuple(dims) or tuple(f"dim_{axis}" for axis in range(len(shape)))
    said = dict(attributes)
    said.pop(SPACE_AFFINE, None)
    affine: Array | None = np.eye(4)
    space: tuple[int, ...] = FIRST
    left = []
    try:
        found = _placed(attributes, dims, shape, coordinates)
        if found is not None:
            affine = found.affine
            space = _space(found.axes, dims)
            said |= _changed(attributes, affine)
    except UsageError as error:
        affine = None
        left.append(f"its place: {error}")
    if affine is None:
        for name in SAID:
            said.pop(name, None)
    sampling, irregular = _sampling(attributes, dims, coordinates, affine is None)
    return Header(
        base_affine=affine,
        space=space,
        attributes=said,
        base_sampling=sampling,
        space_unit=_unit_of(attributes, coordinates),
        unplaced=(*left, *irregular),
    )


def _changed(attributes: Mapping[str, Any], affine: Array) -> dict[str, Any]:
    """The attribute that an array has which has this affine, where it is another one."""
    uncut = uncut_of(attributes)
    if uncut is None:
        return {}
    is_told = SPACE_AFFINE not in attributes
    if is_told and np.array_equal(uncut.affine, affine, equal_nan=True):
        return {}
    return {AFFINE: affine}


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A place, and which axes of the array it is of."""

    affine: Array
    "(4, 4) float64: indices along axes of the array to millimetres."
    axes: tuple[int, ...]
    "These axes."


def _placed(
    attributes: Mapping[str, Any],
    dims: Sequence[str],
    shape: Sequence[int],
    coordinates: Mapping[str, Coordinate],
) -> _Found | None:
    """The place of an array; None where nothing speaks of one. Raises UsageError."""
    uncut = uncut_of(attributes)
    ours = {name for name, one in coordinates.items() if name in OF_SPACE and says(name, one)}
    if uncut is None and not ours:
        return None
    if len(set(dims)) < len(dims):
        raise UsageError(f"two of its axes have one name: {listed(dims)}")
    if uncut is None:
        space = [dim for dim in dims if dim in ours]
        fixed = sorted(ours - set(space))
        affine = by_coordinates([*space, *fixed], coordinates)
        return _Found(affine, tuple(map(dims.index, space)))
    is_image = bool(ours) or SPACE_UNITS in attributes  # else coordinates may mean anything
    known = {name: one for name, one in coordinates.items() if is_image and name in OF_SPACE}
    if not known and not set(uncut.dims) & set(dims):
        _require_one_image(uncut, dims, coordinates)
        return _by_order(attributes, uncut, shape)
    space = [dim for dim in dims if dim in known or dim in uncut.dims or dim in OF_SPACE]
    fixed = [name for name in known if name not in dims]
    extents = dict(zip(dims, shape, strict=True))
    affine = affine_here(uncut, {dim: extents.get(dim, 1) for dim in (*space, *fixed)}, known)
    return _Found(affine, tuple(map(dims.index, space)))


def _require_one_image(
    uncut: Uncut, dims: Sequence[str], coordinates: Mapping[str, Coordinate]
) -> None:
    """Raise UsageError for axes without coordinates in space that are not the image's by their
    names, where they have some.
    """
    are_named = not all(dim.startswith(UNNAMED) for dim in dims)
    times = {name for name, one in coordinates.items() if says(name, one)}
    is_time_first = bool(times & set(dims[:NDIM]))
    if is_time_first or (uncut.dims and are_named):
        raise UsageError(
            f"its affine is that of other axes than {listed(dims)}, along which no coordinates lie"
        )


def _by_order(attributes: Mapping[str, Any], uncut: Uncut, shape: Sequence[int]) -> _Found:
    """The place of an array whose axes are known by their order alone. Raises UsageError."""
    if SPACE_AFFINE in attributes:
        raise UsageError("nothing says along which of its axes its affine runs")
    if uncut.shape and uncut.shape != tuple(shape[:NDIM]):
        raise UsageError(
            f"its affine is that of an array of {'x'.join(map(str, uncut.shape))}, which it is"
            " not, and no coordinates say which part it is"
        )
    return _Found(uncut.affine, tuple(range(min(NDIM, len(shape)))))


def _space(axes: tuple[int, ...], dims: Sequence[str]) -> tuple[int, ...]:
    """The axes of space of an array that has these ones. Raises UsageError where one is gone and
    another axis has come among the first three.
    """
    is_first = axes == tuple(range(len(axes)))
    if is_first and len(axes) in (NDIM, len(dims)):
        return FIRST
    if len(axes) == NDIM:
        return axes
    raise UsageError(
        f"an axis of space is gone, and its axes are {listed(dims)}: select a range, as"
        " z=slice(30, 31), instead of one place"
    )


def by_coordinates(names: Sequence[str], coordinates: Mapping[str, Coordinate]) -> Array:
    """(4, 4) float64: indices along axes of space to places, by coordinates alone. Raises
    UsageError where these do not say it.
    """
    if set(names) & set(VOXELS) or len(names) != NDIM:
        raise UsageError(
            f"its attribute {AFFINE} is gone, and coordinates along {listed(names)} do not say it:"
            " open the image again, or keep its attributes (keep_attrs=True)"
        )
    affine = np.eye(4)
    cosines = cosines_of(names, coordinates)
    firsts = np.zeros(NDIM)
    for column, name in enumerate(names):
        found = _sampled(coordinates[name])
        affine[:NDIM, column] = cosines[:, column] * found.step
        firsts[column] = found.first
    affine[:NDIM, 3] = cosines @ firsts
    return affine


def _sampled(one: Coordinate) -> Sampling:
    """The sampling that a coordinate says. Raises UsageError where it is not evenly spaced, or of a
    single sample whose step nobody says.
    """
    values = finite_numbers(one)
    unit = text_of(one.attributes.get("units", ""))
    if values.size == 1:
        step = numbers_of(one.attributes.get("step"))
        if step is None or step.size != 1:
            raise UsageError(
                f"the array has one sample along {one.name}, and nothing says its extent"
            )
        return Sampling(float(values.flat[0]), float(step.flat[0]), unit)
    scale = _scale(one.name, values)
    first, step_here = spaced(one.name, (values - values[0]) / scale)
    return Sampling(float(values[0]) + first * scale, step_here * scale, unit)


def _scale(name: str, values: Array) -> float:
    """The distance from the first sample to the second."""
    if not values.size or values[1] == values[0]:
        raise UsageError(f"the array is not evenly spaced along {name}, so it has no affine")
    return float(values[1] - values[0])


def _sampling(
    attributes: Mapping[str, Any],
    dims: Sequence[str],
    coordinates: Mapping[str, Coordinate],
    is_unplaced: bool,
) -> tuple[dict[str, Sampling], list[str]]:
    """Places along the axes that no affine places, and what they cannot say."""
    found = {}
    left = []
    is_image = uncut_of(attributes) is not None
    for name in dims:
        one = coordinates.get(name)
        is_space = name in OF_SPACE
        if one is None or (is_space and not is_unplaced) or name in VOXELS:
            continue
        if not (says(name, one) or (is_image and name == TIME)):
            continue
        try:
            found[name] = _sampled(one)
        except UsageError as error:
            if not is_space:  # of these the affine has said so
                left.append(f"its places along {name}: {error}")
    return found, left


def _unit_of(attributes: Mapping[str, Any], coordinates: Mapping[str, Coordinate]) -> str:
    """The unit of the affine; '' where nothing says one, or several."""
    found = {
        text_of(one.attributes.get("units", ""))
        for name, one in coordinates.items()
        if name in (*WORLD, *SPACE) and says(name, one)
    }
    if SPACE_UNITS in attributes:
        is_known = text_of(attributes[SPACE_UNITS]) != "unknown"
        return unit_of(attributes) * is_known
    return found.pop() if len(found) == 1 else ""
