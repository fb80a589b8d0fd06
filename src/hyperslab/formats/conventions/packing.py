"""Packing: real values from the attributes of netCDF, with missing values and valid ranges, as
netCDF4-python has them.

The rules are the NetCDF User's Guide's (appendix A, attribute conventions) and CF's (section 8.1,
packed data), in the reading of netCDF4-python's automatic masking and scaling: what it masks is NaN
here, all else is equal bit by bit and in its dtype. An attribute of masking that no stored value
can equal or that the stored dtype cannot hold is ignored, as it is there. Where the two differ:

- whole numbers without attributes of masking that stay whole numbers, unpacked or packed by whole
  numbers, have no missing values: a stored default fill value is a number as any other
- whole numbers that a whole scale_factor or add_offset keeps whole are float64 where the result
  could overflow, and are not converted to a scale_factor's type that holds fewer of them where
  nothing is scaled
- masked whole numbers are float32 up to 16 bits and float64 beyond, since they have no NaN
- an attribute that cannot be understood (text for a number, several numbers for one) refuses real
  values
- the packing attributes of text and of compound types mean nothing
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.quantities import is_truth
from hyperslab.arrays.source import Scaling
from hyperslab.units import show_count

ATTRIBUTES = frozenset(
    {
        "scale_factor",
        "add_offset",
        "_FillValue",
        "missing_value",
        "_Unsigned",
        "valid_min",
        "valid_max",
        "valid_range",
    }
)
"Names of the attributes that `unpack` looks at."
OF_MISSING = frozenset({"_FillValue", "missing_value"})
"Names of the attributes that say which stored values are missing."

DEFAULT_FILL: dict[str, int | float] = {
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": 9.9692099683868690e36,
    "f8": 9.9692099683868690e36,
}
"What netCDF writes where nobody wrote (NetCDF-C, netcdf.h, NC_FILL_*), by type and size."


class Packing(NamedTuple):
    """What the real values of an array are."""

    scaling: Scaling | None
    real: np.dtype[Any]
    unscalable: str = ""


def unpack(
    attributes: Mapping[str, Any], stored: np.dtype[Any], default_fill: bool, is_enum: bool = False
) -> Packing:
    """The real values of an array with these attributes.

    `default_fill`: without a _FillValue, netCDF's default one marks missing values.
    """
    native = stored.newbyteorder("=")
    if native.kind not in "biufc":
        return Packing(None, native)
    try:
        return _unpack(attributes, native, default_fill, is_enum)
    except ValueError as error:
        return Packing(None, native, str(error))


def truth_or(stored: np.dtype[Any], attributes: Mapping[str, Any]) -> np.dtype[Any]:
    """The stored dtype of an array with these attributes: bool where they say that its bytes of 0
    and 1 are truth values, and nothing of packing.
    """
    is_packed = not ATTRIBUTES.isdisjoint(attributes)
    if stored == np.int8 and not is_packed and is_truth(attributes):
        return np.dtype(np.bool_)
    return stored


def pack(scaling: Scaling, stored: np.dtype[Any]) -> dict[str, Any]:
    """The attributes that say this scaling of an array. Raises ValueError where no attributes
    can.
    """
    if scaling.clip is not None or np.ndim(scaling.slope) or np.ndim(scaling.inter):
        raise ValueError("they are scaled by slices or clipped to a range")
    signed = stored.newbyteorder("=")
    low, high = scaling.valid or (None, None)
    missing = [np.asarray(value).view(signed) for value in scaling.missing]
    attributes: dict[str, Any] = {
        "scale_factor": _factor(scaling.slope, 1),
        "add_offset": _factor(scaling.inter, 0),
    }
    if scaling.unsigned:
        attributes["_Unsigned"] = "true"
    attributes["missing_value"] = np.array(missing, signed)
    attributes["valid_min"] = _signed(low, signed)
    attributes["valid_max"] = _signed(high, signed)
    return {
        name: value for name, value in attributes.items() if value is not None and np.size(value)
    }


def _signed(end: np.generic | None, signed: np.dtype[Any]) -> Any:
    if end is None:
        return None
    return np.asarray(end).view(signed)[()]


def _factor(factor: Any, neutral: int) -> np.generic | None:
    """A factor with its type, which is that of the result, too; None for one that changes
    nothing.
    """
    if isinstance(factor, float) and not isinstance(factor, np.generic) and factor == neutral:
        return None
    number: np.generic = np.asarray(factor).reshape(1)[0]
    return number


def _unpack(
    attributes: Mapping[str, Any], native: np.dtype[Any], default_fill: bool, is_enum: bool
) -> Packing:
    unsigned = native.kind == "i" and text_of(attributes.get("_Unsigned")) in ("true", "True")
    plain = native
    if unsigned:
        plain = np.dtype(f"u{native.itemsize}")
    slope, inter, real = _linear(attributes, plain, is_enum)
    missing, filled = _missing(attributes, native)
    low, high = _valid(attributes, native)
    fills = default_fill and not filled and not unsigned and native.str[1:] in DEFAULT_FILL
    declared = bool(missing) or low is not None or high is not None
    if declared and real.kind not in "fc":
        real = float_of(real)
    # An unsigned value never equals the default fill value, which is signed.
    if real.kind in "fc" and fills:
        missing = [*missing, np.array(DEFAULT_FILL[native.str[1:]], native)]
    absent = {value.view(plain)[()]: None for value in missing if not np.isnan(value)}
    given: dict[str, Any] = {}
    if slope is not None:
        given["slope"] = slope
    if inter is not None:
        given["inter"] = inter
    if low is not None or high is not None:
        given["valid"] = (_viewed(low, plain), _viewed(high, plain))
    scaling = Scaling(missing=tuple(absent), unsigned=unsigned, **given)
    if scaling == Scaling() and real == native:
        return Packing(None, real)
    return Packing(scaling, real)


def float_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The smallest float dtype that takes NaN beside the numbers of one of up to two bytes, else
    float64.
    """
    if dtype.itemsize <= np.float16().itemsize:
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def _viewed(end: Any, plain: np.dtype[Any]) -> Any:
    if end is None:
        return None
    return end.view(plain)[()]


