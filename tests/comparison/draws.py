"""Draws of shapes, chunks, regions and values; the generator of numbers is Python's, which is the
same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from hyperslab.arrays import Array

LARGEST_SIZE = 6000
"Elements of most arrays."
_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 10, 13, 16, 21, 33, 64)


def chance(rng: Random, share: float) -> bool:
    return rng.random() < share


def numbers(rng: Random) -> np.random.Generator:
    """A generator of whole arrays, as random as `rng`."""
    return np.random.default_rng(rng.getrandbits(64))


def shape(
    rng: Random, least_ndim: int = 0, most_ndim: int = 6, empty: float = 0.04
) -> tuple[int, ...]:
    """Most have two or three axes; some have an axis without elements."""
    ndim = rng.choice(
        [n for n in (0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6, 7) if least_ndim <= n <= most_ndim]
    )
    found: list[int] = []
    for _ in range(ndim):
        room = max(1, LARGEST_SIZE // max(1, math.prod(found)))
        found.append(min(rng.choice(_EXTENTS), room))
    if chance(rng, 0.3):
        rng.shuffle(found)
    if found and chance(rng, empty):
        found[rng.randrange(ndim)] = 0
    return tuple(found)


def chunks(rng: Random, of: Sequence[int], may_exceed: bool = False) -> tuple[int, ...]:
    """A shape of chunks; those at the far edges may reach beyond the array."""
    style = rng.random()
    if style < 0.15:
        return tuple(max(1, n) for n in of)
    if style < 0.25:
        return tuple(1 if chance(rng, 0.4) else max(1, n) for n in of)
    most = [max(1, n + 3 if may_exceed and chance(rng, 0.3) else n) for n in of]
    found = [rng.randint(max(1, n // 4), n) for n in most]
    return tuple(found)


def region(rng: Random, of: Sequence[int]) -> tuple[slice, ...]:
    """A box, sometimes with steps; none of its axes is empty unless the array's is."""
    found = []
    for extent in of:
        start = rng.randrange(extent) if extent else 0
        stop = rng.randint(start + 1, extent) if extent else 0
        step = rng.choice((1, 1, 1, 1, 2, 3))
        found.append(slice(start, stop, step))
    return tuple(found)


def values(rng: Random, of: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Elements of any bits, extremes, ramps, or few different numbers; in this dtype and byte
    order.
    """
    count = math.prod(of)
    if dtype.kind == "b":
        return numbers(rng).integers(0, 2, count).astype(dtype).reshape(of)
    style = rng.choice(("bits", "bits", "sparse", "ramp", "few", "extremes"))
    if style in ("bits", "sparse") or dtype.kind not in "iuf":
        found = _bits(rng, count, dtype, style == "sparse")
    elif style == "ramp":
        found = _cast(np.arange(count) % 100 - (50 if dtype.kind != "u" else 0), dtype)
    elif style == "few":
        found = numbers(rng).integers(0, 7, count).astype(dtype)
    else:
        found = numbers(rng).choice(_extremes(dtype), count).astype(dtype)
    return found.reshape(of)


def _bits(rng: Random, count: int, dtype: np.dtype[Any], is_sparse: bool) -> Array:
    raw = np.frombuffer(numbers(rng).bytes(count * dtype.itemsize), "u1").copy()
    if is_sparse:
        raw[rng.randint(0, len(raw)) :] = 0
    return raw.view(dtype)


def _extremes(dtype: np.dtype[Any]) -> Array:
    near = list(range(0 if dtype.kind == "u" else -3, 8))
    if dtype.kind == "f":
        info = np.finfo(dtype)
        ends = [
            0.1,
            np.nan,
            np.inf,
            -np.inf,
            -0.0,
            info.max,
            info.min,
            info.tiny,
            info.smallest_subnormal,
        ]
        return np.array([*near, *ends], dtype.newbyteorder("="))
    bounds = np.iinfo(dtype)
    return np.array([*near, int(bounds.min), int(bounds.max)], dtype.newbyteorder("="))


def _cast(plain: Array, dtype: np.dtype[Any]) -> Array:
    return plain.astype(dtype)


def positions(rng: Random, of: Sequence[int], most: int = 5) -> list[tuple[int, ...]]:
    """Some different elements of an array that is not empty."""
    size = math.prod(of)
    flat = sorted(rng.sample(range(size), min(size, rng.randint(1, most))))
    return [tuple(int(n) for n in np.unravel_index(place, tuple(of))) for place in flat]
