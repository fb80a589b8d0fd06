"""The engine gnu-parallel against GNU Parallel by hand: the same blocks, in as many jobs, in turn.

    python -m benchmarks.bench_gnu_parallel [--size 4GiB] [--repeats 7] [--folder DIR]

By hand, a job is a Python that works on its blocks with NumPy and nibabel, with no records and no
safety. Ratios are taken pair by pair, with and without our start-up, which is the plan, and our
records; both sides pay for GNU Parallel's own start, and for a Python per job. Both ratios have a
gate: plan and records take a few tenths of a second whatever the size, which at 4 GiB is a small
part of the whole; a much smaller size would measure little else. What both have written is
compared value by value.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

import hyperslab
from benchmarks.arguments import sized
from benchmarks.bench_main_job import timed
from benchmarks.gates import Gates
from benchmarks.hand_written import PROCESSES
from benchmarks.same_blocks import require_same_blocks
from hyperslab import workloads
from hyperslab.cli.parse import parse_size
from hyperslab.engines.batches import batch
from hyperslab.engines.gnu_parallel.engine import GnuParallel
from hyperslab.workloads.synth import synth

ENGINE = "gnu-parallel"
THICKNESS = 16
MOST_RATIO = 1.2
"Without start-up, of the time that GNU Parallel takes by hand ..."
MOST_WHOLE_RATIO = 1.3
"... and with it, and the records."
JOBS = ("increment", "histogram")


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    gates = Gates()
    try:
        nbytes = parse_size("--size", arguments.size)
        (volume,) = synth("bigbrain", folder / "volume", nbytes, 1, "nii", PROCESSES, 0)
        shape = hyperslab.open(str(volume)).shape
        print(
            f"volume {shape} uint16, blocks of {THICKNESS} planes, {len(_batches(shape[2]))} jobs,"
            f" {PROCESSES} at a time, load {os.getloadavg()[0]:.1f}"
        )
        for job in JOBS:
            _compare(job, volume, folder, arguments.repeats, gates)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    return sized(__doc__, "4GiB").parse_args()


def _compare(job: str, volume: Path, folder: Path, repeats: int, gates: Gates) -> None:
    rows = []
    for repeat in range(repeats + 1):
        hand_s, _ = timed(lambda: _by_hand(job, volume, folder / "hand"), folder / "hand")
        ours_s, result = timed(lambda: _run(job, volume, folder / "ours"), folder / "ours")
        _require_same(job, result, folder / "hand")
        if repeat:  # the first pair warms the page cache and is not counted
            meta = result.trace.meta
            without_s = (meta["end_ns"] - meta["ready_ns"]) / 1e9
            rows.append((hand_s, ours_s, without_s, ours_s / hand_s, without_s / hand_s))
    hand_s, ours_s, without_s, ratio, without = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    print(
        f"{job:<12} by hand {hand_s:6.2f} s, ours {ours_s:6.2f} s, its tasks {without_s:6.2f} s,"
        f" ratio {ratio:.2f}",
        flush=True,
    )
    gates.at_most(f"{job}, tasks of {ENGINE} / GNU Parallel by hand", without, MOST_RATIO)
    gates.at_most(f"{job}, all of {ENGINE} / GNU Parallel by hand", ratio, MOST_WHOLE_RATIO)


def _batches(depth: int) -> list[range]:
    """First planes of the blocks of each job, as the engine cuts them."""
    firsts = range(0, depth, THICKNESS)
    sizes = batch.shrinking(len(firsts), PROCESSES, GnuParallel.batches_per_slot)
    return [firsts[begin:end] for begin, end in pairwise(accumulate(sizes, initial=0))]


def _by_hand(job: str, volume: Path, out: Path) -> None:
    out.mkdir()
    python = [sys.executable, "-m", "benchmarks.hand_written", job, str(volume), str(out)]
    firsts = [",".join(map(str, batch)) for batch in _batches(hyperslab.open(str(volume)).shape[2])]
    line = f"{shlex.join(python)} {THICKNESS} {{}}"
    subprocess.run(
        ["parallel", "--jobs", str(PROCESSES), line, ":::", *firsts],
        check=True,
        capture_output=True,
    )
    if job == "histogram":
        total = np.sum([np.load(path) for path in sorted(out.glob("*.npy"))], axis=0)
        np.save(out / "total", total)


def _run(job: str, volume: Path, out: Path) -> hyperslab.Result:
    """A run with all its records, without the report page."""
    pipeline = workloads.build(job, hyperslab.Pipeline(str(volume)), {})
    if pipeline.end is None:
        pipeline = pipeline.write(out)
    width, height, _ = pipeline.source.wholes[0].shape
    rule = hyperslab.Rule("block-shape", (width, height, THICKNESS))
    return hyperslab.run(
        pipeline, out=out, engine=ENGINE, workers=PROCESSES, rule=rule, report=False
    )


def _require_same(job: str, result: hyperslab.Result, hand: Path) -> None:
    if job == "histogram":
        assert np.array_equal(np.load(hand / "total.npy"), result.value.counts)
        return
    require_same_blocks(result.outputs, hand.glob("*.nii"))


if __name__ == "__main__":
    main()
