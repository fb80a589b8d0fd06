"""The cost of `--record-messages`: runs with and without it, in turns, on a cluster that is there.

    python -m benchmarks.bench_recorder [--tasks 400] [--futures 1000] [--delay 0.02] [--workers 2]
    [--repeats 7]

A run has a block for every task, which adds one and sleeps. Futures are Dask's alone, sleep a
quarter as long, and are as many messages as there can be in so much time. Before each pair a coin
says which of both comes first; the first pair is thrown away.

What counts is processor time: other programs on the machine change it far less than the time on the
clock. The driver, the scheduler and all workers are in a control group of their own, by which the
kernel adds up what they take. What recording takes more than the run without it is a share of that
run's makespan: as if all processes waited for it one after the other, which is the most that it can
cost. Of these shares the median has to stay below 3 %; the interval in which the median of such
shares lies (of ranks, at least 95 %) is shown beside it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np

import hyperslab
from benchmarks.gates import Gates
from hyperslab.engines.dask.recording import Recording
from hyperslab.machine.group import Group, own_group
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.traffic import FILE, Traffic
from hyperslab.units import show_count, show_share

MOST_COST = 0.03
CERTAINTY = 0.95


class Took(NamedTuple):
    """What a run, or so many futures, took."""

    makespan_s: float
    cpu_s: float
    "Seconds of all processes together."


def main() -> None:
    arguments = _arguments()
    if arguments.group is not None:
        _measure(Group(arguments.group), arguments)
        return
    with own_group() as group:
        if group is None:
            sys.exit("no control group can be made here: run as root, or in a delegated one")
        words = [sys.executable, "-m", "benchmarks.bench_recorder", *sys.argv[1:]]
        sys.exit(subprocess.call([*words, "--group", str(group.folder)]))


def _measure(group: Group, arguments: argparse.Namespace) -> None:
    """Measure in a process that is in the group, with all that it starts."""
    group.add(os.getpid())
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    gates = Gates()
    try:
        for what, shares in _measured(group, folder, arguments).items():
            low, high = _interval(shares)
            median = statistics.median(shares)
            told = ", ".join(map(show_share, (median, low, high)))
            print(f"{what}, processor time of recording in the makespan: median, interval {told}")
            gates.at_most(f"recording messages of {what}", median, MOST_COST)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--futures", type=int, default=1000)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(group: Group, folder: Path, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Shares of every pair but the first."""
    from distributed import LocalCluster

    source = folder / "in.nii"
    values = np.zeros((arguments.tasks, 16, 16), np.uint16)
    nib.save(nib.Nifti1Image(values, np.eye(4)), source)  # type: ignore[no-untyped-call]
    with LocalCluster(
        n_workers=arguments.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        place = cluster.scheduler_address
        return {
            "runs": _shares(
                lambda records: _run(group, source, folder / "out", place, records, arguments),
                arguments,
            ),
            "futures": _shares(
                lambda records: _futures(group, folder / "out", place, records, arguments),
                arguments,
            ),
        }


def _shares(measure: Callable[[bool], Took], arguments: argparse.Namespace) -> list[float]:
    coin = random.Random(1)
    shares = []
    for number in range(arguments.repeats + 1):
        both = {records: measure(records) for records in coin.sample((False, True), 2)}
        plain, recorded = both[False], both[True]
        share = (recorded.cpu_s - plain.cpu_s) / plain.makespan_s
        print(
            f"{number}: {plain.makespan_s:.3f} s, recorded {recorded.makespan_s:.3f} s; processor"
            f" {plain.cpu_s:.2f} s, recorded {recorded.cpu_s:.2f} s: {100 * share:.2f} %"
        )
        shares.append(share)
    return shares[1:]


def _run(
    group: Group,
    source: Path,
    out: Path,
    address: str,
    records: bool,
    arguments: argparse.Namespace,
) -> Took:
    """A run, without its start-up; its processor time is that of all of it."""
    before_s = group.cpu_s()
    result = hyperslab.run(
        hyperslab.Pipeline(str(source)).map("increment", {"delay": arguments.delay}).write(out),
        engine="dask-futures",
        connect=address,
        blocks=(arguments.tasks, 1, 1),
        record_messages=records,
        report=False,
    )
    spent_s = group.cpu_s() - before_s
    if records:
        _tell(Traffic.load(result.folder / FILE))
    shutil.rmtree(out)
    return Took(result.summary.makespan_without_startup_s, spent_s)


def _futures(
    group: Group, folder: Path, address: str, records: bool, arguments: argparse.Namespace
) -> Took:
    """As many futures, from the first to the last, and until what they said is written."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        recording = None
        if records:
            recording = Recording(client, folder)
        before_s = group.cpu_s()
        began = time.perf_counter()
        delays = [arguments.delay / 4] * arguments.futures
        client.gather(client.map(time.sleep, delays, pure=False))
        took_s = time.perf_counter() - began
        spent_s = group.cpu_s() - before_s
        if recording is not None:
            recording.end(is_lost=False)
            _tell(recording.traffic())
    return Took(took_s, spent_s)


def _tell(traffic: Traffic) -> None:
    numbers = numbers_of(traffic)
    print(f"   {show_count(numbers.messages, 'message')}, {numbers.nbytes:,} bytes")


def _interval(shares: list[float]) -> tuple[float, float]:
    """Order statistics between which the median lies, at least so certainly."""
    number = len(shares)
    ranked = sorted(shares)
    best = 0
    for rank in range(number // 2):
        outside = 2 * sum(comb(number, k) for k in range(rank + 1)) / 2**number
        if outside <= 1 - CERTAINTY:
            best = rank
    return ranked[best], ranked[-1 - best]


if __name__ == "__main__":
    main()
