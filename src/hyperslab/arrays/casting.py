"""Casting: values as another dtype, where every one of them has its equal; floats may be rounded to
a narrower float dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array, DType
from hyperslab.errors import BlockError

_PIECE_ELEMENTS = 2**18
"Elements that are compared at a time: temporaries stay small beside a block."


def cast(block: Array, wanted: DType, start: Sequence[int]) -> Array:
    """The block's values as `wanted`; floats may be rounded, integers not. Laid out as the block.

    `start` is the place of its first element. Raises BlockError for a value that the dtype cannot
    hold: out of range, NaN or with a fraction for an integer, an integer that a float dtype would
    round, or with an imaginary part for a real one.
    """
    made = np.empty_like(block, dtype=wanted, subok=False)
    for piece in _pieces(block):
        given = block[piece]
        odd = _fill(made[piece], given)
        if odd.any():
            first = np.unravel_index(int(np.argmax(odd)), odd.shape)
            offset = tuple(part.start for part in piece) + (0,) * (block.ndim - len(piece))
            where = tuple(int(s + o + i) for s, o, i in zip(start, offset, first, strict=True))
            raise BlockError(
                f"--dtype {wanted}: the value {given[first]!s} at {where}"
                f" {_why(given[first], made[piece][first])}: choose another dtype"
            )
    return made


def _why(value: Any, made: Any) -> str:
    """Why a dtype cannot hold a value, of which it has made another one."""
    wanted = made.dtype
    if wanted.kind != "c" and np.imag(value):
        return "has an imaginary part"
    real = np.real(value)
    if wanted.kind == "b":
        return "is neither 0 nor 1"
    if wanted.kind not in "iu" and np.isinf(made):
        return f"is larger than any {wanted}"
    if wanted.kind not in "iu":
        return f"is a whole number that no {wanted} equals, the nearest being {int(np.real(made))}"
    if not np.isfinite(real):
        return "is no whole number"
    limits = np.iinfo(wanted)
    exact = int(real)
    if exact > limits.max:
        return f"is above {limits.max}"
    if exact < limits.min or (exact == limits.min and real < exact):
        return f"is below {limits.min}"
    return "is no whole number"


def _pieces(block: Array) -> Iterator[tuple[slice, ...]]:
    """Indices that together select all of a block, some rows of its slowest axis each."""
    if not block.ndim:
        yield ()
        return
    slowest = max(range(block.ndim), key=lambda axis: abs(block.strides[axis]))
    extent = block.shape[slowest]
    rows = max(1, _PIECE_ELEMENTS * extent // max(1, block.size))
    for first in range(0, extent, rows):
        index = [slice(0, n) for n in block.shape]
        index[slowest] = slice(first, min(first + rows, extent))
        yield tuple(index)


def _fill(made: Array, given: Array) -> Array:
    """Convert some values; where they are not what they were."""
    loses_half = given.dtype.kind == "c" and made.dtype.kind != "c"
    plain = given
    if loses_half:
        plain = given.real
    with np.errstate(all="ignore"):
        np.copyto(made, plain, casting="unsafe")
        odd = np.atleast_1d(_odd(plain, made)).reshape(given.shape)
    if loses_half:
        odd = odd | (given.imag != 0)
    return odd


def _odd(block: Array, made: Array) -> Array:
    """Where values are not what they were.

    What becomes of a float beyond the range of whole numbers is undefined (C standard, 6.3.1.4) and
    may be equal when it is converted back, so that the range is looked at by itself; the number
    after its last is a power of 2, which floats have.
    """
    if made.dtype.kind not in "biu":
        if block.dtype.kind in "iu":
            return _is_rounded(block, made)
        return np.asarray(np.isinf(made) & np.isfinite(block))
    odd: Array = np.asarray(made.astype(block.dtype) != block)
    if made.dtype.kind in "iu" and block.dtype.kind != "b":
        limits = np.iinfo(made.dtype)
        odd |= block < limits.min
        if block.dtype.kind == "f":
            odd |= block >= int(limits.max) + 1
        else:
            odd |= block > limits.max
    if block.dtype.kind == "f":
        odd |= np.isinf(block)  # equal to a whole number that is infinite as a float16
    return odd


def _is_rounded(block: Array, made: Array) -> Array:
    """Where integers have become other numbers, or infinite ones, as floats.

    A float beyond the range of integers is looked at by itself, as in `_odd`.
    """
    limits = np.iinfo(block.dtype)
    if limits.max <= 2 ** (np.finfo(made.dtype).nmant + 1):
        return np.zeros(block.shape, np.bool_)
    real = made.real
    back = real.astype(block.dtype)
    return np.asarray((back != block) | np.isinf(real) | (real >= int(limits.max) + 1))
