"""The affine of an array that was cut from an image: its coordinates say which voxels it has.

An attribute stays as it is when an array is cut, flipped, averaged or transposed in xarray;
coordinates move along. So the attribute is the affine of the uncut image, and what the coordinates
say of its voxels makes that of the array. Where both say the same, the numbers of the attribute are
kept. What they cannot say together is a UsageError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import OF_SPACE, SPACE, VOXEL_NUMBER, VOXELS, WORLD
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.coordinates import TOWARDS, UNITS
from hyperslab.formats.conventions.packing import text_of
from hyperslab.formats.conventions.variables import Coordinate

AFFINE = "affine"
"""Voxels of the uncut image to millimetres, as 16 numbers, row by row: attributes of netCDF have
one axis, and libnetcdf opens no HDF5 file that has others. One of (4, 4) is read, too.
"""
AFFINE_DIMS = "affine_dims"
"Names of the axes of the uncut image that its affine places, in their order, with blanks between."
AFFINE_SHAPE = "affine_shape"
"Extents of the uncut image along these axes."
SPACE_AFFINE = "space_affine"
"""The affine in files of earlier versions, of an array whose axes of space are not its first three;
the other one then counts its voxels.
"""
SPACE_UNITS = "space_units"
"Unit of the places, as a header of NIfTI says it."
SAID = frozenset((AFFINE, AFFINE_DIMS, AFFINE_SHAPE, SPACE_AFFINE))

_APART = 0.1
"Voxels by which places differ that were changed."
_NEAR = 1e-3
"Voxels that are no distance between samples: what float32 rounds."
TIME = "t"
NAMES = OF_SPACE | {TIME, "time"}
"Names of coordinates of images."
_UNITS_OF_TIME = frozenset(("s", "Hz", "ppm", "rad s-1"))
NDIM = 3


@dataclass(frozen=True, slots=True, eq=False)
class Uncut:
    """The image that an attribute gives the affine of."""

    affine: Array
    "(4, 4) float64: voxels to millimetres."
    dims: tuple[str, ...] = ()
    "Names of the axes that it places; (): unknown."
    shape: tuple[int, ...] = ()
    "Extents along them; (): unknown."
    unit: str = ""
    "Unit of its places; '': unknown."

    def axis_of(self, dim: str, position: int, extent: int) -> int:
        """The axis of the image that an axis without coordinates is, all of it. Raises UsageError
        where it cannot be.
        """
        axis = position
        if self.dims:
            axis = self.dims.index(dim) if dim in self.dims else -1
        is_whole = not self.shape or self.shape[axis : axis + 1] == (extent,)
        if axis < 0 or not is_whole:
            raise UsageError(
                f"the array has no coordinates along {dim}, and is not the whole image: open the"
                " image again"
            )
        return axis


def uncut_of(attributes: Mapping[str, Any]) -> Uncut | None:
    """The image whose affine the attributes have; None where they have none."""
    for name in (SPACE_AFFINE, AFFINE):
        affine = matrix_of(attributes.get(name))
        if affine is not None:
            return Uncut(affine, *_marks(attributes), unit_of(attributes))
    return None


def matrix_of(value: Any) -> Array | None:
    """An attribute as an affine, (4, 4) float64; None where it is none."""
    found = numbers_of(value)
    if found is None or found.shape not in ((4, 4), (16,)):
        return None
    return found.reshape(4, 4)


def marks(dims: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """The attributes that say what an affine belongs to: these axes, or the first three of them."""
    found: dict[str, Any] = {AFFINE_SHAPE: np.array(shape[:NDIM], np.int64)}
    names = tuple(dims[:NDIM])
    if names and not any(set(name) & set(" \0") for name in names):
        found[AFFINE_DIMS] = " ".join(names)
    return found


def _marks(attributes: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    dims = tuple(text_of(attributes.get(AFFINE_DIMS, "")).replace("\0", " ").split())
    extents = numbers_of(attributes.get(AFFINE_SHAPE))
    shape: tuple[int, ...] = ()
    if extents is not None and np.isfinite(extents).all():
        shape = tuple(int(extent) for extent in np.ravel(extents))
    if dims and shape and len(dims) != len(shape):
        return (), ()
    return dims, shape


def unit_of(attributes: Mapping[str, Any]) -> str:
    """Unit of the affine, as a header of NIfTI has said it; '' where none has."""
    return UNITS.get(text_of(attributes.get(SPACE_UNITS, "")), "")


def numbers_of(value: Any) -> Array | None:
    """An attribute as float64; None where it is no numbers."""
    try:
        found = np.asarray(value)
    except ValueError:  # lists of several lengths
        return None
    if found.dtype.kind in "iuf":
        return found.astype(np.float64)
    return None


def says_place(name: str, said: Mapping[str, Any]) -> bool:
    """Whether a coordinate of this name with these attributes is one of those that hyperslab gives
    an image.
    """
    if name in VOXELS:
        return text_of(said.get("long_name", "")) == VOXEL_NUMBER
    if name in WORLD:
        return text_of(said.get("long_name", "")) in TOWARDS
    if name in SPACE:
        cosines = numbers_of(said.get("direction_cosines"))
        return cosines is not None and cosines.shape == (NDIM,)
    return _is_time(name, said)


def says(name: str, one: Coordinate) -> bool:
    """Whether a coordinate is one of those that hyperslab gives an image."""
    return says_place(name, one.attributes)


def _is_time(name: str, said: Mapping[str, Any]) -> bool:
    unit = text_of(said.get("units", ""))
    is_named = name == TIME or text_of(said.get("axis", "")) == "T"
    return is_named and unit in _UNITS_OF_TIME


def listed(names: Sequence[str]) -> str:
    """Names of axes in a sentence."""
    return ", ".join(names) or "no axes"


def affine_here(
    uncut: Uncut, extents: Mapping[str, int], coordinates: Mapping[str, Coordinate]
) -> Array:
    """(4, 4) float64: indices along some axes of space of an array, in their order, to millimetres.

    Axes without coordinates are whole. Raises UsageError where the axes are not all of the image's
    three, or are not evenly spaced.
    """
    motion = np.zeros((4, 4))
    motion[3, 3] = 1
    taken: list[int] = []
    for column, (dim, extent) in enumerate(extents.items()):
        first, step = 0.0, 1.0
        if dim in coordinates:
            axis, first, step = _voxels(uncut, dim, column, coordinates)
        else:
            axis = uncut.axis_of(dim, column, extent)
        if axis in taken or column >= NDIM:
            raise UsageError(f"the axes {listed(list(extents))} are not axes of one image")
        motion[axis, column] = step
        motion[axis, 3] = first
        taken.append(axis)
    rest = [axis for axis in range(NDIM) if axis not in taken]
    if rest and not (uncut.dims and set(uncut.dims) == set(extents)):
        raise UsageError(
            f"the array has {len(taken)} axes of space ({listed(list(extents))}), and an affine"
            " needs 3: select a range, as x=slice(30, 31), instead of one place"
        )
    for column, axis in enumerate(rest, len(taken)):
        motion[axis, column] = 1
    if np.array_equal(motion, np.eye(4)):
        return uncut.affine
    with np.errstate(invalid="ignore"):  # an affine that is not finite stays so
        found: Array = uncut.affine @ motion
    return found


def _voxels(
    uncut: Uncut, dim: str, position: int, coordinates: Mapping[str, Coordinate]
) -> tuple[int, float, float]:
    """The axis of the uncut image that a coordinate runs along, and the first number of its voxels
    and their step. Voxels that are counted along an axis at this position say nothing.
    """
    one = coordinates[dim]
    values = finite_numbers(one)
    if dim in VOXELS:
        order = uncut.dims if dim in uncut.dims else VOXELS
        return order.index(dim), *spaced(dim, values)
    counted = np.array_equal(values, np.arange(values.size)) and not says(dim, one)
    if counted and values.ndim:
        return uncut.axis_of(dim, position, values.size), 0.0, 1.0
    row = _row(uncut.affine, dim, coordinates)
    axis = int(np.argmax(np.abs(row[:NDIM])))
    if not np.isfinite(row).all() or row[axis] == 0:
        raise UsageError(f"its affine gives no places along {dim}")
    first, step = spaced(dim, (values - row[3]) / row[axis])
    _require_known(uncut, one, (first, step) == (0, 1))
    _require_one_place(uncut, dim, row, values)
    return axis, first, step


def _require_known(uncut: Uncut, one: Coordinate, is_whole: bool) -> None:
    """Raise UsageError for a coordinate along which other places than those of the image are, in
    who knows which unit.
    """
    if is_whole or one.name in SPACE:
        return
    unit = text_of(one.attributes.get("units", ""))
    expected = {uncut.unit} if uncut.unit else set(UNITS.values())
    if not says(one.name, one) or unit not in expected:
        raise UsageError(
            f"the coordinates along {one.name} (unit '{unit}') are other places than its affine"
            f" gives: give them the units {' or '.join(sorted(expected))} and the long_name"
            f" '{TOWARDS[WORLD.index(one.name)]}' if they are such places"
        )


def _require_one_place(uncut: Uncut, dim: str, row: Array, values: Array) -> None:
    """Raise UsageError for coordinates of all voxels of the image that are other places than its
    affine gives, in either order: one of the two was changed, and nothing says which.
    """
    axis = int(np.argmax(np.abs(row[:NDIM])))
    if len(uncut.shape) != NDIM or values.shape != (uncut.shape[axis],):
        return
    last = np.array(uncut.shape) - 1
    across = np.abs(np.delete(row[:NDIM] * last, axis)).sum()
    ends = row[NDIM], row[NDIM] + row[axis] * last[axis]
    away = min(np.abs(values[[0, -1]] - way).max() for way in (ends, ends[::-1]))
    if max(away, across) > _APART * abs(row[axis]):
        raise UsageError(
            f"its affine and its coordinates along {dim} contradict each other"
            f" ({ends[0]:g} to {ends[1]:g}, and {values[0]:g} to {values[-1]:g}): remove the"
            " coordinates, or the attribute affine, whichever is wrong"
        )


def finite_numbers(one: Coordinate) -> Array:
    """The values of a coordinate as float64. Raises UsageError for others than finite numbers."""
    values = np.asarray(one.values)
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise UsageError(f"the coordinates along {one.name} are not finite numbers")
    return values.astype(np.float64)


def _row(affine: Array, dim: str, coordinates: Mapping[str, Coordinate]) -> Array:
    """(4,) float64: voxel indices of the uncut image to the place along a coordinate."""
    if dim in WORLD:
        row: Array = affine[WORLD.index(dim)]
        return row
    places = np.linalg.inv(cosines_of(SPACE, coordinates)) @ affine[:NDIM]
    found: Array = places[SPACE.index(dim)]
    return found


def cosines_of(names: Sequence[str], coordinates: Mapping[str, Coordinate]) -> Array:
    """(3, 3) float64: directions of three coordinates, one a column. Raises UsageError."""
    columns = []
    for name in names:
        said: Mapping[str, Any] = {}
        if name in coordinates:
            said = coordinates[name].attributes
        column = numbers_of(said.get("direction_cosines"))
        if name in WORLD:
            column = np.eye(NDIM)[WORLD.index(name)]
        if column is None or column.shape != (NDIM,):
            raise UsageError(f"no coordinates say along which line {name} runs")
        columns.append(column)
    found = np.stack(columns, axis=1)
    if not np.isfinite(found).all() or np.linalg.matrix_rank(found) < len(names):
        raise UsageError(f"the axes {listed(names)} do not run along three lines")
    return found


def spaced(dim: str, numbers: Array) -> tuple[float, float]:
    """The first number and the step. Raises UsageError where they are not evenly spaced."""
    if not numbers.size:
        raise UsageError(f"the array has no elements along {dim}")
    numbers = np.ravel(numbers)
    first = float(numbers[0])
    step = 1.0
    if numbers.size > 1:
        step = float(numbers[-1] - numbers[0]) / (numbers.size - 1)
    first = _whole(first, 1)
    step = _whole(step, numbers.size - 1)
    strayed = np.abs(first + step * np.arange(numbers.size) - numbers)
    if step == 0 or strayed.max() > _NEAR:
        raise UsageError(f"the array is not evenly spaced along {dim}, so it has no affine")
    return first, step


def _whole(number: float, times: int) -> float:
    """A number of voxels, which is whole, or a half after averaging, but for rounding."""
    near = round(2 * number) / 2
    if abs(number - near) * max(1, times) <= _NEAR:
        return near
    return number
