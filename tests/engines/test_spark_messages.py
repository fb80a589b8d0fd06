"""Bytes that Spark's event log knows of, from the log of a shuffle between two executors.

`shuffle.events` was recorded with Spark 4.3.0 on a cluster of two workers: four tasks wrote for a
`groupByKey`, four read. Executors of one host would read each other's files past the network, and
count them as their own: `spark.shuffle.readHostLocalDisk` was false. Of ends of tasks the fields
are kept that are read here, and their neighbours.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hyperslab.engines.spark.messages import logged
from hyperslab.report.messages.numbers import Numbers, numbers_of

LOG = Path(__file__).with_name("shuffle.events")
FIRST, SECOND = "executor 0", "executor 1"
WRITTEN = {FIRST: 382 + 503, SECOND: 423 + 463}
FETCHED = {FIRST: 222 + 220, SECOND: 224 + 220}
OWN = {FIRST: 222 + 219, SECOND: 224 + 220}
RESULTS = {FIRST: 1836 + 1750 + 2312 + 2312, SECOND: 1836 + 1750 + 2355 + 2312}
BROADCAST = 8572 + 7434


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    shutil.copy(LOG, tmp_path / "app-1")
    return numbers_of(logged(tmp_path))


def test_a_shuffle_is_in_the_matrix(numbers: Numbers) -> None:
    pairs = {(pair.source, pair.target): pair.nbytes for pair in numbers.pairs}
    for executor in (FIRST, SECOND):
        assert pairs["other executors", executor] == FETCHED[executor]
        assert pairs[executor, executor] == OWN[executor] + WRITTEN[executor]
        assert pairs[executor, "driver"] == RESULTS[executor]
        assert pairs["driver or peers", executor] == BROADCAST
    assert sum(pairs.values()) == numbers.nbytes


def test_operations_of_a_shuffle_are_told_apart(numbers: Numbers) -> None:
    told = {one.name: (one.count, one.nbytes) for one in numbers.operations}
    assert told == {
        "shuffle-read": (4, sum(FETCHED.values())),
        "shuffle-read-local": (4, sum(OWN.values())),
        "shuffle-write": (4, sum(WRITTEN.values())),
        "result": (8, sum(RESULTS.values())),
        "broadcast": (4, 2 * BROADCAST),
    }
    read = told["shuffle-read"][1] + told["shuffle-read-local"][1]
    assert read == told["shuffle-write"][1], "what was written is read once"


def test_a_log_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_text(LOG.read_text()[:-100])
    told = {one.name: one.count for one in numbers_of(logged(tmp_path)).operations}
    assert told["shuffle-read"] == 3
    assert told["shuffle-write"] == 4
