"""HDF5 datasets, through h5py: where their chunks lie, and the reference reader for those that
cannot be said so.

The chunk table is exact or absent: `eligible` names the first of many reasons for which a dataset
is left to h5py. A dataset keeps its place in an attribute 'affine', 16 numbers; without it a
block's place is counted in voxels.

netCDF-4 and MINC2 files are HDF5 files: `packing` and `minc` say what their values mean and what
their axes are.

- values: stored ones equal h5py's (`tests/formats/test_hdf5.py`), real ones netCDF4-python's in any
  HDF5 file (`tests/formats/test_netcdf.py`), and nibabel's for the image of a MINC2 file
  (`tests/formats/test_minc.py`)
- axes have the extents of the dataset itself, also where another variable has more records of an
  unlimited dimension
- a corrupt file raises FormatError, never another exception (`tests/formats/test_detect.py`)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import Header, Omitted
from hyperslab.arrays.quantities import OF_TRUTH
from hyperslab.arrays.references import OF_ARRAYS, OF_COORDINATES
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArrayInfo, ArraySource
from hyperslab.errors import FormatError, UsageError, suggest
from hyperslab.formats.conventions.packing import ATTRIBUTES, Packing, truth_or, unpack
from hyperslab.formats.conventions.variables import (
    Coordinate,
    without_auxiliary,
)
from hyperslab.formats.hdf5.coordinates import coordinates_of
from hyperslab.formats.hdf5.file import by_own_name, errors, file_of, opened, require_inside
from hyperslab.formats.hdf5.heap import check_attributes, readable
from hyperslab.formats.hdf5.netcdf4 import (
    NOT_COORDINATE,
    dimension_names,
    fills_by_default,
    is_dimension,
    is_scale,
)
from hyperslab.formats.hdf5.repetition import may_differ, read_twice
from hyperslab.formats.hdf5.sinks import encode, index, sink, together
from hyperslab.formats.hdf5.storage import Storage, locate, require_filters
from hyperslab.formats.hdf5.tree import datasets, is_written_here
from hyperslab.formats.hdf5.types import attribute, description, element, is_number, is_record
from hyperslab.formats.hdf5.virtual import part_sink, parts_folder, require_parts, write_index
from hyperslab.formats.identity import identify_path
from hyperslab.formats.netcdf import minc
from hyperslab.formats.place import header_of
from hyperslab.storage.location import Remote
from hyperslab.storage.remote.file import size_of

__all__ = [
    "arrays",
    "candidates",
    "encode",
    "index",
    "open",
    "part_sink",
    "parts_folder",
    "read_reference",
    "sink",
    "together",
    "write_index",
]

_INTERNAL_ATTRIBUTES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
_DIMENSIONS2 = "/minc-2.0/dimensions"
_SHOWN_ELEMENTS = 1024
_MOST_ASKED = 1000
"Datasets of a file that are asked which others belong to them."


def arrays(path: str) -> list[ArrayInfo]:
    """Every dataset that has elements, by its path in the file, but for netCDF's dimensions without
    values.
    """
    with opened(path) as file:
        return [
            _info(dataset)
            for dataset in datasets(file)
            if dataset.shape is not None and not is_dimension(dataset)
        ]


def candidates(path: str) -> list[str]:
    """Names of the numeric datasets of one or more dimensions that are not dimension scales, nor
    named by another as its coordinates, bounds or grid mapping; of MINC2 its image.

    Where there is none, those whose elements are several numbers, such as colours.
    """
    with opened(path) as file:
        if minc.IMAGE2 in file:
            return [minc.IMAGE2]
        arrays = [dataset for dataset in datasets(file) if dataset.shape and not is_scale(dataset)]
        chosen = [dataset for dataset in arrays if is_number(dataset)] or list(
            filter(is_record, arrays)
        )
        names = [str(dataset.name) for dataset in chosen]
        if not 1 < len(chosen) <= _MOST_ASKED:
            return names
        return without_auxiliary(names, [_naming(one) for one in datasets(file)])


def _naming(dataset: Any) -> dict[str, Any]:
    """The attributes of a dataset that name variables which belong to it."""
    names = (*OF_ARRAYS, *OF_COORDINATES)
    return {name: attribute(dataset, name) for name in names if name in dataset.attrs}


def open(path: str, name: str) -> ArraySource:  # noqa: A001  # the formats share this name
    """Describe one dataset. Raises UsageError if it is not there, FormatError if it is corrupt or
    holds no numbers.
    """
    before = None
    if not isinstance(path, Remote):
        before = os.stat(path)
    with opened(path) as file, errors(path, name):
        require_inside(path, file, [dataset := _dataset(file, path, name)])
        dataset = by_own_name(dataset, file, name)
        if (linked := file_of(dataset, path)) != path:
            return open(linked, str(dataset.name))
        if is_written_here(file.id):
            before = os.stat(path)
        described = _described_by(dataset, path)
        require_inside(path, file, described)
        require_parts(dataset, path)
        check_attributes(described, path)
        dtype, inner = _element(dataset)
        shape = (*(int(n) for n in dataset.shape), *inner)
        storage = locate(dataset, size_of(path))
        meant, dims, header = _meaning(dataset, dtype, path)
        stored_shape = ()
        if dataset.chunks:
            stored_shape = (*dataset.chunks, *inner)
        metadata = _metadata(str(dataset.name), shape, dtype, storage, header, meant)
        state = identify_path(path, metadata, before=before)
        return ArraySource(
            url=path,
            name=str(dataset.name),
            format="hdf5",
            shape=shape,
            dims=(*dims, *(f"element_{axis}" for axis in range(len(inner)))),
            axes=tuple(range(len(shape))),
            stored=dtype,
            real=meant.real,
            chunks=storage.chunks,
            reason=storage.reason,
            codecs=storage.codecs,
            scaling=meant.scaling,
            unscalable=meant.unscalable,
            fill=_fill(storage.fill, dtype),
            chunk_shape=stored_shape,
            header=header,
            nbytes_stored=int(dataset.id.get_storage_size()),
            file_size=state.file_size,
            mtime_ns=state.mtime_ns,
            version=state.version,
        )


def read_reference(source: ArraySource, slab: Hyperslab, threads: int = 1) -> Array:
    """Stored values of a region through h5py; it cannot walk backwards, so a flipped region is read
    and turned.

    Twice, where filters may give values that are not in the file.
    """
    if slab.size == 0:
        return np.empty(slab.count, source.dtype("stored"))
    with opened(source.url) as file, errors(source.url, source.name):
        dataset = file[source.name]
        require_filters(dataset)
        if not may_differ(dataset):
            return _stored(source, slab, dataset)
    return read_twice(partial(_opened_stored, source, slab), f"{source.url}::{source.name}")


def _opened_stored(source: ArraySource, slab: Hyperslab) -> Array:
    """Stored values of a region, of a file that is opened for them."""
    with opened(source.url) as file, errors(source.url, source.name):
        return _stored(source, slab, file[source.name])


def _stored(source: ArraySource, slab: Hyperslab, dataset: Any) -> Array:
    """Stored values of a region of an h5py dataset."""
    region = slab.permute(source.axes)
    low, high = region.bounds
    forward = tuple(slice(a, z, abs(s)) for a, z, s in zip(low, high, region.stride, strict=True))
    turn = tuple(slice(None, None, -1 if s < 0 else 1) for s in region.stride)
    within: tuple[Any, ...] = (..., *forward[dataset.ndim :])
    with readable(dataset, source.url) as elements:
        block: Array = np.asarray(elements[forward[: dataset.ndim] or ...])[within]
    if source.stored.kind == "b" and block.dtype == np.int8:
        block = block.view(np.bool_)
    turned = np.asarray(block[turn]).astype(source.dtype("stored"), copy=False)
    if turned.ndim != source.ndim:
        raise FormatError(f"{source.label}: its elements changed; open the file again")
    return turned.transpose(np.argsort(source.axes))


def _element(dataset: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype of the stored values of a dataset, bool also for those of netCDF, and the shape of
    one element. Raises FormatError.
    """
    dtype, inner = element(dataset)
    if dtype != np.int8:
        return dtype, inner
    names = [name for name in (*OF_TRUTH, *ATTRIBUTES) if name in dataset.attrs]
    return truth_or(dtype, {name: attribute(dataset, name) for name in names}), inner


