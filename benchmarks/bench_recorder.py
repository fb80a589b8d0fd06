"""The cost of `--record-messages`: runs with and without it, in turns, on a cluster that is there.

    python -m benchmarks.bench_recorder [--tasks 400] [--futures 1000] [--empty 4000] [--delay 0.02]
    [--workers 2] [--repeats 9] [--turns 30]

A run has a block for every task, which adds one and sleeps. Futures are Dask's alone, and sleep a
quarter as long: two workers do 400 of them in a second at most. Empty ones do nothing, so that
Dask's scheduler sets the pace, and as many messages are sent as it can: what recording costs them
is told, and held to no limit, as nobody waits for such a computation.

What counts is processor time: other programs on the machine change it far less than the makespan.
It is a share of the makespan, as if all processes waited for it one after the other, which
is the most that it can cost. That share has to stay below 3 %, and is found in two ways, each in
pairs, of which a coin says what comes first, and the first is thrown away:

- the messages of a run said again, with a recorder and without it (`said_again`), as a share of the
  time for which the tasks of each worker sleep, which is the same on every machine. This tells some
  tenths of a percent, and fails where the shortest turns differ by more than 3 %;
- whole runs with and without it, whose driver, scheduler and workers are in a control group of
  their own, by which the kernel adds up what they take, as a share of the makespan without it. This
  would show what the first way does not see, as processes that hold each other up, but differs by
  some percent from pair to pair: it fails where the lower end of its interval is above 3 %, and
  says where it cannot tell.

Intervals are those of ranks in which the median lies, at least 95 %.
"""

from __future__ import annotations

import argparse
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
from benchmarks.said_again import messages_of, turns_of
from hyperslab.engines.dask.recording import Recording
from hyperslab.machine.group import Group, own_group
from hyperslab.traffic import FILE, Traffic
from hyperslab.units import show_count, show_share

MOST_COST = 0.03
EMPTY = "empty futures"
CERTAINTY = 0.95


class Took(NamedTuple):
    """What a run, or so many futures, took."""

    makespan_s: float
    cpu_s: float
    "Seconds of all processes together."
    traffic: Traffic | None
    "Its messages, where they were recorded."


class Compared(NamedTuple):
    """What came of pairs of runs."""

    shares: list[float]
    "Processor time of recording in the makespan, of each pair."
    slower: list[float]
    "Share by which the makespan was longer, of each pair."
    makespan_s: float
    "Median of those that recorded nothing."
    asleep_s: float
    "Time for which the tasks of each worker sleep: no makespan is shorter; else the makespan."
    traffic: Traffic
    "Messages of the last run that recorded them."


def main() -> None:
    arguments = _arguments()
    if arguments.group is not None:
        _measure(Group(arguments.group), arguments)
        return
    with own_group() as group:
        if group is None:
            sys.exit("no control group can be made here: run as root, or in a delegated one")
        words = [sys.executable, "-m", "benchmarks.bench_recorder", *sys.argv[1:]]
        process = subprocess.Popen([*words, "--group", str(group.folder)])
        group.add(process.pid)  # at once: other programs remove groups that nobody is in
        sys.exit(process.wait())


def _measure(group: Group, arguments: argparse.Namespace) -> None:
    """Measure in a process that is in the group, with all that it starts."""
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    gates = Gates()
    try:
        for what, compared in _measured(group, folder, arguments).items():
            own = gates if what != EMPTY else None
            _judge_runs(what, compared, own)
            _judge_messages(what, compared, folder, arguments.turns, own)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _judge_runs(what: str, compared: Compared, gates: Gates | None) -> None:
    low, high = _interval(compared.shares)
    print(f"{what}, with a recorder and without it: processor time {_told(compared.shares)} of the")
    print(
        f"   makespan of {compared.makespan_s:.2f} s, which was longer by {_told(compared.slower)}"
    )
    if gates is None:
        return
    gates.at_most(f"recording {what}, at least", low, MOST_COST)
    if low <= MOST_COST < high:
        print(f"   whether it is below {show_share(MOST_COST)} such runs cannot tell here")


