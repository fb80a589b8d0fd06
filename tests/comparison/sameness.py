"""Where two arrays are not the same, bit for bit, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.arrays import Array


def unlike(found: Any, expected: Array, any_nan: bool = False) -> str:
    """What differs: kind, shape, dtype, or elements; '' if nothing does.

    Floats are equal if their bits are. With `any_nan` a NaN equals every NaN: arithmetic says
    nothing of its payload.
    """
    found = np.asarray(
        found, object if expected.dtype.hasobject and not expected.dtype.names else None
    )
    if found.shape != expected.shape:
        return f"its shape is {found.shape}, not {expected.shape}"
    if found.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        return f"its dtype is {found.dtype}, not {expected.dtype}"
    if expected.dtype.names:
        parts = (
            (name, unlike(found[name], expected[name], any_nan)) for name in expected.dtype.names
        )
        return next((f"field {name}: {said}" for name, said in parts if said), "")
    apart = _apart(found, expected.astype(expected.dtype.newbyteorder("=")), any_nan)
    return _told(found, expected, apart) if apart.any() else ""


def _apart(found: Array, expected: Array, any_nan: bool) -> Array:
    if expected.dtype.hasobject:
        pairs = zip(found.ravel(), expected.ravel(), strict=True)
        return np.array([not _same(*pair) for pair in pairs], np.bool_).reshape(expected.shape)
    both_nan = np.zeros(expected.shape, np.bool_)
    if expected.dtype.kind in "fc" and (any_nan or expected.dtype.char in "gG"):
        both_nan = np.isnan(found) & np.isnan(expected)
    if expected.dtype.char in "gG":  # some of their bytes mean nothing
        return np.asarray((found != expected) & ~both_nan)
    return np.asarray((_bits(found) != _bits(expected)).any(axis=-1) & ~both_nan)


def _bits(block: Array) -> Array:
    """The bytes of every element, along one more axis."""
    native = np.ascontiguousarray(block.astype(block.dtype.newbyteorder("=")))
    raw = native.reshape(-1).view("u1") if native.dtype.itemsize else np.empty(0, "u1")
    return raw.reshape(*block.shape, block.dtype.itemsize)


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, np.void):
        return all(_same(one[name], other[name]) for name in other.dtype.names or ())
    if isinstance(other, str | bytes):
        return bool(one == other)
    return type(one) is type(other) and np.array_equal(one, other)


def _told(found: Array, expected: Array, apart: Array) -> str:
    first = tuple(int(n) for n in np.argwhere(apart)[0])
    count = f"{np.count_nonzero(apart)} of {apart.size} elements differ"
    return f"{count}, the first at {first}: {found[first]!r}, not {expected[first]!r}"
