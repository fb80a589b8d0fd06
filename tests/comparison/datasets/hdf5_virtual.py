"""Virtual HDF5 datasets, pieced together of parts of others; some of these are not there."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison import draws
from tests.comparison.datasets import hdf5_types
from tests.comparison.made import Dataset, NotMade


def make(rng: Random, folder: Path) -> Dataset:
    """A dataset whose first axis is covered by sources one after the other, with gaps."""
    path, shape = folder / "virtual.h5", draws.shape(rng, 1, 4, empty=0)
    kind = hdf5_types.number(rng)
    fill = hdf5_types.values(rng, (1,), kind)[0]
    layout = h5py.VirtualLayout(shape, kind.dtype)
    known = np.full(shape, fill, kind.dtype)
    said: list[str] = []
    try:
        for first, count in _pieces(rng, shape[0]):
            _add(rng, folder, layout, known, (first, count), said)
        with h5py.File(path, "w", libver="latest") as file:
            file.create_virtual_dataset("data", layout, fillvalue=fill)
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise NotMade(f"HDF5: {type(error).__name__}: {error}") from error
    return Dataset(
        kind="HDF5, virtual",
        path=path,
        name="data",
        said=f"{shape} {kind.name}, fill {fill!r}: {', '.join(said)}",
        reference=lambda values: _by_h5py(path, values),
        known=known.astype(known.dtype.newbyteorder("=")),
        is_copied_whole=False,
    )


def _by_h5py(path: Path, values: Values) -> Array:
    with h5py.File(path, "r", locking=False) as file:
        return np.asarray(file["data"][...])


def _pieces(rng: Random, extent: int) -> list[tuple[int, int]]:
    """First and number of the elements of each source along the first axis."""
    cuts = sorted({0, extent, *(rng.randint(0, extent) for _ in range(rng.randint(0, 3)))})
    return [(a, z - a) for a, z in itertools.pairwise(cuts) if draws.chance(rng, 0.85)]


def _add(
    rng: Random, folder: Path, layout: Any, known: Array, piece: tuple[int, int], said: list[str]
) -> None:
    """A file with a source that is larger than what is used of it, unless it is missing."""
    first, count = piece
    before, after = rng.choice((0, 0, 2)), rng.choice((0, 0, 3))
    shape = (before + count + after, *known.shape[1:])
    values = draws.values(rng, shape, known.dtype)
    source = h5py.VirtualSource(f"source{first}.h5", "deep/data", shape, known.dtype)
    layout[first : first + count] = source[before : before + count]
    if draws.chance(rng, 0.1):
        said.append(f"{count} from {first} missing")
        return
    chunks = draws.chunks(rng, shape) if draws.chance(rng, 0.6) else None
    chunks = (
        None if chunks is None else tuple(min(pair) for pair in zip(chunks, shape, strict=True))
    )
    packing = rng.choice((None, "gzip", "lzf")) if chunks else None
    with h5py.File(folder / f"source{first}.h5", "w") as file:
        file.create_dataset("deep/data", data=values, chunks=chunks, compression=packing)
    known[first : first + count] = values[before : before + count]
    said.append(f"{count} from {first}, chunks {chunks}, {packing}")
