"""HDF5 datasets, through h5py: where their chunks lie, and the reference reader for those that cannot be said so.

The chunk table is exact or absent: `eligible` names the first of many reasons for which a dataset is left to h5py.
A dataset keeps its place in an attribute 'affine' (4, 4); without it a block's place is counted in voxels.

- values: equal h5py's (`tests/formats/test_hdf5.py`); attributes for packing (scale_factor) are shown, not applied
- a corrupt file raises FormatError, never another exception (`tests/formats/test_detect.py`)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.array import Array, ArrayInfo, ArraySink, ArraySource, Header, Scaling
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats.hdf5_storage import Storage, locate, register_plugins, require_filters
from hyperslab.formats.identity import identify
from hyperslab.slab import Hyperslab

__all__ = ["arrays", "candidates", "open", "read_reference", "sink", "write_reference"]

DATASET = "data"
"Name of the dataset in files that are written."

_INTERNAL_ATTRIBUTES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
_PACKING_ATTRIBUTES = {"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"}
_SHOWN_ELEMENTS = 1024
_LARGEST_NDIM = 32


def arrays(path: str) -> list[ArrayInfo]:
    """Every dataset that has elements, by its path in the file."""
    with _opened(path) as file:
        return [_info(dataset) for dataset in _datasets(file) if dataset.shape is not None]


def candidates(path: str) -> list[str]:
    """Names of the numeric datasets of one or more dimensions that are not dimension scales."""
    with _opened(path) as file:
        return [str(dataset.name) for dataset in _datasets(file) if _is_numeric_array(dataset)]


def open(path: str, name: str) -> ArraySource:  # noqa: A001  # the formats share this name
    """Describe one dataset. Raises UsageError if it is not there, FormatError if it is corrupt or holds no numbers."""
    with _opened(path) as file, _errors(path, name):
        dataset = _dataset(file, path, name)
        dtype, shape = _dtype(dataset), tuple(int(n) for n in dataset.shape)
        storage, header = locate(dataset), _header(dataset)
        stored_shape = tuple(dataset.chunks or ())
        with Path(path).open("rb") as plain:
            state = identify(plain.fileno(), _metadata(str(dataset.name), shape, dtype, storage, header))
        return ArraySource(
            url=path,
            name=str(dataset.name),
            format="hdf5",
            shape=shape,
            dims=_dims(dataset),
            axes=tuple(range(len(shape))),
            stored=dtype,
            real=dtype.newbyteorder("="),
            chunks=storage.chunks,
            reason=storage.reason,
            packing=_packing(str(dataset.name), header),
            codecs=storage.codecs,
            fill=storage.fill,
            chunk_shape=stored_shape,
            header=header,
            nbytes_stored=int(dataset.id.get_storage_size()),
            file_size=state.file_size,
            mtime_ns=state.mtime_ns,
            version=state.version,
        )


def read_reference(source: ArraySource, slab: Hyperslab) -> Array:
    """Stored values of a region through h5py; it cannot walk backwards, so a flipped region is read and turned."""
    if slab.size == 0:
        return np.empty(slab.count, source.dtype("stored"))
    low, high = slab.bounds
    forward = tuple(slice(a, z, abs(s)) for a, z, s in zip(low, high, slab.stride, strict=True))
    turn = tuple(slice(None, None, -1 if s < 0 else 1) for s in slab.stride)
    with _opened(source.url) as file, _errors(source.url, source.name):
        require_filters(file[source.name])
        block = np.asarray(file[source.name][forward])
    return np.asarray(block[turn]).astype(source.dtype("stored"), copy=False)


def sink(
    path: str, shape: tuple[int, ...], dtype: np.dtype[Any], header: Header, scaling: Scaling | None = None
) -> ArraySink:
    """Describe an HDF5 file with one contiguous dataset 'data'. Raises UsageError for what HDF5 cannot hold."""
    plain = np.dtype(dtype)
    if plain.hasobject or plain.kind in "mMU":
        raise UsageError(f"{path}: HDF5 cannot hold {dtype}; convert the block to numbers")
    if len(shape) > _LARGEST_NDIM:
        raise UsageError(f"{path}: HDF5 holds up to {_LARGEST_NDIM} axes, not {len(shape)}")
    return ArraySink(path, "hdf5", tuple(shape), tuple(range(len(shape))), plain, None, header, scaling)


def write_reference(sink: ArraySink, block: Array, temporary_path: str) -> None:
    """Write the file: the same bytes for the same array at any time."""
    import h5py

    motion = sink.header.motion()
    with h5py.File(temporary_path, "x", locking=False) as file:
        dataset = file.create_dataset(DATASET, data=np.asarray(block, dtype=sink.dtype))
        dataset.attrs["affine"] = motion if sink.header.base_affine is None else sink.header.base_affine @ motion
        if sink.scaling is not None:
            dataset.attrs["scale_factor"], dataset.attrs["add_offset"] = sink.scaling.slope, sink.scaling.inter


@contextmanager
def _errors(path: str, name: str) -> Iterator[None]:
    """Turn what h5py raises about a corrupt or unreadable object into a FormatError."""
    where = f"{path}::{name}" if name else path
    wrong = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, OverflowError, NotImplementedError)
    try:
        yield
    except (*wrong, MemoryError) as error:
        text = str(error).strip("'\"") or type(error).__name__
        raise FormatError(f"{where}: HDF5 cannot read it: {text}; check it with 'h5dump -H {path}'") from error


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    import h5py

    register_plugins()
    with _errors(path, ""), h5py.File(path, "r", locking=False) as file:
        yield file


def _datasets(file: Any) -> list[Any]:
    import h5py

    found: list[Any] = []
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def _info(dataset: Any) -> ArrayInfo:
    return ArrayInfo(str(dataset.name), tuple(int(n) for n in dataset.shape), str(dataset.dtype))


def _is_numeric_array(dataset: Any) -> bool:
    numeric = bool(dataset.shape) and dataset.dtype.kind in "biufc"
    return numeric and not dataset.is_scale


def _dataset(file: Any, path: str, name: str) -> Any:
    import h5py

    item = file.get(name)
    if item is None:
        raise UsageError(f"{path}: holds no '{name}'; 'hyperslab info {path}' lists what it holds")
    if not isinstance(item, h5py.Dataset):
        raise UsageError(f"{path}::{name}: is a group, not a dataset; 'hyperslab info {path}' lists the datasets")
    if item.shape is None:
        raise FormatError(f"{path}::{name}: has no elements (a null dataspace); choose another dataset")
    return item


def _dtype(dataset: Any) -> np.dtype[Any]:
    """The dtype without h5py's notes on it. Raises FormatError for elements that are not values of a fixed size."""
    dtype: np.dtype[Any] = dataset.dtype
    if dtype.hasobject or dtype.subdtype is not None or dtype.kind == "U":
        held = "arrays" if dtype.subdtype is not None else "strings, references or lists"
        raise FormatError(f"{dataset.file.filename}::{dataset.name}: its elements are {held}, not numbers")
    return dtype if dtype.fields else np.dtype(dtype.str)


