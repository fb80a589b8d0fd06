"""netCDF's attributes of packing and missing values, of any types and numbers, and what values they
leave real.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from tests.comparison.draws import chance

_SLOPES = (0.1, -1e-3, 1.0, 0.01, 2.0, 1e10, 3e-7, 0.0)
_INTERS = (0.0, -2.5, 273.15, 1e5, -1e-6, 1.0)


def packing(rng: Random, dtype: np.dtype[Any], may_be_unsigned: bool = True) -> dict[str, Any]:
    """Attributes for values of this type; most have one or two, many none."""
    if dtype.kind not in "iuf" or chance(rng, 0.3):
        return {}
    said: dict[str, Any] = {}
    if chance(rng, 0.45):
        said |= _factors(rng, dtype)
    if chance(rng, 0.4):
        said["_FillValue"] = _stored(rng, dtype)
    if chance(rng, 0.3):
        said["missing_value"] = _missing(rng, dtype)
    if chance(rng, 0.25):
        said |= _valid(rng, dtype)
    if may_be_unsigned and dtype.kind in "iu" and chance(rng, 0.15):
        said["_Unsigned"] = rng.choice(("true", "true", "false"))
    return said


def _factors(rng: Random, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Floating factors of one type or two; a whole one where no product can overflow."""
    if dtype.kind in "iu" and dtype.itemsize <= 2 and chance(rng, 0.08):
        return {"scale_factor": np.int32(rng.choice((2, -3, 10)))}
    kinds = (rng.choice((np.float32, np.float64)), rng.choice((np.float32, np.float64)))
    found = {}
    if chance(rng, 0.8):
        found["scale_factor"] = kinds[0](rng.choice(_SLOPES))
    if not found or chance(rng, 0.6):
        found["add_offset"] = kinds[1](rng.choice(_INTERS))
    return found


def _stored(rng: Random, dtype: np.dtype[Any]) -> Any:
    """A number of the type itself: small, an extreme one, or NaN."""
    native = dtype.newbyteorder("=")
    if native.kind == "f":
        return native.type(
            rng.choice((0.0, 1.0, -3.0, 1e20, np.nan, np.inf, float(np.finfo(native).max)))
        )
    info = np.iinfo(native)
    return native.type(rng.choice((0, 1, 5, int(info.max), int(info.min))))


def _missing(rng: Random, dtype: np.dtype[Any]) -> Any:
    """One or several of the type, or one of another type, which it may not hold."""
    style = rng.random()
    if style < 0.45:
        return _stored(rng, dtype)
    if style < 0.75:
        return np.array(
            [_stored(rng, dtype) for _ in range(rng.randint(2, 4))], dtype.newbyteorder("=")
        )
    return rng.choice((2.0, 1.5, 1e6, np.float32(3), np.int32(4), np.int16(1)))


def _valid(rng: Random, dtype: np.dtype[Any]) -> dict[str, Any]:
    native = dtype.newbyteorder("=")
    low, high = sorted((rng.randint(0, 4), rng.randint(2, 60)))
    if chance(rng, 0.5):
        return {"valid_range": np.array([low, high], native)}
    ends = {"valid_min": native.type(low), "valid_max": native.type(high)}
    if chance(rng, 0.4):
        ends.pop(rng.choice(sorted(ends)))
    return ends


def is_unsigned(said: Mapping[str, Any], dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "i" and said.get("_Unsigned") == "true"


def as_unsigned(stored: Array, said: Mapping[str, Any]) -> Array:
    """The real values of whole numbers that are meant without sign, their masks too (netCDF4-python
    has these signed).

    `stored` is in native byte order.
    """
    plain = stored.view(f"u{stored.dtype.itemsize}")
    absent = _absent(plain, said, stored.dtype)
    real: Any = plain
    slope, inter = said.get("scale_factor"), said.get("add_offset")
    with np.errstate(all="ignore"):
        if slope is not None and inter is not None and slope == 1 and inter == 0:
            real = plain.astype(slope.dtype)
        else:
            real = (
                real * slope if slope is not None and not (slope == 1 and inter is None) else real
            )
            real = (
                real + inter if inter is not None and not (inter == 0 and slope is None) else real
            )
    if absent is None:
        return np.asarray(real)
    if real.dtype.kind in "iu":
        real = real.astype(np.float32 if real.dtype.itemsize <= 2 else np.float64)
    real[absent] = np.nan
    return np.asarray(real)


def _absent(plain: Array, said: Mapping[str, Any], stored: np.dtype[Any]) -> Array | None:
    """Where a value is masked; None where no attribute can mask any."""
    numbers = {name: _held(said[name], stored) for name in MASKS if name in said}
    meant = {
        name: values.view(plain.dtype) for name, values in numbers.items() if values is not None
    }
    if not meant:
        return None
    absent = np.zeros(plain.shape, np.bool_)
    for name in ("_FillValue", "missing_value"):
        absent |= np.isin(plain, meant.get(name, ()))
    low, high = meant.get("valid_range", (None, None))
    low, high = meant.get("valid_min", [low])[0], meant.get("valid_max", [high])[0]
    if low is not None:
        absent |= plain < low
    if high is not None:
        absent |= plain > high
    return absent


MASKS = ("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range")


def holds(value: Any, stored: np.dtype[Any]) -> bool:
    """Whether numbers of any type are numbers of this one; if not, they mask nothing."""
    values = np.atleast_1d(value)
    with np.errstate(all="ignore"):
        return np.array_equal(values.astype(stored), values, equal_nan=True)


def _held(value: Any, stored: np.dtype[Any]) -> Array | None:
    """The numbers in the stored type; None if it does not hold all of them."""
    with np.errstate(all="ignore"):
        return np.atleast_1d(value).astype(stored) if holds(value, stored) else None
