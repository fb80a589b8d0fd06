"""The cost of `--record-messages`: runs with and without it, in turns, on a cluster that is there.

    python -m benchmarks.bench_recorder [--tasks 400] [--futures 2000] [--delay 0.02] [--workers 2]
    [--repeats 7]

A run has a block for every task, which adds one and sleeps. Futures are Dask's alone, sleep a
quarter as long, and are as many messages as there can be in so much time. Before each pair a coin
says which of both comes first; the first pair is thrown away. Of every pair the ratio of the times
is taken (of runs: makespans without start-up), and of these the median counts, with the interval in
which the median of such ratios lies (of ranks, at least 95 %). The processor time of all processes
is shown, too, which other programs on the machine change less; of runs it holds what comes after.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from math import comb
from pathlib import Path

import nibabel as nib
import numpy as np
import psutil

import hyperslab
from benchmarks.gates import Gates
from hyperslab.engines.dask.recording import Recording
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import FILE, Traffic
from hyperslab.units import show_count

MOST_COST = 1.03
CERTAINTY = 0.95


def main() -> None:
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    gates = Gates()
    try:
        for what, ratios in _measured(folder, arguments).items():
            low, high = _interval(ratios)
            median = statistics.median(ratios)
            print(f"{what}, with / without: median {median:.4f}, {low:.4f} to {high:.4f}")
            gates.at_most(f"recording messages of {what}", median, MOST_COST)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--futures", type=int, default=2000)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


def _measured(folder: Path, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Times with the recorder in those without, of every pair but the first."""
    from distributed import LocalCluster

    source = folder / "in.nii"
    values = np.zeros((arguments.tasks, 16, 16), np.uint16)
    nib.save(nib.Nifti1Image(values, np.eye(4)), source)  # type: ignore[no-untyped-call]
    with LocalCluster(
        n_workers=arguments.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        place = cluster.scheduler_address
        return {
            "runs": _ratios(
                lambda records: _run(source, folder / "out", place, records, arguments), arguments
            ),
            "futures": _ratios(
                lambda records: _futures(folder / "out", place, records, arguments), arguments
            ),
        }


def _ratios(
    timed: Callable[[bool], tuple[float, float]], arguments: argparse.Namespace
) -> list[float]:
    coin = random.Random(1)
    ratios = []
    for number in range(arguments.repeats + 1):
        both = {records: timed(records) for records in coin.sample((False, True), 2)}
        took = {records: pair[0] for records, pair in both.items()}
        spent = {records: pair[1] for records, pair in both.items()}
        ratio = took[True] / took[False]
        print(
            f"{number}: {took[False]:.3f} s, recorded {took[True]:.3f} s: {ratio:.4f};"
            f" processor {spent[False]:.2f} s, recorded {spent[True]:.2f} s"
        )
        ratios.append(ratio)
    return ratios[1:]


def _processor_s() -> float:
    """Processor time of this process and those below it."""
    own = psutil.Process()
    times = [one.cpu_times() for one in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _run(
    source: Path, out: Path, address: str, records: bool, arguments: argparse.Namespace
) -> tuple[float, float]:
    """Makespan of a run without its start-up, and processor time of all of it, in seconds."""
    before_s = _processor_s()
    result = hyperslab.run(
        hyperslab.Pipeline(str(source)).map("increment", {"delay": arguments.delay}).write(out),
        engine="dask-futures",
        connect=address,
        blocks=(arguments.tasks, 1, 1),
        record_messages=records,
        report=False,
    )
    spent_s = _processor_s() - before_s
    if records:
        _tell(Traffic.load(result.folder / FILE))
    shutil.rmtree(out)
    return result.summary.makespan_without_startup_s, spent_s


def _futures(
    folder: Path, address: str, records: bool, arguments: argparse.Namespace
) -> tuple[float, float]:
    """Time of as many futures from the first to the last, and processor time, in seconds."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        recording = None
        if records:
            recording = Recording(client, folder)
        before_s = _processor_s()
        began = time.perf_counter()
        delays = [arguments.delay / 4] * arguments.futures
        client.gather(client.map(time.sleep, delays, pure=False))
        took_s = time.perf_counter() - began
        spent_s = _processor_s() - before_s
        if recording is not None:
            recording.end(is_lost=False)
            _tell(recording.traffic())
    return took_s, spent_s


def _tell(traffic: Traffic) -> None:
    numbers = numbers_of(traffic)
    print(f"   {show_count(numbers.messages, 'message')}, {numbers.nbytes:,} bytes")


def _interval(ratios: list[float]) -> tuple[float, float]:
    """Order statistics between which the median lies, at least so certainly."""
    number = len(ratios)
    ranked = sorted(ratios)
    best = 0
    for rank in range(number // 2):
        outside = 2 * sum(comb(number, k) for k in range(rank + 1)) / 2**number
        if outside <= 1 - CERTAINTY:
            best = rank
    return ranked[best], ranked[-1 - best]


if __name__ == "__main__":
    main()
