"""Dimension scales, coordinates and what these need in new HDF5 and netCDF-4 files.

The arrays of a group share them: those of one name and extent, with the same values or none. A
variable of several axes that has the name of its first one is the scale of that one in netCDF-4,
and says by numbers which its other dimensions are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays.header import Companion
from hyperslab.arrays.sink import ArraySink
from hyperslab.formats.free_names import dataset_name, folders_of, is_name
from hyperslab.formats.hdf5 import companions
from hyperslab.formats.hdf5.attributes import is_netcdf, said_by
from hyperslab.formats.place import companions_beside


class _Variable(NamedTuple):
    """A variable that may be the scale of its first dimension."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    array: Any = None
    "Dataset of an array; None for what goes with arrays."
    values: Companion | None = None

    def is_coordinate(self, name: str, extent: int) -> bool:
        """Whether it holds the coordinates along a dimension; an array, along its only one."""
        is_one = self.values is not None or len(self.dims) == 1
        return is_one and self.may_be_scale(name, extent)

    def may_be_scale(self, name: str, extent: int) -> bool:
        """Whether it is the scale of its first dimension, as netCDF-4 has it."""
        return self.dims[:1] == (name,) and self.shape[:1] == (extent,)


@dataclass(slots=True)
class Place:
    """A group of a new file in which arrays have their scales and coordinates."""

    file: Any
    path: str
    taken: frozenset[str]
    "Names of arrays, and of groups, in it."
    said: Any
    "What makes an attribute as the file has it."
    is_netcdf: bool
    variables: Mapping[str, _Variable]
    numbers: Iterator[int]
    "Numbers of netCDF's dimensions, each of which a file has once."
    scales: dict[tuple[str, int], Any] = field(default_factory=dict)
    "Scales by names and extents of dimensions."
    written: dict[str, Any] = field(default_factory=dict)
    "Datasets of the variables that are in it already."

    def add_axes(self, dataset: Any, sink: ArraySink) -> None:
        """Give the axes of an array names and scales, and the group what else goes with it."""
        dims = sink.header.dims
        here = [one for one in _beside(sink) if one.name not in self.taken]
        if self.is_netcdf:
            scales = self._every_scale(dims, sink.shape)
            self.file.attrs["_NCProperties"] = np.bytes_("version=2,hyperslab")
        elif dims and len(dims) == dataset.ndim:
            for axis, label in enumerate(dims):
                dataset.dims[axis].label = label
            scales = self._known_scales(dims, sink.shape, here)
        else:
            return
        _attach(dataset, scales)
        for one in here:
            self._add(one)

    def _every_scale(self, dims: Sequence[str], shape: Sequence[int]) -> list[Any]:
        """A scale for every dimension: its coordinates, or one without values, as netCDF-4 has
        those that have no coordinates.
        """
        return [self._scale(name, extent) for name, extent in zip(dims, shape, strict=True)]

    def _known_scales(
        self, dims: Sequence[str], shape: Sequence[int], here: Sequence[Companion]
    ) -> list[Any]:
        """A scale for every axis, where there are coordinates along one; else none for any."""
        pairs = list(zip(dims, shape, strict=True))
        if not any(self._has_coordinates(*pair) or pair in self.scales for pair in pairs):
            return [None for _ in pairs]
        names = {*self.taken, *self.variables, *(one.name for one in here)}
        scales: list[Any] = []
        for name, extent in pairs:
            if self._has_coordinates(name, extent):
                scales.append(self._scale(name, extent))
            elif name in names or not is_name(name) or self._is_other(name, extent):
                scales.append(None)
            else:
                scales.append(self._scale(name, extent))
        return scales

    def _has_coordinates(self, name: str, extent: int) -> bool:
        return name in self.variables and self.variables[name].is_coordinate(name, extent)

    def _is_other(self, name: str, extent: int) -> bool:
        """Whether the group has a scale of this name and another extent."""
        return any(known == name and n != extent for known, n in self.scales)

    def _scale(self, name: str, extent: int) -> Any:
        """The dimension scale of this name: a variable of the group, or one without values."""
        wanted = (name, extent)
        if wanted in self.scales:
            return self.scales[wanted]
        one = self.variables.get(name)
        if one is None or not one.may_be_scale(name, extent):
            one = None
            scale = _without_values(self._group, name, extent)
        else:
            scale = self._dataset(one)
            scale.make_scale(name)
        self.scales[wanted] = scale
        if self.is_netcdf:
            scale.attrs.create("_Netcdf4Dimid", next(self.numbers), dtype="i4")
        if self.is_netcdf and one is not None and len(one.dims) > 1:
            every = self._every_scale(one.dims, one.shape)
            numbers = [each.attrs["_Netcdf4Dimid"] for each in every]
            scale.attrs.create("_Netcdf4Coordinates", numbers, dtype="i4")
        return scale

    def _dataset(self, one: _Variable) -> Any:
        if one.values is None:
            return one.array
        if one.values.name not in self.written:
            made = companions.write(self._group, one.values, self.said)
            self.written[one.values.name] = made
        return self.written[one.values.name]

    def _add(self, one: Companion) -> None:
        """Put a variable into the group, with the scales of its axes."""
        if one.name in self.written:
            return
        pairs = list(zip(one.dims, one.values.shape, strict=True))
        if one.dims[:1] == (one.name,):
            self._scale(*pairs[0])
            return
        dataset = self._dataset(self.variables[one.name])
        if self.is_netcdf:
            scales = self._every_scale(one.dims, one.values.shape)
        else:
            scales = self._known_scales(one.dims, one.values.shape, [one])
        _attach(dataset, scales)

    @property
    def _group(self) -> Any:
        if not self.path:
            return self.file
        return self.file.require_group(self.path)


