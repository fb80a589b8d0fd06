"""Partitions and executors: the same matrix loaded in more or fewer of them, and with a worker that dies."""

from __future__ import annotations

import functools
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import spark_checksum as sums
from benchmarks.reader_process import ReaderProcess
from benchmarks.spark_context import CLUSTER, TASKS, Spark, started
from benchmarks.spark_data import DATASET, PARTITIONS, Array, Matrix, warm
from benchmarks.spark_events import Launches, launches
from benchmarks.spark_rounds import require_equal
from benchmarks.spark_spool import watched
from benchmarks.spark_traces import Traced, folder_name
from benchmarks.spark_ways import BLOCKS
from hyperslab.connectors.spark import read_blocks
from hyperslab.units import show_bytes

COUNTS = (2, 4, 16, 64, 256)
EXECUTORS = (1, 2)
REPEATS = 3
"At most: only the ways' own times have gates."
VICTIM = 3
"The partition whose worker dies."


@dataclass(slots=True)
class Point:
    """One configuration."""

    where: str
    "local[2], or executors of one core."
    partitions: int
    is_killed: bool = False
    seconds: list[float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    "Of the event log."
    launches: Launches | None = None

    @property
    def name(self) -> str:
        return folder_name("scaling", self.where, self.partitions, "partitions", *["killed"] * self.is_killed)

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


@dataclass(slots=True)
class Scaling:
    """All configurations on one matrix."""

    nbytes: int
    points: list[Point]
    floor_s: dict[str, float]
    "h5py's one process beside them, by where."


def in_cluster(
    matrix: Matrix, folder: Path, reader: ReaderProcess, repeats: int, counts: tuple[int, ...] = COUNTS
) -> tuple[Scaling, list[tuple[Traced, Path]]]:
    """Executors of one core each, as processes of their own; also the traces, each with the folder of its events."""
    scaling, traces = Scaling(matrix.nbytes, [], {}), list[tuple[Traced, Path]]()
    for executors in EXECUTORS:
        where = "1 executor" if executors == 1 else f"{executors} executors"
        master, events = CLUSTER.format(executors=executors), folder / f"events-{executors}"
        with started(master, events) as spark:
            points, traced = on(spark, where, master, executors, matrix, folder, reader, repeats, counts, scaling)
        log = spark.log()
        for point in points:
            point.launches = launches(log, point.groups)
        scaling.points += points
        traces += [(one, events) for one in traced]
    return scaling, traces
