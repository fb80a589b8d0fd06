"""Reading whole arrays: hyperslab, h5py, hidefix, netCDF4 and plain preads, each in a process of
its own, in turn.

    python -m benchmarks.bench_read [--size 512MiB] [--repeats 7] [--folder DIR]

Prints seconds of wall and CPU time per reader (median and best), and the gates with the figures
that they are judged by: ratios within one run. CPU seconds are comparable on a busy machine, wall
times hardly; where a gate needs idle processors the benchmark waits for them, and the gate counts
as failed when it never got them.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.arguments import sized
from benchmarks.gates import Gates
from benchmarks.reader_process import ReaderProcess, closing
from benchmarks.reading_data import CHUNK, Stored, as_hdf5, as_netcdf, grain, structure
from hyperslab.cli.parse import parse_size

IDLE_PERCENT = 10.0
IDLE_PATIENCE_S = 120.0
IDLE_SPEEDUP = 1.9
"What two threads that only compute reach where two processors are there for them."
SPUN = bytes(32 * 1024**2)
PREADS_IN_FLIGHT = 4
CONSTANT_NBYTES = 64 * 1024**2
CHUNK_NBYTES = 2 * math.prod(CHUNK)


class Reader(ReaderProcess):
    """A process that reads one array as often as it is told to."""

    def __init__(self, name: str, stored: Stored, threads: int = 1) -> None:
        super().__init__(
            f"{name} {threads}T", "benchmarks.reader", name, stored.path, stored.dataset, threads
        )
        self.checksum = str(self.ready["checksum"])
        self.growth_nbytes = 0
        """By how much the peak of the process's memory has grown since its output was there, before
        its first read.
        """

    def read(self, order: str = "warm") -> None:
        """Read once more and keep the times."""
        self.growth_nbytes = int(self.ask(order)["peak_nbytes"]) - int(self.ready["before_nbytes"])


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    gates, nbytes, repeats = Gates(), parse_size("--size", arguments.size), arguments.repeats
    try:
        tissue, noisy = structure(folder / "structure", nbytes), grain(folder / "grain", nbytes)
        print(f"libraries: {_libraries()}; load {os.getloadavg()[0]:.1f}")
        _filtered("shuffle+gzip HDF5, structure", as_hdf5(tissue, "shuffle+gzip"), gates, repeats)
        _filtered(
            "shuffle+deflate netCDF-4, climate to 0.1 K", as_netcdf(tissue, 1), gates, repeats
        )
        _filtered(
            "shuffle+deflate netCDF-4, climate to 0.01 K (no gate)",
            as_netcdf(tissue, 2),
            None,
            repeats,
        )
        _filtered(
            "shuffle+gzip HDF5, grain (no gate)", as_hdf5(noisy, "shuffle+gzip"), None, repeats
        )
        _chunked("chunked HDF5 without filters", as_hdf5(tissue, "chunked"), gates, repeats)
        _contiguous("contiguous HDF5", as_hdf5(tissue, "contiguous"), gates, repeats)
        _contiguous(".nii", tissue, gates, repeats)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    return sized(__doc__, "512MiB").parse_args()


def _libraries() -> str:
    import h5py

    linked = Path("/proc/self/maps").read_text()
    libz = next(
        (line.split()[-1] for line in linked.splitlines() if "libz" in line), "of its own wheel"
    )
    own = (
        f"h5py {h5py.__version__} with HDF5 {h5py.version.hdf5_version}, libz"
        f" {Path(libz).resolve().name}"
    )
    return f"{own}, hidefix {version('hidefix')}"


def _filtered(title: str, stored: Stored, gates: Gates | None, repeats: int) -> None:
    peer = "hidefix"
    names = [("hyperslab", 1), ("h5py", 1), (peer, 1), ("hyperslab", 2)]
    ours, h5py, other, two = readers = _compare(title, stored, names, repeats)
    _table(readers, stored)
    if gates is None:
        print(
            f"     h5py / hyperslab, CPU of one thread: {h5py.cpu / ours.cpu:.2f}; {peer}:"
            f" {other.cpu / ours.cpu:.2f}"
        )
        return
    gates.at_least(f"{title}: CPU of h5py / hyperslab, 1 thread", h5py.cpu / ours.cpu, 3)
    gates.at_least(f"{title}: CPU of {peer} / hyperslab, 1 thread", other.cpu / ours.cpu, 1.3)
    gates.at_least(f"{title}: wall of 1 thread / 2 threads", _scaling(stored, repeats), 1.8)
    growth = max(two.growth_nbytes, ours.growth_nbytes)
    allowed = 2 * 3 * CHUNK_NBYTES + 4 * CHUNK_NBYTES + CONSTANT_NBYTES
    gates.at_least(f"{title}: memory allowed beside the output / used", allowed / max(1, growth), 1)


def _chunked(title: str, stored: Stored, gates: Gates, repeats: int) -> None:
    ours, h5py = readers = _compare(title, stored, [("hyperslab", 1), ("h5py", 1)], repeats)
    _table(readers, stored)
    gates.at_least(f"{title}: wall of h5py / hyperslab, 1 thread", h5py.wall / ours.wall, 1)
    gates.at_least(f"{title}: wall of 1 thread / 2 threads", _scaling(stored, repeats), 1.7)


def _contiguous(title: str, stored: Stored, gates: Gates, repeats: int) -> None:
    readers = _compare(
        title,
        stored,
        [("hyperslab", 1), ("pread", 1), ("h5py" if stored.dataset else "nibabel", 1)],
        repeats,
    )
    _table(readers, stored)
    gates.at_least(
        f"{title}, warm: wall of a pread loop / hyperslab", readers[1].wall / readers[0].wall, 0.9
    )
    cold = _compare(
        f"{title}, cold", stored, [("hyperslab", 1), ("pread", PREADS_IN_FLIGHT)], repeats, "cold"
    )
    _table(cold, stored)
    gates.at_least(
        f"{title}, cold: wall of four preads in flight / hyperslab",
        cold[1].wall / cold[0].wall,
        0.9,
    )


def _compare(
    title: str, stored: Stored, names: Sequence[tuple[str, int]], repeats: int, order: str = "warm"
) -> list[Reader]:
    """Read in turn, A B C A B C ..., with every reader in its own process; all must have read the
    same.
    """
    print(
        f"\n{title}: {stored.nbytes / 1e6:.0f} MB in {stored.path.stat().st_size / 1e6:.0f} MB,"
        f" {order}"
    )
    with closing([Reader(name, stored, threads) for name, threads in names]) as readers:
        assert len({reader.checksum for reader in readers}) == 1, "the readers differ"
        for _ in range(repeats):
            for reader in readers:
                reader.read(order)
    return list(readers)


def _table(readers: Sequence[Reader], stored: Stored) -> None:
    print("\n".join(reader.line(stored.nbytes) for reader in readers))


def _scaling(stored: Stored, repeats: int) -> float | None:
    """Wall of one thread over two, from pairs for which two processors were idle; None if they
    hardly ever were.

    A virtual processor that looks idle may have to wait for a real one: so computing, too, has to
    be as fast on both at once as on one, before a pair and after it.
    """
    ratios: list[float] = []
    deadline = time.monotonic() + IDLE_PATIENCE_S
    with closing([Reader("hyperslab", stored, 1), Reader("hyperslab", stored, 2)]) as (one, two):
        while len(ratios) < repeats and time.monotonic() < deadline:
            if psutil.cpu_percent(0.3) > IDLE_PERCENT or _speedup() < IDLE_SPEEDUP:
                continue
            one.read()
            two.read()
            if _speedup() >= IDLE_SPEEDUP:
                ratios.append(one.wall_s[-1] / two.wall_s[-1])
    if len(ratios) < min(3, repeats):
        print(
            f"     two processors were idle for {len(ratios)} pairs only in {IDLE_PATIENCE_S:.0f} s"
        )
        return None
    print(
        f"     1 thread / 2 threads, {len(ratios)} pairs:"
        f" {' '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}"
    )
    return statistics.median(ratios)


def _speedup() -> float:
    """How much faster two threads compute than one, now; hashing lets go of Python's lock."""
    with ThreadPoolExecutor(2) as pool:
        times = []
        for count in (1, 2):
            began = time.perf_counter()
            list(pool.map(lambda data: hashlib.sha256(data).digest(), [SPUN] * count))
            times.append(time.perf_counter() - began)
    return 2 * times[0] / times[1]


if __name__ == "__main__":
    main()
