"""Phases of tasks, and first reads beside later ones, of traces that are made."""

from __future__ import annotations

import pytest

from hyperslab.apps.experiment.comparison import CellResult
from hyperslab.apps.experiment.design import Cell
from hyperslab.apps.experiment.phases import (
    CellPhases,
    Phases,
    first_reads,
    kinds_of,
    phases_of,
    sentences,
)
from hyperslab.trace import NO_TASK, Span, Trace

MS = 10**6


def _span(task: int, slot: str, kind: str, start: int, end: int, lost: bool = False) -> Span:
    return Span(task, 1, slot, kind, start * MS, end * MS, 0, 0, 0, lost)


def _cell(*ratios: float) -> CellPhases:
    result = CellResult(Cell({}, ()), (), None)
    return CellPhases(result, [Phases({"read": 1.0}, ratio, 1.0) for ratio in ratios])


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
    assert found.seconds["read"] == pytest.approx((0.03 + 0.01 + 0.02) / 3)
    assert kinds_of([CellPhases(_cell().result, [found])]) == ["open", "read", "compute"]


def test_a_trace_without_tasks_has_no_phases() -> None:
    found = phases_of(Trace([], ["a/w0/t0"]))
    assert (found.seconds, found.first_read_s, found.later_read_s) == ({}, None, None)
    assert first_reads([_cell()]) is None
    assert list(sentences([_cell(2.0)])) == []


@pytest.mark.parametrize(
    ("ratios", "words"),
    [((2.0, 2.1, 1.9), "longer"), ((0.5, 0.51), "less"), ((0.5, 2.0, 1.0), "open")],
)
def test_first_reads_are_judged_by_their_interval(ratios: tuple[float, ...], words: str) -> None:
    (told,) = sentences([_cell(*ratios)])
    assert words in told.rpartition(":")[2]
