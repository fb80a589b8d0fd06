"""What planning takes where an array is many tiny HDF5 files: seconds and memory of the driver, and
whether they grow.

    python -m benchmarks.bench_spark_files [--counts 2000,20000] [--all] [--folder DIR]

Each number of files has a Spark of its own, in a process of its own; a job of Spark's comes first,
so that starting its workers is not counted. Planning is the call of h5read with the list of paths:
every file is opened once, the RDD has what its tasks need. Loading sums all values, which are
compared. --all adds 100,000 files. Ends with status 1 if a file costs more than 1.5 times as much
among the most files as among the fewest.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import h5py
import numpy as np

from benchmarks import spark_checksum as sums
from benchmarks.gates import Gates
from benchmarks.spark_context import ROOT, TASKS, started
from benchmarks.spark_data import DATASET
from benchmarks.spark_spool import forget_peak, peak_nbytes, resident_nbytes
from hyperslab.connectors.spark import h5read
from hyperslab.units import show_bytes, show_seconds

COUNTS, MOST = "2000,20000", "100000"
SHAPE = (4, 8)
IN_A_FOLDER = 1000
LINEAR = 1.5


@dataclass(frozen=True, slots=True)
class Planned:
    """What so many files took."""

    files: int
    planning_s: float
    loading_s: float
    partitions: int
    before_nbytes: int
    "Of the driver's Python, resident before."
    peak_nbytes: int
    "Of the driver's Python, while planning."
    java_nbytes: int
    "Peak of its Java, while planning."


def main() -> None:
    arguments = _arguments()
    if arguments.one:
        print(json.dumps(asdict(_plan(Path(arguments.one), arguments.checksum))))
        return
    counts = sorted(
        int(count) for count in (arguments.counts + f",{MOST}" * arguments.all).split(",")
    )
    folder, planned, gates = (
        Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder)),
        list[Planned](),
        Gates(),
    )
    try:
        for count in counts:
            began = time.perf_counter()
            checksum = make(folder / str(count), count)
            print(f"{count:,} files made in {time.perf_counter() - began:.1f} s", flush=True)
            planned.append(_in_a_process(folder / str(count), checksum))
            print(_line(planned[-1]), flush=True)
            shutil.rmtree(folder / str(count))
    finally:
        shutil.rmtree(folder)
    first, last = (one.planning_s / one.files for one in (planned[0], planned[-1]))
    gates.at_most(
        f"seconds a file, {counts[-1]:,} files / {counts[0]:,} files (linear)", last / first, LINEAR
    )
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", default=COUNTS, help="numbers of files, joined by commas")
    parser.add_argument("--all", action="store_true", help=f"{MOST} files too")
    parser.add_argument(
        "--folder", default=None, help="where the files go; by default the system's"
    )
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--checksum", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def make(folder: Path, count: int) -> int:
    """So many files of 4 x 8 float64, each with numbers of its own; the checksum of all."""
    folder.mkdir(parents=True)
    first = folder / "first.h5"
    with h5py.File(first, "w") as file:
        place = file.create_dataset(DATASET, data=np.zeros(SHAPE)).id.get_offset()
    template, summed = first.read_bytes(), 0
    first.unlink()
    for number in range(count):
        values = np.arange(number, number + np.prod(SHAPE), dtype=np.float64)
        summed += sums.checksum(values)
        own = folder / f"{number // IN_A_FOLDER:05}"
        if number % IN_A_FOLDER == 0:
            own.mkdir()
        data = template[:place] + values.tobytes() + template[place + values.nbytes :]
        (own / f"{number:07}.h5").write_bytes(data)
    return summed % sums.WRAP


def _in_a_process(folder: Path, checksum: int) -> Planned:
    """Raises RuntimeError with what it said when it fails."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.bench_spark_files",
        "--one",
        str(folder),
        "--checksum",
        str(checksum),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(
            f"{folder.name} files ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return Planned(**json.loads(done.stdout.splitlines()[-1]))


def _plan(folder: Path, checksum: int) -> Planned:
    paths = sorted(folder.glob("*/*.h5"))
    with started(TASKS, folder / "events") as spark:
        spark.context.parallelize(range(4), 2).map(str).collect()
        before = resident_nbytes()
        for process in ("self", spark.java):
            forget_peak(process)
        began = time.perf_counter()
        rows = h5read(spark.context, [str(path) for path in paths], DATASET)
        planning, peaks = time.perf_counter() - began, (peak_nbytes(), peak_nbytes(spark.java))
        began = time.perf_counter()
        found = sums.total(rows.mapPartitions(sums.of_rows).collect())
        loading, partitions = time.perf_counter() - began, rows.getNumPartitions()
    if found != checksum:
        raise ValueError(f"the values of {len(paths)} files sum to {found:x}, not {checksum:x}")
    return Planned(len(paths), planning, loading, partitions, before, *peaks)


def _line(one: Planned) -> str:
    each = show_seconds(one.planning_s / one.files)
    memory = f"driver {show_bytes(one.before_nbytes)} before, at most {show_bytes(one.peak_nbytes)}"
    more = (
        f"Java at most {show_bytes(one.java_nbytes)}, loading {one.loading_s:.2f} s in"
        f" {one.partitions} partitions"
    )
    return (
        f"{one.files:,} files: planned in {one.planning_s:.2f} s, {each} a file, {memory}, {more}"
    )


if __name__ == "__main__":
    main()
