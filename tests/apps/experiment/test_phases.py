"""Phases of tasks, and first reads beside later ones, of traces that are made."""

from __future__ import annotations

import math
import random

import pytest

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.phases import (
    CellPhases,
    Phases,
    first_reads,
    kinds_of,
    phases_of,
    sentences,
)
from hyperslab.apps.experiment.design.cells import Cell
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.trace import NO_TASK, Span, Trace

MS = 10**6


def _span(task: int, slot: str, kind: str, start: int, end: int, lost: bool = False) -> Span:
    return Span(task, 1, slot, kind, start * MS, end * MS, 0, 0, 0, lost)


def _cell(*ratios: float, **levels: Level) -> CellPhases:
    """A cell of such levels, whose first reads took so many times as long in each replicate."""
    result = CellResult(Cell(levels, ()), (), None)
    trials = [Phases({"read": 1.0}, ratio, 1.0, n) for n, ratio in enumerate(ratios, 1)]
    return CellPhases(result, trials)


def test_the_first_task_of_each_slot_is_told_from_later_ones() -> None:
    spans = [
        _span(0, "a/w0/t0", "open", 0, 10),
        _span(0, "a/w0/t0", "read", 10, 40),
        _span(0, "a/w0/t0", "compute", 40, 50),
        _span(1, "a/w0/t0", "read", 60, 70),
        _span(2, "a/w1/t0", "read", 0, 20),
        _span(9, "a/w1/t0", "read", 20, 90, lost=True),
        _span(NO_TASK, "a/w1/t0", "read", 90, 95),
    ]
    found = phases_of(Trace(spans, ["a/w0/t0", "a/w1/t0"]))
    assert found.first_read_s == pytest.approx((0.04 + 0.02) / 2)
    assert found.later_read_s == pytest.approx(0.01)
    assert found.first_touch_s == pytest.approx((0.03 + 0.02) / 2), "without opening"
    assert found.later_touch_s == pytest.approx(0.01)
    assert found.seconds["read"] == pytest.approx((0.03 + 0.01 + 0.02) / 3)
    assert kinds_of([CellPhases(_cell().result, [found])]) == ["open", "read", "compute"]


def test_waits_until_the_last_level_begins() -> None:
    """Of slots from ready (0) to the group's begin (100): at the barrier 30 and 60, elsewhere 10
    before a first task; the slot that has none of the group waits for nothing from then on.
    """
    spans = [
        _span(0, "a/w0/t0", "compute", 0, 30),
        _span(1, "a/w0/t0", "compute", 30, 70),
        _span(2, "a/w1/t0", "compute", 10, 40),
        _span(3, "a/w1/t0", "compute", 100, 500),
    ]
    slots = ["a/w0/t0", "a/w1/t0"]
    meta = {"ready_ns": 0, "levels": [("participant", 3), ("group", 1)]}
    assert phases_of(Trace(spans, slots, meta=meta)).waits == pytest.approx((0.09, 0.01))
    assert phases_of(Trace(spans, slots)).waits is None, "no levels"
    assert phases_of(Trace(spans[:3], slots, meta=meta)).waits is None, "no group"


def test_a_trace_without_tasks_has_no_phases() -> None:
    found = phases_of(Trace([], ["a/w0/t0"]))
    assert (found.seconds, found.first_read_s, found.later_read_s) == ({}, None, None)
    assert first_reads([_cell()]) == []
    assert list(sentences([_cell(2.0)])) == []


@pytest.mark.parametrize(
    ("ratios", "words"),
    [((2.0, 2.1, 1.9), "longer"), ((0.5, 0.51), "less"), ((0.5, 2.0, 1.0), "open")],
)
def test_first_reads_are_judged_by_replicates(ratios: tuple[float, ...], words: str) -> None:
    (told,) = sentences([_cell(*ratios)])
    assert words in told.rpartition(":")[2]


def test_cells_of_a_replicate_are_one_value() -> None:
    cells = [_cell(2.0, 1.0), _cell(8.0, 1.0)]
    assert first_reads(cells) == pytest.approx([math.log(4), 0.0])
    (told,) = sentences(cells)
    assert "over 2 replicates" in told


def test_slots_that_wait_for_their_turn_say_nothing_of_first_reads() -> None:
    late = [_cell(0.5, 0.5, 0.5, engine="spark", stagger=0.2)]
    late += [_cell(0.5, 0.5, 0.5, engine="spark", readers_per_device=1)]
    late += [_cell(0.5, 0.5, 0.5, engine="spark-binary-files")]
    assert list(sentences(late)) == []
    at_once = _cell(1.0, 1.01, 0.99, engine="spark", stagger=0, readers_per_device=0)
    (told,) = sentences([*late, at_once])
    assert told.startswith("spark: first reads of slots take 1.00 x")


def test_what_differs_alone_may_be_chance_among_several_readers() -> None:
    near = _cell(1.2, 1.3, 1.25, engine="spark")
    (alone,) = sentences([near])
    assert alone.endswith("they take longer.")
    others = [_cell(0.9, 1.0, 1.1, engine=str(number)) for number in range(5)]
    among, *_ = sentences([near, *others])
    assert among.endswith("whether they differ is open, as among so many it may be chance.")


def test_replicates_that_differ_do_not_make_first_reads_differ() -> None:
    """Cells of a replicate that share what it does are no further evidence."""
    draw = random.Random(18)
    wrong = 0
    for _ in range(300):
        shared = [draw.gauss(0, 0.2) for _ in range(3)]
        cells = [_cell(*(math.exp(one + draw.gauss(0, 0.02)) for one in shared)) for _ in range(4)]
        (told,) = sentences(cells)
        wrong += not told.endswith("open.")
    assert wrong / 300 < 0.08
