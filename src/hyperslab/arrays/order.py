"""Blocks whose axes lie in memory as they lie in a file: stored axis i is the array's axis
`axes[i]`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperslab.arrays import Array, DType


def empty(shape: Sequence[int], axes: Sequence[int], dtype: DType) -> Array:
    """A block of this shape, in which the last of the axes is the fastest."""
    stored_shape = [shape[axis] for axis in axes]
    return restored(np.empty(stored_shape, dtype), axes)


def restored(stored: Array, axes: Sequence[int]) -> Array:
    """A block in stored order with the array's own axes: the inverse of `transpose(axes)`."""
    if tuple(axes) == tuple(range(len(axes))):
        return stored
    return stored.transpose(np.argsort(axes))
