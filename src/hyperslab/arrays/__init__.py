"""Arrays in files as records, and their geometry."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def is_masked_array(value: Any) -> bool:
    """Whether it is a masked array, whose mask no file keeps. There is none where numpy.ma is not
    imported: to name it would import it.
    """
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    return isinstance(value, kind)


def holds_masked(value: Any) -> bool:
    """Whether any element of a masked array is masked; False for another array."""
    return is_masked_array(value) and bool(value.mask.any())
