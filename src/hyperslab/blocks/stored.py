"""Stored: small arrays of a Zarr store that go with others into a new file, and attributes of its
groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.arrays.header import Companion
from hyperslab.arrays.source import ArrayInfo, ArraySource
from hyperslab.blocks.view import ArrayView
from hyperslab.formats.conventions.packing import ATTRIBUTES, pack

NO_NUMBERS = "it is neither numbers nor characters"


def along(source: ArraySource, arrays: Sequence[ArrayInfo]) -> dict[str, ArrayInfo]:
    """Other arrays beside an array in a store that have the names of its axes."""
    own = source.name.strip("/")
    named = {info.name: info for info in arrays if info.name != own}
    folder = own.rpartition("/")[0]
    paths = {dim: f"{folder}/{dim}".lstrip("/") for dim in source.dims}
    return {dim: named[path] for dim, path in paths.items() if path in named}


def why_unread(info: ArrayInfo, largest_nbytes: int) -> str:
    """Why an array does not go with others; '' where it does."""
    if not is_number(info):
        return NO_NUMBERS
    if math.prod(info.shape) * np.dtype(info.dtype).itemsize > largest_nbytes:
        return f"it has more than {largest_nbytes // 1024**2} MiB"
    return ""


def is_number(info: ArrayInfo) -> bool:
    """Whether an array of a store holds numbers, by the word for its type."""
    try:
        return np.dtype(info.dtype).kind in "biufc"
    except (TypeError, ValueError):
        return False


def read_stored(path: str, name: str) -> Companion:
    """A variable of a store with its stored values. Raises FormatError, UsageError."""
    source = formats.open_source(f"{path}::{name}")
    values = np.asarray(ArrayView(source, "stored")[...])
    said = {key: one for key, one in source.header.attributes.items() if key not in ATTRIBUTES}
    if source.scaling is not None:  # with types, which JSON has not
        said |= pack(source.scaling, source.stored)
    return Companion(name.rpartition("/")[2], source.dims, values, said)


def typed(value: Any) -> Any:
    """An attribute of JSON, several numbers as an array."""
    is_several = isinstance(value, list) and bool(value)
    if is_several and all(type(one) in (int, float) for one in value):
        return np.array(value)
    return value
