"""Coordinates in HDF5 that say where an array lies: dimension scales, and those of lost axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.formats.conventions import placement
from hyperslab.formats.conventions.packing import ATTRIBUTES
from hyperslab.formats.conventions.uncut import SAID, SPACE_UNITS
from hyperslab.formats.conventions.variables import Coordinate
from hyperslab.formats.hdf5.file import require_inside
from hyperslab.formats.hdf5.heap import check_attributes, readable
from hyperslab.formats.hdf5.netcdf4 import is_dimension, is_scale, name_of, scales_of
from hyperslab.formats.hdf5.storage import require_filters
from hyperslab.formats.hdf5.types import attribute, is_number

_SAID = frozenset(("units", "long_name", "axis", "direction_cosines", "start", "step", *ATTRIBUTES))
_OF_ARRAY = (*SAID, SPACE_UNITS, "coordinates")


def coordinates_of(dataset: Any, path: str) -> dict[str, Coordinate]:
    """The coordinates that say where a dataset lies, by their names."""
    if not dataset.ndim or is_scale(dataset):
        return {}
    attributes = _attributes(dataset, _OF_ARRAY)
    found = {}
    for name, item in _named(dataset, attributes):
        check_attributes([item], path)
        said = _attributes(item, _SAID)
        if placement.is_asked(name, said, attributes):
            found[name] = placement.coordinate(name, _values(item, path), said)
    return found


def _attributes(item: Any, names: Any) -> dict[str, Any]:
    return {name: attribute(item, name) for name in names if name in item.attrs}


def _named(dataset: Any, attributes: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Datasets that may be coordinates of a dataset."""
    import h5py

    scales = [scale for scale in scales_of(dataset) if scale is not None]
    along = {name_of(scale): scale for scale in scales}
    for name in placement.wanted(list(along), attributes):
        item = along.get(name)
        if item is None:
            item = dataset.parent.get(name)
        if not isinstance(item, h5py.Dataset) or is_dimension(item) or not is_number(item):
            continue
        if item.ndim <= 1 and item.size <= placement.LARGEST_SIZE:
            yield name, item


def _values(item: Any, path: str) -> Any:
    require_inside(path, item.file, [item])
    require_filters(item)
    with readable(item, path) as elements:
        return np.asarray(elements[()])