def _fill(fill: Any, dtype: np.dtype[Any]) -> Any:
    """What stands where nothing was written, of the stored dtype."""
    if fill is None or dtype.kind != "b":
        return fill
    return np.asarray(fill).astype(dtype)


def _info(dataset: Any) -> ArrayInfo:
    word, inner = description(dataset)
    if word == "int8":
        word = str(_element(dataset)[0])
    return ArrayInfo(str(dataset.name), tuple(int(n) for n in (*dataset.shape, *inner)), word)


def _dataset(file: Any, path: str, name: str) -> Any:
    import h5py

    folder, _, last = name.rpartition("/")
    item = file.get(name)
    if item is None or (isinstance(item, h5py.Dataset) and is_dimension(item)):
        item = file.get(f"{folder}/{NOT_COORDINATE}{last}") or item
    if item is None:
        raise UsageError(
            f"{path} holds no '{name}'{suggest(name, candidates(path))}; 'hyperslab info {path}'"
            " lists what it holds"
        )
    if isinstance(item, h5py.Dataset) and is_dimension(item):
        raise UsageError(f"{path}::{name} is a netCDF dimension without values; choose a variable")
    if not isinstance(item, h5py.Dataset):
        raise UsageError(
            f"{path}::{name} is a group, not a dataset; 'hyperslab info {path}' lists the datasets"
        )
    if item.shape is None:
        raise FormatError(
            f"{path}::{name} has no elements (a null dataspace); choose another dataset"
        )
    return item


