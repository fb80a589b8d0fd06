"""netCDF files of every kind, made with netCDF4-python, and values to put in them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np

from hyperslab.arrays import Array

KINDS: dict[str, Any] = {
    "netCDF-4": "NETCDF4",
    "netCDF-4 classic": "NETCDF4_CLASSIC",
    "CDF-1": "NETCDF3_CLASSIC",
    "CDF-2": "NETCDF3_64BIT_OFFSET",
    "CDF-5": "NETCDF3_64BIT_DATA",
}
SMALL_TYPES = ["i1", "i2", "i4", "f4", "f8"]
TYPES = [*SMALL_TYPES, "u1", "u2", "u4", "i8", "u8"]
SIZES: dict[str, int | None] = {"t": None, "n": 6, "z": 3, "y": 5, "x": 7}
RECORDS = 4


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, its stored values and its attributes."""

    name: str = "v"
    dtype: Any = "i2"
    dims: tuple[str, ...] = ("y", "x")
    said: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    records: int = RECORDS
    values: Any = None
    "None: `typical`; (): never written."


def typical(dtype: Any, shape: Sequence[int]) -> Array:
    """Small numbers, extremes and netCDF's default fill value by turns; of floats also NaN and
    infinity.
    """
    kind = np.dtype(dtype)
    if kind.kind == "S":
        return np.resize(np.array([b"a", b"\0", b"\xff", b" "], "S1"), shape)
    near = list(range(0 if kind.kind == "u" else -3, 8))
    ends = (
        [0.1, 1e20, np.nan, np.inf, -0.0]
        if kind.kind == "f"
        else [np.iinfo(kind).min, np.iinfo(kind).max]
    )
    pool = np.array([*near, *ends, netCDF4.default_fillvals[kind.str[1:]]], kind)
    return np.resize(pool, shape) if math.prod(shape) else np.empty(shape, kind)


def make(
    variables: Iterable[Variable],
    path: Path,
    *,
    kind: str = "netCDF-4",
    sizes: Mapping[str, int | None] = SIZES,
    fill: bool = True,
) -> None:
    """A file with these variables over dimensions of these sizes; None is an unlimited one."""
    with warnings.catch_warnings(), netCDF4.Dataset(path, "w", format=KINDS[kind]) as file:
        warnings.simplefilter("ignore")
        file.set_auto_mask(False)
        if not fill:
            file.set_fill_off()
        for name, size in sizes.items():
            file.createDimension(name, size)
        made = [(variable, add(file, variable)) for variable in variables]
        for variable, stored in made:
            write(variable, stored)


def add(group: Any, variable: Variable) -> Any:
    """Make a variable with its attributes; nothing is written to it."""
    said = dict(variable.said)
    options = {"fill_value": said.pop("_FillValue", None), **variable.options}
    stored = group.createVariable(variable.name, variable.dtype, variable.dims, **options)
    stored.set_auto_maskandscale(False)
    stored.setncatts(said)
    return stored


def write(variable: Variable, stored: Any) -> None:
    shape = tuple(variable.records if dim.isunlimited() else len(dim) for dim in stored.get_dims())
    values = typical(variable.dtype, shape) if variable.values is None else variable.values
    if isinstance(values, tuple) or 0 in shape:
        return
    stored[...] = values
