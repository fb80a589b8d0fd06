"""Stored: small arrays of a Zarr store that go with others into a new file, and attributes of its
groups.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Companion
from hyperslab.arrays.references import OF_ARRAYS, OF_COORDINATES, named_in
from hyperslab.arrays.scaling import real_values
from hyperslab.arrays.source import ArrayInfo, ArraySource, Scaling
from hyperslab.blocks.view import ArrayView
from hyperslab.formats.conventions.packing import ATTRIBUTES, OF_MISSING, pack, unpack

NO_NUMBERS = "it is neither numbers nor characters"
LARGEST_NBYTES = 16 * 1024**2
"Variables that take more, all of an array together, are left out: every task has the file's head."


def too_large() -> str:
    """Why a variable does not go with an array with which there are too many bytes already."""
    return f"with it there are more than {LARGEST_NBYTES // 1024**2} MiB"


def belonging(
    source: ArraySource, arrays: Sequence[ArrayInfo], skipped: Collection[str]
) -> tuple[dict[str, Companion], list[str]]:
    """Small arrays beside an array in a store that say something of it, without those that are
    skipped: coordinates along its axes, those that its attributes name, and the bounds of both;
    and which of them do not go with it, and why. Raises FormatError.
    """
    beside = _beside(source, arrays)
    found: dict[str, Companion] = {}
    left = []
    nbytes = 0
    names = [*source.dims, *named_in(source.header.attributes, OF_ARRAYS)]
    for name in _each_once(names, found):
        info = beside.get(name)
        if info is None or info.name in skipped:
            continue
        why = _why_left(info, nbytes + _nbytes(info))
        if not why:
            nbytes += _nbytes(info)
            found[name] = read_stored(source.url, info.name)
            why = _why_unlike(source, found[name])
        if why:
            found.pop(name, None)
            left.append(f"variable {name} ({why})")
    return found, left


def _each_once(names: Sequence[str], found: Mapping[str, Companion]) -> Iterator[str]:
    """Names, and those that what is found of them names in turn."""
    yield from dict.fromkeys(names)
    more = [name for one in found.values() for name in named_in(one.attributes, OF_COORDINATES)]
    yield from (name for name in dict.fromkeys(more) if name not in found)


def _beside(source: ArraySource, arrays: Sequence[ArrayInfo]) -> dict[str, ArrayInfo]:
    """Other arrays in the group of an array, by their names in it."""
    folder, _, own = source.name.strip("/").rpartition("/")
    paths = [(info.name.rpartition("/"), info) for info in arrays]
    return {name: info for (place, _, name), info in paths if place == folder and name != own}


def _nbytes(info: ArrayInfo) -> int:
    if not is_number(info):
        return 0
    return math.prod(info.shape) * np.dtype(info.dtype).itemsize


def _why_left(info: ArrayInfo, nbytes: int) -> str:
    """Why an array, with which there are so many bytes, does not go with another one; '' where it
    does.
    """
    if not is_number(info):
        return NO_NUMBERS
    if nbytes > LARGEST_NBYTES:
        return too_large()
    return ""


def _why_unlike(source: ArraySource, one: Companion) -> str:
    """Why a variable cannot go with an array; '' where it has the same extents."""
    extents = dict(zip(source.dims, source.shape, strict=True))
    own = zip(one.dims, one.values.shape, strict=True)
    if any(extents.get(name, n) != n for name, n in own):
        return "its axes have other lengths"
    return ""


def is_number(info: ArrayInfo) -> bool:
    """Whether an array of a store holds numbers, by the word for its type."""
    try:
        return np.dtype(info.dtype).kind in "biufc"
    except (TypeError, ValueError):
        return False


def read_stored(path: str, name: str) -> Companion:
    """A variable of a store with its stored values. Where nobody can tell what these mean, its
    attributes of packing stay as they are. Raises FormatError, UsageError.
    """
    source = formats.open_source(f"{path}::{name}")
    values = np.asarray(ArrayView(source, "stored")[...])
    said = dict(source.header.attributes)
    if not source.unscalable:
        said = {key: one for key, one in said.items() if key not in ATTRIBUTES}
    if source.scaling is not None:  # with types, which JSON has not
        said |= pack(source.scaling, source.stored)
    return Companion(name.rpartition("/")[2], source.dims, values, said)


def meant(one: Companion) -> Companion | None:
    """A variable with its real values where stored ones are packed or missing, and then without
    attributes of packing, for which a store has no types; None for one without numbers, or whose
    real values cannot be computed.
    """
    values = one.values.astype(one.values.dtype.newbyteorder("="), copy=False)
    if values.dtype.kind not in "biufc" or 0 in values.shape:
        return None
    packing = unpack(one.attributes, values.dtype, default_fill=False)
    if packing.unscalable:
        return None
    said = ATTRIBUTES.intersection(one.attributes)
    if said <= OF_MISSING and not _is_any_missing(values, packing.scaling):
        return one
    real = values.astype(packing.real, copy=False)
    if packing.scaling is not None:
        real = real_values(packing.scaling, values, packing.real)
    plain = {name: value for name, value in one.attributes.items() if name not in ATTRIBUTES}
    return replace(one, values=real, attributes=plain)


def _is_any_missing(values: Array, scaling: Scaling | None) -> bool:
    if scaling is None:
        return False
    return any(bool((values == value).any()) for value in scaling.missing)


def typed(value: Any) -> Any:
    """An attribute of JSON, several numbers as an array."""
    is_several = isinstance(value, list) and bool(value)
    if is_several and all(type(one) in (int, float) for one in value):
        return np.array(value)
    return value
