"""Who hands out tasks on ranks of MPI: a shared counter beside a master, with bare mpi4py.

    python -m benchmarks.bench_draws [--items 10000] [--busy-items 400] [--repeats 5]

Two ranks draw the numbers of items that take no time, then of items that compute for 5 ms in
Python, in three ways: by fetch-and-add on a counter in rank 0's memory; from a master that is a
thread of rank 0, which does items as well; from a master that is rank 0 and does nothing else.
Each row says how many items each rank has got, how long its median draw took, and what an item cost
in wall time. The reasons are in docs/design/0019-mpi.md.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from hyperslab.engines.mpi import mpiexec
from hyperslab.engines.mpi.counter import Counter

RANKS = 2
BUSY_S = 0.005
"Time that an item computes, where it does."
REQUEST, REPLY = 1, 2
"Tags of messages."
Draw = Callable[[], int]
Way = Callable[[Any, int], AbstractContextManager[Draw]]


def main() -> None:
    arguments = _arguments()
    if arguments.inside:
        _rank(arguments)
        return
    rank = [sys.executable, "-m", "benchmarks.bench_draws", "--inside", *sys.argv[1:]]
    quiet = {**os.environ, "UCX_LOG_LEVEL": "error"}  # MPICH keeps keys of windows that are gone
    done = subprocess.run([*mpiexec.command(), "-n", str(RANKS), *rank], env=quiet, check=False)
    sys.exit(done.returncode)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--busy-items", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _rank(arguments: argparse.Namespace) -> None:
    """What each rank does: all ways in turn, again and again."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    kinds = {"no work": (arguments.items, 0.0), "5 ms": (arguments.busy_items, BUSY_S)}
    found: dict[tuple[str, str], list[list[tuple[int, float, float]]]] = {}
    for _ in range(arguments.repeats):
        for (kind, (items, busy_s)), (name, way) in itertools.product(kinds.items(), WAYS.items()):
            row = _measured(world, way, items, busy_s)
            found.setdefault((kind, name), []).append(row)
    if world.rank == 0:
        print(MPI.Get_library_version().splitlines()[0])
        for (kind, name), rounds in found.items():
            print(f"{kind:8} {name:14} {_row(rounds)}")


def _measured(world: Any, way: Way, items: int, busy_s: float) -> list[tuple[int, float, float]]:
    """Number of items, median draw and time per item of each rank, microseconds."""
    draws_ns: list[int] = []
    with way(world, items) as draw:
        world.Barrier()
        began = time.perf_counter()
        while True:
            asked_ns = time.perf_counter_ns()
            number = draw()
            if number >= items:
                break
            draws_ns.append(time.perf_counter_ns() - asked_ns)
            _work(busy_s)
        world.Barrier()
        took_us = (time.perf_counter() - began) / items * 1e6
        own = len(draws_ns), statistics.median(draws_ns or [0]) / 1e3, took_us
        rows: list[tuple[int, float, float]] = world.allgather(own)
    return rows


def _row(rounds: list[list[tuple[int, float, float]]]) -> str:
    """Medians over the rounds, in words."""
    texts = []
    for rank in range(RANKS):
        items, draw_us, _ = map(statistics.median, zip(*(row[rank] for row in rounds), strict=True))
        texts.append(f"rank {rank}: {items:6.0f} items, a draw {draw_us:8.1f} us")
    wall_us = statistics.median(row[0][2] for row in rounds)
    return "; ".join([*texts, f"{wall_us:8.1f} us per item"])


def _work(busy_s: float) -> None:
    """Compute in Python for so long."""
    until = time.perf_counter() + busy_s
    while time.perf_counter() < until:
        pass


@contextmanager
def _counter(world: Any, items: int) -> Iterator[Draw]:
    """A counter that nobody has to answer for."""
    counter = Counter(world)
    if world.rank == 0:
        counter.set(0)
    yield counter.draw
    counter.close()


@contextmanager
def _thread(world: Any, items: int) -> Iterator[Draw]:
    """A master that is a thread of rank 0, which draws itself without a message."""
    numbers = itertools.count()
    if world.rank:
        yield lambda: _asked(world)
        return
    master = threading.Thread(target=_answer, args=(world, items, numbers))
    master.start()
    yield numbers.__next__
    master.join()


@contextmanager
def _alone(world: Any, items: int) -> Iterator[Draw]:
    """A master that is rank 0."""
    if world.rank:
        yield lambda: _asked(world)
        return

    def hand_out() -> int:
        _answer(world, items, itertools.count())
        return items

    yield hand_out


def _asked(world: Any) -> int:
    number = np.zeros(1, np.int64)
    world.Send(number, 0, REQUEST)
    world.Recv(number, 0, REPLY)
    return int(number[0])


def _answer(world: Any, items: int, numbers: Iterator[int]) -> None:
    """Answer the other ranks until each has heard of the end."""
    from mpi4py import MPI

    request = np.zeros(1, np.int64)
    status = MPI.Status()
    left = world.size - 1
    while left:
        world.Recv(request, MPI.ANY_SOURCE, REQUEST, status)
        number = next(numbers)
        world.Send(np.array([number]), status.source, REPLY)
        left -= number >= items


WAYS: dict[str, Way] = {
    "counter": _counter,
    "master thread": _thread,
    "master rank": _alone,
}

if __name__ == "__main__":
    main()
