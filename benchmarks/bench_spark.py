"""Loading matrices into Spark: hyperslab against h5py, MPI, H5Spark's way, mapInArrow, Parquet and
whole files.

    python -m benchmarks.bench_spark [--sizes 0.25GB,1GB,4GB] [--repeats 5] [--minutes 12] [--folder
    DIR]
                                     [--traces DIR] [--write docs/spark.md] [--no-mpi]

Every load sums all values, by the same function in every way, or has Java take them (Data Source,
mapInArrow, Parquet: Spark's format noop; these are compared by a sum once before). A round holds
every way on every size once, in random order; before each load its file is read once with plain
reads, so that it comes from the page cache. All sizes are cut into 16 partitions, so that the line
through the times tells the fixed cost of a load from the cost of a byte: shown by least squares
through the medians, gates by the medians of ratios round by round. Partitions and executors are
varied on the second size, caches filled with the smallest one. Ends with status 1 if a gate is
missed.

Needs Java 17 or newer, and of Python's packages those of hyperslab[bench], with MPI (mpi4py and
mpich). Takes about 20 minutes and 9 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from benchmarks import spark_caches, spark_memory, spark_page, spark_scaling, spark_tables
from benchmarks.gates import Gates
from benchmarks.reader_process import ReaderProcess
from benchmarks.spark_context import TASKS, Spark, started
from benchmarks.spark_data import CHUNK_ROWS, LEVEL, Kind, Matrix, gzip, plain
from benchmarks.spark_gates import judge
from benchmarks.spark_reader import MpiReader, mpiexec
from benchmarks.spark_rounds import Loader, compare, measure, pairs
from benchmarks.spark_tables import Results
from benchmarks.spark_traces import Traced, save
from benchmarks.spark_ways import H5PY, MPI, SMALLER, WAYS
from hyperslab.cli.parse import parse_size
from hyperslab.errors import UsageError
from hyperslab.machine.host import Host, describe
from hyperslab.machine.java import require_java
from hyperslab.units import show_bytes, show_count

KINDS: tuple[Kind, ...] = ("plain", "gzip")
LIBRARIES = ("pyspark", "pyarrow", "numpy", "h5py")


def main() -> None:
    arguments = _arguments()
    if arguments.mpi:
        mpiexec()
    try:
        require_java("Spark")
        if arguments.write:
            spark_page.require_blocks(arguments.write)
        sizes = sorted(parse_size("--sizes", size) for size in arguments.sizes.split(","))
    except (UsageError, ValueError) as error:
        raise SystemExit(str(error)) from error
    if len(sizes) < 2:
        raise SystemExit(
            f"--sizes {arguments.sizes}: give two sizes or more, to tell fixed costs from those of"
            " bytes"
        )
    gates = Gates()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    try:
        results = _measure(arguments, sizes, folder, gates)
    finally:
        shutil.rmtree(folder)
    tables = spark_tables.blocks(results)
    for name, text in tables.items():
        print(f"\n== {name}\n\n{text}")
    if arguments.write:
        spark_page.write(arguments.write, tables)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="0.25GB,1GB,4GB")
    parser.add_argument(
        "--repeats", type=int, default=5, help="rounds at most; at least one is made"
    )
    parser.add_argument(
        "--minutes", type=float, default=12, help="no round begins that would end later"
    )
    parser.add_argument(
        "--folder", default=None, help="where the files go; by default the system's"
    )
    parser.add_argument(
        "--traces", type=Path, default=None, help="keep a trace of every kind of load here"
    )
    parser.add_argument(
        "--write", type=Path, default=None, help="the page whose tables are replaced"
    )
    parser.add_argument(
        "--no-mpi", dest="mpi", action="store_false", help="leave MPI out, with its gate"
    )
    return parser.parse_args()


def _measure(
    arguments: argparse.Namespace, sizes: Sequence[int], folder: Path, gates: Gates
) -> Results:
    began = time.monotonic()
    matrices = _make(folder, sizes)
    results = Results(_about(matrices))
    with ExitStack() as stack:
        readers: dict[str, ReaderProcess] = {H5PY: ReaderProcess(H5PY, "benchmarks.spark_reader")}
        stack.callback(readers[H5PY].close)
        if arguments.mpi:
            readers[MPI] = MpiReader(MPI)
            stack.callback(readers[MPI].close)
        until = began + 60 * arguments.minutes
        _measure_here(arguments, results, folder, matrices, readers, until)
        ways = [*readers, *(way.name for way in WAYS)]
        for kind in KINDS:
            print(f"\n{spark_tables.loads_table(results.loads, kind)}\n", flush=True)
        results.judged = judge(results.loads, gates, ways)
        _measure_clusters(arguments, results, folder, matrices, readers[H5PY])
    middle = matrices[1]
    for number, way in enumerate(spark_memory.WAYS):
        results.memories.append(spark_memory.measure(way, middle, folder / f"memory-{number}"))
    rounds = max(load.round for load in results.loads)
    results.about["rounds"] = f"medians of {show_count(rounds, 'round')} in random order"
    minutes = (time.monotonic() - began) / 60
    results.about["took"] = (
        f"{minutes:.0f} minutes, load average {os.getloadavg()[0]:.1f} at the end"
    )
    return results


def _make(folder: Path, sizes: Sequence[int]) -> list[Matrix]:
    """Plain matrices by size, then gzip ones."""
    made = []
    for number, size in enumerate(sizes):
        made.append(plain(folder, size, with_parquet=number < SMALLER))
        print(f"made      {made[-1].path.name}: {show_bytes(made[-1].nbytes)}", flush=True)
    for size in sizes:
        made.append(gzip(folder, size))
        stored = show_bytes(made[-1].path.stat().st_size)
        print(
            f"made      {made[-1].path.name}: {show_bytes(made[-1].nbytes)} in {stored}", flush=True
        )
    os.sync()  # no write-back while loads are timed
    return made


def _measure_here(
    arguments: argparse.Namespace,
    results: Results,
    folder: Path,
    matrices: Sequence[Matrix],
    readers: dict[str, ReaderProcess],
    until: float,
) -> None:
    """What runs in this process's Spark: rounds, traces, caches and partitions."""
    traced: list[Traced] = []
    with started(TASKS, folder / "events-local") as spark:
        loader = Loader(spark, readers)
        listed = pairs(matrices, list(readers))
        compare(loader, listed)
        results.loads = measure(loader, listed, arguments.repeats, until)
        if arguments.traces:
            traced = [loader.traced(pair, folder / "spool") for pair in listed]
        results.caches = spark_caches.forms(spark, matrices[0], arguments.repeats)
        results.series.append(
            _series(spark, spark_scaling.LOCAL, arguments, folder, matrices, readers[H5PY])
        )
    log = spark.log()
    for kept in results.caches:
        kept.read(log)
    results.series[0].read(log)
    _save_traces(arguments, [*traced, *results.series[0].traced], spark)
    with started(TASKS, folder / "events-compress", {"spark.rdd.compress": "true"}) as spark:
        compressed = spark_caches.compressed(spark, matrices[0], arguments.repeats)
    compressed.read(spark.log())
    results.caches.insert(1, compressed)


