"""Variables of a group, as netCDF sees the files of all formats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.references import OF_ARRAYS, OF_COORDINATES, named_in
from hyperslab.arrays.source import Values


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable, and what to open for its values."""

    name: str
    path: str
    "Name of the array in the file, as its format's `open` takes it."
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    "Extents of the dimensions."
    stored_shape: tuple[int, ...]
    "Shape in the file; the rest, of records that only other variables have, is `fill`."
    dtype: np.dtype[Any]
    "dtype of the values: in native byte order; object for text and lists of any length."
    attributes: Mapping[str, Any]
    encoding: Mapping[str, Any]
    "How it is stored, in xarray's words; numpy's dtype or `str` under 'dtype'."
    fill: Any = 0
    is_text: bool = False
    values: Values = "stored"
    axes: tuple[int, ...] = ()
    "Axes from the slowest to the fastest, as in ArraySource; (): in order."
    unread: Mapping[str, str] = field(default_factory=dict)
    "Names of attributes that cannot be read, and why not."

    @property
    def size(self) -> int:
        """Number of its elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """The places of the samples along one dimension, of which it has the name."""

    name: str
    values: Array
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Variables and attributes of a group."""

    variables: tuple[Variable, ...]
    attributes: Mapping[str, Any]
    unlimited: frozenset[str]
    "Dimensions that may grow."
    left_out: Mapping[str, str] = field(default_factory=dict)
    "Names of what cannot be read, and why not."
    unread: Mapping[str, str] = field(default_factory=dict)
    "Names of attributes that cannot be read, and why not."
    coordinates: tuple[Coordinate, ...] = ()
    "Coordinates that no variable of the file holds: those of an image."


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Groups of a file, and which state of the file they are of."""

    path: str
    format: str
    groups: Mapping[str, Group]
    "Groups by their paths, '/' and '/a/b', parents before children."
    file_size: int
    mtime_ns: int


def without_auxiliary(paths: Sequence[str], every: Iterable[Mapping[str, Any]]) -> list[str]:
    """Paths of the variables that no attributes name as what belongs to another; all, where none
    would be left.
    """
    named = {name for said in every for name in named_in(said, (*OF_ARRAYS, *OF_COORDINATES))}
    left = [path for path in paths if path.rpartition("/")[2] not in named]
    return left or list(paths)
