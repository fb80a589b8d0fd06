"""cast: values as another dtype, where every one of them has its equal, or its nearest number of a float dtype."""

from __future__ import annotations

import numpy as np

from hyperslab.array import Array
from hyperslab.errors import BlockError
from hyperslab.slab import Hyperslab


def cast(block: Array, dtype: str, slab: Hyperslab) -> Array:
    """The block's values as `dtype`; floats may be rounded, integers not.

    Raises BlockError for a value that the dtype cannot hold: out of range, NaN or with a fraction for an integer, or
    with an imaginary part for a real one.
    """
    wanted = np.dtype(dtype)
    with np.errstate(all="ignore"):
        made = block.astype(wanted) if wanted.kind == "c" or block.dtype.kind != "c" else block.real.astype(wanted)
        same = made.astype(block.dtype) == block if wanted.kind in "biu" else np.isfinite(made) | ~np.isfinite(block)
    if block.dtype.kind == "c" and wanted.kind != "c":
        same &= block.imag == 0
    if block.dtype.kind in "iu" and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        same &= (block >= limits.min) & (block <= limits.max)
    if not same.all():
        first = np.unravel_index(int(np.argmin(same)), block.shape)
        where = tuple(int(a + i) for a, i in zip(slab.start, first, strict=True))
        raise BlockError(
            f"--dtype {dtype}: the value {block[first]!s} at {where} has no equal there: choose another dtype"
        )
    return made
