"""Dependence: along which axes what functions make depends on where their blocks are cut, tried on
made-up numbers.

The steps run on a sample and on a part from amid it. Where they make other values of the part
than of the same voxels within the sample, they need more of their surroundings than a block holds.
Functions that make other values of the same block each time are not judged. The trial finds what it
finds: a function of which it says nothing may still depend on the blocks of other data.

Held by tests/driver/test_dependence.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.axes import Axes
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.sample import Sample
from hyperslab.plan.pipeline import Step, axes_after

_LEAST_SHARE = 3e-5
"Share of the largest value from which on a difference counts: sums in another order differ too."
_ULPS = 8
"Units in the last place of the largest value that are taken for rounding."
_LEAST_EXTENT = 4
"Extent of a sample's axis from which on a part of it has a surrounding."


def dependent_axes(steps: Sequence[Step], sample: Sample, uncut: Iterable[int]) -> tuple[int, ...]:
    """Axes along which the steps make other values of a part of the sample than of all of it.

    `uncut` axes, and those that the functions drop, are not tried. Raises what functions raise.
    """
    count = sample.slab.count
    axes = axes_after(steps, len(count), count)
    kept = {axis for made in axes for axis in made.dropped(len(count))}.union(uncut)
    tried = [axis for axis, n in enumerate(count) if axis not in kept and n >= _LEAST_EXTENT]
    if not tried:
        return ()
    whole = made_of(steps, sample, axes)
    if _are_same(whole, steps, sample, axes, tried):
        return ()
    again = made_of(steps, sample, axes)
    if not all(map(_are_close, whole, again)):
        return ()
    return tuple(axis for axis in tried if _are_same(whole, steps, sample, axes, [axis]) is False)


def _are_same(
    whole: Sequence[Array],
    steps: Sequence[Step],
    sample: Sample,
    axes: Sequence[Axes],
    cut: Sequence[int],
) -> bool | None:
    """Whether the steps make of a part along some axes what they make of it within the sample; None
    where they fail on the part, which may be too small for them.
    """
    slab = _amid(sample.slab, cut)
    with suppress(Exception):  # its tasks will tell what a function raises
        made = made_of(steps, sample.part(slab), axes)
        regions = [each.region(slab).slices() for each in axes]
        inner = [array[region] for array, region in zip(whole, regions, strict=True)]
        return all(map(_are_close, inner, made))
    return None


def _amid(slab: Hyperslab, cut: Sequence[int]) -> Hyperslab:
    """The slab without about a quarter on both sides of some axes."""
    margins = [_margins(n) if axis in cut else (0, 0) for axis, n in enumerate(slab.count)]
    counts = tuple(n - low - high for n, (low, high) in zip(slab.count, margins, strict=True))
    return Hyperslab(tuple(low for low, _ in margins), counts)


def _margins(n: int) -> tuple[int, int]:
    """Planes of an axis before and behind the part: an odd number, and two more, or one where
    there is no room for two, so that what mirrors a block, halves it, or takes every second plane
    makes other values of the part. Of an axis of 4 planes the part is one alone.
    """
    low = (n // 4 - 1) | 1
    more = max(1, min(2, n - _LEAST_EXTENT))
    return low, low + more


def made_of(steps: Sequence[Step], sample: Sample, axes: Sequence[Axes]) -> list[Array]:
    """What the last step returns, in the order of its promises and without the halo."""
    block = sample.block
    arrays = {"": block}
    for step in steps:
        arrays = sample.returned(step, block)
        block = next(iter(arrays.values()))
    names = [promise.name for promise in steps[-1].returns]
    if set(names) != set(arrays):  # named by the user, in the order of a tuple
        names = list(arrays)
    return [_trimmed(arrays[name], sample, made) for name, made in zip(names, axes, strict=True)]


def _trimmed(array: Array, sample: Sample, axes: Axes) -> Array:
    """An array without the halo, unless the function has cut that off."""
    shape = axes.shape(sample.slab.count)
    if array.shape == shape:
        return array
    halo = axes.pick(sample.halo, (0,) * axes.ndim)
    return array[tuple(slice(h, h + n) for h, n in zip(halo, shape, strict=True))]


def _are_close(a: Array, b: Array) -> bool:
    """Whether arrays of one shape are alike but for rounding."""
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    share = max(_LEAST_SHARE, _ULPS * float(np.finfo(a.dtype).eps))
    finite = np.abs(a[np.isfinite(a)])
    apart = share * float(finite.max(initial=0))
    return bool(np.allclose(a, b, rtol=0, atol=apart, equal_nan=True))
