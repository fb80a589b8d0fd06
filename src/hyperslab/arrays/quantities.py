"""Quantities: attributes by which an array says what its values measure, and in which range they
are (CF conventions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

RANGE = "actual_range"
"The smallest and the largest value of an array (section 2.5.1): of none that is computed from it."
OF_QUANTITY = frozenset(
    {
        "units",
        "units_metadata",
        "calendar",
        "standard_name",
        "long_name",
        "cell_methods",
        "flag_values",
        "flag_masks",
        "flag_meanings",
        "ancillary_variables",
    }
)
"""Attributes that say what values measure (sections 3.1 to 3.5, 4.4.1 and 7.3). Those of packing,
such as valid_range, go with stored values alone.
"""
OF_TRUTH = {"dtype": "bool"}
"""The attribute by which xarray writes truth values to formats without them, as bytes of 0 and 1:
it takes whatever numbers have this attribute for truth values.
"""
_WHOLE = "iu"


def without_range(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of an array for one of other values."""
    return {name: value for name, value in without_truth(attributes).items() if name != RANGE}


def without_truth(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of an array for one whose values may be other numbers than 0 and 1."""
    return {name: value for name, value in attributes.items() if not _is_of_truth(name, value)}


def _is_of_truth(name: str, value: Any) -> bool:
    text = value
    if isinstance(value, bytes):  # as HDF5 has text of a fixed length
        text = value.decode("latin-1")
    return isinstance(text, str) and OF_TRUTH.get(name) == text


def is_truth(attributes: Mapping[str, Any]) -> bool:
    """Whether attributes say that bytes of 0 and 1 are truth values."""
    return any(_is_of_truth(name, attributes.get(name)) for name in OF_TRUTH)


def without_quantity(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of an array for one that measures something else: where it lies stays."""
    return {
        name: value
        for name, value in without_range(attributes).items()
        if name not in OF_QUANTITY or _is_of_axes(value)
    }


def is_of_values(name: str) -> bool:
    """Whether an attribute of this name says what values measure, or their range."""
    return name == RANGE or name in OF_QUANTITY


def _is_of_axes(value: Any) -> bool:
    """Whether an attribute says the units of axes, as a header of NIfTI does: it is several."""
    return isinstance(value, tuple)


def may_measure_same(before: np.dtype[Any], after: np.dtype[Any]) -> bool:
    """Whether values of one dtype can measure what those of the other one do, of which they were
    made: of the same kind, or floats of whole numbers, as means are. Whole numbers of floats are
    counts or labels, truth values are masks.
    """
    kinds = [_kind(before), _kind(after)]
    return kinds[0] == kinds[1] or kinds == ["i", "f"]


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind in _WHOLE:
        return "i"
    return dtype.kind