def _metadata(
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    storage: Storage,
    header: Header,
    meant: Packing,
) -> bytes:
    affine = None
    if header.base_affine is not None:
        affine = (header.base_affine.tolist(), header.space)
    fill = None
    if storage.fill is not None:
        fill = np.asarray(storage.fill).tobytes()
    values = (
        dtype,
        storage.codecs,
        fill,
        meant.real,
        meant.unscalable,
        meant.scaling and meant.scaling.key,
    )
    said = repr((name, shape, values, storage.reason, affine, header.attributes)).encode()
    table = storage.chunks
    columns: tuple[Array, ...] = ()
    if table is not None:
        columns = (table.start, table.offset, table.nbytes, table.mask)
    return said + b"".join(column.tobytes() for column in columns)


def _meaning(
    dataset: Any, dtype: np.dtype[Any], path: str
) -> tuple[Packing, tuple[str, ...], Header]:
    """What the values, the axes and the place of a dataset are."""
    if dataset.name == minc.IMAGE2:
        header = _header(dataset, {})
        volume = minc.understand(minc.of_hdf5(dataset))
        placed = replace(
            header,
            base_affine=volume.affine,
            space=volume.space,
            base_sampling=volume.sampling,
        )
        return volume.packing, volume.dims, placed
    header = _header(dataset, coordinates_of(dataset, path))
    if minc.is_lower_resolution(str(dataset.name)):
        return (
            Packing(None, dtype.newbyteorder("="), "it is an image of lower resolution"),
            dimension_names(dataset),
            header,
        )
    attributes = {
        name: attribute(dataset, name) for name in sorted(ATTRIBUTES) if name in dataset.attrs
    }
    may_fill = bool(attributes or dtype.kind == "f")
    return (
        unpack(attributes, dtype, may_fill and fills_by_default(dataset), _is_enum(dataset)),
        dimension_names(dataset),
        header,
    )


def _described_by(dataset: Any, path: str) -> list[Any]:
    """The objects whose attributes say what a dataset is: itself, and of a MINC2 image its ranges
    and dimensions.
    """
    import h5py

    if dataset.name != minc.IMAGE2:
        return [dataset]
    ranges = [
        item for item in map(dataset.parent.get, ("image-min", "image-max")) if item is not None
    ]
    dimensions = dataset.file.get(_DIMENSIONS2, {})
    if not all(isinstance(item, h5py.Dataset) and is_number(item) for item in ranges):
        raise FormatError(
            f"{path}: its image-min or image-max holds no numbers; choose another file"
        )
    if not isinstance(dimensions, h5py.Group | dict):
        raise FormatError(f"{path}: {_DIMENSIONS2} is not a group; choose another file")
    return [
        dataset,
        *ranges,
        *(item for item in map(dimensions.get, dimensions) if item is not None),
    ]


def _is_enum(dataset: Any) -> bool:
    import h5py

    return dataset.dtype.kind == "b" or h5py.check_enum_dtype(dataset.dtype) is not None


def _header(dataset: Any, coordinates: Mapping[str, Coordinate]) -> Header:
    names = (name for name in dataset.attrs if name not in _INTERNAL_ATTRIBUTES)
    attributes = {name: _shown(attribute(dataset, name)) for name in names}
    header = header_of(attributes, dataset.shape, dimension_names(dataset), coordinates)
    return replace(header, dims=())


def _shown(value: Any) -> Any:
    """An attribute as something that every process can unpickle without h5py."""
    import h5py

    if isinstance(value, h5py.Empty) and value.dtype.kind in "biufcSO":
        if value.dtype.kind in "SO":
            return ""
        return np.array([], value.dtype)
    if isinstance(value, str | bytes | int | float | np.generic):
        return value
    if (
        isinstance(value, np.ndarray)
        and value.size <= _SHOWN_ELEMENTS
        and not value.dtype.hasobject
    ):
        return value
    if isinstance(value, np.ndarray) and value.size <= _SHOWN_ELEMENTS:
        texts = [str(element) for element in value.flat]
        is_text = all(isinstance(element, str) for element in value.flat)
        if is_text:
            return tuple(texts)
        return Omitted(texts)
    return Omitted(f"{type(value).__name__} of {getattr(value, 'size', 1)} elements")
