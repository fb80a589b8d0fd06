"""The dimensions of an HDF5 group: which scale stands for which name, and names for axes without a
scale.

A name stands for one scale. A dataset may have scales that are not known in the group, since a link
has led to it or to them. Such a scale gives its name to a dimension, unless the name is that of
something else, whose extent and places the dataset would seem to have: then the dimension is one
more phony_dim.

- what netCDF-4 files and other HDF5 files have is named as by NetCDF-C and by h5netcdf
  (`tests/connectors/test_xarray_files.py`), what links lead to never by a name of something else
  (`tests/connectors/test_xarray_links.py`)
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.formats.hdf5.file import place_of
from hyperslab.formats.hdf5.netcdf4 import grown_extent, name_of


@dataclass(frozen=True, slots=True)
class Dimension:
    """A named dimension."""

    extent: int
    is_unlimited: bool = False
    place: tuple[Any, ...] | None = None
    "Place of its scale in HDF5's storage; None where there is none."


Dimensions = ChainMap[str, Dimension]
"Dimensions by name: those of a group first, then those of the groups above it."


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """Names of the scales of a group's datasets."""

    known: Dimensions
    names: dict[tuple[Any, ...], str]
    "Names by the place of the scale, as in Dimension."
    strange: dict[str, Dimension]
    "Dimensions that are not known in the group; found one by one."
    numbers: Iterator[int]
    "Numbers of phony dimensions."


def of_scale(scale: Any) -> Dimension:
    """The dimension that an h5py dataset stands for."""
    if scale.maxshape[0] is not None:
        return Dimension(int(scale.shape[0]), False, place_of(scale))
    return Dimension(grown_extent(scale), True, place_of(scale))


def scales_in(known: Dimensions, numbers: Iterator[int]) -> Scales:
    """The scales of the dimensions that are known in a group, of which those above may be
    hidden.
    """
    names: dict[tuple[Any, ...], str] = {}
    for dimensions in known.maps:
        for name, dimension in dimensions.items():
            if dimension.place is not None and known[name] is dimension:
                names.setdefault(dimension.place, name)
    return Scales(known, names, {}, numbers)


def name_in(scales: Scales, scale: Any) -> str:
    """What a scale is called; '' for None and for a scale without a name."""
    place = None
    if scale is not None:
        place = place_of(scale)
    if place is None:
        return ""
    if place not in scales.names:
        scales.names[place] = _strange_name(scales, scale)
    return scales.names[place]


def _strange_name(scales: Scales, scale: Any) -> str:
    name = name_of(scale)
    if name in scales.known or name in scales.strange:
        name = f"phony_dim_{next(scales.numbers)}"
    if name:
        scales.strange[name] = of_scale(scale)
    return name


def phony(
    axes: Sequence[tuple[tuple[str, ...], tuple[int, ...]]],
    own: Mapping[str, Dimension],
    numbers: Iterator[int],
) -> dict[str, Dimension]:
    """Make as many more dimensions of each extent as one of the datasets has axes without a scale.

    `axes` are names and extents of the axes of each dataset, `own` the dimensions that the group
    has.
    """
    scaled = Counter(dimension.extent for dimension in own.values() if not dimension.is_unlimited)
    needed: Counter[int] = Counter()
    for names, shape in axes:
        without = {extent for name, extent in zip(names, shape, strict=True) if not name}
        needed |= Counter(extent for extent in shape if extent in without)
    return {
        f"phony_dim_{next(numbers)}": Dimension(extent)
        for extent, count in needed.items()
        for _ in range(scaled[extent], count)
    }


def all_named(
    names: Sequence[str], shape: Sequence[int], own: Mapping[str, Dimension]
) -> tuple[str, ...]:
    """Names of all axes: of those without a scale, the first ones of their extent in the group."""
    named = list(names)
    for axis, extent in enumerate(shape):
        if not named[axis]:
            named[axis] = next(
                name for name, dim in own.items() if dim.extent == extent and name not in named
            )
    return tuple(named)
