"""cast: values as another dtype, where every one of them has its equal; floats may be rounded to a
narrower float dtype.
"""

from __future__ import annotations

import numpy as np

from hyperslab.arrays import Array, casting
from hyperslab.arrays.slab import Hyperslab

VERSION = 1
"Version of its results: raised when they change, see `hyperslab.plan.builtin`."


def cast(block: Array, dtype: str, slab: Hyperslab) -> Array:
    """The block's values as `dtype`; floats may be rounded, integers not.

    Raises BlockError for a value that the dtype cannot hold: out of range, NaN or with a fraction
    for an integer, an integer that a float dtype would round, or with an imaginary part for a real
    one.
    """
    return casting.cast(block, np.dtype(dtype), slab.start)
