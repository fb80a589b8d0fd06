"""Programs: what an experiment runs beside hyperslab, to compare with. Each takes the arguments of
`hyperslab run`, as far as it knows them, and leaves the same records.

- `spark-binary-files`: whole images by Spark's `binaryFiles` and three maps, one of which
  increments.
- `h5py`: blocks of an HDF5 dataset, whole rows along its first axis, read by h5py in a pool of
  processes and reduced to their sum. Each block opens the file anew, by `open_source` and by h5py.
- `dask-arrays`: rounds of a computation on plain Dask arrays, on a cluster (`dask_rounds`).
- `spark-pairs`: rounds of a workload on pairs of keys and values in Spark (`spark_rounds`).
- `spark-mllib`: the same of Spark's library for machine learning.
- `file-reads`: rounds of reads of one file that is opened once, or for every read (`reads`).
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hyperslab.apps.experiment.design.setting import IN_SPARK
from hyperslab.apps.files.runs import count_run
from hyperslab.apps.whole_files import increment_files
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.directory import RunDirectory, save_status
from hyperslab.driver.measured import Moments, build_trace
from hyperslab.driver.submission import save_records
from hyperslab.engines.environment import interpreted
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.formats import is_array_file, module, open_source
from hyperslab.machine.host import Host, describe
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.trace import Slot, recording, span
from hyperslab.units import show_count, show_list
from hyperslab.workloads import parse_params

IGNORED = ("--sources", "--format", "--granularity")
"Flags that these programs have no choice of."
COUNT_FILES = "--count-files"
T = TypeVar("T")
IN_SCRATCH = (*IN_SPARK, "file-reads")
"Programs whose temporary files go where --scratch says."


class Asked(NamedTuple):
    """What a program is asked for."""

    sources: list[Path]
    out: Path
    workers: int
    blocks: int
    params: Mapping[str, Any]
    began_ns: int
    "Moment at which the program began, by the monotonic clock."
    workload: str = ""
    connect: str = ""
    record_messages: bool = False
    scratch: str = ""
    "Place of temporary files, as --scratch of a run says it."
    count_files: bool = False
    "Whether operations on files are counted."


def main() -> None:
    """Run the program that the first argument names, with the others. Exits with 2 for arguments
    that it cannot take.
    """
    began_ns = time.monotonic_ns()
    name, *arguments = sys.argv[1:]
    try:
        asked = _asked(arguments, began_ns)
        _require_known(name, asked)
        if asked.count_files:
            sys.exit(_counted(name, arguments, asked.out))
        PROGRAMS[name](asked)
    except HyperslabError as error:
        print(f"hyperslab: {error}", file=sys.stderr)
        sys.exit(2)


def _asked(arguments: Sequence[str], began_ns: int) -> Asked:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("workload")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--out", "-o", required=True)
    parser.add_argument("--workers", type=int, default=Host.here().cpus)
    parser.add_argument("--threads", type=int, choices=[1], default=1)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--param", "-p", action="append", default=[])
    parser.add_argument("--connect", default="")
    parser.add_argument("--scratch", default="")
    for flag in ("--no-report", "--quiet", "--record-messages", COUNT_FILES):
        parser.add_argument(flag, action="store_true")
    for flag in IGNORED:
        parser.add_argument(flag)
    given = parser.parse_args(arguments)
    files = [file for path in given.paths for file in _files(Path(path))]
    params = parse_params(given.param)
    return Asked(
        files,
        Path(given.out),
        given.workers,
        given.blocks,
        params,
        began_ns,
        given.workload,
        given.connect,
        given.record_messages,
        given.scratch,
        given.count_files,
    )


def _require_known(name: str, asked: Asked) -> None:
    """Raise UsageError for what a program has no use of."""
    given = {"--scratch": asked.scratch, COUNT_FILES: asked.count_files}
    takers = {"--scratch": IN_SCRATCH, COUNT_FILES: IN_SPARK}
    for flag, programs in takers.items():
        if given[flag] and name not in programs:
            raise UsageError(f"{name} takes no {flag}: it is for {show_list(programs)}")


def _counted(name: str, arguments: Sequence[str], out: Path) -> int:
    """Run a program again, counted, and add to its records what that has counted. Returns its
    exit status.
    """
    code = "from hyperslab.apps.experiment.programs.table import main; main()"
    rest = [word for word in arguments if word != COUNT_FILES]
    return count_run([*interpreted(code), name, *rest], out, has_page=False).status


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        return sorted(path for path in source.iterdir() if path.is_file())
    return [source]


def binary_files(asked: Asked) -> None:
    """Increment whole images in Spark. Raises UsageError."""
    from hyperslab.connectors.spark import session

    images = [path for path in asked.sources if is_array_file(path.name)]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.driver.memory": f"{_heap_mib()}m"}
    with session(f"local[{asked.workers}]", settings) as started:
        context = started.sparkContext
        increment_files(context, images, asked.out, began_ns=asked.began_ns, **asked.params)


def _heap_mib() -> int:
    """Java's memory, which holds whole images: Spark's default of 1 GiB, or half of what is
    there.
    """
    return max(1024, Host.here().memory_bytes // 2**21)


def read_by_h5py(asked: Asked) -> None:
    """Read a dataset by h5py, and sum its blocks. Raises UsageError."""
    if len(asked.sources) != 1:
        raise UsageError(f"h5py reads one file here, not {len(asked.sources)}: give files = 1")
    source = open_source(str(asked.sources[0]))
    slabs = rows_of(source.shape, asked.blocks)
    directory = RunDirectory(asked.out.absolute())
    owned = directory.own()
    try:
        folder = directory.new_submission(_plan(asked, len(slabs)))
        save_status(folder, "running", {"tasks": len(slabs)})
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(asked.workers, context) as pool:
            list(pool.map(abs, range(asked.workers)))
            ready_ns = time.monotonic_ns()
            read = partial(_read, str(asked.sources[0]))
            outcomes = list(pool.map(read, range(len(slabs)), slabs))
        moments = Moments(asked.began_ns, ready_ns, time.monotonic_ns())
        run = {"engine": "h5py", "workers": asked.workers, "threads": 1, "cpus": Host.here().cpus}
        meta = {"plan": "h5py", "labels": [str(slab) for slab in slabs], "run": run}
        trace = build_trace(outcomes, [], Tail(folder), moments, meta)
        save_status(folder, "done", {"tasks": len(slabs), "done": len(slabs)})
        title = f"h5py: {show_count(len(slabs), 'block')}"
        save_records(folder, trace, title, [], {"engine": "h5py", **describe()}, has_page=False)
    finally:
        os.close(owned)


def rows_of(shape: Sequence[int], blocks: int) -> list[Hyperslab]:
    """Whole rows along the first axis, in as many parts as asked for or as there are rows, whose
    sizes differ by one at most.
    """
    parts = min(blocks, shape[0])
    edges = [part * shape[0] // parts for part in range(parts + 1)]
    rest = shape[1:]
    return [
        Hyperslab((low, *(0 for _ in rest)), (high - low, *rest)) for low, high in pairwise(edges)
    ]


def _read(url: str, number: int, slab: Hyperslab) -> Outcome:
    with recording() as phases:
        with span("open"):
            source = open_source(url)
        with span("read") as meter:
            block = module(source.format).read_reference(source, slab)
            meter.nbytes = block.nbytes
        with span("compute"):
            total = float(np.sum(block, dtype=np.float64))
    slot = str(Slot(os.uname().nodename, os.getpid(), 0))
    return Outcome(number, 1, "done", value=total, phases=tuple(phases), slot=slot)


def _plan(asked: Asked, tasks: int) -> dict[str, Any]:
    """What the page of a run reads of its plan."""
    source = {"first": str(asked.sources[0]), "files": 1, "shape": [], "kind": "h5py"}
    summary = {
        "sources": {"source": source},
        "steps": [{"function": "sum", "params": {}}],
        "end": {"format": "none", "keep": "nothing"},
        "values": "stored",
        "boundary": "",
    }
    return {"fingerprint": "h5py", "code": "h5py", "tasks": tasks, "summary": summary}


def rounds_on_dask(asked: Asked) -> None:
    """Compute in rounds on a Dask cluster. Raises UsageError and RunStopped."""
    from hyperslab.apps.experiment.programs.dask_rounds import Rounds, run_rounds

    rounds = _filled(Rounds, asked)
    run_rounds(rounds, asked.connect, asked.out, asked.record_messages)


def rounds_on_spark(program: str, asked: Asked) -> None:
    """Compute in rounds in Spark, on this host. Raises UsageError and RunStopped."""
    from hyperslab.apps.experiment.programs.spark_rounds import run_rounds
    from hyperslab.apps.experiment.programs.spark_work import Rounds

    rounds = _filled(Rounds, asked)
    run_rounds(program, rounds, asked.workers, asked.out, asked.began_ns, asked.scratch)


def rounds_of_reads(asked: Asked) -> None:
    """Read one file in rounds. Raises UsageError and RunStopped."""
    from hyperslab.apps.experiment.programs.reads import Reads, run_rounds

    run_rounds(_filled(Reads, asked), asked.out, asked.began_ns, asked.scratch)


def _filled(kind: Callable[..., T], asked: Asked) -> T:
    """A record of a workload's name and of parameters, whose fields they are. Raises UsageError."""
    try:
        return kind(asked.workload, **asked.params)
    except TypeError as error:
        known = ", ".join(list(inspect.signature(kind).parameters)[1:])
        raise UsageError(f"--param: {error}; give {known}") from error


PROGRAMS: Mapping[str, Callable[[Asked], None]] = {
    "spark-binary-files": binary_files,
    "h5py": read_by_h5py,
    "dask-arrays": rounds_on_dask,
    **{name: partial(rounds_on_spark, name) for name in IN_SPARK},
    "file-reads": rounds_of_reads,
}
"All of them, by the names that the factor `engine` takes beside those of engines."

if __name__ == "__main__":
    main()
