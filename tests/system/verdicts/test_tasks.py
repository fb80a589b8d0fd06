"""Tasks that are too small, too few or too unequal, planted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from tests.repetitions import few, repeats
from tests.system.verdicts.planted import TOTAL, count_up, finding, first, naming, spin, verdict_of

VOLUME = np.zeros((32, 16, 16), np.int16)


def one_long(block: Array, slab: Hyperslab) -> Array:
    return spin(block, 1.5 if slab.start[0] == 31 else 0.01)


def one_sleeper(block: Array, slab: Hyperslab) -> Array:
    time.sleep(1.5 if slab.start[0] == 31 else 0.01)
    return block


@repeats(
    "tiny tasks are named: of made runs, tests/report; how runs are planted: the other verdicts"
)
def test_tiny_tasks_are_named_with_their_length() -> None:
    pipeline = hyperslab.Pipeline(np.zeros((12_000, 4))).reduce(TOTAL)
    verdict = naming("engine-overhead", lambda: verdict_of(pipeline, blocks=12_000))
    assert first(verdict) == "engine-overhead"
    assert "12,000 tasks with a median length of" in finding(verdict, "engine-overhead").evidence
    assert "times larger" in verdict.paragraph


def test_one_block_on_two_slots_is_named() -> None:
    pipeline = hyperslab.Pipeline(VOLUME).map(spin, params={"seconds": 1.0}).reduce(TOTAL)
    verdict = naming("too-few-partitions", lambda: verdict_of(pipeline, blocks=1))
    assert first(verdict) == "too-few-partitions"
    assert "1 task for 2 slots" in verdict.paragraph


UNEQUAL = [one_long, one_sleeper]


@pytest.mark.parametrize("unequal", few(UNEQUAL[1:], UNEQUAL, "a straggler is named"))
def test_a_straggler_is_named_by_label_and_slot(unequal: Callable[..., Array]) -> None:
    pipeline = hyperslab.Pipeline(VOLUME).map(unequal).reduce(TOTAL)
    verdict = naming("stragglers", lambda: verdict_of(pipeline, blocks=32))
    assert first(verdict) == "stragglers"
    assert re.search(
        r"\[31:32, 0:16, 0:16\] on \S+/w\d/t0 took", finding(verdict, "stragglers").evidence
    )


@repeats("sound work is called so, and nothing else: test_processors.py")
def test_equal_tasks_have_no_straggler_and_are_not_too_few() -> None:
    pipeline = hyperslab.Pipeline(VOLUME).map(count_up).reduce(TOTAL)
    verdict = naming("compute-bound", lambda: verdict_of(pipeline, blocks=16))
    assert not {"stragglers", "too-few-partitions", "engine-overhead"} & {
        f.rule for f in verdict.findings
    }