def _linear(
    attributes: Mapping[str, Any], plain: np.dtype[Any], is_enum: bool
) -> tuple[np.generic | None, np.generic | None, np.dtype[Any]]:
    """The factors that are applied, and the dtype of what comes out."""
    slope, inter = (_number(attributes, name) for name in ("scale_factor", "add_offset"))
    if slope is None and inter is None:
        return None, None, plain
    if is_enum:
        raise ValueError(
            "it has a scale_factor or add_offset, but its elements are names of an enumeration"
        )
    if slope is not None and inter is not None and slope == 1 and inter == 0:
        converts = plain.kind != "c" and (
            slope.dtype.kind == "f" or np.can_cast(plain, slope.dtype)
        )
        if converts:
            return None, None, slope.dtype
        return None, None, plain
    if inter is None and slope == 1:
        slope = None
    if slope is None and inter == 0:
        inter = None
    if _may_overflow(plain, slope, inter):
        slope = _in_float64(slope)
        inter = _in_float64(inter)
    real = plain
    # One after the other: NumPy promotes three dtypes at once in another way.
    for factor in (slope, inter):
        if factor is not None:
            real = np.result_type(real, factor.dtype)
    return slope, inter, real


def _in_float64(factor: np.generic | None) -> np.generic | None:
    if factor is None:
        return None
    return np.float64(factor)


