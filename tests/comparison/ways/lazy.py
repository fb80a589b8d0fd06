"""hyperslab.to_dask: a slice of an array of any chunks, computed in this thread."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

import dask.array as da
import numpy as np

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison.cases import Case
from tests.comparison.sameness import unlike
from tests.comparison.selections import select


def computed(case: Case) -> None:
    values: Values = case.rng.choice(get_args(Values))
    expected = case.expected.get(values)
    if expected is None:
        return
    chunks = _chunks(case.rng, expected.shape)
    selection = select(case.rng, expected.shape, lists=False)
    with case.ledger.attempt(f"to_dask, {values}", case.folder, values in case.refused):
        array: Any = hyperslab.to_dask(case.dataset.url, chunks, values)
        found = _array(array[selection.parts].compute(scheduler="synchronous"), array.dtype)
        part = selection.of(expected)
        if found.shape != part.shape:  # Dask itself takes some empty slices for others
            part = np.asarray(
                da.from_array(expected, array.chunks)[selection.parts].compute(scheduler="sync")
            )
        case.ledger.check(
            f"to_dask, {values}",
            f"{chunks} {selection}",
            unlike(found, part, values == "real"),
            part,
        )


def _array(found: Any, dtype: np.dtype[Any]) -> Array:
    """What Dask computed; a text by itself has lost its length, as in NumPy."""
    is_text = np.ndim(found) == 0 and dtype.kind == "S"
    return np.asarray(found, dtype if is_text else None)


def _chunks(rng: Random, shape: tuple[int, ...]) -> Any:
    style = rng.random()
    if style < 0.4:
        return "auto"
    if style < 0.6:
        return rng.choice(("1KiB", "500B", "1MiB"))
    return tuple(rng.randint(max(1, extent // 4), max(1, extent)) for extent in shape)