def _judge_messages(
    what: str, compared: Compared, folder: Path, turns: int, gates: Gates | None
) -> None:
    messages = messages_of(compared.traffic)
    taken = turns_of(messages, folder / "again", turns)
    shares = [one / compared.asleep_s for one in taken.differences_s]
    each_us = taken.least_s / len(messages) * 1e6
    print(
        f"{what}, {show_count(len(messages), 'message')} said again: {each_us:.1f} us each, at both"
    )
    print(f"   ends, until they are kept; of {compared.asleep_s:.2f} s all pairs {_told(shares)}")
    share = taken.least_s / compared.asleep_s
    if gates is None:
        print(f"   the shortest turns differ by {show_share(share)} of that")
        return
    gates.at_most(f"recording the messages of {what}", share, MOST_COST)


def _told(shares: list[float]) -> str:
    """A median with its interval."""
    low, high = _interval(shares)
    median = statistics.median(shares)
    return f"{100 * median:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--futures", type=int, default=1000)
    parser.add_argument("--empty", type=int, default=4000)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(group: Group, folder: Path, arguments: argparse.Namespace) -> dict[str, Compared]:
    """What came of every kind of runs."""
    from distributed import LocalCluster

    source = folder / "in.nii"
    values = np.zeros((arguments.tasks, 16, 16), np.uint16)
    nib.save(nib.Nifti1Image(values, np.eye(4)), source)  # type: ignore[no-untyped-call]
    with LocalCluster(
        n_workers=arguments.workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        place = cluster.scheduler_address
        return {
            "runs": _compared(
                lambda records: _run(group, source, folder / "out", place, records, arguments),
                arguments.tasks * arguments.delay / arguments.workers,
                arguments.repeats,
            ),
            "futures": _compared(
                lambda records: _futures(
                    group, folder / "out", place, records, arguments.futures, _pause_s(arguments)
                ),
                arguments.futures * _pause_s(arguments) / arguments.workers,
                arguments.repeats,
            ),
            EMPTY: _compared(
                lambda records: _futures(
                    group, folder / "out", place, records, arguments.empty, 0.0
                ),
                None,
                arguments.repeats,
            ),
        }


def _compared(measure: Callable[[bool], Took], asleep_s: float | None, repeats: int) -> Compared:
    """Pairs of runs, without the first; of tasks that do not sleep, beside their makespan."""
    coin = random.Random(1)
    pairs = []
    for number in range(repeats + 1):
        both = {records: measure(records) for records in coin.sample((False, True), 2)}
        plain, recorded = both[False], both[True]
        print(
            f"{number}: {plain.makespan_s:.3f} s, recorded {recorded.makespan_s:.3f} s; processor"
            f" {plain.cpu_s:.2f} s, recorded {recorded.cpu_s:.2f} s",
            flush=True,
        )
        pairs.append((plain, recorded))
    traffic = pairs[-1][1].traffic
    assert traffic is not None
    makespan_s = statistics.median(plain.makespan_s for plain, _ in pairs[1:])
    if asleep_s is None:
        asleep_s = makespan_s
    return Compared(
        [(recorded.cpu_s - plain.cpu_s) / plain.makespan_s for plain, recorded in pairs[1:]],
        [recorded.makespan_s / plain.makespan_s - 1 for plain, recorded in pairs[1:]],
        makespan_s,
        asleep_s,
        traffic,
    )


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
    traffic = None
    if records:
        traffic = Traffic.load(result.folder / FILE)
    shutil.rmtree(out)
    return Took(result.summary.makespan_without_startup_s, spent_s, traffic)


def _futures(
    group: Group, folder: Path, address: str, records: bool, number: int, pause_s: float
) -> Took:
    """So many futures, from the first to the last, and until what they said is written."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        recording = None
        if records:
            recording = Recording(client, folder)
        before_s = group.cpu_s()
        began = time.perf_counter()
        delays = [pause_s] * number
        client.gather(client.map(time.sleep, delays, pure=False))
        took_s = time.perf_counter() - began
        spent_s = group.cpu_s() - before_s
        traffic = None
        if recording is not None:
            recording.end(is_lost=False)
            traffic = recording.traffic()
    return Took(took_s, spent_s, traffic)


def _pause_s(arguments: argparse.Namespace) -> float:
    """Time for which a future sleeps."""
    return float(arguments.delay) / 4


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
