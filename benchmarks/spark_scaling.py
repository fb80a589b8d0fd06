"""Partitions and executors: the same matrix loaded in more or fewer of them, and with a worker that
dies.
"""

from __future__ import annotations

import functools
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from benchmarks import spark_checksum as sums
from benchmarks.reader_process import ReaderProcess
from benchmarks.spark_context import CLUSTER, TASKS, Spark
from benchmarks.spark_data import DATASET, PARTITIONS, Array, Matrix, warm
from benchmarks.spark_events import EventLog, Launches, launches
from benchmarks.spark_rounds import order, require_equal
from benchmarks.spark_spool import watched
from benchmarks.spark_traces import Traced, folder_name
from benchmarks.spark_ways import BLOCKS
from hyperslab.connectors.spark import read_blocks

COUNTS = (2, 4, 16, 64, 256)
REPEATS = 3
"At most: no gate is on these times."
VICTIM = 3
"The partition whose worker dies."


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks run."""

    name: str
    master: str
    workers: int


LOCAL = Place("local[2]", TASKS, 2)
CLUSTERS = (
    Place("1 executor", CLUSTER.format(executors=1), 1),
    Place("2 executors", CLUSTER.format(executors=2), 2),
)
"Executors of one core, each a process of its own."


@dataclass(slots=True)
class Point:
    """One configuration."""

    place: Place
    partitions: int
    is_killed: bool = False
    seconds: list[float] = field(default_factory=list)
    empty_s: list[float] = field(default_factory=list)
    "Of as many tasks in Python that do nothing, in the same rounds: what is Spark's own."
    groups: list[str] = field(default_factory=list)
    "Of the event log."
    launches: Launches | None = None

    @property
    def name(self) -> str:
        killed = ["killed"] if self.is_killed else []
        return folder_name("scaling", self.place.name, self.partitions, "partitions", *killed)

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


@dataclass(slots=True)
class Series:
    """All configurations of one place."""

    place: Place
    nbytes: int
    points: list[Point]
    floor_s: float
    "h5py in one process, in the same rounds."
    traced: list[Traced]

    def read(self, log: EventLog) -> None:
        """Take from the event log, when its session has ended, what became of the tasks."""
        for point in self.points:
            point.launches = launches(log, point.groups)


def series(
    spark: Spark,
    place: Place,
    matrix: Matrix,
    reader: ReaderProcess,
    folder: Path,
    repeats: int,
    counts: Sequence[int] = COUNTS,
    kills: bool = False,
) -> Series:
    """Rounds of all numbers of partitions in random order, after a load that does not count; then
    the traced loads.

    `kills`: also a load in 16 partitions in which a worker dies.
    """
    points = [Point(place, count) for count in counts if count <= matrix.rows]
    if kills:
        points.append(Point(place, PARTITIONS, is_killed=True))
    _load(spark, Point(place, PARTITIONS), matrix, folder, "warm-up")
    mixed, floor = random.Random(0), list[float]()
    for number in range(1, min(repeats, REPEATS) + 1):
        mixed.shuffle(points)
        warm([matrix.path])
        floor.append(float(reader.ask(order(matrix), counts=False)["wall_s"]))
        for point in points:
            point.groups.append(f"{point.name}-{number}")
            seconds = _load(spark, point, matrix, folder, point.groups[-1])
            point.seconds.append(seconds)
            point.empty_s.append(_empty(spark, point.partitions))
            killed = ", a worker dies" if point.is_killed else ""
            words = f"{place.name:<12} {point.partitions:>4} partitions"
            print(
                f"scaling   round {number}  {words} {seconds:8.3f} s, empty {point.empty_s[-1]:.3f}"
                f" s{killed}",
                flush=True,
            )
    points.sort(key=lambda point: (point.is_killed, point.partitions))
    traced = [_traced(spark, point, matrix, folder) for point in points]
    return Series(place, matrix.nbytes, points, statistics.median(floor), traced)


def _load(
    spark: Spark, point: Point, matrix: Matrix, folder: Path, group: str, spool: str = ""
) -> float:
    """Seconds of one load, whose values are compared."""
    warm([matrix.path])
    spark.group(group)
    function = sums.of_blocks
    if point.is_killed:
        function = functools.partial(
            _killed_once, str(folder / f"{group}{'-traced' * bool(spool)}.killed")
        )
    began = time.perf_counter()
    blocks = read_blocks(spark.context, str(matrix.path), DATASET, point.partitions)
    found = sums.total(blocks.mapPartitions(watched(function, spool)).collect())
    seconds = time.perf_counter() - began
    require_equal(BLOCKS, matrix, found)
    return seconds


def _empty(spark: Spark, partitions: int) -> float:
    spark.group("empty")
    began = time.perf_counter()
    spark.context.parallelize(range(partitions), partitions).mapPartitions(iter).collect()
    return time.perf_counter() - began


def _killed_once(mark: str, blocks: Iterator[tuple[Any, Array]]) -> Iterator[int]:
    """Sums blocks; the first attempt at one partition ends its worker after the first of them."""
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == VICTIM:
        with suppress(FileExistsError):
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            next(blocks)
            os._exit(1)
    yield from sums.of_blocks(blocks)


def _traced(spark: Spark, point: Point, matrix: Matrix, folder: Path) -> Traced:
    spool = folder / point.name
    spool.mkdir(parents=True)
    warm([matrix.path])
    about = Traced(point.name, BLOCKS, matrix, point.place.master, point.place.workers, spool)
    _load(spark, point, matrix, folder, point.name, str(spool))
    about.ended()
    return about


def per_task_s(points: Sequence[Point]) -> tuple[float, float]:
    """By how much a load, and a job of empty tasks, takes longer for one more partition.

    Least squares through the medians from 16 partitions on.
    """
    many = [point for point in points if point.partitions >= PARTITIONS and not point.is_killed]
    counts = [point.partitions for point in many]
    empty = [statistics.median(point.empty_s) for point in many]
    slope = statistics.linear_regression
    return slope(counts, [point.median_s for point in many]).slope, slope(counts, empty).slope
