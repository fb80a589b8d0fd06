"""A reduction over Dask arrays and through xarray: hyperslab against h5py, h5netcdf and netCDF4, in
turn.

    python -m benchmarks.bench_arrays [--size 512MiB] [--repeats 7] [--chunk-size 16MiB] [--folder
    DIR]

Each way is a process of its own that opens the file and takes the largest of all values on Dask's
threads, with the same chunks as the others: shuffle+gzip HDF5 and netCDF-4. What is judged is wall
time, pair by pair, the median; values are compared first. Ends with status 1 if a gate is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import hyperslab
from benchmarks.arguments import sized
from benchmarks.gates import Gates
from benchmarks.reader_process import ReaderProcess, closing
from benchmarks.reading_data import Stored, as_hdf5, as_netcdf, structure
from hyperslab.cli.parse import parse_size

DASK_GATE, XARRAY_GATE = 3.0, 2.0
"How many times as long h5py under Dask, and xarray's engine h5netcdf, have to take."


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    gates, repeats = Gates(), arguments.repeats
    try:
        tissue = structure(folder / "structure", parse_size("--size", arguments.size))
        for title, stored in (
            ("shuffle+gzip HDF5", as_hdf5(tissue, "shuffle+gzip")),
            ("shuffle+deflate netCDF-4", as_netcdf(tissue, 1)),
        ):
            array = hyperslab.to_dask(f"{stored.path}::{stored.dataset}", arguments.chunk_size)
            chunks = [extents[0] for extents in array.chunks]
            _compare(title, stored, chunks, repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = sized(__doc__, "512MiB")
    parser.add_argument("--chunk-size", default="16MiB", help="bytes of a Dask chunk")
    return parser.parse_args()


def _compare(title: str, stored: Stored, chunks: Sequence[int], repeats: int, gates: Gates) -> None:
    size, load = stored.path.stat().st_size, os.getloadavg()[0]
    print(
        f"\n{title}: {stored.nbytes / 1e6:.0f} MB in {size / 1e6:.0f} MB, chunks of {chunks}, load"
        f" {load:.1f}"
    )
    names = ("to_dask", "h5py", "xr hyperslab", "xr h5netcdf", "xr netcdf4")
    given = (stored.path, stored.dataset, ",".join(map(str, chunks)))
    with closing(
        [ReaderProcess(name, "benchmarks.array_process", name, *given) for name in names]
    ) as ways:
        values = [float(way.ready["value"]) for way in ways]
        assert all(math.isclose(value, values[0], rel_tol=1e-9) for value in values), (
            "the values differ"
        )
        for _ in range(repeats):
            for way in ways:
                way.ask("reduce")
    print("\n".join(way.line(stored.nbytes) for way in ways))
    ours_dask, h5py, ours_xarray, h5netcdf, netcdf4 = ways
    gates.at_least(
        f"{title}: wall of dask.array.from_array(h5py) / to_dask",
        _ratio(h5py, ours_dask),
        DASK_GATE,
    )
    gates.at_least(
        f"{title}: wall of xarray with h5netcdf / hyperslab",
        _ratio(h5netcdf, ours_xarray),
        XARRAY_GATE,
    )
    print(f"     xarray with netcdf4 / hyperslab (no gate): {_ratio(netcdf4, ours_xarray):.2f}")


def _ratio(peer: ReaderProcess, ours: ReaderProcess) -> float:
    return statistics.median(a / b for a, b in zip(peer.wall_s, ours.wall_s, strict=True))


if __name__ == "__main__":
    main()
