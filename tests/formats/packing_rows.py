"""Rows of netCDF's attributes of packing and missing values, which HDF5-based and classic files
have alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.formats.matrix import Row
from tests.formats.netcdf_made import SMALL_TYPES, TYPES, Variable, make
from tests.formats.reference import netcdf_masked, netcdf_whole

COMBINED, SPECIAL = (
    "Packing and missing values, combined",
    "Packing and missing values, special cases",
)
KINDS = (("netCDF-4", TYPES), ("CDF-5", TYPES), ("CDF-1", SMALL_TYPES))
MASKS: dict[str, dict[str, Any]] = {
    "": {},
    "_FillValue": {"_FillValue": 5},
    "missing_value": {"missing_value": 6},
    "several missing_value": {"missing_value": [1, 2]},
    "valid_min": {"valid_min": 1},
    "valid_max": {"valid_max": 4},
    "valid_range": {"valid_range": [1, 4]},
    "_FillValue, missing_value, valid_range": {
        "_FillValue": 5,
        "missing_value": 2,
        "valid_range": [1, 6],
    },
}
PACKINGS: dict[str, dict[str, Any]] = {
    "": {},
    "scale_factor float32": {"scale_factor": np.float32(0.1)},
    "scale_factor float64": {"scale_factor": 0.1},
    "add_offset float32": {"add_offset": np.float32(-2.5)},
    "add_offset float64": {"add_offset": -2.5},
    "both float32": {"scale_factor": np.float32(0.1), "add_offset": np.float32(3)},
    "both float64": {"scale_factor": -1e-3, "add_offset": 1e20},
    "scale_factor float32, add_offset float64": {
        "scale_factor": np.float32(0.1),
        "add_offset": 273.15,
    },
}


def combined() -> Iterator[Row]:
    """Every way to mask with every way to pack, of every type, in netCDF-4 and CDF-5, and of its
    types in CDF-1. Every two of mask, packing and kind meet in 64 of them, of which those in
    netCDF-4, which take longest, are the fewest; the others repeat how they meet.
    """
    for place, (mask, masked) in enumerate(MASKS.items()):
        for turn, (packing, packed) in enumerate(PACKINGS.items()):
            name = "; ".join(part for part in (mask, packing) if part) or "none"
            for number, (kind, types) in enumerate(KINDS):
                made = [_variable(dtype, masked, packed) for dtype in types]
                real, arrays = _real(bool(mask), packing), tuple(one.name for one in made)
                options: dict[str, Any] = {"real": real, "arrays": arrays, "shown": name}
                if number != _place_of_kind(place, turn):
                    options["repeats"] = "a mask and a packing, in a file of another kind"
                yield Row(COMBINED, f"{name}, {kind}", partial(make, made, kind=kind), **options)


def _place_of_kind(mask: int, packing: int) -> int:
    """The kind of file in which a mask meets a packing: netCDF-4 for each of both once, the others
    in turns.
    """
    if mask == packing:
        return 0
    return 1 + (mask + packing) % 2


def _variable(dtype: str, masked: dict[str, Any], packed: dict[str, Any]) -> Variable:
    said = {name: np.array(value, dtype) for name, value in masked.items()}
    return Variable(dtype, dtype, said={**said, **packed})


def _real(is_masked: bool, packing: str) -> str:
    """What the table says."""
    if not packing and not is_masked:
        return "as stored; of floating numbers the default fill value is NaN"
    wide = "float64" in packing
    return (
        f"{'float64' if wide else 'float32 of float32 and up to 16 bits, else float64'}; NaN where"
        " masked"
    )


def special() -> Iterator[Row]:
    for name, dtype, said, real, expected in (*_whole_factors(), *_unsigned(), *_odd_masks()):
        for kind in ("netCDF-4", "CDF-5"):
            made = partial(make, [Variable("v", dtype, said=said)], kind=kind)
            yield Row(SPECIAL, f"{name}, {kind}", made, real=real, expected=expected, shown=name)
    for name, said, why in _not_understood():
        for kind in ("netCDF-4", "CDF-1"):
            made = partial(make, [Variable("v", "i2", said=said)], kind=kind)
            yield Row(SPECIAL, f"{name}, {kind}", made, unscalable=why, shown=name)


Case = tuple[str, str, dict[str, Any], str, Callable[[str, Values], Array] | None]


def computed(compute: Callable[[Array], Array]) -> Callable[[str, Values], Array]:
    """What real values are where netCDF4-python has others, or fails: computed here from the stored
    ones.
    """

    def expected(url: str, values: Values) -> Array:
        stored = netcdf_whole(url, "stored")
        return stored if values == "stored" else compute(stored)

    return expected


def unwrapped(slope: float, inter: float) -> Callable[[str, Values], Array]:
    """What real values are where netCDF4-python wraps around: NaN where it masks."""

    def expected(url: str, values: Values) -> Array:
        stored = netcdf_whole(url, "stored")
        return (
            stored
            if values == "stored"
            else np.where(netcdf_masked(url), np.nan, stored * slope + inter)
        )

    return expected


def _whole_factors() -> Iterator[Case]:
    wraps = "float64, NaN where masked, as the result could overflow (netCDF4-python wraps around)"
    yield (
        "int16 by a scale_factor of int16",
        "i2",
        {"scale_factor": np.int16(2)},
        wraps,
        unwrapped(2.0, 0),
    )
    yield (
        "uint8 with an add_offset of uint8",
        "u1",
        {"add_offset": np.uint8(200)},
        wraps,
        unwrapped(1.0, 200),
    )
    yield (
        "int64 by a scale_factor of int64",
        "i8",
        {"scale_factor": np.int64(3)},
        wraps,
        unwrapped(3.0, 0),
    )
    yield "int16 by a scale_factor of int32", "i2", {"scale_factor": np.int32(2)}, "int32", None
    said = {"scale_factor": np.int32(2), "add_offset": np.int32(-7), "_FillValue": np.int16(5)}
    yield "int16 by whole factors of int32, masked", "i2", said, "float64, NaN where missing", None
    yield "scale_factor 1", "i2", {"scale_factor": 1.0}, "", None
    yield "add_offset 0", "i2", {"add_offset": 0.0}, "", None
    both = {"scale_factor": 1.0, "add_offset": 0.0}
    yield (
        "scale_factor 1 and add_offset 0",
        "i2",
        both,
        "float64, default fill values are NaN",
        None,
    )
    narrow = {"scale_factor": np.int16(1), "add_offset": np.int16(0)}
    yield "scale_factor 1 and add_offset 0 of fewer bits", "i4", narrow, "", computed(lambda v: v)
    yield (
        "scale_factor 0",
        "i2",
        {"scale_factor": 0.0},
        "float64, default fill values are NaN",
        None,
    )


def _unsigned() -> Iterator[Case]:
    for dtype in ("i1", "i2", "i4", "i8"):
        plain, wide = (
            np.dtype(f"u{dtype[1]}"),
            np.dtype(np.float32 if dtype in ("i1", "i2") else np.float64),
        )
        yield f"_Unsigned {dtype}", dtype, {"_Unsigned": "true"}, plain.name, None
        said = {"_Unsigned": "true", "scale_factor": 0.5, "add_offset": 10.0}
        yield f"_Unsigned {dtype}, packed", dtype, said, "float64", None
        missing = {"_Unsigned": "true", "missing_value": np.array([-1, 5], dtype)}
        real = f"{wide.name}, NaN where missing"
        yield (
            f"_Unsigned {dtype}, missing_value",
            dtype,
            missing,
            real,
            computed(partial(_without, plain, wide)),
        )
        valid = {"_Unsigned": "true", "valid_range": np.array([2, -2], dtype)}
        yield (
            f"_Unsigned {dtype}, valid_range",
            dtype,
            valid,
            real,
            computed(partial(_within, plain, wide)),
        )
    yield "_Unsigned false", "i2", {"_Unsigned": "false"}, "", None
    yield "_Unsigned of a type without sign", "u2", {"_Unsigned": "true"}, "", None


def _without(plain: np.dtype[Any], wide: np.dtype[Any], stored: Array) -> Array:
    """Unsigned numbers without the largest and without 5."""
    values = stored.view(plain)
    return np.where(
        (values == values.dtype.type(np.iinfo(plain).max)) | (values == 5),
        np.nan,
        values.astype(wide),
    )


def _within(plain: np.dtype[Any], wide: np.dtype[Any], stored: Array) -> Array:
    """Unsigned numbers from 2 to the largest but one."""
    values = stored.view(plain)
    outside = (values < 2) | (values > plain.type(np.iinfo(plain).max - 1))
    return np.where(outside, np.nan, values.astype(wide))


def _odd_masks() -> Iterator[Case]:
    yield "_FillValue NaN", "f4", {"_FillValue": np.float32(np.nan)}, "", None
    yield "missing_value that the type cannot hold", "i2", {"missing_value": 1e6}, "", None
    yield "missing_value between two numbers", "i2", {"missing_value": 1.5}, "", None
    yield (
        "missing_value of another type",
        "i2",
        {"missing_value": 2.0},
        "float32, NaN where missing",
        None,
    )
    yield (
        "valid_range that the type cannot hold",
        "u1",
        {"valid_range": np.array([-5.0, 300.0])},
        "",
        None,
    )
    yield (
        "valid_range of floating numbers",
        "f8",
        {"valid_range": np.array([0.0, 1e30])},
        "float64, NaN beyond",
        None,
    )
    yield (
        "valid_min above all",
        "i4",
        {"valid_min": np.int32(2**31 - 1)},
        "float64, NaN below",
        None,
    )


def _not_understood() -> Iterator[tuple[str, dict[str, Any], str]]:
    yield "scale_factor that is text", {"scale_factor": "0.1"}, "scale_factor is not a number"
    yield (
        "several scale_factor",
        {"scale_factor": np.array([1.0, 2.0])},
        "scale_factor is not one finite number",
    )
    yield "infinite add_offset", {"add_offset": np.inf}, "add_offset is not one finite number"
    yield "missing_value that is text", {"missing_value": "none"}, "missing_value is not a number"
    wrong = {"valid_range": np.array([1, 2, 3], "i2")}
    yield "valid_range of three numbers", wrong, "valid_range does not hold 2 numbers"
    several = {"valid_min": np.array([1, 2], "i2")}
    yield "several valid_min", several, "valid_min does not hold 1 number"
