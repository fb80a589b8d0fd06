"""Header: what travels with the values of an array, from file to file and into its blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.axes import Axes
from hyperslab.arrays.references import without_references
from hyperslab.arrays.sampling import Sampling
from hyperslab.arrays.slab import Hyperslab

FIRST = (0, 1, 2)
"Axes of space of most images: the first ones."

SPACE = ("xspace", "yspace", "zspace")
"MINC's names of axes of space."
WORLD = ("x", "y", "z")
"Names of axes that run along one axis of space alone."
VOXELS = ("i", "j", "k")
"Names of the first three axes of an image where they run between those of space."
OF_SPACE = frozenset((*SPACE, *WORLD, *VOXELS))
"Names of axes of space, which an array may have in any order."
_LENGTHS = {
    1e-6: ("nm", "nanometer", "nanometre"),
    1e-3: ("um", "micron", "micrometer", "micrometre"),
    1.0: ("", "mm", "millimeter", "millimetre"),
    10.0: ("cm", "centimeter", "centimetre"),
    1e3: ("m", "meter", "metre"),
}
"Lengths of units in millimetres, for which those are taken whose unit is not said."
_MM = {unit: length for length, units in _LENGTHS.items() for unit in units}
_MICRO = str.maketrans("\u00b5\u03bc", "uu")
"""The micro sign and the Greek letter, which are written as u, too."""
_SYMBOL = 2
"Characters of a symbol, at most, whose capitals mean something else."
VOXEL_NUMBER = "voxel number"
"Attribute long_name of the coordinates along i, j and k."


def length_mm(unit: str) -> float | None:
    """Length of a unit in millimetres, by its name or symbol; None where it is not known."""
    word = unit.strip().translate(_MICRO)
    if len(word) > _SYMBOL:
        word = word.casefold().removesuffix("s")
    return _MM.get(word)


class Omitted(str):
    """An attribute that is only described: what is in the file is too large, or means nothing
    outside of it.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Companion:
    """A small variable that goes with an array from file to file, such as the coordinates along one
    of its axes.
    """

    name: str
    dims: tuple[str, ...]
    "Names of its axes; those that the array has too are cut with it."
    values: Array
    "Stored values, of the whole array."
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """What travels with the values: geometry, units, attributes, and the format's own header.

    A block cut from an array keeps the array's base affine and remembers where it was cut: voxel v
    of the block is voxel `origin + step * v` of the array. So every format can place the block at
    the parent's millimetres.
    """

    base_affine: Array | None = None
    """(4, 4) float64: voxel indices of the uncut array along its axes of space to places (RAS+), in
    its own unit (`unit_of_space`); None where the format has none.
    """
    origin: tuple[float, ...] = ()
    "Position of this block's first voxel in the uncut array, per axis, in its voxels."
    step: tuple[float, ...] = ()
    """Size of this block's voxel in voxels of the uncut array, per axis; negative where an axis is
    flipped.
    """
    native: bytes | None = None
    "The uncut array's own header as the format stores it (for NIfTI: header and extensions)."
    attributes: Mapping[str, Any] = field(default_factory=dict)
    "Units, names and whatever else the format holds, for people to read."
    dims: tuple[str, ...] = ()
    "Names of the axes; (): unknown."
    corner: tuple[float, ...] = ()
    """Position of the uncut array's first voxel along the axes that no affine places, in the array
    that it was itself cut from; as far as its file says so.
    """
    space: tuple[int, ...] = FIRST
    """Axes that the affine places, ascending. Time may come before them, as in series of MINC; of
    an array of fewer than three axes those that are lacking are one voxel.
    """
    whole_shape: tuple[int, ...] = ()
    "Shape of the array that a split made this block of; (): unknown, or no block."
    axes: Axes | None = None
    "Axes of the array, seen from that of the `native` header; None: all of them."
    real: np.dtype[Any] | None = None
    """dtype of the real values of stored ones that go with the attributes of packing; None: those
    are of other values.
    """

    is_block: bool = False
    """Whether the array is one block of several, which says where in their whole it lies, also
    where that has no place.
    """
    is_other_quantity: bool = False
    "Whether the array measures something else than that of the `native` header."

    base_sampling: Mapping[str, Sampling] = field(default_factory=dict)
    """Places along axes of the uncut array, by the axes' names: those that no affine places, as
    time, and those that the format describes one by one.
    """

    space_unit: str = ""
    "Unit of the affine where no sampling says it: 'mm', 'um' or 'm'; '': unknown."
    unplaced: tuple[str, ...] = ()
    "Places that the file speaks of but that no affine and no sampling can say, and why."

    companions: tuple[Companion, ...] = ()
    "Variables that go into the new file with the array."
    file_attributes: Mapping[str, Any] = field(default_factory=dict)
    "Attributes of the file as a whole, which the new file gets."
    group_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    "Attributes of the groups that the array is in, by their paths: 'a' and 'a/b'."

    def companions_here(self, shape: Sequence[int]) -> list[Companion]:
        """The companions of this block, which has this shape; without those whose samples it has
        not.
        """
        cut = [_cut(one, self, shape) for one in self.companions]
        return [one for one in cut if one is not None]

    def sampling(self, dims: Sequence[str]) -> dict[str, Sampling]:
        """Places along the axes of this block, which have these names."""
        moves = dict(zip(dims, zip(self.origin, self.step, strict=True), strict=False))
        found = {}
        for name, one in self.base_sampling.items():
            if name in dims:
                found[name] = one.moved(*moves.get(name, (0.0, 1.0)))
        return found

    @property
    def affine(self) -> Array | None:
        """(4, 4) float64: voxel indices of this block along its axes of space to places in the
        file's own unit.
        """
        if self.base_affine is None:
            return None
        return self.placing(self.base_affine)

    @property
    def affine_mm(self) -> Array | None:
        """(4, 4) float64: the affine in millimetres, as all must be that compares the places of
        files, or is told some by a user. A unit that no file says, or whose length is not known,
        counts as millimetres; `has_known_unit` tells the latter.
        """
        affine = self.affine
        length = length_mm(self.unit_of_space)
        if affine is None or length in (None, 1):
            return affine
        found = affine.copy()
        found[:3] *= length
        return found

    @property
    def has_known_unit(self) -> bool:
        """Whether the length of the affine's unit is known; one that is not said is millimetres."""
        return length_mm(self.unit_of_space) is not None

    @property
    def is_lost(self) -> bool:
        """Whether the file speaks of a place that no affine can say."""
        return bool(self.unplaced) and self.affine is None

    def further(self, ndim: int) -> tuple[int, ...]:
        """Axes that no affine places, of an array that has so many."""
        return tuple(axis for axis in range(ndim) if axis not in self.space)

    def placing(self, affine: Array) -> Array:
        """An affine of the uncut array for the voxels of this block; bit by bit the same one if it
        is all of it.
        """
        if not self._is_moved:
            return affine
        motion = self.motion()
        with np.errstate(invalid="ignore"):  # an affine that is not finite stays so
            placed: Array = affine @ motion
        return placed

    @property
    def is_placed(self) -> bool:
        """Whether the affine says more than that voxels are counted, as that of a file without a
        place does.
        """
        if self.base_affine is None:
            return False
        if self.native is not None or any(one.cosines for one in self.base_sampling.values()):
            return True
        if self.space != FIRST:
            return True
        return not np.array_equal(self.base_affine, np.eye(4))

    @property
    def is_unplaced_region(self) -> bool:
        """Whether it is cut from an array whose affine counts voxels, and is none of its blocks:
        then its own affine says numbers of voxels that look like a place.
        """
        return self._is_moved and not (self.is_placed or self.is_block or self.whole_shape)

    @property
    def unit_of_space(self) -> str:
        """Unit of the affine: 'mm', 'um' or 'm' mostly; '' where the file does not say one.

        Where axes have units of different lengths it names them all, and has no known length: an
        affine has one for all axes.
        """
        units = {one.unit for one in self.base_sampling.values() if one.cosines}
        if self.space_unit:
            units.add(self.space_unit)
        if units <= {""}:
            return ""
        said = sorted({unit or "mm" for unit in units})
        lengths = {length_mm(unit) for unit in said}
        if len(said) > 1 and (len(lengths) > 1 or None in lengths):
            return " and ".join(said)
        return said[0]

    def motion(self) -> Array:
        """(4, 4) float64: voxel indices of this block along its axes of space to those of the uncut
        array.
        """
        motion = np.eye(4)
        for column, axis in enumerate(self._cut_axes):
            motion[column, column] = self.step[axis]
            motion[column, 3] = self.origin[axis]
        return motion

    @property
    def _cut_axes(self) -> list[int]:
        """Axes of space along which it is known where this block was cut."""
        return [axis for axis in self.space if axis < len(self.origin)]

    @property
    def _is_moved(self) -> bool:
        """Whether voxels of this block are other ones in the uncut array, along axes of space."""
        return any(self.origin[axis] != 0 or self.step[axis] != 1 for axis in self._cut_axes)

    def for_slab(self, slab: Hyperslab) -> Header:
        """The header of the block that `slab` selects: the origin moves, the voxels grow by the
        stride.
        """
        return self.moved(slab.start, slab.stride)

    def moved(self, origin: Sequence[float], step: Sequence[float]) -> Header:
        """The header of a block whose voxel v is voxel `origin + step * v` of this one (halves for
        averaged voxels).
        """
        first = self.origin or (0.0,) * len(origin)
        scale = self.step or (1.0,) * len(origin)
        moved = tuple(a + s * o for a, s, o in zip(first, scale, origin, strict=True))
        scaled = tuple(s * t for s, t in zip(scale, step, strict=True))
        return replace(self, origin=moved, step=scaled, whole_shape=())

    def naming_what_is_left_of(self, before: Sequence[Companion]) -> Header:
        """The same, where no attribute names one of these companions that is there no more."""
        lost = {one.name for one in before}.difference(one.name for one in self.companions)
        if not lost:
            return self
        companions = [
            replace(one, attributes=without_references(one.attributes, lost))
            for one in self.companions
        ]
        attributes = without_references(self.attributes, lost)
        return replace(self, attributes=attributes, companions=tuple(companions))

    def with_axes(self, axes: Axes, shape: Sequence[int]) -> Header:
        """The header of an array that has these axes of this one, whose shape is `shape`.

        Names, places and voxel sizes of axes go with them. An axis of space that is gone has become
        one voxel as thick as all of it. Where another axis, such as time, comes to be among the
        first three, or one is lost of those behind such an axis, the array has no affine.
        """
        origin = self.origin or (0.0,) * len(shape)
        step = self.step or (1.0,) * len(shape)
        moved = replace(
            self,
            base_affine=self.base_affine,
            origin=_picked(axes, origin, 0.0),
            step=_picked(axes, step, 1.0),
            dims=names_of(axes, self.dims),
            companions=_beside(axes, self.companions, self.dims),
            corner=_corner(axes, self.further(len(shape)), self.corner, FIRST),
            whole_shape=_whole_shape(axes, self.whole_shape, shape),
            axes=axes,
        ).naming_what_is_left_of(self.companions)
        if self.space != FIRST:
            return _with_space(moved, self, len(shape))
        if not self.is_placed or _keeps_space(axes, len(shape)):
            return moved
        motion = _motion(axes, shape)
        if motion is None or self.affine is None:
            return replace(moved, base_affine=None)
        beyond = range(3, axes.ndim)
        return replace(
            moved,
            base_affine=self.affine @ motion,
            origin=tuple(moved.origin[axis] * (axis in beyond) for axis in range(axes.ndim)),
            step=tuple(moved.step[axis] if axis in beyond else 1.0 for axis in range(axes.ndim)),
        )


