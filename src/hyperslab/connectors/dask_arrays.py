"""Computations on plain Dask arrays whose results are known, and which move little or much.

- `elementwise`: products of chunks; only those move that Dask has made on different workers.
- `tree-reduction`: sums of chunks, pair by pair.
- `transpose-sum`: elementwise products of arrays and their transposes, and sums of those.
- `rechunk`: from rows to columns, for which every worker sends to every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hyperslab.errors import UsageError, suggest

LEAST_CHUNKS = 2
_STEPS = 6
"Standard deviations by which a result may differ from the one that is expected."


def transpose_sum(array: int, chunk: int, seed: int) -> Any:
    """The computation of H. J. Kind et al., Studying Dask (2019): the sum of the product of four
    random arrays, each added to its transpose, over that of the four arrays.
    """
    four = [_random(array, chunk, seed + number) for number in range(4)]
    both = [one + one.T for one in four]
    above = (both[0] * both[1] * both[2] * both[3]).sum()
    below = (four[0] * four[1] * four[2] * four[3]).sum()
    return above / below


def elementwise(array: int, chunk: int, seed: int) -> Any:
    """The mean of a product of four random arrays."""
    four = [_random(array, chunk, seed + number) for number in range(4)]
    return (four[0] * four[1] * four[2] * four[3]).mean()


def tree_reduction(array: int, chunk: int, seed: int) -> Any:
    """The mean of an array, whose sums of chunks are added pair by pair."""
    return _random(array, chunk, seed).sum(split_every=2) / array**2


def rechunk(array: int, chunk: int, seed: int) -> Any:
    """The mean of the squares of an array that is cut into rows, then into columns."""
    import dask.array as da

    rows = da.random.default_rng(seed).random((array, array), chunks=(chunk, array))
    return (rows.rechunk((array, chunk)) ** 2).mean()


def _random(array: int, chunk: int, seed: int) -> Any:
    import dask.array as da

    return da.random.default_rng(seed).random((array, array), chunks=(chunk, chunk))


WORKLOADS: Mapping[str, tuple[Callable[[int, int, int], Any], float, float]] = {
    "transpose-sum": (transpose_sum, 16.0, 11.0),
    "elementwise": (elementwise, 1 / 16, 0.1),
    "tree-reduction": (tree_reduction, 1 / 2, 0.3),
    "rechunk": (rechunk, 1 / 3, 0.3),
}
"""All of them, with the result for large arrays of numbers from 0 to 1, and its standard deviation
times the length of an array.
"""


def require_known(name: str) -> None:
    """Raise UsageError where there is no such computation."""
    if name not in WORKLOADS:
        raise UsageError(
            f"{name}: there is no such computation{suggest(name, WORKLOADS)}; choose one of"
            f" {', '.join(WORKLOADS)}"
        )


def computation(name: str, array: int, chunk: int, seed: int) -> Any:
    """A computation that has not begun. Raises UsageError."""
    require_known(name)
    if array < LEAST_CHUNKS * chunk or chunk < 1:
        raise UsageError(
            f"array={array}, chunk={chunk}: the array has to be at least {LEAST_CHUNKS} chunks long"
        )
    return WORKLOADS[name][0](array, chunk, seed)


def is_right(name: str, result: float, array: int) -> bool:
    """Whether a result is what arrays of that size give."""
    _, expected, deviation = WORKLOADS[name]
    return bool(np.isfinite(result)) and abs(result - expected) <= _STEPS * deviation / array
