"""Workloads of MLlib: what they come to is right, and what is not is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hyperslab.connectors.spark import learning, learning_data, learning_fitted
from hyperslab.connectors.spark.learning import WORKLOADS, problem_of
from hyperslab.connectors.spark.learning_data import Problem
from hyperslab.errors import UsageError
from tests.repetitions import few

ROWS, PARTITIONS, COLUMNS = 60, 2, 3
SPOILT: Mapping[str, Callable[[Any], Any]] = {
    "summary-statistics": lambda found: (found[0], found[1] * 1.001),
    "kmeans": lambda found: (found[0], found[1] * 1.001),
    "pic": lambda found: (found[0] - 1, *found[1:]),
    "prefix-span": lambda found: {**found, -1: ROWS},
    "fp-growth": lambda found: {**found, -1: ROWS},
    "glm-regression": lambda found: (*found[:2], found[2] * 1.001),
    "glm-classification": lambda found: (*found[:2], found[2] * 1.001),
    "als": lambda found: ({user: one * 1.001 for user, one in found[0].items()}, found[1]),
    "word2vec": lambda found: {**found, "none": 1.0},
}
"Results that are a little off; those of other workloads are numbers that are made larger."


SHORT = ("pearson",)
"""One that takes few jobs of Spark: all are loaded, run and held against what is right by the
same code, and differ in the call of MLlib.
"""


@pytest.mark.parametrize("name", few(SHORT, WORKLOADS, "a workload of MLlib is right"))
def test_a_workload_comes_to_what_is_right(
    spark: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "ITERATIONS", 2)
    monkeypatch.setattr(learning_fitted, "ITERATIONS", 2)
    monkeypatch.setattr(learning_fitted, "SWEEPS", 2)
    monkeypatch.setattr(learning_fitted, "DEPTH", 2)
    problem = replace(problem_of(name, 1e-9, PARTITIONS, COLUMNS), rows=ROWS)
    workload = WORKLOADS[name]
    found = workload.run(workload.load(spark, problem), problem)
    assert workload.is_right(found, spark.sparkContext, problem)
    spoilt = SPOILT.get(name, lambda numbers: numbers * 1.001)(found)
    assert not workload.is_right(spoilt, spark.sparkContext, problem)


def test_partitions_hold_all_rows_once() -> None:
    problem = Problem(rows=10, columns=2, partitions=4)
    spans = [problem.span(partition) for partition in range(4)]
    assert [row for low, high in spans for row in range(low, high)] == list(range(10))
    rows = learning_data.normal(1, problem)
    assert rows.shape == (problem.size(1), 2)
    np.testing.assert_array_equal(rows, learning_data.normal(1, problem))


def test_nodes_have_the_next_ones_on_a_ring() -> None:
    problem = Problem(rows=50, partitions=3)
    parts = [learning_data.edges(partition, problem) for partition in range(3)]
    pairs = {pair for part in parts for pair in zip(*map(list, part), strict=True)}
    steps = range(1, learning_data.DEGREE // 2 + 1)
    assert pairs == {(node, (node + step) % 50) for node in range(50) for step in steps}
    assert sum(len(nodes) for nodes, _ in parts) == len(pairs)


def test_sizes_are_those_of_the_scale() -> None:
    assert problem_of("pearson", 1.0) == Problem(1_000_000, 1000)
    small = problem_of("pearson", 0.001, columns=7)
    assert (small.rows, small.columns, small.partitions) == (1000, 7, 1)
    assert problem_of("pic", 0.01, partitions=3, columns=7) == Problem(100_000, 0, 3)


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(UsageError, match=r"kmean: .*did you mean 'kmeans'"):
        problem_of("kmean", 1.0)
    with pytest.raises(UsageError, match=r"scale=0: give a positive number"):
        problem_of("pca", 0)
