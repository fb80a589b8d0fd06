"""Compensation: engines that trade overhead for transfer, and those that do not."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

import pytest

from hyperslab.apps.experiment.answers.compensation import (
    Traded,
    sentences,
    signs_of,
    trades_of,
    why_open,
)
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.trials.record import Attempt
from tests.apps.experiment.engines import results


def _traded(overhead: float, transfer: float) -> list[Traded]:
    """An engine that spends so much more on both than one with 5 s and 50 s, by a little noise."""

    def numbers(made: Attempt) -> dict[str, float]:
        shift = 0.01 * ((made.number * 7) % 5)
        is_threads = made.levels["engine"] == "threads"
        return {
            "makespan_s": 1.0,
            "overhead_s": 5 + overhead * is_threads + shift,
            "read_s": 50 + transfer * is_threads + shift,
            "write_s": 0.0,
        }

    return list(trades_of(results(numbers)))


@pytest.mark.parametrize(
    ("overhead", "transfer", "sign", "words"),
    [
        (8.0, -8.0, True, "less on transfer in 1 of 1 pair of engines, and not in 0; open: 0."),
        (20.0, -2.0, False, "in 0 of 1 pair of engines, and not in 1; open: 0."),
        (20.0, 5.0, False, "in 0 of 1 pair of engines, and not in 1; open: 0."),
        (2.0, 0.0, None, "in 0 of 1 pair of engines, and not in 0; open: 1."),
        (2.0, 1.0, None, "in 0 of 1 pair of engines, and not in 0; open: 1."),
        (0.0, -9.0, None, "in 0 of 1 pair of engines, and not in 0; open: 1."),
    ],
)
def test_engines_trade_overhead_for_transfer_or_not(
    overhead: float, transfer: float, sign: bool | None, words: str
) -> None:
    found = _traded(overhead, transfer)
    assert signs_of(found, 0.1) == [sign]
    told = list(sentences(found, 0.1))
    assert told[0].endswith(words)
    assert len(told) == 1 + (sign is not None)


def test_why_a_pair_is_open() -> None:
    said = [why_open(_traded(*costs))[0] for costs in ((0.0, 0.0), (2.0, 0.0), (2.0, 1.0))]
    assert [text.split()[1] for text in said] == ["overheads", "transfers", "differ"]
    own = [(5 + more, 50 - more) for more in (1.4, 2.0, 2.6)]
    one = Traded("threads", "processes", own, [(5.0, 50.0)] * 3)
    assert why_open([one]) == ["Whether both together are as much is open."]
    assert why_open([one] * 2) == ["That overheads differ is not shown."] * 2, "among two"


def test_reading_that_is_booked_as_overhead_makes_up_for_nothing() -> None:
    """Spark's binaryFiles, whose reading is overhead, seems to trade one for the other."""

    def numbers(made: Attempt) -> dict[str, float]:
        shift = 0.01 * made.number
        is_other = made.levels["engine"] == "threads"
        costs = (
            {"overhead_s": 13.0, "read_s": 42.0}
            if is_other
            else {"overhead_s": 5.0, "read_s": 50.0}
        )
        return {"makespan_s": 1.0, "write_s": shift, **costs}

    cells = results(numbers)
    assert len(list(trades_of(cells))) == 1
    named = [
        dataclasses.replace(one, cell=dataclasses.replace(one.cell, levels=_named(one.cell.levels)))
        for one in cells
    ]
    assert list(trades_of(named)) == []


def _named(levels: Mapping[str, Level]) -> dict[str, Level]:
    if levels["engine"] != "threads":
        return dict(levels)
    return {**levels, "engine": "spark-binary-files"}


@pytest.mark.parametrize("less", [0.0, 1.0])
def test_compensation_is_said_by_chance_as_rarely_as_a_test_is_wrong(less: float) -> None:
    """Engines that differ in overhead alone, by less than the margin of both together: a test of
    the sum alone would say so each time. And such as differ in nothing.
    """
    draw = random.Random(18)
    found = [_drawn(draw, less) for _ in range(500)]
    wrong = sum(signs_of([one], 0.1)[0] is True for one in found)
    assert wrong / 500 < 0.05


def _drawn(draw: random.Random, more: float) -> Traded:
    def costs(overhead: float) -> Sequence[tuple[float, float]]:
        return [(draw.gauss(overhead, 0.1), draw.gauss(20, 0.5)) for _ in range(3)]

    return Traded("a", "b", costs(5 + more), costs(5))
