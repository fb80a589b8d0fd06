"""An image in xarray: its affine, as it is and after it was cut (`image.hyperslab.affine`), and its
voxels by their places (`image.hyperslab.sel`).

The attribute `affine` is that of the whole image in its file, as 16 numbers row by row, since
netCDF files hold no matrices; it stays as it is whatever is selected. Where the voxels of a part
are, its coordinates say. A coordinate of 4 x 4 could not say it: an array has no coordinates along
dimensions that are not its own, so that `dataset.image` would be without it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import xarray

from hyperslab.arrays import Array
from hyperslab.arrays.header import OF_SPACE, VOXELS, WORLD
from hyperslab.errors import UsageError
from hyperslab.formats.conventions.coordinates import TOWARDS
from hyperslab.formats.conventions.placement import by_coordinates
from hyperslab.formats.conventions.uncut import AFFINE, Uncut, affine_here, says, uncut_of
from hyperslab.formats.conventions.variables import Coordinate

_ROUNDED = 1e-3
"Half voxels that are no distance: what float32 rounds."


@xarray.register_dataarray_accessor("hyperslab")
class Placed:
    """What hyperslab says of an image that its engine has opened."""

    def __init__(self, image: xarray.DataArray) -> None:
        self._image = image

    @property
    def affine(self) -> Array:
        """(4, 4) float64: indices along the axes of space, in the order in which the array has
        them, to places in the unit of its file, millimetres nearly always. Without the attribute,
        coordinates along x, y and z, or MINC's, are enough.

        Raises UsageError where the array has no affine, lacks an axis of space, or is not evenly
        spaced along one.
        """
        image = self._image
        uncut = self._uncut()
        extents = {str(dim): image.sizes[dim] for dim in image.dims if str(dim) in OF_SPACE}
        coordinates = _coordinates_of(image)
        if was := _renamed(image):
            raise _under_other_names(was)
        if uncut is None and not _say_place(coordinates):
            raise UsageError(
                "the array has no affine: it has neither the attribute nor coordinates along three"
                " axes of space that say it: open the image again, and keep its attributes"
                " (keep_attrs=True, or xarray.set_options(keep_attrs=True))"
            )
        for dim, extent in extents.items():
            if not extent:
                raise _empty(dim)
        if uncut is None:
            return by_coordinates(list(extents), coordinates)
        if len(extents) != len(WORLD):
            raise _lacking(uncut, list(extents))
        return affine_here(uncut, extents, coordinates)

    def sel(self, **places: float | slice) -> xarray.DataArray:
        """The voxels nearest to places along axes of space or time, in the units of the coordinates
        (`x=30`), and those between two places, ends included, in either order (`x=slice(-20, 20)`).

        Raises UsageError for an axis that the image does not have, as x of a tilted image, and for
        a place that is more than half a voxel beyond the first or the last one's.
        """
        found = self._image
        for dim, place in places.items():
            if dim not in found.dims:
                raise self._without(dim)
            if isinstance(place, slice):
                found = found.isel({dim: _between(dim, found[dim].values, place)})
            else:
                self._require_within(dim, place)
                found = found.sel({dim: place}, method="nearest")
        return found

    def _require_within(self, dim: str, place: float) -> None:
        """Raise UsageError for a place outside of all voxels."""
        values = self._image[dim].values
        if values.dtype.kind not in "iuf" or not values.size:
            return
        half = self._size(dim) / 2
        low = float(values.min()) - half
        high = float(values.max()) + half
        if np.min(place) < low - half * _ROUNDED or np.max(place) > high + half * _ROUNDED:
            raise UsageError(
                f"{dim}={place}: that is outside the array, whose voxels reach from {low:g} to"
                f" {high:g} along {dim}"
            )

    def _size(self, dim: str) -> float:
        """Size of the voxels along an axis; infinite for a single one that says none."""
        values = self._image[dim].values
        if values.size > 1:
            return float(np.abs(np.diff(values.astype(np.float64))).max())
        extents = [str(one) for one in self._image.dims if str(one) in OF_SPACE]
        try:
            column = self.affine[:3, extents.index(dim)]
        except (UsageError, ValueError):  # no image, or an axis of time
            return math.inf
        return float(np.linalg.norm(column))

    def _uncut(self) -> Uncut | None:
        return uncut_of({str(name): value for name, value in self._image.attrs.items()})

    def _without(self, dim: str) -> UsageError:
        """The error for a place along an axis that an image does not have."""
        dims = [str(one) for one in self._image.dims]
        numbered = [one for one in dims if one in VOXELS]
        text = f"the array has no axis {dim}: its axes are {', '.join(dims)}"
        if dim not in WORLD or not numbered:
            return UsageError(text)
        return UsageError(
            f"{text}, of which {', '.join(numbered)} run between those of space, so that no place"
            f" along {dim} is one of theirs: select voxels, as image.isel({numbered[0]}=30);"
            " numpy.linalg.inv(image.hyperslab.affine) @ (x, y, z, 1) says which lies at a place"
        )


@xarray.register_dataset_accessor("hyperslab")
class PlacedDataset:
    """What hyperslab says of the images of a dataset."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset

    @property
    def affine(self) -> Array:
        """(4, 4) float64: that of its image, or of its images where they have one place; along the
        axes of space in the order of the first one. What lacks an axis of space, as a maximum
        along it, is not asked beside others.

        Raises UsageError for a dataset without an image, and for images in several places.
        """
        images = self._images()
        if not images:
            raise UsageError("the dataset has no variable with an affine")
        axes = _axes_of_space(images[0])
        first, *others = [_in_order(image, axes).hyperslab.affine for image in images]
        if not all(np.array_equal(first, other, equal_nan=True) for other in others):
            names = ", ".join(str(image.name) for image in images)
            raise UsageError(
                f"the images of the dataset ({names}) lie in several places: ask one of them, as"
                f" dataset['{images[0].name}'].hyperslab.affine"
            )
        found: Array = first
        return found

    def _images(self) -> list[xarray.DataArray]:
        """Variables with an affine: those with all axes of space, or all where none has these."""
        variables = self._dataset.data_vars.values()
        placed = [one for one in variables if AFFINE in one.attrs]
        if not placed:
            placed = [one for one in variables if _say_place(_coordinates_of(one))]
        full = [one for one in placed if len(_axes_of_space(one)) == len(WORLD)]
        return full or placed


