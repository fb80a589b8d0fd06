"""netCDF files, classic and netCDF-4: dimensions, records, storage, packing and missing values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison import draws
from tests.comparison.datasets import netcdf_packing
from tests.comparison.draws import chance
from tests.comparison.made import Dataset, NotMade
from tests.formats.netcdf_made import SMALL_TYPES, TYPES, Variable
from tests.formats.netcdf_made import make as write_file
from tests.formats.reference import as_meant

Sizes = dict[str, int | None]
_CLASSIC = ("CDF-1", "CDF-2", "CDF-5")


def classic(rng: Random, folder: Path) -> Dataset:
    return _make(rng, folder, rng.choice(_CLASSIC))


def netcdf4(rng: Random, folder: Path) -> Dataset:
    return _make(rng, folder, "netCDF-4 classic" if chance(rng, 0.1) else "netCDF-4")


def _make(rng: Random, folder: Path, kind: str) -> Dataset:
    path, sizes = folder / "made.nc", _sizes(rng)
    variables = [_variable(rng, kind, sizes, number) for number in range(rng.choice((1, 1, 2, 3)))]
    if kind in _CLASSIC or chance(
        rng, 0.7
    ):  # in netCDF-4 each variable may have records of its own
        records = rng.choice((0, 1, 3, 3, 7))
        variables = [_with_records(rng, variable, sizes, records) for variable in variables]
    are_written = all(not isinstance(variable.values, tuple) for variable in variables)
    try:  # without fill values, what is never written is whatever was in memory
        write_file(
            variables, path, kind=kind, sizes=sizes, fill=not (are_written and chance(rng, 0.05))
        )
    except (RuntimeError, ValueError, OverflowError, TypeError) as error:
        raise NotMade(f"netCDF: {type(error).__name__}: {error}") from error
    chosen = rng.choice(variables)
    is_written = not isinstance(chosen.values, tuple) and chosen.values is not None
    known = chosen.values if is_written and "significant_digits" not in chosen.options else None
    return Dataset(
        kind="netCDF classic" if kind in _CLASSIC else "netCDF-4",
        path=path,
        name=chosen.name,
        said=f"{kind} {sizes}, {[_told(variable) for variable in variables]}",
        reference=lambda values: _by_netcdf4(path, chosen, values),
        known=known,
        engine="netcdf4",
        dims=lambda: chosen.dims,
        change=lambda copy, places, new: _change(copy, chosen.name, places, new),
    )


def _told(variable: Variable) -> str:
    shape = getattr(variable.values, "shape", "never written")
    return (
        f"{variable.name} {variable.dtype} {variable.dims} {shape} {dict(variable.said)}"
        f" {dict(variable.options)}"
    )


def _sizes(rng: Random) -> Sizes:
    """Up to five dimensions, one or two of which may grow."""
    names = ("time", "depth", "lat", "lon", "band")[: rng.randint(1, 5)]
    sizes: Sizes = {name: rng.choice((1, 2, 3, 5, 7, 12, 20)) for name in names}
    if chance(rng, 0.5):
        sizes[names[0]] = None
    return sizes


def _variable(rng: Random, kind: str, sizes: Sizes, number: int) -> Variable:
    """Over some of the dimensions, those that grow first; sometimes a coordinate."""
    types = TYPES if kind in ("netCDF-4", "CDF-5") else SMALL_TYPES
    dtype = np.dtype(rng.choice(types))
    dims = tuple(name for name in sizes if chance(rng, 0.7))
    name = f"v{number}"
    if number and chance(rng, 0.3):
        name = rng.choice(sorted(sizes)) if number == 1 else name
        dims = (name,) if name in sizes else dims
    said = netcdf_packing.packing(rng, dtype)
    options = _options(rng, kind, sizes, dims) if kind.startswith("netCDF-4") else {}
    variable = Variable(name, dtype.str[1:], dims, said=said, options=options)
    return _with_records(rng, variable, sizes, rng.choice((0, 1, 4)))


def _with_records(rng: Random, variable: Variable, sizes: Sizes, records: int) -> Variable:
    """With values for so many records; sometimes none are written."""
    shape = tuple(
        records if sizes[name] is None else int(sizes[name] or 0) for name in variable.dims
    )
    if chance(rng, 0.08):
        return replace(variable, values=())
    values = draws.values(rng, shape, np.dtype(variable.dtype))
    if "missing_value" in variable.said and values.size and chance(rng, 0.7):
        where = draws.positions(rng, shape)
        pool = np.atleast_1d(variable.said["missing_value"])
        with np.errstate(all="ignore"):
            for place in where:
                values[place] = pool.astype(values.dtype)[rng.randrange(pool.size)]
    return replace(variable, records=records, values=values)


def _options(rng: Random, kind: str, sizes: Sizes, dims: Sequence[str]) -> dict[str, Any]:
    """How netCDF-4 stores a variable; not by Blosc, since a file is lost, and kept open, where that
    packs nothing.
    """
    options: dict[str, Any] = {"endian": rng.choice(("native", "native", "big", "little"))}
    if not dims:
        return options
    if chance(rng, 0.5):
        shape = [sizes[name] or 4 for name in dims]
        options["chunksizes"] = tuple(
            min(pair) for pair in zip(draws.chunks(rng, shape), shape, strict=True)
        )
    if chance(rng, 0.5):
        options["compression"] = rng.choice(("zlib", "zlib", "zlib", "zstd", "bzip2", "szip"))
        options["shuffle"] = chance(rng, 0.5)
        options["complevel"] = rng.randint(1, 9)
        options["fletcher32"] = chance(rng, 0.3)
        if options["compression"] == "szip":
            options["szip_pixels_per_block"] = rng.choice((2, 4, 8))
    if chance(rng, 0.05):
        options["significant_digits"] = rng.randint(1, 5)
    return options


def _by_netcdf4(path: Path, chosen: Variable, values: Values) -> Array:
    """All values as netCDF4-python has them; masks of numbers without sign are ours to compute."""
    with warnings.catch_warnings(), netCDF4.Dataset(path) as file, np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        variable: Any = file[chosen.name]
        own = tuple(slice(0, n) for n in _own_shape(path, chosen, variable.shape))
        said = {name: variable.getncattr(name) for name in variable.ncattrs()}
        dtype = np.dtype(chosen.dtype)
        variable.set_auto_maskandscale(False)
        stored = np.asarray(variable[...])
        if values == "stored":
            return stored[own]
        if netcdf_packing.is_unsigned(said, dtype):
            return netcdf_packing.as_unsigned(stored.astype(dtype.newbyteorder("=")), said)[own]
        variable.set_auto_maskandscale(True)
        return as_meant(variable, variable[...])[own]


def _own_shape(path: Path, chosen: Variable, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a netCDF-4 variable with fewer records than others have: its own."""
    import h5py

    if not h5py.is_hdf5(path):
        return shape
    with h5py.File(path, "r", locking=False) as file:
        own: tuple[int, ...] = file[chosen.name].shape
    return own


def _change(path: Path, name: str, places: Sequence[tuple[int, ...]], new: Array) -> None:
    with netCDF4.Dataset(path, "r+") as file:
        variable: Any = file[name]
        variable.set_auto_maskandscale(False)
        for place, value in zip(places, new, strict=True):
            variable[place or ...] = value