def _may_overflow(plain: np.dtype[Any], slope: np.generic | None, inter: np.generic | None) -> bool:
    """Whether whole numbers could leave the range of the dtype in which they are computed."""
    dtype = plain
    bounds = []
    if plain.kind in "iu":
        bounds = [int(n) for n in (np.iinfo(plain).min, np.iinfo(plain).max)]
    for factor, scales in ((slope, True), (inter, False)):
        if factor is None:
            continue
        dtype = np.result_type(dtype, factor.dtype)
        if dtype.kind not in "iu":
            return False
        if scales:
            bounds = [bound * int(factor) for bound in bounds]
        else:
            bounds = [bound + int(factor) for bound in bounds]
        if min(bounds) < np.iinfo(dtype).min or max(bounds) > np.iinfo(dtype).max:
            return True
    return False


def _missing(attributes: Mapping[str, Any], native: np.dtype[Any]) -> tuple[list[Any], bool]:
    """The stored values that are missing, and whether _FillValue is one of them."""
    several = _numbers(attributes, "missing_value")
    one = _numbers(attributes, "_FillValue")
    if one is not None and one.size != 1:
        raise ValueError("its attribute _FillValue is not one number")
    found = [_cast(values, native) for values in (several, one) if values is not None]
    missing = list(itertools.chain(*(values for values in found if values is not None)))
    is_filled = one is not None and _cast(one, native) is not None
    return missing, is_filled


def _valid(attributes: Mapping[str, Any], native: np.dtype[Any]) -> tuple[Any, Any]:
    """The lowest and highest stored values that are valid."""
    both = _numbers(attributes, "valid_range")
    ends = [_numbers(attributes, name) for name in ("valid_min", "valid_max")]
    for name, values, size in (
        ("valid_range", both, 2),
        ("valid_min", ends[0], 1),
        ("valid_max", ends[1], 1),
    ):
        if values is not None and values.size != size:
            raise ValueError(f"its attribute {name} does not hold {show_count(size, 'number')}")
    if native.kind == "c" and (both is not None or any(end is not None for end in ends)):
        raise ValueError("it has a valid range, but complex numbers have no order")
    pair = None
    if both is not None:
        pair = _cast(both, native)
    if pair is not None:
        return pair[0:1].reshape(()), pair[1:2].reshape(())
    low, high = (_cast_one(end, native) for end in ends)
    return low, high


def _cast_one(end: Array | None, native: np.dtype[Any]) -> Array | None:
    """A number as an array without axes, or None."""
    if end is None:
        return None
    cast = _cast(end, native)
    if cast is None:
        return None
    return cast.reshape(())


def _cast(values: Array, native: np.dtype[Any]) -> Array | None:
    """The numbers in the stored dtype, or None if it does not hold them exactly."""
    with np.errstate(all="ignore"):
        cast = values.astype(native)
        same = (values == cast) | (np.isnan(values) & np.isnan(cast))
    if same.all():
        return cast
    return None


def _number(attributes: Mapping[str, Any], name: str) -> np.generic | None:
    values = _numbers(attributes, name)
    if values is None:
        return None
    if values.size != 1 or not np.isfinite(values[0]):
        raise ValueError(f"its attribute {name} is not one finite number")
    number: np.generic = values[0]
    return number


def _numbers(attributes: Mapping[str, Any], name: str) -> Array | None:
    """An attribute as a list of native numbers. Raises ValueError for anything else."""
    if name not in attributes:
        return None
    values = _listed(attributes[name])
    if values.dtype.kind not in "iuf" or values.ndim > 1:
        raise ValueError(f"its attribute {name} is not a number or a list of numbers")
    return values.astype(values.dtype.newbyteorder("=")).reshape(-1)


def _listed(value: Any) -> Array:
    """An attribute as an array. NumPy makes floats of JSON's whole numbers if only int64 and uint64
    hold them all.
    """
    found = np.asarray(value)
    whole = isinstance(value, list) and value and all(type(number) is int for number in value)
    if whole and found.dtype.kind == "f" and min(value) >= 0:
        return np.asarray(value, np.uint64)
    return found


def text_of(value: Any) -> str:
    """An attribute as text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)
