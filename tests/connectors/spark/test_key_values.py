"""Workloads on pairs: what they come to, against NumPy."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from hyperslab.connectors.spark.key_values import WORKLOADS, Size, drawn, size_of, table_of
from hyperslab.errors import UsageError
from tests.repetitions import few

SIZE = Size(partitions=3, reducers=2, records=500, keys=40, values=1000, tasks=7)


def pairs() -> list[tuple[int, int]]:
    """All of them."""
    parts = [drawn(partition, SIZE) for partition in range(SIZE.partitions)]
    return [
        pair for keys, values in parts for pair in zip(keys.tolist(), values.tolist(), strict=True)
    ]


PLAYED = ("scheduling-throughput", "agg-by-key-int", "sort-by-key")
"""A workload of each kind: without pairs, with sums of them, and with an order. What has groups is
played, and held against what is expected, in apps/experiment/test_spark_rounds.py.
"""


@pytest.mark.parametrize("name", few(PLAYED, WORKLOADS, "a workload on pairs is right"))
def test_a_workload_comes_to_what_is_expected(sc: Any, name: str) -> None:
    everything = pairs()
    assert len(everything) == SIZE.records
    sums: dict[int, int] = defaultdict(int)
    for key, value in everything:
        sums[key] += value
    by_hand = {
        "scheduling-throughput": (7,),
        "sort-by-key": (500, sum(sums.values()), 1),
        "count": (500,),
        "count-with-filter": (sum(value % 2 for _, value in everything),),
        "group-by-worst": (40, 40 * 3),
        "group-by-worst-java": (40, 40 * 3),
    }
    expected = by_hand.get(name, (len(sums), sum(sums.values())))
    workload = WORKLOADS[name]
    assert workload.run(sc, SIZE) == expected
    assert workload.expected(table_of(sc, SIZE), SIZE) == expected


def test_a_table_counts_every_key(sc: Any) -> None:
    table = table_of(sc, SIZE)
    counts = Counter(key for key, _ in pairs())
    assert table.counts.tolist() == [counts[key] for key in range(SIZE.keys)]


def test_sizes_are_those_of_the_scale() -> None:
    size = size_of("agg-by-key", 0.001)
    assert (size.partitions, size.records, size.keys, size.values) == (1, 200_000, 20, 1000)
    assert size_of("agg-by-key-int", 0.001).records == 400_000
    assert size_of("sort-by-key", 0.01).records == 200_000
    assert size_of("count", 1.0) == Size()
    assert size_of("scheduling-throughput", 1e-9).tasks == 1


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(UsageError, match=r"agg-by-kee: .*did you mean 'agg-by-key'"):
        size_of("agg-by-kee", 1.0)
    with pytest.raises(UsageError, match=r"scale=0: give a positive number"):
        size_of("count", 0)
