"""Odd values: about how many of a block are NaN or infinite, by a look at few of them.

A pass over the whole block would take some ten times what is allowed for it, 1 % of writing the
block into the page cache; a look at a thousand values in the whole block stays far below. What is
rare is not seen by it. Held by tests/plan/test_odd.py.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from hyperslab.arrays import Array

MOST_VALUES = 1024
"Values of a block that are looked at."


def odd_values(block: Array) -> int:
    """About how many values of a block are NaN or infinite; exactly, where it has few."""
    if block.dtype.kind not in "fc" or not block.size:
        return 0
    looked_at = block[_places(block.shape)]
    finite = np.count_nonzero(np.isfinite(looked_at))
    return round((looked_at.size - finite) * block.size / looked_at.size)


@functools.lru_cache(maxsize=64)
def _places(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Places all over a block, evenly along each axis and off its edges, where functions without a
    halo often fail.
    """
    steps = [1] * len(shape)
    counts = list(shape)
    while math.prod(counts) > MOST_VALUES:
        longest = max(range(len(shape)), key=counts.__getitem__)
        steps[longest] += 1
        counts[longest] = _count(shape[longest], steps[longest])
    return tuple(slice(step // 2, None, step) for step in steps)


def _count(extent: int, step: int) -> int:
    return len(range(step // 2, extent, step))
