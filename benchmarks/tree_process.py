"""A checkout in a process of its own, which reads, or loads into Spark, whatever it is told to.

`benchmarks.before_after` starts it in the folder of the checkout, with the same file for all of
them: what a checkout brings itself are `hyperslab` and the ways into Spark. Each line on standard
input is an order, a line of JSON; so is each answer, behind a tab, as Java prints lines of its own:
seconds, processor time of all that belongs to the process, and a checksum of what was delivered.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

Order = dict[str, Any]
Do = Callable[[Order], str]
"What an order asks for; the checksum of what was delivered, '' where nobody has seen the values."
Work = tuple[Callable[[], object], Do]
"What comes before each order, untimed; and what an order asks for."

REPEATS = {"large": 3, "strided": 3, "tiny": 1}
"How often an order reads, so that it takes a time that can be compared."
STRIDE = 3
TINY = 4
TINY_REGIONS = 1500
PRIMES = (7919, 104729, 1299709)
PARTITIONS = 16
WARMED_NBYTES = 16 * 2**20
SETTLED_S = 0.3
"Time in which Java ends what it does behind a load."


def main() -> None:
    tree, kind = sys.argv[1:3]
    import hyperslab

    place = Path(tree).resolve() / "src"
    if not Path(hyperslab.__file__).resolve().is_relative_to(place):
        raise SystemExit(f"{hyperslab.__file__} was imported, not the package in {place}")
    with KINDS[kind]() as (settle, do):
        _answer({})
        for line in sys.stdin:
            order = json.loads(line)
            _warm(order["path"])
            settle()
            _answer(_timed(do, order))


def _answer(told: dict[str, Any]) -> None:
    print(f"\t{json.dumps(told)}", flush=True)


def _warm(path: str) -> None:
    """Have a file in the page cache."""
    with open(path, "rb") as file:
        while file.read(WARMED_NBYTES):
            pass


def _timed(do: Do, order: Order) -> dict[str, Any]:
    used = _cpu_s()
    began = time.perf_counter()
    checksum = do(order)
    wall_s = time.perf_counter() - began
    return {"wall_s": wall_s, "cpu_s": _cpu_s() - used, "checksum": checksum}


def _cpu_s() -> float:
    """Processor time of this process and all below it, those that have ended included."""
    total = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(whose)
        total += used.ru_utime + used.ru_stime
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@contextmanager
def _reading() -> Iterator[Work]:
    """Regions of arrays, by a view that is opened anew for each order."""
    import numpy as np

    import hyperslab

    def read(order: Order) -> str:
        view = hyperslab.open(order["url"])
        regions = list(REGIONS[order["what"]](view.shape))
        total = 0
        for _ in range(REPEATS[order["what"]]):
            for region in regions:
                block = view[region]
                if order["checks"]:
                    total += int(np.sum(block, dtype=np.int64))
        return str(total) if order["checks"] else ""

    yield gc.collect, read


def _large(shape: tuple[int, ...]) -> Iterator[Any]:
    yield tuple(slice(0, n) for n in shape)


def _strided(shape: tuple[int, ...]) -> Iterator[Any]:
    yield tuple(slice(0, n, STRIDE) for n in shape)


def _tiny(shape: tuple[int, ...]) -> Iterator[Any]:
    """Small blocks all over an array, the same ones each time."""
    for number in range(TINY_REGIONS):
        steps = zip(shape, PRIMES, strict=True)
        corner = [number * prime % (n - TINY) for n, prime in steps]
        yield tuple(slice(first, first + TINY) for first in corner)


REGIONS = {"large": _large, "strided": _strided, "tiny": _tiny}


@contextmanager
def _spark() -> Iterator[Work]:
    """Loads into a session of Spark, by the ways of the checkout's own benchmarks."""
    from benchmarks import spark_ways
    from benchmarks.spark_context import TASKS, started
    from benchmarks.spark_data import Matrix

    ways = {way.name: way for way in spark_ways.WAYS}
    with tempfile.TemporaryDirectory() as folder, started(TASKS, Path(folder) / "log") as spark:

        def settle() -> None:
            spark.collect_garbage()
            time.sleep(SETTLED_S)

        def load(order: Order) -> str:
            way = ways[order["what"]]
            matrix = Matrix(**{**order["matrix"], "path": Path(order["path"])})
            if order["checks"] and way.check is not None:
                return str(way.check(spark, matrix, PARTITIONS))
            found = way.load(spark, matrix, PARTITIONS, "")
            return "" if found is None else str(found)

        yield settle, load


KINDS = {"reading": _reading, "spark": _spark}

if __name__ == "__main__":
    main()
