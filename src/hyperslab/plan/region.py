"""Region: the part of the arrays that a pipeline runs over, in voxels or in millimetres."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.affines import directions, is_invertible, voxel_sizes
from hyperslab.arrays.sets import Whole
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError
from hyperslab.plan.places import affine_of, reach, spatial_shape
from hyperslab.units import show_count

_IN_MM = "mm:"
_REST = "..."
_WORLD = "xyz"
_EXAMPLE = "10:40,20:60,5:25 (voxels) or mm:-30:30,-20:40,0:50 (millimetres)"
_ROUNDING_VOXELS = 1e-3

Bound = tuple[float | None, float | None]
Slice: TypeAlias = slice | EllipsisType


@dataclass(frozen=True, slots=True)
class Region:
    """A box: in voxels, as NumPy's slices; or in millimetres of RAS+ space, both ends included."""

    text: str
    "The region as it was asked for."
    bounds: tuple[Bound, ...]
    "First and last of each axis; None: the array's own. Axes that are not named are whole."
    in_mm: bool
    leading: int | None = None
    "Number of bounds before '...'; the others are those of the last axes. None without it."

    def within(self, whole: Whole) -> Hyperslab:
        """The voxels of an array. Raises UsageError for a region that holds none, or reaches beyond
        the array.
        """
        if self.in_mm:
            return self._by_place(whole)
        return self._by_index(whole)

    def _by_index(self, whole: Whole) -> Hyperslab:
        if len(self.bounds) > len(whole.shape):
            raise UsageError(
                f"--region {self.text} names {show_count(len(self.bounds), 'axis', 'axes')}, but"
                f" {whole.name} has"
                f" {len(whole.shape)}"
            )
        start = [0] * len(whole.shape)
        stop = list(whole.shape)
        for axis, (low, high) in self._by_axis(len(whole.shape)):
            extent = whole.shape[axis]
            start[axis] = _position(low, extent, 0)
            stop[axis] = _position(high, extent, extent)
            if not 0 <= start[axis] < stop[axis] <= extent:
                raise UsageError(
                    f"--region {self.text} holds nothing or reaches beyond axis {axis} of"
                    f" {whole.name}, which has {extent} elements"
                )
        count = [b - a for a, b in zip(start, stop, strict=True)]
        return Hyperslab(tuple(start), tuple(count))

    def _by_axis(self, ndim: int) -> list[tuple[int, Bound]]:
        """The bounds with the axis of each."""
        last = len(self.bounds)
        if self.leading is not None:
            last = self.leading
        axes = [*range(last), *range(ndim - len(self.bounds) + last, ndim)]
        return list(zip(axes, self.bounds, strict=True))

    def _by_place(self, whole: Whole) -> Hyperslab:
        affine = self._straight_affine(whole)
        start = [0] * len(whole.shape)
        count = list(whole.shape)
        for world, (low, high) in enumerate(self.bounds):
            column = int(np.argmax(np.abs(affine[world, :3])))
            axis = whole.header.space[column]
            first, last = _voxels_between(affine[world], column, low, high, whole.shape[axis])
            if first > last:
                raise UsageError(
                    f"--region {self.text} holds no voxel along {_WORLD[world]} of {whole.name},"
                    f" which reaches from {reach(affine, spatial_shape(whole))}"
                )
            start[axis] = first
            count[axis] = last - first + 1
        return Hyperslab(tuple(start), tuple(count))

    def _straight_affine(self, whole: Whole) -> Array:
        """The affine of an image whose axes are those of space. Raises UsageError for others."""
        affine = affine_of(whole)
        if affine is None or not is_invertible(affine) or len(whole.shape) < len(_WORLD):
            raise UsageError(
                f"--region {self.text}: {whole.name} does not say where its voxels lie: give the"
                " region in voxels, such as 10:40,20:60,5:25"
            )
        if not whole.header.has_known_unit:
            raise UsageError(
                f"--region {self.text}: {whole.name} measures places in"
                f" '{whole.header.unit_of_space}', whose length in millimetres is not known: give"
                " the region in voxels"
            )
        if None in directions(affine, spatial_shape(whole)):
            cosines = np.abs(affine[:3, :3] / voxel_sizes(affine)).max(axis=0)
            angle = math.degrees(math.acos(min(1.0, float(cosines.min()))))
            raise UsageError(
                f"--region {self.text}: the axes of {whole.name} are turned by {angle:.2g} degrees"
                " against x, y and z, so a box in millimetres is not a box of voxels: give the"
                " region in voxels, or a mask"
            )
        return affine


def parse_region(text: str) -> Region:
    """A region from '10:40,20:60,5:25', in voxels as NumPy's slices, or 'mm:-30:30,-20:40,0:50', in
    millimetres along x, y and z (RAS+). An end that is left out is the array's; '...' stands once
    for all axes between in voxels. Raises UsageError.
    """
    in_mm = text.startswith(_IN_MM)
    parts = text.removeprefix(_IN_MM).split(",")
    if in_mm and len(parts) > len(_WORLD):
        raise UsageError(f"--region {text}: millimetres are for x, y and z: give up to three")
    leading = None
    if not in_mm and parts.count(_REST) == 1:
        leading = parts.index(_REST)
        parts.remove(_REST)
    return Region(text, tuple(_bound(text, part, in_mm) for part in parts), in_mm, leading)


def region_of(given: str | Sequence[Slice] | Region) -> Region:
    """The same from Python: a text as above, or slices such as `np.s_[10:40, 20:60]`."""
    if isinstance(given, Region):
        return given
    if isinstance(given, str):
        return parse_region(given)
    parts = []
    for part in given if isinstance(given, tuple | list) else (given,):
        if part is Ellipsis:
            parts.append(_REST)
            continue
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise UsageError(
                f"region={given!r}: give slices of step 1, or a text such as {_EXAMPLE}"
            )
        parts.append(":".join("" if end is None else str(end) for end in (part.start, part.stop)))
    return parse_region(",".join(parts))


def _bound(text: str, part: str, in_mm: bool) -> Bound:
    number = r"[-+]?\d+"
    kind: type = int
    if in_mm:
        number = r"[-+]?(?:\d+\.?\d*|\.\d+)"
        kind = float
    ends = re.fullmatch(rf"\s*({number})?\s*:\s*({number})?\s*", part)
    if ends is None:
        raise UsageError(f"--region {text}: '{part}' is not a range: write it as {_EXAMPLE}")
    low, high = (None if end is None else kind(end) for end in ends.groups())
    return low, high


def _position(given: float | None, extent: int, default: int) -> int:
    """An end of a slice as an index; negative ones count from the end."""
    if given is None:
        return default
    position = int(given)
    if position < 0:
        position += extent
    return position


def _voxels_between(
    row: Array, column: int, low: float | None, high: float | None, extent: int
) -> tuple[int, int]:
    """First and last voxel along an axis whose centre lies between two millimetres."""
    lowest = -math.inf if low is None else low
    highest = math.inf if high is None else high
    ends = (lowest, highest)
    places = sorted((end - float(row[3])) / float(row[column]) for end in ends)
    first = max(0.0, math.ceil(max(places[0], -1) - _ROUNDING_VOXELS))
    last = min(extent - 1.0, math.floor(min(places[1], extent) + _ROUNDING_VOXELS))
    return int(first), int(last)
