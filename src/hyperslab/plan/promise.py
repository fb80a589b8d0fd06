"""Promise: what a function returns for a block, said before it runs.

The words are Dask's: `drop_axis`, `new_axis`, `dtype`. A function that returns several arrays
promises each by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyperslab.arrays import DType
from hyperslab.arrays.axes import Axes, Axis, NamedAxes, numbered
from hyperslab.errors import UsageError

NewAxis = int | Sequence[int] | Mapping[int, int]
"Positions of new axes in the result, or position -> length; a length that is not said is 1."
Named = Sequence[str] | Mapping[str, Mapping[str, Any]]
"Names of what a function returns, or name -> dtype, drop_axis and new_axis of it."
NewAxes = tuple[tuple[int, int], ...]
"Position and length of every axis that the block does not have."
OfLength = tuple[tuple[int, ...], NewAxes]
"Extents of the axes of a block that are dropped, and the new axes for a block of these."
_NAME = r"[\w+-][\w.+-]*"
_OF_ONE = ("dtype", "drop_axis", "new_axis")


@dataclass(frozen=True, slots=True)
class Promise:
    """One array that a function returns for a block."""

    name: str = ""
    "Name by which the function returns it; '': it returns this array and no other."
    dtype: str | None = None
    "dtype; None: that of the block."
    drop_axis: tuple[int, ...] = ()
    "Axes of the block that the array no longer has."
    new_axis: NewAxes = ()
    "Position and length of every axis that the block does not have."
    is_asked: bool = field(default=False, compare=False)
    "Whether a user has asked for the dtype, to which values are converted where they fit."
    continued: tuple[int, ...] = ()
    """Axes of the block that are dropped, and new in the same place, as they got longer or shorter:
    such an axis keeps its name and how far its samples lie apart.
    """
    of_dtypes: tuple[tuple[str, str], ...] = ()
    """dtypes of blocks whose array has another one, with that: of a mean, float64 for int16 and
    float32 for float32. Empty where `dtype` is said.
    """

    of_lengths: tuple[OfLength, ...] = ()
    """The new axes for blocks of several lengths, where they differ: of numpy.diff, one element
    less than each of them. Blocks of further lengths have those of `new_axis`.
    """

    def made_of(self, block: DType) -> DType:
        """The dtype of the array for a block of this one."""
        of_its_own = dict(self.of_dtypes).get(block.name)
        return np.dtype(self.dtype or of_its_own or block)

    @property
    def changes_axes(self) -> bool:
        return bool(self.drop_axis or self.new_axis)

    def axes(self, ndim: int, block: Sequence[int] = ()) -> Axes:
        """The axes it has, for a block of `ndim`, and of this shape where that is known. Raises
        UsageError for those that cannot be.
        """
        drop = _within(self.drop_axis, ndim, "--drop-axis", "the block")
        new_axis = self._new_of(block)
        positions = [position for position, _ in new_axis]
        made = ndim - len(drop) + len(positions)
        new = _within(positions, made, "--new-axis", "the result")
        if drop and not made:
            raise UsageError(
                "--drop-axis: no axis of the block would be left; to reduce blocks to numbers,"
                " use a fold (hyperslab.Fold)"
            )
        lengths = [length for _, length in new_axis]
        continued = [(axis, axis) for axis in self.continued]
        return Axes.changed(ndim, drop, dict(zip(new, lengths, strict=True)), continued)

    def _new_of(self, block: Sequence[int]) -> NewAxes:
        """Positions and lengths of the new axes for a block of this shape; (): not known."""
        if not block or not self.of_lengths:
            return self.new_axis
        extents = tuple(block[axis] for axis in self.drop_axis)
        return dict(self.of_lengths).get(extents, self.new_axis)

    def __str__(self) -> str:
        words = [self.name, self.dtype or ""]
        if self.drop_axis:
            words.append(f"without axes {','.join(map(str, self.drop_axis))}")
        for position, length in self.new_axis:
            each = {length, *(dict(new)[position] for _, new in self.of_lengths)}
            told = " to ".join(map(str, sorted({min(each), max(each)})))
            words.append(f"axis {position} of {told}")
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Trial:
    """Why a function that was tried on made-up numbers has not shown what it returns."""

    error: str = ""
    "What went wrong; '': nothing."
    is_late: bool = False
    "Whether it was given up as it took too long."


UNTRIED = Trial()
"Nothing is wrong: it has shown what it returns, or was not tried."
PLAIN = (Promise(),)
"An array like the block."


def promised(
    dtype: str | None,
    drop_axis: Axis | Sequence[Axis],
    new_axis: NewAxis,
    outputs: Named | None,
    files: Sequence[NamedAxes],
) -> tuple[Promise, ...]:
    """What a function is said to return for blocks of files whose axes have these names. Raises
    UsageError.
    """
    drop = _dropped(drop_axis, files)
    new = _new_axes(new_axis)
    if outputs is None:
        return (Promise("", dtype, drop, new, dtype is not None),)
    names = _names(outputs)
    if not isinstance(outputs, Mapping):
        return tuple(Promise(name, dtype, drop, new, dtype is not None) for name in names)
    found = []
    for name in names:
        own = outputs[name]
        if odd := [word for word in own if word not in _OF_ONE]:
            raise UsageError(
                f"outputs: '{name}' has {', '.join(_OF_ONE)}, but no {odd[0]}: leave it out"
            )
        named = dtype_name(own.get("dtype", dtype))
        found.append(
            Promise(
                name,
                named,
                _dropped(own.get("drop_axis", drop), files),
                _new_axes(own.get("new_axis", dict(new))),
                named is not None,
            )
        )
    return tuple(found)


def require_names(names: Sequence[str]) -> None:
    """Raise UsageError for names of arrays that cannot be part of the names of files."""
    for name in names:
        if not re.fullmatch(_NAME, str(name)):
            raise UsageError(
                f"--outputs {name!r}: files are named by it: use letters, digits, '_', '-', '+'"
                " and '.'"
            )
    if len(set(names)) < len(names):
        raise UsageError(f"--outputs {','.join(names)}: give each a name of its own")


def dtype_name(dtype: Any) -> str | None:
    """The name of a dtype that a user has given. Raises UsageError."""
    if dtype is None:
        return None
    try:
        name: str = np.dtype(dtype).name
        return name
    except TypeError:
        raise UsageError(
            f"--dtype {dtype}: not a NumPy dtype such as uint8, int16 or float32"
        ) from None


def _names(outputs: Named) -> list[str]:
    if isinstance(outputs, str):
        raise UsageError(f"outputs={outputs!r}: give a list of names, such as [{outputs!r}]")
    names = list(outputs)
    if not names:
        raise UsageError("--outputs: name at least one array")
    require_names(names)
    return names


def _dropped(given: Axis | Sequence[Axis], files: Sequence[NamedAxes]) -> tuple[int, ...]:
    return _axes("--drop-axis", numbered("--drop-axis", given, files))


def _axes(flag: str, given: int | Sequence[int]) -> tuple[int, ...]:
    axes = (given,) if isinstance(given, int) else tuple(given)
    if any(isinstance(axis, bool) or not isinstance(axis, int) for axis in axes):
        raise UsageError(f"{flag} {given}: give numbers of axes, from 0 on")
    return axes


def _new_axes(given: NewAxis) -> tuple[tuple[int, int], ...]:
    if not isinstance(given, Mapping):
        return tuple((axis, 1) for axis in _axes("--new-axis", given))
    positions = _axes("--new-axis", tuple(given))
    lengths = _axes("--new-axis", tuple(given.values()))
    if min(lengths, default=1) < 1:
        raise UsageError(f"--new-axis {dict(given)}: give lengths of at least 1")
    return tuple(zip(positions, lengths, strict=True))


def _within(axes: Sequence[int], ndim: int, flag: str, what: str) -> tuple[int, ...]:
    """Axes counted from the first; negative ones are counted from the last."""
    shown = ",".join(map(str, axes))
    if any(not -ndim <= axis < ndim for axis in axes):
        raise UsageError(f"{flag} {shown}: {what} has axes 0 to {ndim - 1}")
    found = tuple(axis % ndim for axis in axes)
    if len(set(found)) < len(found):
        raise UsageError(f"{flag} {shown} names an axis twice")
    return found
