"""Sharing: what several arrays of a group have in common in a new file, and whether they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.header import Companion
from hyperslab.arrays.sink import ArraySink
from hyperslab.errors import UsageError
from hyperslab.formats.place import companions_beside


def require_alike(sinks: Sequence[ArraySink]) -> None:
    """Raise UsageError for arrays of one group that bring other variables of one name."""
    arrays = {sink.encoding.name.strip("/") for sink in sinks}
    known: dict[str, Companion] = {}
    for sink in sinks:
        for path, one in _beside(sink).items():
            is_brought = any(one.name == other.name for other in sink.header.companions)
            if path in arrays and is_brought:
                raise _differ(sink.path, path)
            if path not in arrays and not is_same(known.setdefault(path, one), one):
                raise _differ(sink.path, path)


def _beside(sink: ArraySink) -> dict[str, Companion]:
    """What goes with an array, by its path in the file."""
    folder = sink.encoding.name.strip("/").rpartition("/")[0]
    found = companions_beside(sink.header, sink.shape)
    return {f"{folder}/{one.name}".lstrip("/"): one for one in found}


def _differ(path: str, name: str) -> UsageError:
    return UsageError(
        f"{path}: two arrays bring other values of '{name}', of which the file could hold one only:"
        " name a directory, for a file of each array"
    )


def is_same(one: Companion, other: Companion) -> bool:
    """Whether two variables hold the same, and mean it."""
    return (
        one.dims == other.dims
        and one.values.dtype == other.values.dtype
        and one.values.shape == other.values.shape
        and one.values.tobytes() == other.values.tobytes()
        and are_same(one.attributes, other.attributes)
    )


def are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether attributes are the same."""
    return one.keys() == other.keys() and all(
        is_same_value(value, other[name]) for name, value in one.items()
    )


def is_same_value(one: Any, other: Any) -> bool:
    """Whether two attributes, or arrays, are equal bit by bit."""
    a: Array = np.asarray(one)
    b: Array = np.asarray(other)
    if a.dtype.kind != b.dtype.kind or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        return bool(a.tolist() == b.tolist())
    return a.tobytes() == b.tobytes()
