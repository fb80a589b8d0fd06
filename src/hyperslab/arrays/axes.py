"""Axes: which axes an array has of the one that it was made of, and which are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError

Axis = int | str
"An axis by its number, or by its name."
TIME = ("t", "time")
"Names of the axis along which the volumes of a series follow each other."
UNNAMED = ("dim_", "phony_dim_")
"What the names begin with that axes get which have none in their file."
SPATIAL_AXES = 3


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of an array, seen from the one that it was made of."""

    kept: tuple[int | None, ...]
    "Axis of the other array that each one is; None: a new one."
    lengths: tuple[int, ...]
    "Extent of each new axis, 0 for the others."
    continued: tuple[tuple[int, int], ...] = ()
    """Position of each new axis that is another made longer or shorter, as by numpy.diff, and that
    axis of the other array: its samples lie as far apart.
    """

    @classmethod
    def same(cls, ndim: int) -> Self:
        """All axes, as they are."""
        return cls(tuple(range(ndim)), (0,) * ndim)

    @classmethod
    def changed(
        cls,
        ndim: int,
        drop: Sequence[int],
        new: Mapping[int, int],
        continued: Sequence[tuple[int, int]] = (),
    ) -> Self:
        """The axes without some, then with new ones at these positions of the result (position ->
        length), of which some continue others.
        """
        kept: list[int | None] = [axis for axis in range(ndim) if axis not in drop]
        lengths = [0] * len(kept)
        for position, length in sorted(new.items()):
            kept.insert(position, None)
            lengths.insert(position, length)
        return cls(tuple(kept), tuple(lengths), tuple(continued))

    @property
    def ndim(self) -> int:
        return len(self.kept)

    @property
    def told(self) -> tuple[int | None, ...]:
        """Axis of the other array by which each one is named, and its samples are spaced."""
        known = dict(self.continued)
        return tuple(known.get(position, axis) for position, axis in enumerate(self.kept))

    def is_same(self, ndim: int) -> bool:
        """Whether these are all axes of an array of `ndim`, and no others."""
        return self.kept == tuple(range(ndim))

    def dropped(self, ndim: int) -> tuple[int, ...]:
        """Axes of an array of `ndim` that are gone."""
        return tuple(axis for axis in range(ndim) if axis not in self.kept)

    def shape(self, given: Sequence[int]) -> tuple[int, ...]:
        """Shape of the array, of the shape of the other one."""
        return self.pick(given, self.lengths)

    def pick(self, values: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
        """What the other array has per axis for those that are kept, what `new` has for new
        ones.
        """
        picked = []
        for axis, other in zip(self.kept, new, strict=True):
            value = other
            if axis is not None:
                value = values[axis]
            picked.append(value)
        return tuple(picked)

    def region(self, slab: Hyperslab) -> Hyperslab:
        """The region of the array that comes of a region of the other one."""
        start = self.pick(slab.start, (0,) * self.ndim)
        stride = self.pick(slab.stride, (1,) * self.ndim)
        return Hyperslab(start, self.shape(slab.count), stride)

    def after(self, first: Axes) -> Axes:
        """These axes of an array that itself has the axes `first` of another."""
        kept: list[int | None] = []
        lengths = []
        for axis, length in zip(self.kept, self.lengths, strict=True):
            if axis is None:
                kept.append(None)
                lengths.append(length)
            else:
                kept.append(first.kept[axis])
                lengths.append(first.lengths[axis])
        continued = []
        for position, axis in enumerate(self.told):
            if axis is None or kept[position] is not None:
                continue
            of = first.told[axis]
            if of is not None:
                continued.append((position, of))
        return Axes(tuple(kept), tuple(lengths), tuple(continued))


@dataclass(frozen=True, slots=True)
class NamedAxes:
    """Names of the axes of one file, or of several."""

    file: str
    "The first of them, for messages."
    dims: tuple[str, ...]


def numbered(
    flag: str, asked: Axis | Sequence[Axis], files: Sequence[NamedAxes]
) -> tuple[int, ...]:
    """Axes by their numbers, of arrays whose axes have these names. Raises UsageError for a name
    that none of them has, or several, or another one in another file.
    """
    each = [asked] if isinstance(asked, int | str) else list(asked)
    return tuple(_number(flag, axis, files) if isinstance(axis, str) else axis for axis in each)


def _number(flag: str, name: str, files: Sequence[NamedAxes]) -> int:
    found = [_number_in(flag, name, one.dims) for one in files]
    for one, axis in zip(files, found, strict=True):
        if axis != found[0]:
            raise UsageError(
                f"{flag} {name}: it is axis {found[0]} of {files[0].file}, but axis {axis} of"
                f" {one.file}: run over files with one order of axes at a time"
            )
    return found[0]


def _number_in(flag: str, name: str, dims: Sequence[str]) -> int:
    found = axes_named(name, dims)
    if len(found) == 1:
        return found[0]
    if not dims:
        raise UsageError(f"{flag} {name}: the axes of the array have no names: give numbers")
    many = "no axis" if not found else "several axes"
    raise UsageError(
        f"{flag} {name}: the array has {many} of this name, but axes 0 to {len(dims) - 1}"
        f" ({', '.join(dims)})"
    )


def axes_named(name: str, dims: Sequence[str]) -> list[int]:
    """Axes of this name; where there are none, those of another name of the same."""
    found = [axis for axis, known in enumerate(dims) if known == name]
    if found:
        return found
    wanted = one_name(name)
    return [axis for axis, known in enumerate(dims) if one_name(known) == wanted]


def one_name(name: str) -> str:
    """The name of an axis, the same for all names of time."""
    if name in TIME:
        return TIME[0]
    return name


def axes_of_space(dims: Sequence[str], ndim: int) -> tuple[int, ...]:
    """The first three axes that are not named as time; of an array without names, the first
    three.
    """
    others = [axis for axis in range(ndim) if not is_time(dims, axis)]
    return tuple(others[:SPATIAL_AXES])


def is_time(dims: Sequence[str], axis: int) -> bool:
    """Whether volumes follow each other along this axis, as its name says."""
    return bool(dims) and dims[axis] in TIME


def along_space(asked: tuple[float, ...], dims: Sequence[str], ndim: int) -> tuple[float, ...]:
    """Numbers for axes from the first one on, of one for all axes of space, one for each of them,
    or one for every axis of the array; 0 for the others. () where they are another number of them.
    """
    space = axes_of_space(dims, ndim)
    if len(asked) == ndim > len(space):
        return asked
    if len(asked) == 1:
        asked = asked * len(space)
    if len(asked) != len(space):
        return ()
    given = dict(zip(space, asked, strict=True))
    return tuple(given.get(axis, 0) for axis in range(max(space) + 1))


def for_each(values: Sequence[int], ndim: int, nothing: int) -> tuple[int, ...]:
    """A number for each of so many axes: the values where any of them says something, else the one
    that says nothing, as all arrays of a run need not have one number of axes then.
    """
    if all(value == nothing for value in values):
        return (nothing,) * ndim
    return tuple(values)
