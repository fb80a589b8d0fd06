"""One way to have arrays in Dask or xarray, in a process of its own, which reduces the same array
as often as told to.

    python -m benchmarks.array_process WAY FILE DATASET CHUNKS

CHUNKS is a number per axis, joined by commas. Every line on standard input is an order: open the
array, and reduce it by Dask's threads. The answer is a line of JSON: wall and CPU seconds of that
(user and system, all threads). The first line printed, before any order, is the value of the
reduction, to be compared.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.reader import cpu_s

Reduce = Callable[[], float]
Chunks = tuple[int, ...]


def main() -> None:
    way, path, dataset, chunks = sys.argv[1:5]
    reduce = WAYS[way](path, dataset, tuple(map(int, chunks.split(","))))
    print(json.dumps({"value": reduce()}), flush=True)
    for _ in sys.stdin:
        began, used = time.perf_counter(), cpu_s()
        reduce()
        print(
            json.dumps({"wall_s": time.perf_counter() - began, "cpu_s": cpu_s() - used}), flush=True
        )


def hyperslab_dask(path: str, dataset: str, chunks: Chunks) -> Reduce:
    from hyperslab import to_dask

    return lambda: float(
        to_dask(f"{path}::{dataset}", chunks, "stored").max().compute(scheduler="threads")
    )


def h5py_dask(path: str, dataset: str, chunks: Chunks) -> Reduce:
    import dask.array
    import h5py

    def reduce() -> float:
        with h5py.File(path, "r") as file:
            array = dask.array.from_array(file[dataset], chunks)
            return float(array.max().compute(scheduler="threads"))

    return reduce


def hyperslab_xarray(path: str, dataset: str, chunks: Chunks) -> Reduce:
    from hyperslab.connectors.xarray import HyperslabBackend

    return _through_xarray(path, dataset, chunks, HyperslabBackend)


def h5netcdf_xarray(path: str, dataset: str, chunks: Chunks) -> Reduce:
    return _through_xarray(path, dataset, chunks, "h5netcdf", phony_dims="access")


def netcdf4_xarray(path: str, dataset: str, chunks: Chunks) -> Reduce:
    return _through_xarray(path, dataset, chunks, "netcdf4")


def _through_xarray(
    path: str, dataset: str, chunks: Chunks, engine: object, **options: object
) -> Reduce:
    import xarray

    with xarray.open_dataset(path, engine=engine, **options) as found:  # type: ignore[arg-type]
        asked = dict(zip(found[dataset].dims, chunks, strict=True))

    def reduce() -> float:
        with xarray.open_dataset(path, engine=engine, chunks=asked, **options) as opened:  # type: ignore[arg-type]
            return float(opened[dataset].max().compute(scheduler="threads"))

    return reduce


WAYS: dict[str, Callable[[str, str, Chunks], Reduce]] = {
    "to_dask": hyperslab_dask,
    "h5py": h5py_dask,
    "xr hyperslab": hyperslab_xarray,
    "xr h5netcdf": h5netcdf_xarray,
    "xr netcdf4": netcdf4_xarray,
}

if __name__ == "__main__":
    Path(sys.argv[2]).stat()
    main()
