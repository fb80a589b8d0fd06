"""What synthetic arrays show: sums of products of one function per axis, and how noise turns them
into values.

All arithmetic per voxel is single IEEE operations on float32 or integers, which give the same bits
on every machine.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hyperslab.arrays import Array

GAMMA = np.uint64(0x9E3779B97F4A7C15)
"The increment of SplitMix64."
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))

Term = tuple[Array, ...]
"One factor per stored axis, each (extent along the axis,) float32."


@dataclass(frozen=True, slots=True)
class Scene:
    """A structure: the sum over terms of the product of their factors."""

    terms: tuple[Term, ...]

    def rows(self, chosen: Sequence[Array]) -> Array:
        """(rows, columns) float32: the structure along the last axis, at the chosen positions of
        the others.
        """
        total: Array | None = None
        for *slow, fast in self.terms:
            along = functools.reduce(
                np.multiply, (factor[i] for factor, i in zip(slow, chosen, strict=True))
            )
            product = np.multiply.outer(along, fast)
            if total is None:
                total = product
            else:
                total = np.add(total, product, out=total)
        assert total is not None
        return total


def mix(numbers: Array) -> Array:
    """SplitMix64's output function, in place: uint64 counters become uniform, independent
    numbers.
    """
    first, second, third = _SHIFTS
    for shift, multiplier in zip((first, second), _MULTIPLIERS, strict=True):
        numbers ^= numbers >> shift
        numbers *= multiplier
    numbers ^= numbers >> third
    return numbers


# --- bigbrain: the structure is a depth, negative outside the brain, growing inwards
# -----------------------------

_RADII = (0.80, 0.84, 0.86)
"Semi-axes of the brain along z, y and x, in half extents of the array."
_FOLDS = ((0.10, 6.0), (0.08, 9.0), (0.05, 15.0), (0.03, 26.0))
"Amplitude and spatial frequency of the folding."
_DEPTHS = (-1.0, 3.0)
_TABLE = 8192
_TISSUES = (
    # depth, mean, standard deviation of the grain
    (-1.00, 62200, 7),
    (-0.01, 62150, 7),
    (0.00, 47000, 1500),
    (0.02, 41000, 1900),
    (0.04, 24500, 2600),
    (0.09, 19500, 2700),
    (0.12, 22500, 2600),
    (0.16, 20500, 2500),
    (0.19, 35500, 1500),
    (0.60, 37500, 1300),
    (0.76, 36500, 1400),
    (0.80, 27500, 2200),
    (0.97, 26500, 2200),
    (1.20, 29000, 2000),
    (1.50, 60500, 60),
    (3.00, 61500, 30),
)


def brain(indices: Sequence[Array], shape: Sequence[int], seed: int) -> Scene:
    """Folded ellipsoid, cleft between the hemispheres, two ventricles. Stored axes z, y, x."""
    w, v, u = (_centred(index, extent) for index, extent in zip(indices, shape, strict=True))
    one_w = np.ones(len(w))
    one_v = np.ones(len(v))
    one_u = np.ones(len(u))
    c, b, a = _RADII
    cleft = (
        -0.9 * _step(w, 0.15, 0.05),
        np.exp(-((v / 0.75) ** 4)),
        np.exp(-((u / 0.02) ** 2)),
    )
    ventricles = (
        np.exp(-(((w - 0.02) / 0.16) ** 2)),
        np.exp(-((v / 0.30) ** 2)),
        1.6 * np.exp(-(((abs(u) - 0.10) / 0.05) ** 2)),
    )
    terms: list[Sequence[Array]] = [
        (1 - (w / c) ** 2, one_v, one_u),
        (one_w, -((v / b) ** 2), one_u),
        (one_w, one_v, -((u / a) ** 2)),
        cleft,
        ventricles,
    ]
    terms += _folding((w, v, u), seed)
    return Scene(tuple(map(_single, terms)))


def _folding(axes: Sequence[Array], seed: int) -> Iterator[Sequence[Array]]:
    phases = random.Random(seed)
    for amplitude, frequency in _FOLDS:
        factors = [np.cos(math.pi * frequency * (axis + 2 * phases.random())) for axis in axes]
        yield amplitude * factors[0], factors[1], factors[2]


def stain(depth: Array, noise: Array) -> Array:
    """uint16 intensities of tissue at a depth, with Gaussian grain."""
    mean, grain = _tissue_tables()
    scale = np.float32(_TABLE / (_DEPTHS[1] - _DEPTHS[0]))
    depth -= np.float32(_DEPTHS[0])
    depth *= scale
    index = depth.astype(np.intp)
    values = _gaussian().take(noise)
    values *= grain.take(index, mode="clip")
    values += mean.take(index, mode="clip")
    return np.clip(values, 0, 65535, out=values).astype(np.uint16)


@functools.cache
def _tissue_tables() -> tuple[Array, Array]:
    """Mean and grain by depth, in float32."""
    depth = np.linspace(*_DEPTHS, _TABLE, endpoint=False)
    at, mean, grain = (np.array(column, np.float64) for column in zip(*_TISSUES, strict=True))
    means = np.interp(depth, at, mean)
    grains = np.interp(depth, at, grain)
    return means.astype(np.float32), grains.astype(np.float32)


@functools.cache
def _gaussian() -> Array:
    """(65536,) float32: quantiles of the normal distribution, by uniform uint16."""
    from statistics import NormalDist

    quantile = NormalDist().inv_cdf
    return np.array([quantile((i + 0.5) / 65536) for i in range(65536)], np.float32)


# --- climate: the structure is a temperature
# ----------------------------------------------------------------------

_YEAR_DAYS = 365.25
_NOISE_KELVIN = 1.5


def weather(indices: Sequence[Array], shape: Sequence[int], seed: int) -> Scene:
    """Warm equator, seasons opposite in the hemispheres, waves that travel along the parallels.
    Axes t, lat, lon.
    """
    day = indices[0].astype(np.float64)
    lat = _centred(indices[1], shape[1]) * math.pi / 2
    lon = _centred(indices[2], shape[2]) * math.pi
    phases = random.Random(seed)
    always = np.ones(len(day))
    everywhere = np.ones(len(lon))
    warmth = 303 - 55 * np.sin(lat) ** 2
    season = np.cos(2 * math.pi * (day - 200) / _YEAR_DAYS)
    terms = [
        (always, warmth, everywhere),
        (season, 16 * np.sin(lat), everywhere),
    ]
    for number, amplitude, period_days in ((3, 4.0, 30.0), (5, 3.0, 12.0), (8, 2.0, 5.0)):
        turn = 2 * math.pi * (day / period_days + phases.random())
        belt = amplitude * np.sin(2 * lat) ** 2
        # cos(a - b) as two products
        terms.append((np.cos(turn), belt, np.cos(number * lon)))
        terms.append((np.sin(turn), belt, np.sin(number * lon)))
    return Scene(tuple(map(_single, terms)))


def gusts(temperature: Array, noise: Array) -> Array:
    """float32 kelvin, with Gaussian noise."""
    values = _gaussian().take(noise)
    values *= np.float32(_NOISE_KELVIN)
    values += temperature
    return values


def _centred(index: Array, extent: int) -> Array:
    """Voxel centres from -1 to 1, in float64."""
    return (2 * index.astype(np.float64) + 1) / extent - 1


def _step(position: Array, at: float, width: float) -> Array:
    """Step from 0 to 1 around `at`."""
    return np.asarray(0.5 + 0.5 * np.tanh((position - at) / width))


def _single(term: Sequence[Array]) -> Term:
    return tuple(factor.astype(np.float32) for factor in term)
