"""Reductions of Dask arrays over shuffled and deflated HDF5, in one process, by the threads scheduler.

    python -m benchmarks.bench_arrays [--size 512MiB] [--repeats 5] [--folder DIR]

Each way reads the same file from the page cache, one after the other, in turn; the results are compared. Gates, of wall
time: `hyperslab.to_dask` against `dask.array.from_array` of an h5py dataset, and xarray's engine hyperslab against its
engine h5netcdf, the mean of the same variable each time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array
import h5netcdf
import h5py
import xarray

import hyperslab
from benchmarks.gates import Gates
from benchmarks.reading_data import DATASET, Stored, as_hdf5, structure
from hyperslab.cli.parse import parse_size

LEAST_DASK, LEAST_XARRAY = 3.0, 2.0
CHUNKS = (64, 256, 256)
"Of the Dask arrays: sixteen stored chunks each."
DIMS = ("x", "y", "z")


def main() -> None:
    arguments = _arguments()
    folder, gates = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder)), Gates()
    try:
        stored = as_hdf5(structure(folder / "structure", parse_size("--size", arguments.size)), "shuffle+gzip")
        _name_dimensions(stored)
        ways: dict[str, Callable[[], float]] = {
            "to_dask": lambda: _mean(hyperslab.to_dask(f"{stored.path}::{DATASET}", chunks=CHUNKS)),
            "from_array(h5py)": lambda: _by_h5py(stored),
            "xarray, hyperslab": lambda: _by_xarray(stored, "hyperslab"),
            "xarray, h5netcdf": lambda: _by_xarray(stored, "h5netcdf"),
        }
        with dask.config.set(scheduler="threads", num_workers=len(os.sched_getaffinity(0))):
            taken = _alternate(ways, arguments.repeats)
    finally:
        shutil.rmtree(folder)
    for name, times in taken.items():
        print(f"{name}: {statistics.median(times):.3f} s")
    for title, ours, theirs, least in (
        ("Dask: from_array of h5py / to_dask", "to_dask", "from_array(h5py)", LEAST_DASK),
        ("xarray: engine h5netcdf / engine hyperslab", "xarray, hyperslab", "xarray, h5netcdf", LEAST_XARRAY),
    ):
        ratios = [b / a for a, b in zip(taken[ours], taken[theirs], strict=True)]
        gates.at_least(title, statistics.median(ratios), least)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="512MiB")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", default=None, help="where the files go; by default the system's")
    return parser.parse_args()


def _name_dimensions(stored: Stored) -> None:
    """Make it a netCDF-4 file, which h5netcdf opens as it is."""
    with h5py.File(stored.path, "r+") as file:
        dataset = file[DATASET]
        for axis, (name, extent) in enumerate(zip(DIMS, dataset.shape, strict=True)):
            scale = file.create_dataset(name, data=range(extent), dtype="i4")
            scale.make_scale(name)
            dataset.dims[axis].attach_scale(scale)
    with h5netcdf.File(stored.path, "r") as opened:
        assert opened[DATASET].dimensions == DIMS


def _alternate(ways: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each way, after one round that is not counted, in which all have to give the same."""
    first = {name: way() for name, way in ways.items()}
    assert len({round(mean, 6) for mean in first.values()}) == 1, first
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - began)
    return taken


def _mean(array: Any) -> float:
    return float(array.mean().compute())


def _by_h5py(stored: Stored) -> float:
    with h5py.File(stored.path, "r") as file:
        return _mean(dask.array.from_array(file[DATASET], chunks=CHUNKS))


def _by_xarray(stored: Stored, engine: Any) -> float:
    with xarray.open_dataset(stored.path, engine=engine, chunks=dict(zip(DIMS, CHUNKS, strict=True))) as dataset:
        return float(dataset[DATASET].mean().compute())


if __name__ == "__main__":
    main()
