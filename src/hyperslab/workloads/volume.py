"""Synthetic arrays: any region of an array of any size, computed alone, the same whatever is
computed with it.

Every voxel depends only on the seed, the array's shape and the voxel's own indices: a sum of
products of functions of one index each (the structure), and noise from a counter-based generator,
SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014), keyed by seed and row and counted along the row.

- bigbrain: (x, y, z) uint16 with the proportions of the BigBrain at 40 micrometres, 3850 x 3025 x
  3500: bright, even background, a folded cortex around white matter, nuclei and ventricles, each
  with the grain of stained cells
- climate: (time, latitude, longitude) float32, daily temperatures in kelvin: seasons, waves along
  the parallels, noise
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import UsageError
from hyperslab.workloads import scenery
from hyperslab.workloads.scenery import Scene

PIECE_ELEMENTS = 2**15
"""Voxels computed at a time: their temporaries stay in the processor's cache and in the allocator's
free lists.
"""
_PER_NUMBER = 4
"Voxels whose noise comes from one 64-bit number."


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be synthesised."""

    dtype: np.dtype[Any]
    axes: tuple[int, ...]
    "Stored order: the array's axes from slowest to fastest."
    proportions: tuple[int, ...]
    limits: tuple[float, ...]
    "Extent beyond which an axis does not grow; the first axis has none."
    scene: Callable[[Sequence[Array], Sequence[int], int], Scene]
    "(indices along each stored axis, stored shape, seed) -> structure"
    finish: Callable[[Array, Array], Array]
    "(structure, uniform uint16 noise) -> values"


KINDS: Mapping[str, Kind] = {
    "bigbrain": Kind(
        np.dtype(np.uint16),
        (2, 1, 0),
        (3850, 3025, 3500),
        (math.inf,) * 3,
        scenery.brain,
        scenery.stain,
    ),
    "climate": Kind(
        np.dtype(np.float32),
        (0, 1, 2),
        (1461, 721, 1440),
        (math.inf, 721, 1440),
        scenery.weather,
        scenery.gusts,
    ),
}


def kind_of(name: str) -> Kind:
    """The kind of this name. Raises UsageError."""
    if name not in KINDS:
        raise UsageError(f"KIND '{name}': choose one of {', '.join(KINDS)}")
    return KINDS[name]


def shape_of(kind: str, size_bytes: int) -> tuple[int, ...]:
    """The shape of an array of about so many bytes, in the kind's proportions. Raises
    UsageError.
    """
    about = kind_of(kind)
    elements = size_bytes // about.dtype.itemsize
    if elements < 1:
        raise UsageError(f"--size {size_bytes}: give at least {about.dtype.itemsize} bytes")
    scale = math.cbrt(elements / math.prod(about.proportions))
    others = []
    for n, limit in zip(about.proportions[1:], about.limits[1:], strict=True):
        grown = round(n * scale)
        others.append(max(1, int(min(limit, grown))))
    first = max(1, round(elements / math.prod(others)))
    return (first, *others)


def block(kind: str, shape: Sequence[int], slab: Hyperslab, seed: int = 0) -> Array:
    """The region `slab` of the array of this kind, shape and seed, laid out as its files are."""
    about = kind_of(kind)
    stored = slab.permute(about.axes)
    out = np.empty(stored.count, about.dtype)
    if out.size:
        rows = out.reshape(-1, stored.count[-1])
        stored_shape = [shape[a] for a in about.axes]
        _fill(rows, about, stored_shape, stored, seed)
    return out.transpose(np.argsort(about.axes))


def _fill(rows: Array, about: Kind, shape: Sequence[int], stored: Hyperslab, seed: int) -> None:
    """Compute rows along the fastest axis, as many at a time as make a piece."""
    *slow, fast = (
        a + s * np.arange(n)
        for a, n, s in zip(stored.start, stored.count, stored.stride, strict=True)
    )
    scene = about.scene([*slow, fast], shape, seed)
    step = max(1, PIECE_ELEMENTS // len(fast))
    for first in range(0, len(rows), step):
        last = min(first + step, len(rows))
        chosen = np.unravel_index(np.arange(first, last), stored.count[:-1])
        places = [axis[i] for axis, i in zip(slow, chosen, strict=True)]
        numbers = np.ravel_multi_index(places, shape[:-1])
        noise = _noise(numbers, fast, seed)
        rows[first:last] = about.finish(scene.rows(chosen), noise)


def _noise(rows: Array, columns: Array, seed: int) -> Array:
    """(rows, columns) uniform uint16; columns are evenly spaced."""
    low = int(columns.min()) // _PER_NUMBER
    high = int(columns.max()) // _PER_NUMBER + 1
    key = scenery.mix(np.array([seed % 2**64], np.uint64))
    keys = scenery.mix(rows.astype(np.uint64) * scenery.GAMMA + key)
    counters = np.arange(low, high, dtype=np.uint64) * scenery.GAMMA
    numbers = scenery.mix(np.add.outer(keys, counters))
    noise = numbers.astype("<u8", copy=False).view("<u2")
    stride = 1
    if len(columns) > 1:
        stride = int(columns[1] - columns[0])
    first = int(columns[0]) - _PER_NUMBER * low
    place = Hyperslab((first,), (len(columns),), (stride,))
    return np.asarray(noise[:, *place.slices()])