def _metadata(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], storage: Storage, header: Header) -> bytes:
    affine = None if header.base_affine is None else header.base_affine.tolist()
    said = repr((name, shape, dtype, storage.codecs, storage.fill, storage.reason, affine, header.attributes)).encode()
    table = storage.chunks
    return said if table is None else said + b"".join(c.tobytes() for c in (table.start, table.offset, table.nbytes))


def _dims(dataset: Any) -> tuple[str, ...]:
    """Names of the dimensions: their label, or their scale's name, or their number."""
    return tuple(_dim_name(dimension, axis) for axis, dimension in enumerate(dataset.dims))


def _dim_name(dimension: Any, axis: int) -> str:
    if dimension.label:
        return str(dimension.label)
    scale = str(dimension[0].name or "") if len(dimension) else ""
    return scale.rsplit("/", 1)[-1] or f"dim_{axis}"


def _header(dataset: Any) -> Header:
    attributes = {name: _shown(dataset.attrs[name]) for name in dataset.attrs if name not in _INTERNAL_ATTRIBUTES}
    affine = attributes.get("affine")
    placed = isinstance(affine, np.ndarray) and affine.shape == (4, 4) and affine.dtype.kind in "iuf"
    return Header(base_affine=np.array(affine if placed else np.eye(4), dtype=np.float64), attributes=attributes)


def _shown(value: Any) -> Any:
    """An attribute as something that every process can unpickle without h5py."""
    if isinstance(value, str | bytes | int | float | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.size <= _SHOWN_ELEMENTS and not value.dtype.hasobject:
        return value
    if isinstance(value, np.ndarray) and value.size <= _SHOWN_ELEMENTS:
        return [str(element) for element in value.flat]
    return f"{type(value).__name__} of {getattr(value, 'size', 1)} elements"


def _packing(name: str, header: Header) -> str:
    """What the real values need that is not in the dataset's own values: netCDF's packing, MINC's ranges."""
    if name.startswith("/minc-2.0/image/") and name.endswith("/image"):
        return "image-min and image-max"
    return " and ".join(sorted(_PACKING_ATTRIBUTES & set(header.attributes)))
