"""Hyperslab: a rectangular, possibly strided region of an array. Pure integer geometry, all in
elements.

The word and the triple (start, count, stride) are HDF5's (HDF5 User's Guide, "Dataspaces"). Unlike
there, a stride may be negative: the region then runs from high to low indices, as a flipped view
does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Self

from hyperslab.errors import UsageError
from hyperslab.pickling import pickled_by_position

Index = int | slice | EllipsisType


@pickled_by_position
@dataclass(frozen=True, slots=True)
class Hyperslab:
    """The elements start, start + stride, ..., count of them, along every axis."""

    start: tuple[int, ...]
    "Index of the first element along each axis."
    count: tuple[int, ...]
    "Number of elements along each axis; 0 makes the region empty."
    stride: tuple[int, ...] = ()
    "Distance between elements along each axis, never 0; left out, 1 everywhere."

    def __post_init__(self) -> None:
        is_box = not self.stride
        if is_box:
            object.__setattr__(self, "stride", (1,) * len(self.start))
        if not len(self.start) == len(self.count) == len(self.stride):
            raise ValueError(f"start, count and stride differ in length: {self}")
        if min(self.count, default=0) < 0:
            raise ValueError(f"a count is negative: {self}")
        if min(self.start, default=0) < 0:
            raise ValueError(f"the region begins before the array: {self}")
        if not is_box:
            self._require_strides()

    def _require_strides(self) -> None:
        """Raise ValueError for strides that lead nowhere, or before the array."""
        if 0 in self.stride:
            raise ValueError(f"a stride is zero: {self}")
        if min(self.stride, default=1) < 0 and min(self.bounds[0]) < 0:
            raise ValueError(f"the region begins before the array: {self}")

    @classmethod
    def full(cls, shape: Sequence[int]) -> Self:
        """The region that is a whole array of this shape."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def ndim(self) -> int:
        return len(self.start)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.count)

    @property
    def bounds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Lowest index and one past the highest index touched, along each axis; equal where the
        count is 0.
        """
        if self.is_box:
            return self.start, tuple(map(operator.add, self.start, self.count))
        low, high = [], []
        for first, count, stride in zip(self.start, self.count, self.stride, strict=True):
            last = first + (count - 1) * stride
            if count == 0:
                low.append(first)
                high.append(first)
                continue
            low.append(min(first, last))
            high.append(max(first, last) + 1)
        return tuple(low), tuple(high)

    @property
    def is_box(self) -> bool:
        """True when every stride is 1."""
        return self.stride == (1,) * len(self.stride)

    def slices(self) -> tuple[slice, ...]:
        """The same region as NumPy slices."""
        return tuple(map(_slice, self.start, self.count, self.stride))

    def shift(self, offset: Sequence[int]) -> Hyperslab:
        """The region moved by `offset` elements."""
        start = tuple(a + o for a, o in zip(self.start, offset, strict=True))
        return Hyperslab(start, self.count, self.stride)

    def compose(self, inner: Hyperslab) -> Hyperslab:
        """The region of the array that is `inner` of this region's block: `a[self][inner] ==
        a[compose(inner)]`.
        """
        start = tuple(
            a + i * s for a, i, s in zip(self.start, inner.start, self.stride, strict=True)
        )
        stride = tuple(s * t for s, t in zip(self.stride, inner.stride, strict=True))
        return Hyperslab(start, inner.count, stride)

    def permute(self, axes: Sequence[int]) -> Hyperslab:
        """The region of the array whose axis i is this array's axis `axes[i]`, as `numpy.transpose`
        orders them.
        """
        if tuple(axes) == tuple(range(len(axes))):
            return self
        start = tuple([self.start[axis] for axis in axes])
        count = tuple([self.count[axis] for axis in axes])
        stride = tuple([self.stride[axis] for axis in axes])
        return Hyperslab(start, count, stride)

    def clip(self, box: Hyperslab) -> tuple[Hyperslab, Hyperslab] | None:
        """Cut out the part of this region that lies in `box` (strides 1): (that part, its place
        within this region's block), or None.
        """
        axes = zip(self.start, self.count, self.stride, box.start, box.count, strict=True)
        start, count = [], []
        for axis in axes:
            first, last = _clip_axis(*axis)
            if first >= last:
                return None
            start.append(first)
            count.append(last - first)
        place = Hyperslab(tuple(start), tuple(count))
        return self.compose(place), place

    def __str__(self) -> str:
        axes = map(_format_axis, self.start, self.count, self.stride)
        return f"[{', '.join(axes)}]"


def from_index(
    index: Index | tuple[Index, ...], shape: Sequence[int]
) -> tuple[Hyperslab, tuple[int, ...]]:
    """Turn a NumPy basic index into (hyperslab, axes that an integer index drops).

    Raises IndexError for an index out of range or of a kind that is not basic (lists, masks,
    newaxis).
    """
    given = index if isinstance(index, tuple) else (index,)
    parts = _expand(given, len(shape))
    start, count, stride, dropped = [], [], [], []
    for axis, (part, extent) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(part, slice):
            first, n, step = _selected(part, extent)
            start.append(first)
            count.append(n)
            stride.append(step)
        else:
            start.append(_position(part, extent, axis))
            count.append(1)
            stride.append(1)
            dropped.append(axis)
    return Hyperslab(tuple(start), tuple(count), tuple(stride)), tuple(dropped)


def require_within(where: str, shape: Sequence[int], slab: Hyperslab) -> None:
    """Raise UsageError for a region that reaches beyond an array of this shape."""
    if slab.ndim != len(shape) or any(map(operator.gt, slab.bounds[1], shape)):
        raise UsageError(
            f"{where}: the region {slab} reaches beyond the array's shape {tuple(shape)}"
        )


def dense_level(shape: Sequence[int], slab: Hyperslab) -> int:
    """The slowest axis along which a region is one run of bytes; len(shape) if it is single
    elements.
    """
    level = len(shape)
    while level and (slab.stride[level - 1] == 1 or slab.count[level - 1] == 1):
        level -= 1
        if slab.count[level] != shape[level]:
            break
    return level


def _expand(parts: tuple[Index, ...], ndim: int) -> tuple[int | slice, ...]:
    if len(parts) == ndim and all(part is not Ellipsis for part in parts):
        return parts  # type: ignore[return-value]  # there is no Ellipsis
    ellipses = sum(part is Ellipsis for part in parts)
    given = len(parts) - ellipses
    if ellipses > 1 or given > ndim:
        raise IndexError(
            f"{given} indices for an array of {ndim} dimensions"
            if given > ndim
            else "more than one '...'"
        )
    where = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    middle = (slice(None),) * (ndim - given)
    # the one Ellipsis is left out
    return (*parts[:where], *middle, *parts[where + 1 :])  # type: ignore[arg-type]


def _selected(part: slice, extent: int) -> tuple[int, int, int]:
    """First element, number and step of what a slice selects; an empty one begins at 0."""
    first, stop, step = part.indices(extent)
    count = len(range(first, stop, step))
    if count == 0:
        return 0, 0, 1
    return first, count, step


def _position(part: object, extent: int, axis: int) -> int:
    try:
        position = operator.index(part)  # type: ignore[arg-type]  # the TypeError is the check
    except TypeError:
        raise IndexError(
            f"axis {axis}: only integers, slices and '...' select a hyperslab, not {part!r}"
        ) from None
    if isinstance(part, bool) or not -extent <= position < extent:
        raise IndexError(f"axis {axis}: index {part} is out of range for {extent} elements")
    return position % extent


def _slice(start: int, count: int, stride: int) -> slice:
    stop = start + count * stride
    if stop < 0:
        return slice(start, None, stride)
    return slice(start, stop, stride)


def _clip_axis(start: int, count: int, stride: int, low: int, extent: int) -> tuple[int, int]:
    """First and one past the last k in [0, count) with low <= start + k * stride < low + extent."""
    if stride < 0:
        start = -start
        stride = -stride
        low = 1 - low - extent
    first = max(0, -((start - low) // stride))
    last = min(count, -((start - low - extent) // stride))
    return first, last


def _format_axis(start: int, count: int, stride: int) -> str:
    text = f"{start}:{start + count * stride}"
    if stride != 1:
        text += f":{stride}"
    return text