def _coordinates_of(image: xarray.DataArray) -> dict[str, Coordinate]:
    """Coordinates along the axes of space."""
    known = image.coords
    return {
        dim: Coordinate(dim, np.asarray(known[dim]), known[dim].attrs)
        for dim in map(str, image.dims)
        if dim in OF_SPACE and dim in known
    }


def _say_place(coordinates: Mapping[str, Coordinate]) -> bool:
    """Whether coordinates along the axes of space say an affine without an attribute."""
    return len(coordinates) == len(WORLD) and all(map(says, coordinates, coordinates.values()))


def _renamed(image: xarray.DataArray) -> dict[str, str]:
    """Axes whose coordinates say that they run along x, y or z, under other names; the name by
    which each is known.
    """
    found = {}
    for dim in map(str, image.dims):
        towards = image[dim].attrs.get("long_name")
        if dim not in OF_SPACE and towards in TOWARDS:
            found[dim] = WORLD[TOWARDS.index(towards)]
    return found


def _under_other_names(was: Mapping[str, str]) -> UsageError:
    back = ", ".join(f"{dim}='{name}'" for dim, name in was.items())
    return UsageError(
        f"the array has an axis {', '.join(was)} that was {', '.join(was.values())}, and axes of"
        f" space are known by their names: image.rename({back}).hyperslab.affine"
    )


def _axes_of_space(image: xarray.DataArray) -> list[Hashable]:
    return [dim for dim in image.dims if str(dim) in OF_SPACE]


def _in_order(image: xarray.DataArray, axes: Sequence[Hashable]) -> xarray.DataArray:
    """An image with its axes of space in this order; as it is where it has others."""
    if set(axes) != set(_axes_of_space(image)):
        return image
    return image.transpose(*axes, ...)


def _between(name: str, values: Array, wanted: slice) -> Array | slice:
    """Indices of the places between two, ends included; None is no end. A slice where they are
    neighbours, else (n,) int64. Raises UsageError where there are none.
    """
    if wanted.step is not None:
        raise UsageError(f"{name}={wanted}: a range of places has no step: take some by isel")
    ends = [end for end in (wanted.start, wanted.stop) if end is not None]
    low = -np.inf if wanted.start is None else min(ends)
    high = np.inf if wanted.stop is None else max(ends)
    found: Array = np.flatnonzero((values >= low) & (values <= high))
    if not found.size:
        raise UsageError(
            f"{name}={wanted}: no places lie between these: those of the array reach from"
            f" {values.min()} to {values.max()}"
        )
    first = int(found[0])
    beyond = int(found[-1]) + 1
    if beyond - first == found.size:
        return slice(first, beyond)
    return found


def _lacking(uncut: Uncut, left: Sequence[str]) -> UsageError:
    """The error for an image without some of its axes of space."""
    gone = [dim for dim in uncut.dims if dim not in left]
    first = gone[0] if gone else WORLD[0]
    return UsageError(
        f"the array has {len(left)} axes of space ({', '.join(left) or 'none'}), and an affine"
        f" needs 3: keep {first} by a range, as {first}=slice(30, 31), instead of one place, and by"
        f" image.coarsen({first}=image.sizes['{first}']).max() instead of image.max('{first}')"
    )


def _empty(dim: str) -> UsageError:
    """The error for an image of which nothing is left along an axis."""
    return UsageError(
        f"the array has no elements along {dim}: where places fall along an axis, xarray takes a"
        f" range as they run, as image.sel({dim}=slice(20, -20)); image.hyperslab.sel takes both"
    )
