"""Where two blocks differ in value, exactly, whatever their dtypes, and by how much.

- two numbers are equal if they are the same number: 1, 1.0 and True are, and so are 0.0 and -0.0,
  and NaN and NaN; the parts of complex numbers are compared one by one, records field by field,
  text as text
- no integer is rounded to be compared with a floating-point number
  (`tests/apps/test_difference_values.py`)
- a tolerance is that of numpy.isclose with equal_nan: |a - b| <= atol + rtol * |b| where b is
  finite
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array, DType

_NUMBERS = "biufc"
_TEXT = "SU"
_TIMES = "mM"


class Tolerance(NamedTuple):
    """How far a may be from b; nothing but equal numbers at (0, 0)."""

    atol: float = 0.0
    rtol: float = 0.0


EXACT = Tolerance()


class Unequal(NamedTuple):
    """What differs in a pair of blocks."""

    mask: Array
    "bool, of the blocks' shape: the elements that differ."
    absolute: float
    "Largest |a - b|; NaN where nothing differs, or not by a number."
    relative: float
    "Largest |a - b| / |b|, infinite where b is 0; NaN as above."
    one_nan: int
    "Elements of which one is NaN and the other is not."


def are_comparable(a: DType, b: DType) -> bool:
    """Whether elements can be equal at all: numbers, text, bytes, times of one unit, records of the
    same fields.
    """
    if a.subdtype is not None or b.subdtype is not None:
        same = a.subdtype is not None and b.subdtype is not None and a.shape == b.shape
        return same and are_comparable(a.base, b.base)
    if a.names or b.names:
        return set(a.names or ()) == set(b.names or ()) and all(
            are_comparable(a[n], b[n]) for n in a.names or ()
        )
    if a.kind in _NUMBERS:
        return b.kind in _NUMBERS
    if a.kind in _TIMES:
        return a == b
    return a.kind == b.kind and (a.kind in _TEXT or (a.kind == "V" and a.itemsize == b.itemsize))


def compare(a: Array, b: Array, tolerance: Tolerance = EXACT) -> Unequal:
    """Compare two blocks of one shape, of comparable dtypes in native byte order."""
    mask = np.zeros(a.shape, np.bool_)
    absolute = np.nan
    relative = np.nan
    one_nan = 0
    for x, y in _leaves(a, b):
        wrong = _unequal(x, y)
        if not wrong.any():
            continue
        if x.dtype.kind in _NUMBERS:
            far = _far(x[wrong], y[wrong], tolerance)
            wrong[wrong] = far.mask
            absolute = np.fmax(absolute, far.absolute)
            relative = np.fmax(relative, far.relative)
            one_nan += far.one_nan
        if wrong.ndim > mask.ndim:
            more_axes = tuple(range(mask.ndim, wrong.ndim))
            mask |= wrong.any(axis=more_axes)
        else:
            mask |= wrong
    return Unequal(mask, float(absolute), float(relative), one_nan)


def _leaves(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """The fields of records that are no records themselves, others as they are; a field may add
    axes at the end.
    """
    if not a.dtype.names:
        yield a, b
        return
    for name in a.dtype.names:
        yield from _leaves(a[name], b[name])


def _unequal(a: Array, b: Array) -> Array:
    """Where the elements are not equal, whatever the tolerance."""
    kinds = a.dtype.kind + b.dtype.kind
    if kinds == "VV":
        return np.asarray(np.any(_as_bytes(a) != _as_bytes(b), axis=-1))
    if kinds[0] in _TIMES:
        return _unequal(a.view(np.int64), b.view(np.int64))
    if "c" in kinds:
        return _unequal(a.real, b.real) | _unequal(a.imag, b.imag)
    if not set(kinds) <= set(_NUMBERS) or _is_exact(a.dtype, b.dtype):
        differ: Array = np.not_equal(a, b)
        if kinds == "ff" and differ.any():
            differ &= ~(np.isnan(a) & np.isnan(b))
        return differ
    if kinds == "iu":
        return np.asarray((a < 0) | (a.astype(b.dtype) != b))
    if kinds == "ui":
        return _unequal(b, a)
    if kinds[1] == "f":
        return np.logical_not(_are_integers(a, b))
    return np.logical_not(_are_integers(b, a))


def _is_exact(a: DType, b: DType) -> bool:
    """Whether NumPy's common dtype of two kinds of numbers holds every value of both."""
    common = np.result_type(a, b)
    if common.kind != "f":
        return True
    digits = np.finfo(common).nmant + 1
    return all(
        dtype.kind not in "iu" or np.iinfo(dtype).bits - (dtype.kind == "i") <= digits
        for dtype in (a, b)
    )


def _are_integers(whole: Array, floating: Array) -> Array:
    """Where a floating-point number is the integer at its place, of 64 bits: both as integers,
    where it is one.
    """
    limits = np.iinfo(whole.dtype)
    wide = floating.astype(np.float64)
    # The bounds are powers of two, or 0, so that they are exact; NaN and infinities are outside.
    inside = (
        (wide >= float(limits.min))
        & (wide < float(limits.max // 2 + 1) * 2)
        & (wide == np.trunc(wide))
    )
    equal: Array = inside & (np.where(inside, wide, 0).astype(whole.dtype) == whole)
    return equal


def _far(a: Array, b: Array, tolerance: Tolerance) -> Unequal:
    """Of unequal numbers (1-D) those beyond the tolerance, and the distances of these."""
    wide = _wide(a.dtype, b.dtype)
    with np.errstate(all="ignore"):
        x = a.astype(wide)
        y = b.astype(wide)
        absolute = np.abs(x - y)
        size = np.abs(y)
        beyond = np.ones(len(x), np.bool_)
        if any(tolerance):
            allowed = tolerance.atol + tolerance.rtol * size
            beyond = ~((absolute <= allowed) & np.isfinite(y))
            absolute = absolute[beyond]
            size = size[beyond]
        relative = absolute / size
    missing = np.count_nonzero((np.isnan(x) | np.isnan(y)) & beyond)
    return Unequal(beyond, _largest(absolute), _largest(relative), int(missing))


def _wide(a: DType, b: DType) -> DType:
    """What distances are computed in: float64, or what tells 64-bit integers apart."""
    long = any(dtype.kind in "iu" and dtype.itemsize == 8 for dtype in (a, b))
    if long:
        return np.result_type(a, b, np.longdouble)
    return np.result_type(a, b, np.float64)


def _largest(numbers: Array) -> float:
    """The largest but for NaN; NaN where there is none."""
    if not len(numbers):
        return np.nan
    return float(np.fmax.reduce(numbers))


def _as_bytes(a: Array) -> Any:
    """Opaque elements as bytes along one more axis."""
    return np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
