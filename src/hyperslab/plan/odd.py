"""Odd values: about how many of a block are NaN or infinite, by a look at few of them.

Counting may take 1 % of writing a block into the page cache. Measured with float32, a pass over all
of it takes 20 to 90 % of that, a look at a thousand values, before and after the function, 12
microseconds: 0.16 % of writing 16 MB, but 4 % of 1 MB. So of many small blocks some are looked at,
which stand for the others. What is rare is not seen. Held by tests/plan/test_odd.py.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from hyperslab.arrays import Array

MOST_VALUES = 1024
"Values of a block that are looked at."
_NBYTES = 4 << 20
"Bytes of blocks for which one is looked at."
_FIRST = 256
"Blocks that are looked at in any case, the first ones: a run of few is over before that counts."


def stands_for(number: int, nbytes: int) -> int:
    """Number of blocks for which the one of this number and size is looked at; 0: it is not."""
    if number < _FIRST:
        return 1
    every = math.ceil(_NBYTES / max(1, nbytes))
    if number % every:
        return 0
    return every


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
        steps[longest] += max(1, steps[longest] // 8)
        counts[longest] = _count(shape[longest], steps[longest])
    return tuple(slice(step // 2, None, step) for step in steps)


def _count(extent: int, step: int) -> int:
    return len(range(step // 2, extent, step))
