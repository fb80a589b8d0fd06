"""HDF5 datasets of every kind, made with h5py's low-level interface, and values to put in them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from hyperslab.arrays import Array

NAME = "data"
INDEXES = {
    0: "v1 B-tree",
    1: "single chunk",
    2: "implicit",
    3: "fixed array",
    4: "extensible array",
    5: "v2 B-tree",
}
"H5D_chunk_index_t of H5Dpublic.h."
REGISTERED = {"lzf": (32000, ()), "lz4": (32004, (0,)), "zstd": (32015, (3,)), "nbit": (5, ())}
DONT_FILTER_PARTIAL_CHUNKS = 2


@cache
def library() -> ctypes.PyDLL:
    """libhdf5 itself, as h5py has loaded it, for the few functions that h5py does not offer."""
    found = ctypes.PyDLL(h5d.__file__)
    found.H5Dget_chunk_index_type.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_int)]
    found.H5Pset_chunk_opts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    found.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return found


def chunk_index(path: Path) -> str:
    """By which index HDF5 finds the chunks of the dataset."""
    number = ctypes.c_int(-1)
    with h5py.File(path, "r", locking=False) as file:
        dataset = file[NAME]
        assert library().H5Dget_chunk_index_type(dataset.id.id, ctypes.byref(number)) == 0
    return INDEXES[number.value]


def file_type(kind: Any) -> Any:
    """An HDF5 datatype: itself, or what h5py makes of a dtype."""
    return kind if isinstance(kind, h5t.TypeID) else h5t.py_create(np.dtype(kind), logical=True)


def random_values(shape: Sequence[int], dtype: Any, noise: float = 0.5, seed: int = 1) -> Array:
    """Elements of random bytes, with a part of zeros: floats are also NaN, infinite and
    denormal.
    """
    dtype = np.dtype(dtype)
    rng, size = np.random.default_rng(seed), math.prod(shape)
    raw = rng.integers(0, 256, size * dtype.itemsize, dtype="u1")
    raw[int(len(raw) * noise) :] = 0
    if dtype.kind == "b":
        raw &= 1
    return np.frombuffer(raw.tobytes(), dtype=dtype).reshape(shape)


def creation_list(
    chunks: Sequence[int] | None, filters: Sequence[str], fill: Any, kind: Any, **rare: Any
) -> Any:
    """A list of creation properties. `rare`: layout, alloc_time, fill_time, chunk_opts,
    undefined_fill, add.
    """
    creation = h5p.create(h5p.DATASET_CREATE)
    if chunks is not None:
        creation.set_chunk(tuple(chunks))
    for name in filters:
        add_filter(creation, name)
    if fill is not None:
        creation.set_fill_value(np.array(fill, dtype=file_type(kind).dtype))
    for name in {"layout", "alloc_time", "fill_time"} & rare.keys():
        getattr(creation, f"set_{name}")(rare[name])
    if "chunk_opts" in rare:
        assert library().H5Pset_chunk_opts(creation.id, rare["chunk_opts"]) == 0
    if "undefined_fill" in rare:
        assert library().H5Pset_fill_value(creation.id, file_type(kind).id, None) == 0
    if "add" in rare:
        rare["add"](creation)
    return creation


def add_filter(creation: Any, name: str) -> None:
    plain = {
        "deflate": lambda: creation.set_deflate(6),
        "shuffle": creation.set_shuffle,
        "fletcher32": creation.set_fletcher32,
        "scaleoffset": lambda: creation.set_scaleoffset(h5z.SO_INT, 0),
        "szip": lambda: creation.set_szip(h5z.SZIP_NN_OPTION_MASK, 8),
    }
    plugins = {
        "blosc": hdf5plugin.Blosc(),
        "bitshuffle": hdf5plugin.Bitshuffle(),
        "bzip2": hdf5plugin.BZip2(),
    }
    if name in plain:
        plain[name]()
    elif name in plugins:
        creation.set_filter(
            plugins[name].filter_id, h5z.FLAG_OPTIONAL, tuple(plugins[name].filter_options)
        )
    else:
        code, options = REGISTERED[name]
        creation.set_filter(code, h5z.FLAG_OPTIONAL, options)


def create(
    file: Any,
    shape: Sequence[int],
    kind: Any,
    *,
    chunks: Sequence[int] | None = None,
    filters: Sequence[str] = (),
    maxshape: Sequence[int | None] | None = None,
    fill: Any = None,
    **rare: Any,
) -> Any:
    """Make the dataset; nothing is written to it."""
    most = tuple(h5s.UNLIMITED if n is None else n for n in maxshape or shape)
    space = h5s.create_simple(tuple(shape), most) if shape else h5s.create(h5s.SCALAR)
    h5d.create(
        file.id,
        NAME.encode(),
        file_type(kind),
        space,
        creation_list(chunks, filters, fill, kind, **rare),
    )
    return file[NAME]


def make(
    path: Path,
    shape: Sequence[int] = (12, 10),
    kind: Any = "<i4",
    *,
    libver: str = "earliest",
    user_block: int = 0,
    parts: Sequence[Any] = (...,),
    noise: float = 0.5,
    values: Array | None = None,
    **options: Any,
) -> None:
    """A file with one dataset, of which `parts` are written with random values, or with those
    given.
    """
    with h5py.File(path, "w", libver=libver, userblock_size=user_block) as file:
        dataset = create(file, shape, kind, **options)
        if parts and math.prod(shape):
            data = random_values(shape, dataset.dtype, noise) if values is None else values
            for part in parts:
                dataset[part] = data[part]


def make_masked(path: Path, filters: Sequence[str], masks: Sequence[int]) -> None:
    """A chunk of 64 elements for every mask, stored without the filters that it names."""
    with h5py.File(path, "w") as file:
        dataset = create(file, (64 * len(masks),), "<i4", chunks=(64,), filters=filters)
        for first, mask in zip(range(0, len(dataset), 64), masks, strict=True):
            values = np.arange(first, first + 64, dtype="<i4") // 9
            dataset.id.write_direct_chunk((first,), masked_chunk(values, filters, mask), mask)


def masked_chunk(values: Array, filters: Sequence[str], mask: int) -> bytes:
    """What HDF5 stores of a chunk without the filters of a mask: made in memory, by the other
    filters alone.
    """
    kept = [name for number, name in enumerate(filters) if not mask >> number & 1]
    with h5py.File("chunk", "w", driver="core", backing_store=False) as file:
        dataset = create(file, values.shape, values.dtype, chunks=values.shape, filters=kept)
        dataset[...] = values
        skipped, raw = dataset.id.read_direct_chunk((0,) * values.ndim)
    assert not skipped, "a filter could not shrink it"
    return bytes(raw)
