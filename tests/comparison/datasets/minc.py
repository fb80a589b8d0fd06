"""MINC1 and MINC2 volumes: order of axes, ranges, and place."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random
from typing import Any

import nibabel
import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison import draws
from tests.comparison.draws import chance
from tests.comparison.made import Dataset
from tests.formats.minc_made import IMAGE, SPACE, write_minc1, write_minc2
from tests.formats.reference import minc_stored

_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")


def make(rng: Random, folder: Path) -> Dataset:
    path, is_new, said = folder / "made.mnc", chance(rng, 0.6), _said(rng)
    if is_new and chance(rng, 0.5):
        said["storage"] = _storage(rng, said["values"].shape)
    (write_minc2 if is_new else write_minc1)(path, said)
    return Dataset(
        kind="MINC2" if is_new else "MINC1",
        path=path,
        name=IMAGE if is_new else "image",
        said=(
            f"{said['dims']} {said['values'].shape} {said['dtype']}, range {said['range']},"
            f" {said.get('storage', '')}"
        ),
        reference=lambda values: _by_nibabel(path, values),
        known=said["values"],
        engine="",
        affine=lambda: _loaded(path).affine,
    )


def _said(rng: Random) -> dict[str, Any]:
    """What `minc_made` writes."""
    dims, dtype = _dims(rng), np.dtype(rng.choice(_TYPES))
    shape = tuple(rng.randint(1, 3 if name in ("time", "vector_dimension") else 9) for name in dims)
    ranges = rng.randint(0, min(2, len(dims) - 1))
    noise = draws.numbers(rng)
    low = noise.normal(size=shape[:ranges]) * rng.choice((1, 1e-6, 1e9))
    return {
        "dims": dims,
        "dtype": dtype,
        "values": draws.values(rng, shape, dtype),
        "low": low,
        "high": low + noise.uniform(0.5, 3, shape[:ranges]),
        "range": _valid(rng, dtype),
        "steps": {name: rng.choice((1.0, -2.5, 0.3)) for name in dims},
        "tilt": chance(rng, 0.4),
    }


def _dims(rng: Random) -> list[str]:
    space = rng.sample(SPACE, 3)
    style = rng.random()
    if style < 0.15:
        return ["time", *space]
    return [*space, "vector_dimension"] if style < 0.25 else space


def _valid(rng: Random, dtype: np.dtype[Any]) -> tuple[float, float] | None:
    if chance(rng, 0.5):
        return None
    if dtype.kind == "f":
        return (0, 1)
    info = np.iinfo(dtype)
    ends = sorted(rng.sample(range(int(info.min), int(info.max) + 1), 2))
    return (float(ends[0]), float(ends[1]))


def _storage(rng: Random, shape: tuple[int, ...]) -> dict[str, Any]:
    packing = rng.choice((None, "gzip", "lzf"))
    chunks = tuple(min(pair) for pair in zip(draws.chunks(rng, shape), shape, strict=True))
    return {
        "chunks": chunks,
        "compression": packing,
        "shuffle": chance(rng, 0.4),
        "fletcher32": chance(rng, 0.3),
    }


def _loaded(path: Path) -> Any:
    load: Any = nibabel.load
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(path)


def _by_nibabel(path: Path, values: Values) -> Array:
    if values == "stored":
        return minc_stored(str(path), IMAGE)
    with np.errstate(all="ignore"):
        return np.asarray(_loaded(path).dataobj)