def _series(
    spark: Spark,
    place: spark_scaling.Place,
    arguments: argparse.Namespace,
    folder: Path,
    matrices: Sequence[Matrix],
    reader: ReaderProcess,
) -> spark_scaling.Series:
    kills = place is spark_scaling.CLUSTERS[-1]
    return spark_scaling.series(
        spark, place, matrices[1], reader, folder / "scaling", arguments.repeats, kills=kills
    )


def _measure_clusters(
    arguments: argparse.Namespace,
    results: Results,
    folder: Path,
    matrices: Sequence[Matrix],
    reader: ReaderProcess,
) -> None:
    """Executors as processes of their own."""
    for place in spark_scaling.CLUSTERS:
        with started(place.master, folder / f"events-{place.workers}-executors") as spark:
            series = _series(spark, place, arguments, folder, matrices, reader)
        series.read(spark.log())
        results.series.append(series)
        _save_traces(arguments, series.traced, spark)


def _save_traces(arguments: argparse.Namespace, traced: Sequence[Traced], spark: Spark) -> None:
    if not arguments.traces:
        return
    log = spark.log()
    for one in traced:
        save(one, arguments.traces, log)
    print(f"traces    {show_count(len(traced), 'trace')} in {arguments.traces}", flush=True)


def _about(matrices: Sequence[Matrix]) -> dict[str, str]:
    """What was measured on what, without the name of the machine."""
    host, machine = Host.here(), describe()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packed = [m for m in matrices if m.kind == "gzip"]
    share = sum(m.path.stat().st_size for m in packed) / sum(m.nbytes for m in packed)
    return {
        "machine": (
            f"{show_count(host.cpus, 'processor')} ({machine['processor']}), {show_bytes(memory)}"
            f" of memory, {platform.system()} {platform.release().partition('-')[0]}"
        ),
        "load average at the start": f"{os.getloadavg()[0]:.1f}",
        "software": (
            f"Python {machine['python']}, {', '.join(f'{n} {version(n)}' for n in LIBRARIES)}"
        ),
        "plain": f"contiguous float64, rows of {matrices[0].columns} numbers",
        "gzip": (
            f"uint16, rows of {packed[0].columns:,} numbers, chunks of {CHUNK_ROWS} rows with"
            f" shuffle and deflate at level {LEVEL}, stored in {share:.0%} of their bytes"
        ),
        "cache": "warm: before each load its file was read once with plain reads",
    }


if __name__ == "__main__":
    main()
