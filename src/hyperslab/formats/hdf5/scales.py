"""Dimension scales, coordinates and what these need in new HDF5 and netCDF-4 files.

The arrays of a group share them: those of one name and extent, with the same values or none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays.header import Companion
from hyperslab.arrays.sink import ArraySink
from hyperslab.formats.hdf5 import companions
from hyperslab.formats.hdf5.attributes import dataset_name, is_netcdf, said_by
from hyperslab.formats.place import companions_beside

_NETCDF_NAME_LENGTH = 256


class _Scale(NamedTuple):
    """A dimension scale of a group."""

    dataset: Any
    extent: int
    values: Companion | None
    "Coordinates that it holds; None: none, or those of an array of its own."


@dataclass(slots=True)
class Place:
    """A group of a new file in which arrays have their scales and coordinates."""

    file: Any
    path: str
    taken: frozenset[str]
    "Names of arrays, and of groups, in it."
    arrays: Mapping[str, Any]
    "Arrays in it of one axis that has their own name: the coordinates along that axis."
    numbers: Iterator[int]
    "Numbers of netCDF's dimensions, each of which a file has once."
    scales: dict[str, _Scale] = field(default_factory=dict)
    others: dict[str, Companion] = field(default_factory=dict)
    "Variables that are no scales, and are in it already."

    def add_axes(self, dataset: Any, sink: ArraySink) -> None:
        """Give the axes of an array names and scales, and the group what else goes with it."""
        if is_netcdf(sink.path):
            self._add_dimensions(dataset, sink)
        elif sink.header.dims and len(sink.header.dims) == dataset.ndim:
            for axis, label in enumerate(sink.header.dims):
                dataset.dims[axis].label = label
            self._add_scales(dataset, sink)

    def _add_scales(self, dataset: Any, sink: ArraySink) -> None:
        """A dimension scale for every axis whose coordinates are known; then other companions."""
        here = [one for one in self._beside(sink) if self._fits(one)]
        scales = {}
        dims = sink.header.dims
        for one in here:
            if one.dims == (one.name,) and one.name in dims:
                scales[one.name] = self._coordinate(one, sink)
        extents = dict(zip(dims, sink.shape, strict=True))
        for name in self.arrays:
            if extents.get(name) == self.arrays[name].shape[0]:
                scales[name] = self._dimension(name, extents[name], sink)
        if scales:  # readers that go by names want every axis to have one
            taken = {*self.taken, *(one.name for one in here)}
            for one in here:
                pairs = zip(one.dims, one.values.shape, strict=True)
                extents |= {name: n for name, n in pairs if name not in extents}
            for name, n in extents.items():
                if name not in taken and _is_name(name) and self._is_free(name, n, None):
                    scales[name] = self._dimension(name, n, sink)
        _attach_all(dataset, dims, scales)
        for one in here:
            if one.name not in scales:
                self._companion(one, sink, scales)

    def _add_dimensions(self, dataset: Any, sink: ArraySink) -> None:
        """A dimension scale for every dimension: its coordinates, or one without values, as
        netCDF-4 has those that have no coordinates. Then the other companions.
        """
        beside = {one.name: one for one in self._beside(sink)}
        names = self._dimension_names(sink, beside)
        here = {}
        if names == list(sink.header.dims):
            here = {name: one for name, one in beside.items() if self._fits(one)}
        extents = dict(zip(names, sink.shape, strict=True))
        for one in here.values():
            pairs = zip(one.dims, one.values.shape, strict=True)
            extents |= {name: n for name, n in pairs if name not in extents}
        scales = {}
        for dim, extent in extents.items():
            if dim in here and here[dim].dims == (dim,):
                scales[dim] = self._coordinate(here.pop(dim), sink)
            else:
                scales[dim] = self._dimension(dim, extent, sink)
        _attach_all(dataset, names, scales)
        for one in here.values():
            if one.name not in scales:
                self._companion(one, sink, scales)
        self.file.attrs["_NCProperties"] = np.bytes_("version=2,hyperslab")

    def _beside(self, sink: ArraySink) -> list[Companion]:
        """What goes with an array, but for what is an array, or a group, itself."""
        found = companions_beside(sink.header, sink.shape)
        return [one for one in found if one.name not in self.taken]

    def _fits(self, one: Companion) -> bool:
        """Whether the axes of a variable, and its name, are those that the group has."""
        pairs = zip(one.dims, one.values.shape, strict=True)
        if not all(self._is_free(name, n, None) or name == one.name for name, n in pairs):
            return False
        if one.dims == (one.name,):
            return self._is_free(one.name, one.values.shape[0], one)
        known = self.others.get(one.name)
        return one.name not in self.scales and (known is None or _is_same(known, one))

    def _is_free(self, name: str, extent: int, values: Companion | None) -> bool:
        """Whether the group can have a scale of this name and extent, with these values or any."""
        if name in self.arrays:
            return bool(self.arrays[name].shape == (extent,))
        if name in self.taken or name in self.others:
            return False
        known = self.scales.get(name)
        if known is None:
            return True
        if values is None or known.extent != extent:
            return known.extent == extent
        return known.values is not None and _is_same(known.values, values)

    def _coordinate(self, one: Companion, sink: ArraySink) -> Any:
        """The dimension scale that holds these values."""
        if one.name not in self.scales:
            scale = companions.write(self._group, one, said_by(sink))
            scale.make_scale(one.name)
            self._keep(sink, one.name, _Scale(scale, one.values.shape[0], one))
        return self.scales[one.name].dataset

    def _dimension(self, name: str, extent: int, sink: ArraySink) -> Any:
        """The dimension scale of this name: an array of the group, or one without values."""
        if name not in self.scales:
            scale = self.arrays.get(name)
            if scale is None:
                scale = _without_values(self._group, name, extent)
            else:
                scale.make_scale(name)
            self._keep(sink, name, _Scale(scale, extent, None))
        return self.scales[name].dataset

    def _keep(self, sink: ArraySink, name: str, scale: _Scale) -> None:
        self.scales[name] = scale
        if is_netcdf(sink.path):
            scale.dataset.attrs.create("_Netcdf4Dimid", next(self.numbers), dtype="i4")

    def _companion(self, one: Companion, sink: ArraySink, scales: Mapping[str, Any]) -> None:
        if one.name not in self.others:
            self.others[one.name] = one
            companions.attach(companions.write(self._group, one, said_by(sink)), one, scales)

    @property
    def _group(self) -> Any:
        if not self.path:
            return self.file
        return self.file[self.path]

    def _dimension_names(self, sink: ArraySink, beside: Mapping[str, Companion]) -> list[str]:
        """One name per axis, none twice and none that an array, which would be its coordinates, or
        the group has for something else.
        """
        given: Sequence[str] = ()
        if len(sink.header.dims) == len(sink.shape):
            given = sink.header.dims
        names = [str(name) for name in given]
        pairs = zip(names, sink.shape, strict=False)
        is_right = all(_is_name(name) and self._is_known(name, n, beside) for name, n in pairs)
        if is_right and names and len(set(names)) == len(names):
            return names
        chosen: list[str] = []
        for extent in sink.shape:
            numbered = (f"dim_{number}" for number in itertools.count())
            chosen.append(
                next(n for n in numbered if n not in chosen and self._is_free(n, extent, None))
            )
        return chosen

    def _is_known(self, name: str, extent: int, beside: Mapping[str, Companion]) -> bool:
        """Whether an axis may have a name here, with the coordinates that the array brings."""
        one = beside.get(name)
        if one is not None and one.dims != (name,):
            one = None
        return self._is_free(name, extent, one)


def places_of(file: Any, datasets: Sequence[Any], sinks: Sequence[ArraySink]) -> list[Place]:
    """The group in which each array has its scales: the root for the only one of a file, else its
    own.
    """
    names = [dataset_name(sink) for sink in sinks]
    numbers = itertools.count()
    if len(sinks) == 1:
        return [Place(file, "", frozenset({names[0].partition("/")[0]}), {}, numbers)]
    found: dict[str, Place] = {}
    for name in names:
        path = name.rpartition("/")[0]
        if path not in found:
            arrays = {}
            for other, dataset, sink in zip(names, datasets, sinks, strict=True):
                folder, _, own = other.rpartition("/")
                if folder == path and sink.header.dims == (own,):
                    arrays[own] = dataset
            taken = frozenset(_members(path, names))
            found[path] = Place(file, path, taken, arrays, numbers)
    return [found[name.rpartition("/")[0]] for name in names]


def _members(path: str, names: Sequence[str]) -> Iterator[str]:
    """What a group holds of these arrays: their names, or those of groups that they are in."""
    start = ""
    if path:
        start = f"{path}/"
    for name in names:
        if name.startswith(start):
            yield name.removeprefix(start).partition("/")[0]


def _attach_all(dataset: Any, names: Sequence[str], scales: Mapping[str, Any]) -> None:
    for axis, name in enumerate(names):
        if name in scales and scales[name].id != dataset.id:
            dataset.dims[axis].attach_scale(scales[name])


def _without_values(group: Any, dim: str, extent: int) -> Any:
    """A dimension scale without values."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_obj_track_times(False)
    space = h5py.h5s.create_simple((extent,))
    scale = h5py.Dataset(
        h5py.h5d.create(group.id, dim.encode(), h5py.h5t.IEEE_F32BE, space, creation)
    )
    scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{extent:10d}")
    return scale


def _is_same(one: Companion, other: Companion) -> bool:
    """Whether two variables hold the same."""
    if one is other:
        return True
    said = (one.dims, one.values.dtype, one.values.shape)
    return said == (other.dims, other.values.dtype, other.values.shape) and (
        one.values.tobytes() == other.values.tobytes()
    )


def _is_name(name: str) -> bool:
    """Whether netCDF may have a dimension of this name."""
    return bool(name.strip(".")) and "/" not in name and len(name) <= _NETCDF_NAME_LENGTH