def _picked(axes: Axes, values: Sequence[float], new: float) -> tuple[float, ...]:
    return tuple(new if axis is None else values[axis] for axis in axes.told)


def _beside(
    axes: Axes, companions: Sequence[Companion], dims: Sequence[str]
) -> tuple[Companion, ...]:
    """The companions without those along an axis that is gone, or has become longer or shorter:
    which of their samples are left is not known; and without those along an axis of their own
    whose name another one has now.
    """
    kept = {dims[axis] for axis in axes.kept if axis is not None and axis < len(dims)}
    gone = {dims[axis] for axis in axes.dropped(len(dims))}
    new = set(names_of(axes, dims)) - kept
    return without_those_along(companions, gone | new)


def without_those_along(
    companions: Sequence[Companion], names: Collection[str]
) -> tuple[Companion, ...]:
    """The companions that have no axis of these names."""
    return tuple(one for one in companions if not set(names).intersection(one.dims))


def _with_space(moved: Header, before: Header, ndim: int) -> Header:
    """The header of an array whose axes have moved, by where those of space were; it has no affine
    where one of them is lost.
    """
    assert moved.axes is not None
    kept = moved.axes.kept
    if not set(before.space) <= set(kept):
        return replace(moved, base_affine=None, space=FIRST)
    space = tuple(kept.index(axis) for axis in before.space)
    corner = _corner(moved.axes, before.further(ndim), before.corner, space)
    return replace(moved, space=space, corner=corner)


