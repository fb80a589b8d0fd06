"""The kinds of files that are made, and how often."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.comparison.datasets import hdf5, hdf5_virtual, minc, netcdf, nifti, zarr
from tests.comparison.made import Dataset

Generator = Callable[[Random, Path], Dataset]
KINDS: dict[str, tuple[Generator, int]] = {
    "hdf5": (hdf5.make, 34),
    "hdf5-virtual": (hdf5_virtual.make, 3),
    "netcdf4": (netcdf.netcdf4, 16),
    "netcdf-classic": (netcdf.classic, 13),
    "minc": (minc.make, 6),
    "nifti": (nifti.make, 14),
    "zarr2": (zarr.version2, 6),
    "zarr3": (zarr.version3, 8),
}
"Generators by the names that --kind takes, and their shares."


def draw(rng: Random, only: str = "") -> Generator:
    """A generator; by its name if one is asked for."""
    name = only or rng.choices(list(KINDS), [share for _, share in KINDS.values()])[0]
    return KINDS[name][0]
