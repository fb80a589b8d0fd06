"""Arrays as the block RDDs that the connector's algebra works on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab


def pieces(array: Array, cuts: Sequence[int], axis: int = 0) -> list[tuple[Hyperslab, Array]]:
    """The array cut along an axis at these positions."""
    found = []
    for low, high in itertools.pairwise((0, *cuts, array.shape[axis])):
        start, count = [0] * array.ndim, list(array.shape)
        start[axis], count[axis] = low, high - low
        slab = Hyperslab(tuple(start), tuple(count))
        found.append((slab, array[slab.slices()]))
    return found


def blocks(
    sc: Any, array: Array, cuts: Sequence[int] = (), axis: int = 0, partitions: int | None = None
) -> Any:
    """The pieces as an RDD, a partition each unless it is said how many."""
    found = pieces(array, cuts, axis)
    return sc.parallelize(found, partitions or len(found))


def matrix(array: Array, axis: int = 0) -> Array:
    """The rows along an axis, as the matrix of doubles that the algebra sees."""
    turned = np.moveaxis(array, axis, 0)
    return turned.reshape(len(turned), -1).astype(np.float64)
