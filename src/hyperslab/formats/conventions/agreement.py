"""Whether two ways to say what stored values mean give the same real values: what every new file is
asked first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.scaling import real_values
from hyperslab.arrays.source import Scaling
from hyperslab.formats.conventions.packing import Packing, float_of

_TRIED_NBYTES = 2
"Numbers of up to 16 bits are so few that each is tried."


def agree(one: Packing, other: Packing, stored: np.dtype[Any]) -> bool:
    """Whether every stored value of a dtype has the same real value by both, NaN included.

    Their dtypes may differ where no value shows it, as float64 instead of float32 often does: every
    number of up to 16 bits is tried, and of wider ones both have to be computed in the same dtypes.
    """
    native = stored.newbyteorder("=")
    if native.kind not in "biufc":
        return one == other
    if _computation(one, native) == _computation(other, native):
        return True
    return native.itemsize <= _TRIED_NBYTES and _same(
        *(_every_real_value(said, native) for said in (one, other))
    )


def meaning(scaling: Scaling | None, stored: np.dtype[Any], real: np.dtype[Any] | None) -> Packing:
    """What stored values of this scaling are; where it is not said, their real dtype is NumPy's."""
    native = stored.newbyteorder("=")
    if real is not None or scaling is None:
        if real is None:
            return Packing(scaling, native)
        return Packing(scaling, real)
    computed = _dtypes(scaling, native, np.result_type(native, np.float64))[-1]
    if computed.kind not in "fc" and (scaling.missing or scaling.valid is not None):
        computed = float_of(computed)
    return Packing(scaling, computed)


def _computation(said: Packing, native: np.dtype[Any]) -> tuple[Any, ...]:
    """All that decides real values: the numbers, and the dtypes of the steps."""
    scaling = said.scaling or Scaling()
    plain = _plain(scaling, native)
    low, high = scaling.valid or (None, None)
    numbers = tuple(np.asarray(factor).tolist() for factor in (scaling.slope, scaling.inter))
    missing = frozenset(_bits(value, plain) for value in scaling.missing)
    valid = tuple(None if end is None else _bits(end, plain) for end in (low, high))
    steps = (*_dtypes(scaling, native, said.real), said.real)
    return (numbers, missing, valid, scaling.clip, scaling.unsigned, steps)


def _dtypes(
    scaling: Scaling, native: np.dtype[Any], real: np.dtype[Any]
) -> tuple[np.dtype[Any], ...]:
    """The dtypes of the product and of the sum, as `Scaling` says them."""
    product = _combined(_plain(scaling, native), scaling.slope, 1, real)
    return product, _combined(product, scaling.inter, 0, real)


def _combined(
    dtype: np.dtype[Any], factor: Any, neutral: int, real: np.dtype[Any]
) -> np.dtype[Any]:
    if isinstance(factor, np.ndarray | np.generic):
        return np.result_type(dtype, factor.dtype)
    if factor == neutral:
        return dtype
    return real


def _plain(scaling: Scaling, native: np.dtype[Any]) -> np.dtype[Any]:
    if scaling.unsigned:
        return np.dtype(f"u{native.itemsize}")
    return native


def _bits(value: Any, plain: np.dtype[Any]) -> bytes:
    return np.asarray(value).view(plain).tobytes()


def _every_real_value(said: Packing, native: np.dtype[Any]) -> Array:
    """The real values of all numbers that a dtype has."""
    count = 2
    if native.kind != "b":
        count = 2 ** (8 * native.itemsize)
    stored = np.arange(count, dtype=f"u{native.itemsize}").view(native)
    return real_values(said.scaling or Scaling(), stored, said.real)


def _same(one: Array, other: Array) -> bool:
    """Equal also in the signs of zeros."""
    present = ~np.isnan(one)
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(
        np.signbit(one[present]), np.signbit(other[present])
    )
