"""The engine `mpi` beside the default engine and a loop written by hand, interleaved in one run.

    python -m benchmarks.bench_mpi [--size 2GiB] [--tasks 10000] [--repeats 7] [--folder DIR]

Three gates: what a null task costs a slot beside its own phases, and the time of an increment over
that of the hand-written loop of two processes, pair by pair, without the start of the world and
with it. A start takes the same time whatever the size, about 0.4 s, and the loop by hand has none
that is counted, so that the whole ratio says something only where a start is not most of it: at 2
GiB it is about a fifth. What both have written is compared, value by value, once.
Needs mpiexec (pip install mpich) and a machine that has nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

import hyperslab
from benchmarks import hand_written, null_tasks
from benchmarks.arguments import sized
from benchmarks.bench_main_job import timed
from benchmarks.gates import Gates
from benchmarks.same_blocks import require_same_blocks
from hyperslab import workloads
from hyperslab.cli.parse import parse_size
from hyperslab.workloads.synth import synth

THICKNESS = 16
MOST_OVERHEAD_US = 60
"Overhead per null task and slot, microseconds."
MOST_RATIO = 1.15
"Time of an increment, without start-up, over that of the hand-written loop ..."
MOST_WHOLE_RATIO = 1.5
"... and with it, and all records."


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    gates = Gates()
    print(f"load {os.getloadavg()[0]:.1f}")
    try:
        _null_tasks(folder, arguments.tasks, arguments.repeats, gates)
        _increment(folder, parse_size("--size", arguments.size), arguments.repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = sized(__doc__, "2GiB")
    parser.add_argument("--tasks", type=int, default=10_000)
    return parser.parse_args()


def _null_tasks(folder: Path, tasks: int, repeats: int, gates: Gates) -> None:
    overhead_us: dict[str, list[float]] = {"mpi": [], "processes": []}
    for _ in range(repeats):
        for engine, found in overhead_us.items():
            result = hyperslab.run(
                null_tasks.pipeline(tasks),
                out=folder / "null",
                engine=engine,
                workers=hand_written.PROCESSES,
                rule=null_tasks.RULE,
            )
            found.append(result.summary.overhead_s / tasks * 1e6)
            shutil.rmtree(folder / "null")
    usual = {engine: statistics.median(found) for engine, found in overhead_us.items()}
    print(f"{tasks} null tasks: {usual['processes']:.0f} us per task and slot on processes")
    gates.at_most("us of overhead per null task and slot on mpi", usual["mpi"], MOST_OVERHEAD_US)


def _increment(folder: Path, nbytes: int, repeats: int, gates: Gates) -> None:
    (volume,) = synth("bigbrain", folder / "volume", nbytes, 1, "nii", hand_written.PROCESSES, 0)
    startup_s, ratios, whole_ratios = [], [], []
    for repeat in range(repeats + 1):
        by_hand_s, _ = timed(
            lambda: hand_written.increment(volume, folder / "hand", THICKNESS), folder / "hand"
        )
        ours_s, result = timed(lambda: _run(volume, folder / "ours"), folder / "ours")
        if not repeat:  # the first pair warms the page cache and is not counted
            require_same_blocks(result.outputs, (folder / "hand").iterdir())
        else:
            startup_s.append(result.summary.startup_s)
            whole_ratios.append(ours_s / by_hand_s)
            ratios.append((ours_s - result.summary.startup_s) / by_hand_s)
    print(f"increment: {statistics.median(startup_s):.2f} s of start-up")
    gates.at_most(
        "increment on mpi without start-up / by hand", statistics.median(ratios), MOST_RATIO
    )
    gates.at_most(
        "increment on mpi, all of it / by hand", statistics.median(whole_ratios), MOST_WHOLE_RATIO
    )


def _run(volume: Path, out: Path) -> hyperslab.Result:
    """A run with all its records, the report page included."""
    pipeline = workloads.build("increment", hyperslab.Pipeline(str(volume)), {}).write(out)
    width, height, _ = pipeline.source.wholes[0].shape
    rule = hyperslab.Rule("block-shape", (width, height, THICKNESS))
    return hyperslab.run(pipeline, engine="mpi", workers=hand_written.PROCESSES, rule=rule)


if __name__ == "__main__":
    main()
