"""What is made of measurements: medians, spreads, knees, rates between points; JSON and back."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from hyperslab.storage.probing.records import Curve, Measured, Point, Probed
from tests.storage.probing.made import curve, probed


@pytest.mark.parametrize(
    ("values", "median", "spread"),
    [((3.0,), 3.0, 0.0), ((1.0, 9.0, 2.0, 4.0, 3.0), 3.0, 2.0), ((1.0, 2.0), 1.5, 0.5)],
)
def test_the_median_and_the_distance_of_the_quartiles(
    values: tuple[float, ...], median: float, spread: float
) -> None:
    assert Measured(values).median == median
    assert Measured(values).spread == spread


def test_the_knee_is_where_more_clients_bring_no_more_than_the_spread() -> None:
    rising = curve({1: (100, 101, 102), 2: (190, 200, 210), 4: (205, 208, 211), 8: (199, 204, 207)})
    assert rising.knee.clients == 2
    assert not rising.still_grows
    assert curve({1: (100, 100, 100), 2: (200, 200, 200)}).still_grows


def test_slow_growth_that_adds_up_moves_the_knee() -> None:
    grown = curve({1: (100, 102, 104), 2: (101, 103, 105), 4: (108, 110, 112)})
    assert grown.knee.clients == 4


def test_a_rate_lies_between_those_of_its_neighbours() -> None:
    known = curve({2: (100.0,), 8: (300.0,)})
    assert known.rate_at(1) == 100
    assert known.rate_at(4) == pytest.approx(200)
    assert known.rate_at(64) == 300


def test_numbers_of_clients_are_compared_at_one_size_of_requests() -> None:
    points = [Point(n, 2**20, Measured((n * 10.0,))) for n in (1, 2, 4)]
    points += [Point(1, size, Measured((1.0,))) for size in (4096, 2**24)]
    mixed = Curve(tuple(points))
    assert [point.clients for point in mixed.by_clients] == [1, 2, 4]
    assert [point.request_nbytes for point in mixed.by_request] == [4096, 2**20, 2**24]


def test_a_record_survives_json() -> None:
    one = probed()
    assert Probed.from_json(json.loads(json.dumps(asdict(one)))) == one
