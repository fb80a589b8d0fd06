"""Workloads on pairs of keys and values, which shuffle much, little or nothing, and whose results
are known.

They are the core tests of spark-perf (https://github.com/databricks/spark-perf, config.py.template
and pyspark-tests/core_tests.py) with its sizes at scale 1, and the worst case of a shuffle: every
map task holds every key (Chaimov et al., Scaling Spark on HPC Systems, HPDC 2016).

A workload joins with a function and a line in WORKLOADS.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hyperslab.errors import UsageError, suggest

LENGTH = 10
"Characters of a key, and of a value, where they are texts."
Ints = npt.NDArray[np.int64]
Found = tuple[int, ...]
"Numbers that a workload comes to."


@dataclass(frozen=True, slots=True)
class Size:
    """How large the data of a workload are; by default those of scale 1, for 20 hosts."""

    partitions: int = 400
    reducers: int = 400
    records: int = 200_000_000
    keys: int = 20_000
    "Number of different keys."
    values: int = 1_000_000
    "Number of different values."
    tasks: int = 5_000
    "Number of empty tasks."
    seed: int = 5

    def scaled(self, factor: float) -> Size:
        """The same data on so many times the hosts, one of each at least."""
        names = ("partitions", "reducers", "records", "keys", "values", "tasks")
        return replace(self, **{name: _times(getattr(self, name), factor) for name in names})


def _times(number: int, factor: float) -> int:
    return max(1, round(number * factor))


class Table(NamedTuple):
    """What the pairs hold, by key."""

    counts: Ints
    sums: Ints
    odd: int
    "Number of odd values."

    @property
    def distinct(self) -> int:
        """Number of keys that occur."""
        return int(np.count_nonzero(self.counts))


def drawn(partition: int, size: Size) -> tuple[Ints, Ints]:
    """Keys and values of a partition."""
    low, high = (end * size.records // size.partitions for end in (partition, partition + 1))
    random = np.random.default_rng([size.seed, partition])
    return random.integers(size.keys, size=high - low), random.integers(
        size.values, size=high - low
    )


def table_of(context: Any, size: Size) -> Table:
    """What the pairs hold, found without a shuffle."""
    parts = context.parallelize(range(size.partitions), size.partitions)
    return Table(*parts.map(functools.partial(_table, size=size)).reduce(_added))


def _table(partition: int, size: Size) -> Table:
    keys, values = drawn(partition, size)
    counts = np.bincount(keys, minlength=size.keys)
    sums = np.zeros(size.keys, np.int64)
    np.add.at(sums, keys, values)
    return Table(counts, sums, int(np.count_nonzero(values % 2)))


def _added(one: Table, other: Table) -> Table:
    return Table(one.counts + other.counts, one.sums + other.sums, one.odd + other.odd)


def _numbers(partition: int, size: Size) -> Iterator[tuple[int, int]]:
    keys, values = drawn(partition, size)
    return zip(keys.tolist(), values.tolist(), strict=True)


def _texts(partition: int, size: Size) -> Iterator[tuple[str, str]]:
    for key, value in _numbers(partition, size):
        yield f"{key:0{LENGTH}d}", f"{value:0{LENGTH}d}"


def _pairs(context: Any, size: Size, of: Callable[[int, Size], Iterator[Any]]) -> Any:
    parts = context.parallelize(range(size.partitions), size.partitions)
    return parts.flatMap(lambda partition: of(partition, size))


def _second(pair: tuple[Any, Any]) -> tuple[int, int]:
    return 1, int(pair[1])


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _total(pairs: Any) -> Found:
    """Number of pairs, and the sum of their values."""
    return tuple(pairs.map(_second).fold((0, 0), _both))


def scheduling_throughput(context: Any, size: Size) -> Found:
    """Tasks that do nothing."""
    return (int(context.parallelize(range(size.tasks), size.tasks).count()),)


def agg_by_key(context: Any, size: Size) -> Found:
    """Sums by key, of texts, which are added before they are shuffled."""
    pairs = _pairs(context, size, _texts).mapValues(int)
    return _total(pairs.reduceByKey(add, size.reducers))


def agg_by_key_int(context: Any, size: Size) -> Found:
    """The same of numbers."""
    return _total(_pairs(context, size, _numbers).reduceByKey(add, size.reducers))


def agg_by_key_naive(context: Any, size: Size) -> Found:
    """Sums by key, of which every value is shuffled."""
    pairs = _pairs(context, size, _texts).mapValues(int)
    return _total(pairs.groupByKey(size.reducers).mapValues(sum))


def sort_by_key(context: Any, size: Size) -> Found:
    """Texts in the order of their keys: how many, their sum, and whether they are in order."""
    ordered = _pairs(context, size, _texts).sortByKey(numPartitions=size.reducers)
    parts = [part for part in ordered.mapPartitions(_seen).collect() if part.number]
    follow = all(earlier.last <= later.first for earlier, later in pairwise(parts))
    in_order = follow and all(part.is_sorted for part in parts)
    return sum(part.number for part in parts), sum(part.total for part in parts), int(in_order)


class _Part(NamedTuple):
    number: int
    total: int
    first: str
    last: str
    is_sorted: bool


def _seen(pairs: Iterator[tuple[str, str]]) -> Iterator[_Part]:
    number = total = 0
    first = last = ""
    is_sorted = True
    for key, value in pairs:
        if not number:
            first = last = key
        is_sorted = is_sorted and last <= key
        last = key
        number += 1
        total += int(value)
    yield _Part(number, total, first, last, is_sorted)


def count(context: Any, size: Size) -> Found:
    """Number of pairs."""
    return (int(_pairs(context, size, _texts).count()),)


def count_with_filter(context: Any, size: Size) -> Found:
    """Number of pairs whose value is odd."""
    return (int(_pairs(context, size, _texts).filter(_is_odd).count()),)


def _is_odd(pair: tuple[str, str]) -> bool:
    return int(pair[1]) % 2 == 1


def group_by_worst(context: Any, size: Size) -> Found:
    """Groups whose keys every map task holds: number of keys, and of values."""
    mappers = context.parallelize(range(size.partitions), size.partitions)
    pairs = mappers.flatMap(functools.partial(_every_key, keys=size.keys))
    return _total(pairs.groupByKey(size.reducers).mapValues(len))


def _every_key(mapper: int, keys: int) -> list[tuple[int, bytes]]:
    return [(key, mapper.to_bytes(8, "little")) for key in range(keys)]


def group_by_worst_java(context: Any, size: Size) -> Found:
    """The same by Spark SQL, whose rows never leave Java: a shuffle with little to compute."""
    from pyspark.sql import SparkSession

    session = SparkSession(context)
    session.conf.set("spark.sql.adaptive.enabled", "false")  # it would join small partitions
    rows = session.range(0, size.partitions * size.keys, 1, size.partitions)
    keyed = rows.selectExpr(f"id % {size.keys} AS key", "id AS value")
    together = keyed.repartition(size.reducers, "key").groupBy("key")
    lists = together.agg({"value": "collect_list"}).toDF("key", "values")
    sizes = [row.size for row in lists.selectExpr("size(values) AS size").collect()]
    return len(sizes), sum(sizes)


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload, and what it has to come to."""

    run: Callable[[Any, Size], Found]
    expected: Callable[[Table, Size], Found]
    factor: float = 1.0
    "Number of times as many records as the usual scale says."


