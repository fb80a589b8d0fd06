"""Reading without Spark: h5py in one process, and in processes of MPI that each read their share of
the rows.

    python -m benchmarks.spark_reader            one process
    mpiexec -n 2 python -m benchmarks.spark_reader mpi

Every line on standard input is an order, JSON with a path; an empty one ends it. The answer is a
line of JSON: wall seconds from the opening of the file to the checksum of all values, CPU seconds
of the first process, the checksum, and the phases of each rank. Of n rows rank r of P reads n // P,
the last one the remainder too (as the reader that H5Spark was compared with), in pieces of 4 MiB,
into memory that is used again.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.reader import cpu_s
from benchmarks.reader_process import ReaderProcess
from benchmarks.spark_checksum import WRAP, checksum
from benchmarks.spark_data import DATASET, READ_NBYTES
from hyperslab.trace import Phase, recording, span

PROCESSES = 2
POLL_S = 0.002
"MPI waits in a loop; between orders that would take a processor from the other ways."


class MpiReader(ReaderProcess):
    """The processes of MPI; the first one takes the orders."""

    def __init__(self, label: str) -> None:
        self.label = label
        command = [
            mpiexec(),
            "-n",
            str(PROCESSES),
            sys.executable,
            "-m",
            "benchmarks.spark_reader",
            "mpi",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._answer()
        self.wall_s: list[float] = []
        self.cpu_s: list[float] = []

    def close(self) -> None:
        self._pipe(self._process.stdin).write("\n")
        super().close()


def mpiexec() -> str:
    """The launcher, this environment's own first. Ends the program with a sentence where there is
    none.
    """
    own = Path(sys.executable).parent / "mpiexec"
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        missing = "mpiexec" if found is None else "mpi4py"
        raise SystemExit(
            f"{missing} is missing: pip install mpi4py mpich (or hyperslab[bench]), or leave MPI"
            " out: --no-mpi"
        )
    return found


def main() -> None:
    comm = _world() if sys.argv[1:] == ["mpi"] else None
    if comm is not None and comm.rank:
        _follow(comm)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = line.strip()
        if comm is not None:
            for rank in range(1, comm.size):
                comm.send(order, rank)
        if not order:
            return
        print(json.dumps(_serve(json.loads(order)["path"], comm)), flush=True)


def _world() -> Any:
    from mpi4py import MPI

    return MPI.COMM_WORLD


def _follow(comm: Any) -> None:
    while True:
        while not comm.Iprobe(0):
            time.sleep(POLL_S)
        order = comm.recv(source=0)
        if not order:
            return
        _serve(json.loads(order)["path"], comm)


def _serve(path: str, comm: Any) -> dict[str, Any]:
    """Read this process's share; the answer, on the first rank."""
    rank, size = (comm.rank, comm.size) if comm is not None else (0, 1)
    if comm is not None:
        comm.Barrier()
    began, used = time.perf_counter(), cpu_s()
    with recording() as phases:
        summed = read(path, rank, size)
    if comm is not None:
        summed = comm.reduce(summed)
    took, cpu = time.perf_counter() - began, cpu_s() - used
    recorded: Sequence[Sequence[Phase]] = comm.gather(phases) if comm is not None else [phases]
    return {"wall_s": took, "cpu_s": cpu, "checksum": (summed or 0) % WRAP, "phases": recorded}


def read(path: str, rank: int, size: int) -> int:
    """The checksum of a rank's rows."""
    with h5py.File(path, "r") as file:
        dataset = file[DATASET]
        rows, columns = dataset.shape
        first, last = (
            rank * (rows // size),
            rows if rank == size - 1 else (rank + 1) * (rows // size),
        )
        step = max(1, READ_NBYTES // (columns * dataset.dtype.itemsize))
        buffer, summed = np.empty((min(step, last - first), columns), dataset.dtype), 0
        for start in range(first, last, step):
            piece = buffer[: min(step, last - start)]
            with span("read") as mark:
                dataset.read_direct(piece, np.s_[start : start + len(piece)])
                mark.nbytes = piece.nbytes
            with span("compute"):
                summed += checksum(piece)
    return summed


if __name__ == "__main__":
    main()
