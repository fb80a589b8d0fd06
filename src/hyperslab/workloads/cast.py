"""cast: values as another dtype, where every one of them has its equal, or its nearest number of a
float dtype.
"""

from __future__ import annotations

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.errors import BlockError

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."


def cast(block: Array, dtype: str, slab: Hyperslab) -> Array:
    """The block's values as `dtype`; floats may be rounded, integers not.

    Raises BlockError for a value that the dtype cannot hold: out of range, NaN or with a fraction
    for an integer, or with an imaginary part for a real one.
    """
    wanted = np.dtype(dtype)
    loses_half = block.dtype.kind == "c" and wanted.kind != "c"
    with np.errstate(all="ignore"):
        made = (block.real if loses_half else block).astype(wanted)
        odd = _odd(block.real if loses_half else block, made)
    if loses_half:
        odd |= block.imag != 0
    if odd.any():
        first = np.unravel_index(int(np.argmax(odd)), block.shape)
        where = tuple(int(a + i) for a, i in zip(slab.start, first, strict=True))
        raise BlockError(
            f"--dtype {dtype}: the value {block[first]!s} at {where} has no equal there: choose"
            " another dtype"
        )
    return made


def _odd(block: Array, made: Array) -> Array:
    """Where values are not what they were.

    What becomes of a float beyond the range of whole numbers is undefined (C standard, 6.3.1.4) and
    may be equal when it is converted back, so that the range is looked at by itself; the number
    after its last is a power of 2, which floats have.
    """
    if made.dtype.kind not in "biu":
        return np.isinf(made) & np.isfinite(block)
    odd: Array = made.astype(block.dtype) != block
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
