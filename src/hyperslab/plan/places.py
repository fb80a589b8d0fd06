"""Places: whether a further input lies where the source does, and in words where it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import (
    apart,
    corners,
    is_invertible,
    order_between,
    tolerance,
    voxel_sizes,
)
from hyperslab.arrays.axes import TIME, axes_named, is_time
from hyperslab.arrays.header import OF_SPACE
from hyperslab.arrays.resampling import SPACE
from hyperslab.arrays.sets import ORIGIN_TOLERANCE_VOXELS, Whole
from hyperslab.arrays.source import ArraySource
from hyperslab.errors import UsageError
from hyperslab.formats.table import facts_of
from hyperslab.units import show_count

_TIMES = frozenset(TIME)
_LEAST_DEGREES = 0.05
_DECIMALS = 3
_REMEDY = (
    "use --resample nearest (masks, labels) or --resample linear, or give an input in the same"
    " space"
)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An array of a further input, and that of the source which it goes with."""

    name: str
    "Name of the input."
    whole: Whole
    "Array of the source."
    source: ArraySource
    "File that speaks for it."
    other: Whole
    "Array of the input."
    other_source: ArraySource

    def axes(self) -> tuple[int, ...]:
        """Axis of the source that each of the input's lies along.

        Where both are placed by affines, axes of space lie along axes of space; those that are
        lacking go by the names of axes, or else are time, wherever that is, or the last or the
        first ones, as extents tell. So do all axes of arrays that are not placed, where their
        formats name them.
        Raises UsageError for an input that has more axes, or could lie in two ways.
        """
        few = len(self.other.shape)
        many = len(self.whole.shape)
        if few > many:
            raise self.unlike()
        if self.are_placed:
            further = zip(
                self.other.header.further(few), self.whole.header.further(many), strict=False
            )
            along = dict(zip(self.own_space, self.whole.header.space, strict=False)) | dict(further)
            return tuple(along[axis] for axis in range(few))
        if few == many:
            return self._reordered_axes() or tuple(range(many))
        return self._named_axes() or self._axes_beside_time() or self._axes_by_extent()

    def _reordered_axes(self) -> tuple[int, ...]:
        """Axes of an input that has as many as the source, by their names, where the formats of
        both name axes and extents agree; () where they do not.
        """
        if not self._have_named_axes:
            return ()
        return self._named_axes()

    def _named_axes(self) -> tuple[int, ...]:
        """Axes of an input by their names, where extents agree; () where they do not, and for names
        of space that one of the formats does not have.
        """
        wanted = self.other_source.dims
        generic = all(name.startswith("dim_") for name in wanted)
        are_told = self._have_named_axes or OF_SPACE.isdisjoint(wanted)
        if generic or not are_told:
            return ()
        found = [axes_named(name, self.source.dims) for name in wanted]
        if any(len(axes) != 1 for axes in found):
            return ()
        along = tuple(axes[0] for axes in found)
        if len(set(along)) < len(along) or not self._fits(along):
            return ()
        return along

    @property
    def _have_named_axes(self) -> bool:
        """Whether the formats of both name axes: the names of a NIfTI image are made of its
        affine, and say nothing of an input without one.
        """
        sources = (self.source, self.other_source)
        return all(facts_of(source.format).has_named_axes for source in sources)

    def _axes_beside_time(self) -> tuple[int, ...]:
        """All axes of the source but time, for an input that has as many, none of which is time;
        () where there is none, or extents do not agree.
        """
        names = self.source.dims
        axes = tuple(axis for axis in range(len(names)) if not is_time(names, axis))
        is_without = _TIMES.isdisjoint(self.other_source.dims)
        if len(axes) != len(self.other.shape) or not is_without or not self._fits(axes):
            return ()
        return axes

    def _axes_by_extent(self) -> tuple[int, ...]:
        few = len(self.other.shape)
        many = len(self.whole.shape)
        first = tuple(range(few))
        last = tuple(range(many - few, many))
        fitting = [axes for axes in (first, last) if self._fits(axes)]
        if not fitting:
            raise self.unlike()
        if len(fitting) == 2:
            raise UsageError(
                f"the input '{self.name}' of shape {self.other.shape} could lie along the first or"
                f" the last axes of the source, whose shape is {self.whole.shape}: give it"
                f" {many} axes, with one element along those that it lacks"
            )
        return fitting[0]

    def _fits(self, axes: tuple[int, ...]) -> bool:
        return all(
            n in (1, self.whole.shape[axis]) for n, axis in zip(self.other.shape, axes, strict=True)
        )

    def single(self, axes: tuple[int, ...]) -> frozenset[int]:
        """Axes of the input along which its one element goes with all of the source's; along axes
        of space none does, where affines say where it lies.
        """
        space: tuple[int, ...] = ()
        if self.are_placed:
            space = self.own_space
        return frozenset(
            axis
            for axis, along in enumerate(axes)
            if axis not in space and self.other.shape[axis] == 1 != self.whole.shape[along]
        )

    def affines(self) -> tuple[Array | None, Array | None]:
        """(4, 4) of the input and of the source, along their axes of space to millimetres; None
        where a file does not say one.
        """
        return affine_of(self.other), affine_of(self.whole)

    @property
    def are_placed(self) -> bool:
        """Whether both files say where their voxels lie."""
        return all(affine is not None for affine in self.affines())

    @property
    def own_space(self) -> tuple[int, ...]:
        """Axes of space that the input has."""
        return axes_of_space(self.other)

    def is_in_place(self, axes: tuple[int, ...]) -> bool:
        """Whether the voxels of both are the same, in number and in place."""
        image, grid = self.affines()
        if image is None or grid is None:
            return True
        extents = self._extents(axes)
        return spatial_shape(self.other) == extents and _is_near(image, grid, extents)

    def _extents(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Extents of the source along the input's axes of space."""
        return tuple(self.whole.shape[axes[own]] for own in self.own_space)

    def order(self, axes: tuple[int, ...]) -> Array | None:
        """(3, 4) float64: voxels of the source to those of an input that has the same ones in
        another order, as one whose axes run to the left and not to the right; None for any other
        input, and for one whose voxels are in the source's order.
        """
        image, grid = self.affines()
        if image is None or grid is None or self.is_in_place(axes):
            return None
        if len(self.own_space) < SPACE:
            return None
        extents = self._extents(axes)
        between = order_between(image, spatial_shape(self.other), grid, extents)
        if between is None or not _is_near(image @ between, grid, extents):
            return None
        return between[:SPACE]

    def require_known_units(self) -> None:
        """Raise UsageError for places in different units, one of which has no known length."""
        units = (self.other.header.unit_of_space, self.whole.header.unit_of_space)
        if not self.are_placed or units[0] == units[1]:
            return
        for header, source in (
            (self.other.header, self.other_source),
            (self.whole.header, self.source),
        ):
            if not header.has_known_unit:
                raise UsageError(
                    f"{source.label} measures places in '{header.unit_of_space}', whose length is"
                    f" not known, so that it cannot be said whether the input '{self.name}' lies"
                    " where the source does: write the unit as mm, um, cm or m"
                )

    def require_one_space(self, axes: tuple[int, ...]) -> None:
        """Raise UsageError where affines put the two in different places, or a file says of one of
        them what no affine can say.
        """
        for source in (self.other_source, self.source):
            if source.header.is_lost:
                raise UsageError(
                    f"whether the input '{self.name}' lies where the source does cannot be said:"
                    f" {source.label}: {source.header.unplaced[0]}"
                )
        if not self.is_in_place(axes):
            raise self._elsewhere(f"the input '{self.name}' is not in the same space as the source")

    def unlike(self) -> UsageError:
        """The error for shapes that do not fit."""
        text = (
            f"the input '{self.name}' has shape {self.other.shape}, the source {self.whole.shape}"
        )
        few = len(self.other.shape)
        if few > len(self.whole.shape):
            return UsageError(f"{text}: give the one with more axes as the source")
        if not self.are_placed or self.is_in_place(tuple(range(few))):
            if self._is_reordered():
                return UsageError(
                    f"{text}: its axes seem to be in another order than the source's: transpose it"
                )
            return UsageError(
                f"{text}: they must be the same, except for axes that the input lacks (a mask for"
                " a time series needs no time axis)"
            )
        return self._elsewhere(f"{text}, and lies elsewhere")

    def unlike_along(self, own: int, along: int) -> UsageError:
        """The error for other extents along an axis that no affine places, as time, which no
        resampling makes alike.
        """
        have = show_count(self.other.shape[own], "element")
        wanted = self.whole.shape[along]
        return UsageError(
            f"the input '{self.name}' has {have} along its axis {self.other_source.dims[own]}, the"
            f" source {wanted:,} along {self.source.dims[along]}: give one with {wanted:,} there,"
            " with 1, or without that axis"
        )

    def _is_reordered(self) -> bool:
        """Whether the input has the extents of the source's first or last axes in another order."""
        own = self.other.shape
        absent = len(self.whole.shape) - len(own)
        ends = {self.whole.shape[: len(own)], self.whole.shape[absent:]}
        return own not in ends and sorted(own) in [sorted(end) for end in ends]

    def _elsewhere(self, headline: str) -> UsageError:
        """The error for an input in another place, with a line for each difference."""
        if not self.meet():
            return self.apart()
        error = UsageError(f"{headline}: {_REMEDY}")
        for line in self._differences():
            error.add_note(f"    {line}")
        return error

    def meet(self) -> bool:
        """Whether the boxes of the two, along the axes of the world, have a place in common."""
        image, grid = self.affines()
        if image is None or grid is None:
            return True
        low, high = box(image, spatial_shape(self.other))
        other_low, other_high = box(grid, spatial_shape(self.whole))
        between = np.maximum(low, other_low) - np.minimum(high, other_high)
        half_voxels = (voxel_sizes(image).sum() + voxel_sizes(grid).sum()) / 2
        return bool((between <= half_voxels).all())

    def apart(self) -> UsageError:
        """The error for an input that has no place in common with the source."""
        for affine, source in zip(self.affines(), (self.other_source, self.source), strict=True):
            if affine is not None and not np.isfinite(affine).all():
                return UsageError(
                    f"the affine of {source.label} has entries that are NaN or infinite, so that it"
                    f" cannot be said whether the input '{self.name}' lies where the source does:"
                    " correct it"
                )
        error = UsageError(
            f"the input '{self.name}' and the source do not overlap: correct the affine of one of"
            " them, or give another input"
        )
        for line in self._differences():
            error.add_note(f"    {line}")
        return error

    def placeless(self) -> str:
        """What the one that has no place is called."""
        if self.affines()[0] is None:
            return self.other_source.label
        return self.source.label

    def _differences(self) -> list[str]:
        from hyperslab.formats.nifti.space import is_assumed, orientation

        image, grid = self.affines()
        assert image is not None
        assert grid is not None
        ends = (reach(image, spatial_shape(self.other)), reach(grid, spatial_shape(self.whole)))
        told = [
            f"{self.other_source.label} reaches from {ends[0]}",
            f"the source reaches from {ends[1]}",
        ]
        if (units := self._units()) is not None:
            told.append(units)
        told += [
            f"{one.label} does not say where it lies (sform and qform code 0), so its middle is"
            " taken to be at 0 mm: if its voxels are those of the other image, give it that image's"
            " affine"
            for one in (self.other_source, self.source)
            if is_assumed(one.header.attributes)
        ]
        sizes = (_numbers(voxel_sizes(image), " x "), _numbers(voxel_sizes(grid), " x "))
        if sizes[0] != sizes[1]:
            told.append(f"voxels of {sizes[0]} and {sizes[1]} mm")
        codes = (orientation(image), orientation(grid))
        if codes[0] != codes[1]:
            told.append(f"axes that run {codes[0]} and {codes[1]}")
        elif (angle := _degrees(image, grid)) >= _LEAST_DEGREES:
            told.append(f"axes turned by {angle:.1f} degrees")
        return told

    def _units(self) -> str | None:
        """The units in which the files say their places, where these differ."""
        units = [one.header.unit_of_space or "mm" for one in (self.other, self.whole)]
        if units[0] == units[1]:
            return None
        return (
            f"{self.other_source.label} says its places in {units[0]}, the source in {units[1]}: if"
            " one of these is wrong, correct that file's unit"
        )


def axes_of_space(whole: Whole) -> tuple[int, ...]:
    """Axes of an array that its affine places."""
    return tuple(axis for axis in whole.header.space if axis < len(whole.shape))


def spatial_shape(whole: Whole) -> tuple[int, ...]:
    """Extents of an array along its axes of space."""
    return tuple(whole.shape[axis] for axis in axes_of_space(whole))


def affine_of(whole: Whole) -> Array | None:
    """The affine, in millimetres, of an array whose file says one: formats without have that of
    voxels.
    """
    if not whole.header.is_placed:
        return None
    return whole.header.affine_mm


def _is_near(image: Array, grid: Array, shape: tuple[int, ...]) -> bool:
    """Whether two affines mean the same places, to a hundredth of a voxel."""
    if np.array_equal(image, grid, equal_nan=True):
        return True
    if not (np.isfinite(image).all() and is_invertible(grid)):
        return False
    least = ORIGIN_TOLERANCE_VOXELS * float(voxel_sizes(grid).min())
    return apart(image, grid, shape) <= max(least, tolerance(grid, shape))


def reach(affine: Array, shape: tuple[int, ...]) -> str:
    """The box that holds the centres of all voxels, in words."""
    ends = box(affine, shape)
    return " to ".join(f"({_numbers(end, ', ')})" for end in ends) + " mm"


def box(affine: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """(3,) and (3,) float64: least and largest x, y and z of the centres of all voxels, mm."""
    places = affine[:3] @ corners(shape)
    return places.min(axis=1), places.max(axis=1)


def _numbers(values: Array, between: str) -> str:
    """Numbers to a thousandth, or to three digits of the largest where all are small."""
    largest = float(np.abs(values).max())
    decimals = _DECIMALS
    if 0 < largest < 1:
        decimals = max(_DECIMALS, 2 - math.floor(math.log10(largest)))
    return between.join(f"{round(float(value), decimals) + 0.0:g}" for value in values)


def _degrees(image: Array, grid: Array) -> float:
    """Largest angle between an axis of one and the same axis of the other."""
    cosines = (image[:3, :3] * grid[:3, :3]).sum(axis=0)
    lengths = voxel_sizes(image) * voxel_sizes(grid)
    with np.errstate(all="ignore"):
        angles = np.degrees(np.arccos(np.clip(cosines / lengths, -1, 1)))
    return float(np.nan_to_num(angles).max())