def places_of(file: Any, datasets: Sequence[Any], sinks: Sequence[ArraySink]) -> list[Place]:
    """The group in which each array has its scales: the root for the only one of a file, else its
    own.
    """
    names = [dataset_name(sink) for sink in sinks]
    folders = folders_of(sinks)
    numbers = itertools.count()
    found: dict[str, Place] = {}
    for folder in folders:
        if folder in found:
            continue
        variables: dict[str, _Variable] = {}
        for other, sink in zip(folders, sinks, strict=True):
            if other == folder:
                variables |= {one.name: _of(one) for one in _beside(sink)}
        taken = frozenset(_members(folder, names))
        variables = {name: one for name, one in variables.items() if name not in taken}
        if len(sinks) > 1:
            for other, name, dataset, sink in zip(folders, names, datasets, sinks, strict=True):
                if other == folder:
                    own = name.rpartition("/")[2]
                    variables[own] = _Variable(sink.header.dims, sink.shape, dataset)
        about = (said_by(sinks[0]), is_netcdf(sinks[0].path))
        found[folder] = Place(file, folder, taken, *about, variables, numbers)
    return [found[folder] for folder in folders]


def _of(one: Companion) -> _Variable:
    return _Variable(one.dims, one.values.shape, None, one)


def _beside(sink: ArraySink) -> list[Companion]:
    return companions_beside(sink.header, sink.shape)


def _members(path: str, names: Sequence[str]) -> Iterator[str]:
    """What a group holds of these arrays: their names, or those of groups that they are in."""
    start = ""
    if path:
        start = f"{path}/"
    for name in names:
        if name.startswith(start):
            yield name.removeprefix(start).partition("/")[0]


def _attach(dataset: Any, scales: Sequence[Any]) -> None:
    """Attach the scales of its axes to a dataset that is no scale itself."""
    if any(scale is not None and scale.id == dataset.id for scale in scales):
        return
    for axis, scale in enumerate(scales):
        if scale is not None:
            dataset.dims[axis].attach_scale(scale)


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
