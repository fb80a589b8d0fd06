"""Exactness: numbers as another dtype only where every one of them has its equal there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hyperslab.arrays import Array

NUMBERS = "biufc"
"Kinds of NumPy's dtypes."


def exactly(block: Array, dtype: np.dtype[Any]) -> tuple[Array, tuple[int, ...] | None]:
    """The block's values as `dtype`, and the place of the first that has no equal there; None: all
    have.
    """
    if block.dtype == dtype:
        return block, None
    loses_half = block.dtype.kind == "c" and dtype.kind != "c"
    part = block
    if loses_half:
        part = block.real
    with np.errstate(all="ignore"):
        made = part.astype(dtype)
        odd = _odd(part, made)
    if loses_half:
        odd = odd | (block.imag != 0)
    if not odd.any():
        return made, None
    return made, tuple(int(i) for i in np.unravel_index(int(np.argmax(odd)), block.shape))


def promoted(dtypes: Iterable[np.dtype[Any]]) -> np.dtype[Any] | None:
    """The smallest dtype that holds all values of all of these exactly; None where there is
    none.
    """
    given = list(dtypes)
    made = np.result_type(*given)
    if all(_holds(made, dtype) for dtype in given):
        return made
    return None


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Unlike NumPy's safe casting, this knows that a float64 has not every int64."""
    if narrow.kind in "iu" and wide.kind in "fc":
        digits = np.finfo(wide).nmant + 1
        bits = 8 * narrow.itemsize
        if narrow.kind == "i":
            bits -= 1
        return bits <= digits
    return np.can_cast(narrow, wide, "safe")


def _odd(part: Array, made: Array) -> Array:
    """Where values are not what they were."""
    if part.dtype.kind == "c":
        return _odd(part.real, made.real) | _odd(part.imag, made.imag)
    if made.dtype.kind == "c":
        return _odd(part, made.real)
    odd: Array
    if part.dtype.kind == "b":
        odd = np.zeros(part.shape, np.bool_)
    elif made.dtype.kind == "b":
        odd = (part != 0) & (part != 1)
    elif part.dtype.kind == "f":
        if made.dtype.kind in "iu":
            odd = _odd_as_whole(part, made.dtype)
        else:
            odd = _odd_as_smaller(part, made)
    elif made.dtype.kind == "f":
        odd = _odd_as_float(part, made)
    else:
        limits = np.iinfo(made.dtype)
        odd = (part < limits.min) | (part > limits.max)
    return odd


def _odd_as_smaller(part: Array, made: Array) -> Array:
    """Find the floats that are rounded; NaN stays what it is."""
    back = made.astype(part.dtype)
    odd: Array = (back != part) & ~np.isnan(part)
    return odd


def _odd_as_whole(part: Array, dtype: np.dtype[Any]) -> Array:
    """Find the floats with a fraction, out of range, or no number; the number after the last is a
    power of 2.
    """
    limits = np.iinfo(dtype)
    wide = part.astype(np.promote_types(part.dtype, np.float64))
    least = float(limits.min)
    beyond = float(int(limits.max) + 1)
    within = (wide >= least) & (wide < beyond)
    odd: Array = ~within | (np.trunc(wide) != wide)
    return odd


def _odd_as_float(part: Array, made: Array) -> Array:
    """Find the whole numbers that change; one that a float rounds beyond the range must not be
    converted back, which is undefined.
    """
    wide = made.astype(np.promote_types(made.dtype, np.float64))
    beyond = float(int(np.iinfo(part.dtype).max) + 1)
    within = np.isfinite(wide) & (wide < beyond)
    back = np.where(within, wide, 0).astype(part.dtype)
    odd: Array = ~within | (back != part)
    return odd