def _sums(table: Table, size: Size) -> Found:
    return table.distinct, int(table.sums.sum())


def _groups(_: Table, size: Size) -> Found:
    return size.keys, size.keys * size.partitions


WORKLOADS: Mapping[str, Workload] = {
    "scheduling-throughput": Workload(scheduling_throughput, lambda table, size: (size.tasks,)),
    "agg-by-key": Workload(agg_by_key, _sums),
    "agg-by-key-int": Workload(agg_by_key_int, _sums, 2.0),
    "agg-by-key-naive": Workload(agg_by_key_naive, _sums),
    "sort-by-key": Workload(
        sort_by_key,
        lambda table, size: (size.records, int(table.sums.sum()), 1),
        0.1,
    ),
    "count": Workload(count, lambda table, size: (size.records,)),
    "count-with-filter": Workload(count_with_filter, lambda table, size: (table.odd,)),
    "group-by-worst": Workload(group_by_worst, _groups),
    "group-by-worst-java": Workload(group_by_worst_java, _groups),
}
"All of them."


def size_of(name: str, factor: float) -> Size:
    """The data of a workload on so many times the hosts of scale 1. Raises UsageError."""
    if name not in WORKLOADS:
        raise UsageError(
            f"{name}: there is no such workload of Spark{suggest(name, WORKLOADS)}; choose one of"
            f" {', '.join(WORKLOADS)}"
        )
    if not factor > 0:
        raise UsageError(f"scale={factor}: give a positive number")
    size = Size().scaled(factor)
    return replace(size, records=_times(size.records, WORKLOADS[name].factor))
