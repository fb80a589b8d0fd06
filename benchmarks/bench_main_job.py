"""The main job against a hand-written two-process loop with the same input and output, interleaved
in one run.

    python -m benchmarks.bench_main_job [--size 2GiB] [--repeats 7] [--folder DIR]

Prints, per job, the median of the ratios pair by pair (hyperslab / hand-written), with and without
hyperslab's start-up of its workers, and the cost of one task beside its own work, from a run of
many tiny tasks. Absolute times are printed for orientation; on a shared machine only the ratios
mean something.
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

import numpy as np
import numpy.typing as npt

import hyperslab
from benchmarks.arguments import sized
from benchmarks.hand_written import PROCESSES, histogram, increment
from hyperslab import workloads
from hyperslab.cli.parse import parse_size
from hyperslab.workloads.synth import synth

THICKNESS = 16
TINY_TASKS = 4096


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    try:
        (volume,) = synth(
            "bigbrain",
            folder / "volume",
            parse_size("--size", arguments.size),
            1,
            "nii",
            PROCESSES,
            0,
        )
        shape = hyperslab.open(str(volume)).shape
        print(
            f"volume {shape} uint16, slabs of {THICKNESS} planes, {PROCESSES} processes, load"
            f" {os.getloadavg()[0]:.1f}"
        )
        print(
            f"{'job':<12} {'hand-written':>13} {'hyperslab':>10} {'start-up':>9} {'ratio':>7}"
            f" {'without start-up':>17}"
        )
        for name, by_hand in (("increment", increment), ("histogram", histogram)):
            _compare(name, by_hand, volume, folder, arguments.repeats)
        _tiny_tasks(folder)
    finally:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    return sized(__doc__, "2GiB").parse_args()


def _compare(
    name: str, by_hand: Callable[[Path, Path, int], Any], volume: Path, folder: Path, repeats: int
) -> None:
    rows = []
    for repeat in range(repeats + 1):
        expected = timed(lambda: by_hand(volume, folder / "hand", THICKNESS), folder / "hand")
        result = timed(lambda: _run(name, volume, folder / "ours"), folder / "ours")
        if repeat:  # the first pair warms the page cache and is not counted
            startup = result[1].summary.startup_s
            rows.append(
                (
                    expected[0],
                    result[0],
                    startup,
                    result[0] / expected[0],
                    (result[0] - startup) / expected[0],
                )
            )
        if name == "histogram":
            assert np.array_equal(expected[1], result[1].value.counts), "the two histograms differ"
    hand, ours, startup, ratio, without = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    print(
        f"{name:<12} {hand:>11.2f} s {ours:>8.2f} s {startup:>7.2f} s {ratio:>7.2f}"
        f" {without:>17.2f}",
        flush=True,
    )


def _run(name: str, volume: Path, out: Path) -> hyperslab.Result:
    """A run with all its records, the report page included."""
    pipeline = workloads.build(name, hyperslab.Pipeline(str(volume)), {})
    if pipeline.end is None:
        pipeline = pipeline.write(out)
    width, height, _ = pipeline.source.wholes[0].shape
    rule = hyperslab.Rule("block-shape", (width, height, THICKNESS))
    result = hyperslab.run(pipeline, out=out, workers=PROCESSES, rule=rule)
    assert result.ok, result.failures
    return result


def timed(job: Callable[[], Any], out: Path) -> tuple[float, Any]:
    """Seconds and result of a job that starts without its output, with no write-back of the one
    before under way, until what it has written is on the disk: a run ends no earlier.
    """
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    began = time.perf_counter()
    result = job()
    os.sync()
    return time.perf_counter() - began, result


def _tiny_tasks(folder: Path) -> None:
    """What a task costs beside its own phases: overhead of tasks of 64 voxels each, over their
    number.
    """
    values = np.zeros((TINY_TASKS, 64), np.uint8)
    rule = hyperslab.Rule("block-shape", (1, 64))
    fold = hyperslab.Fold(lift=_null, merge=_keep)
    result = hyperslab.run(
        hyperslab.Pipeline(values).reduce(fold), out=folder / "tiny", workers=PROCESSES, rule=rule
    )
    overhead = result.summary.overhead_s / TINY_TASKS
    print(
        f"\n{TINY_TASKS} tasks of 64 voxels: {overhead * 1e6:.0f} us of overhead per task and slot"
    )


def _null(block: npt.NDArray[Any]) -> int:
    return 0


def _keep(first: int, second: int) -> int:
    return first


if __name__ == "__main__":
    main()
