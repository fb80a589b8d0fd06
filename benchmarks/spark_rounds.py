"""Loads in rounds: every way on every size once a round, in random order, each from a warm page
cache.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reader_process import ReaderProcess
from benchmarks.spark_context import TASKS, Spark
from benchmarks.spark_data import Kind, Matrix, warm
from benchmarks.spark_reader import PROCESSES
from benchmarks.spark_slopes import Load
from benchmarks.spark_traces import Traced, folder_name
from benchmarks.spark_ways import BINARY, H5PY, PARQUET, SMALLER, WAYS, Way, partitions_of
from hyperslab.units import show_bytes

Pair = tuple[str, Matrix]
"Name of a way, and what it loads."


@dataclass(slots=True)
class Loader:
    """All that can load."""

    spark: Spark
    readers: dict[str, ReaderProcess]
    "The processes outside Spark, by name."

    def load(self, pair: Pair, spool: str = "") -> tuple[float, int | None]:
        """Seconds, and the checksum where the way has it. Raises ValueError for a wrong one."""
        name, matrix = pair
        warm(matrix.files(name == PARQUET))
        if name in self.readers:
            answer = self.readers[name].ask(order(matrix))
            seconds, found = float(answer["wall_s"]), answer["checksum"]
        else:
            way = way_of(name)
            began = time.perf_counter()
            found = way.load(self.spark, matrix, partitions_of(name), spool)
            seconds = time.perf_counter() - began
        if found is not None:
            require_equal(name, matrix, found)
        return seconds, found

    def traced(self, pair: Pair, folder: Path) -> Traced:
        """Load once more, with tasks that record themselves below a folder."""
        name, matrix = pair
        words = folder_name(matrix.kind, show_bytes(matrix.nbytes), name)
        spool = folder / words
        spool.mkdir(parents=True)
        warm(matrix.files(name == PARQUET))
        self.spark.group(words)
        workers = 1 if name in (H5PY, BINARY) else PROCESSES
        about = Traced(
            words, name, matrix, "none" if name in self.readers else TASKS, workers, spool
        )
        if name in self.readers:
            about.phases = self.readers[name].ask(order(matrix), counts=False)["phases"]
        else:
            way = way_of(name)
            way.load(self.spark, matrix, partitions_of(name), str(spool) if way.in_python else "")
        about.ended()
        return about


def order(matrix: Matrix) -> str:
    """What a process outside Spark is told."""
    return json.dumps({"path": str(matrix.path)})


def way_of(name: str) -> Way:
    """The way in Spark of this name."""
    return next(way for way in WAYS if way.name == name)


def require_equal(name: str, matrix: Matrix, found: int) -> None:
    """Raise ValueError where a way has other values than were written."""
    if found != matrix.checksum:
        raise ValueError(
            f"{name}: the values of {matrix.path.name} sum to {found:x}, not {matrix.checksum:x}"
        )


def pairs(matrices: Sequence[Matrix], readers: Sequence[str]) -> list[Pair]:
    """Every way with all that it loads."""
    found: list[Pair] = [(name, matrix) for name in readers for matrix in matrices]
    for way in WAYS:
        for kind in way.kinds:
            of_kind = sorted((m for m in matrices if m.kind == kind), key=lambda m: m.nbytes)
            found += [
                (way.name, matrix) for matrix in (of_kind[:SMALLER] if way.smaller else of_kind)
            ]
    return found


def compare(loader: Loader, listed: Sequence[Pair]) -> None:
    """Have the ways that leave the values in Java sum them for once; the others do at every load.

    Those load only the smallest matrix now, so that nothing happens for the first time when it is
    timed.
    """
    for name, matrix in listed:
        check = None if name in loader.readers else way_of(name).check
        if check is None and matrix.nbytes > min(
            m.nbytes for _, m in listed if m.kind == matrix.kind
        ):
            continue
        began = time.perf_counter()
        if check is None:
            loader.load((name, matrix))
        else:
            require_equal(name, matrix, check(loader.spark, matrix, partitions_of(name)))
        took = time.perf_counter() - began
        print(f"compare   {_words(name, matrix)} equal, {took:6.2f} s", flush=True)


def measure(loader: Loader, listed: Sequence[Pair], repeats: int, until: float) -> list[Load]:
    """So many rounds, at least one; none begins that would end after `until` (of
    time.monotonic).
    """
    mixed_pairs, loads, longest = list(listed), list[Load](), 0.0
    mixed = random.Random(0)
    for number in range(1, repeats + 1):
        began = time.monotonic()
        if number > 1 and began + longest > until:
            print(f"no time for round {number}", flush=True)
            break
        mixed.shuffle(mixed_pairs)
        for name, matrix in mixed_pairs:
            loader.spark.group(f"round-{number}")
            seconds, _ = loader.load((name, matrix))
            loads.append(Load(number, name, matrix.kind, matrix.nbytes, seconds))
            rate = show_bytes(matrix.nbytes / seconds)
            print(
                f"round {number:<3} {_words(name, matrix)} {seconds:8.3f} s, {rate}/s", flush=True
            )
        longest = max(longest, time.monotonic() - began)
    return loads


def _words(name: str, matrix: Matrix) -> str:
    return f"{matrix.kind:<6} {show_bytes(matrix.nbytes):>8}  {name:<18}"


def sizes(matrices: Sequence[Matrix], kind: Kind) -> list[int]:
    """Bytes of the matrices of a kind, ascending."""
    return sorted(matrix.nbytes for matrix in matrices if matrix.kind == kind)
