"""Files that many writers make, and what the formats' own tools say of them."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling
from hyperslab.blocks import reading, writing
from hyperslab.testing.formats import assert_same
from tests.system.clusters.required import required

RGB = np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])
NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


def values_of(dtype: Any, shape: Sequence[int], seed: int = 3) -> Array:
    """Any bit patterns of whole numbers, and of floats finite ones with NaN and infinities among
    them.
    """
    kind, rng, shape = np.dtype(dtype), np.random.default_rng(seed), tuple(shape)
    if kind.kind == "f":
        made = rng.normal(size=shape).astype(kind)
        made.reshape(-1)[: made.size // 3 : 4] = np.resize(
            np.array([np.nan, np.inf, -0.0], kind), 1
        )
        return made
    if kind.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(1, 127, (*shape, kind.itemsize), dtype=np.uint8)
    return np.asarray(np.ascontiguousarray(raw).view(kind)[..., 0] if kind.itemsize else raw)


def sink_of(
    path: Path,
    values: Array,
    encoding: Encoding = DEFAULT_ENCODING,
    header: Header | None = None,
    scaling: Scaling | None = None,
) -> ArraySink:
    describe = formats.module(formats.format_of_name(str(path))).sink
    return describe(str(path), values.shape, values.dtype, header or Header(), scaling, encoding)


def write_by_many(
    sink: ArraySink, values: Array, seed: int = 0, order: int = 0
) -> list[writing.Written]:
    """Write a file region by region, in any order and one twice, as tasks do; nothing changes
    before the end.
    """
    path = Path(sink.path)
    partial = str(path.with_name(f".{path.name}.0-{seed:06}.part"))
    regions, before = (
        regions_of(sink, seed, order),
        path.stat().st_mtime_ns if path.exists() else None,
    )
    writing.allocate(sink, partial)
    writing.write_region(
        sink, partial, regions[0], values[regions[0].slices()]
    )  # its task is done a second time below
    written = [writing.write_region(sink, partial, slab, values[slab.slices()]) for slab in regions]
    assert before == (path.stat().st_mtime_ns if path.exists() else None)
    writing.commit(sink, partial, written)
    assert not list(path.parent.glob(".*.part")), "what is needed no longer is gone"
    return written


def regions_of(sink: ArraySink, seed: int, order: int) -> list[Hyperslab]:
    """A random cut at the sink's units, in any order."""
    chance = random.Random(seed)
    unit = sink.unit or (1,) * len(sink.shape)
    rule = Rule("block-shape", tuple(chance.randint(1, n) for n in sink.shape))
    found = list(cut(Layout(sink.shape, sink.axes, sink.dtype.itemsize, None), rule, 0, unit))
    random.Random(order).shuffle(found)
    return found


def assert_read_back(path: Path, values: Array, name: str = "") -> None:
    """Our own reader gives the values, of the whole array and of a strided region."""
    source = formats.open_source(f"{path}::{name}" if name else str(path))
    assert_same(reading.read(source, Hyperslab.full(values.shape), values="stored"), values)
    strided = Hyperslab(
        (0,) * values.ndim, tuple((n + 1) // 2 for n in values.shape), (2,) * values.ndim
    )
    assert_same(reading.read(source, strided, values="stored"), values[strided.slices()])


def h5py_values(path: Path, name: str = "data") -> Array:
    """All values as h5py reads them in one go; chunk by chunk through its cache they have to be the
    same.
    """
    with h5py.File(path, "r", locking=False) as file:
        dataset = file[name]
        whole = np.asarray(dataset[()])
        if dataset.chunks:
            small = np.empty_like(whole)
            for corner in itertools.product(
                *(range(0, n, c + 1) for n, c in zip(whole.shape, dataset.chunks, strict=True))
            ):
                part = tuple(
                    slice(a, a + c + 1) for a, c in zip(corner, dataset.chunks, strict=True)
                )
                small[part] = dataset[part]
            assert small.tobytes() == whole.tobytes()
        return whole


def h5dump_values(
    path: Path, dtype: np.dtype[Any], shape: Sequence[int], name: str = "data"
) -> Array:
    """All values as h5dump writes them to a binary file."""
    raw = path.with_suffix(".raw")
    tool("h5dump", "-d", f"/{name}", "-b", "NATIVE", "-o", raw, path)
    return np.frombuffer(raw.read_bytes(), dtype).reshape(tuple(shape))


def netcdf_values(path: Path, name: str = "data") -> tuple[Array, Array]:
    """All values as netCDF4-python reads them, and where it masks them."""
    with netCDF4.Dataset(path) as file:
        variable: Any = file[name]
        variable.set_auto_maskandscale(False)
        plain = np.asarray(variable[...])
        variable.set_auto_maskandscale(True)
        return plain, np.ma.getmaskarray(variable[...])


def tool(name: str, *arguments: object) -> str:
    """What one of the formats' own programs prints; it must succeed."""
    packages = {"h5dump": "hdf5-tools", "ncdump": "netcdf-bin", "gzip": "gzip", "pigz": "pigz"}
    required(
        "" if shutil.which(name) else f"{name} is missing: install the package {packages[name]}"
    )
    done = subprocess.run([name, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