def names_of(axes: Axes, dims: Sequence[str]) -> tuple[str, ...]:
    """Names of the axes; new ones are numbered."""
    if not dims:
        return ()
    return tuple(
        f"dim_{position}" if axis is None else dims[axis] for position, axis in enumerate(axes.told)
    )


def _corner(
    axes: Axes, further: Sequence[int], corner: Sequence[float], space: Sequence[int]
) -> tuple[float, ...]:
    """Positions of the first voxel along the axes that are not of space, of `further` ones that
    were there before.
    """
    known = dict(zip(further, corner, strict=False))
    found = []
    for position, axis in enumerate(axes.kept):
        if position not in space:
            found.append(0.0 if axis is None else known.get(axis, 0.0))
    return tuple(found)


def _whole_shape(axes: Axes, whole_shape: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of the array that this one is a block of; (): none that is cut along lost axes."""
    lost = axes.dropped(len(shape))
    if not whole_shape or any(whole_shape[axis] != shape[axis] for axis in lost):
        return ()
    return axes.shape(whole_shape)


def _keeps_space(axes: Axes, ndim: int) -> bool:
    """Whether the first three axes are those that they were."""
    return axes.kept[:3] == tuple(range(min(3, ndim)))


def _motion(axes: Axes, shape: Sequence[int]) -> Array | None:
    """(4, 4) float64: voxel indices of an array with these axes to those of the other one (first
    three axes); None where its first three are no axes of space.
    """
    space = [axis for axis in range(3) if axis < len(shape)]
    kept = axes.kept[:3]
    left = [axis for axis in range(3) if axis not in kept]
    if any(axis in space for axis in axes.kept[3:]):
        return None
    motion = np.zeros((4, 4))
    motion[3, 3] = 1.0
    for position in range(3):
        axis = None
        is_one = True
        if position < axes.ndim:
            axis = axes.kept[position]
            is_one = axes.lengths[position] == 1
        if axis is None and is_one:
            axis = left.pop(0)
            thickness = ([*shape[:3], 1, 1, 1])[axis]
            motion[axis, position] = thickness
            motion[axis, 3] = (thickness - 1) / 2
        elif axis in space:
            motion[axis, position] = 1.0
        else:
            return None
    return motion


def _cut(one: Companion, header: Header, shape: Sequence[int]) -> Companion | None:
    values = one.values
    moves = zip(header.origin, header.step, strict=True)
    moved = dict(zip(header.dims, moves, strict=False))
    extents = dict(zip(header.dims, shape, strict=False))
    for axis, name in enumerate(one.dims):
        if name not in extents:
            continue
        first, step = moved.get(name, (0.0, 1.0))
        places = first + step * np.arange(extents[name])
        numbers = places.astype(np.int64)
        is_there = (numbers == places).all() and ((numbers >= 0) & (numbers < values.shape[axis]))
        if not np.all(is_there):
            return None
        values = np.take(values, numbers, axis)
    if one.name in VOXELS and one.attributes.get("long_name") == VOXEL_NUMBER:
        values = np.arange(values.size).reshape(values.shape)  # the affine is that of this block
    return replace(one, values=values)
