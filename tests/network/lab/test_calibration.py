"""Links that are not what was asked for are told, with a remedy that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hyperslab.network.lab import calibration, probes
from hyperslab.network.lab.measured import MeasuredLink
from hyperslab.network.lab.namespaces import LabFailed
from tests.network.lab.labs import LAB, NODE


@pytest.mark.parametrize(("taken_s", "is_right"), [(1e-4, True), (2e-3, True), (3e-3, False)])
def test_round_trips_over_a_link_without_a_delay_are_held_to_that(
    monkeypatch: pytest.MonkeyPatch, taken_s: float, is_right: bool
) -> None:
    monkeypatch.setattr(probes, "round_trips", lambda *_: [taken_s] * 40)
    assert calibration._round_trip(LAB, NODE).is_right == is_right
    assert calibration._round_trip(replace(LAB, tolerance=0.4), NODE).is_right


@pytest.mark.parametrize(
    ("wrong", "tolerance"),
    [
        (MeasuredLink("rate up", 100e6, 70e6, "bit/s", "w1", 10e6), "0.3"),
        (MeasuredLink("round trip", 0.0, 0.005, "s", "w1", 0.0025), "0.25"),
        (MeasuredLink("rate up", 100e6, 300e6, "bit/s", "w1", 10e6), ""),
        (MeasuredLink("loss up", 0.0, 0.01, "share", "w1", 0.002), ""),
    ],
)
def test_a_tolerance_is_named_where_it_helps(wrong: MeasuredLink, tolerance: str) -> None:
    with pytest.raises(LabFailed, match="is not the laboratory that was asked for") as raised:
        calibration.require_asked(LAB, [wrong])
    _, named, found = str(raised.value).partition("tolerance = ")
    assert found.removesuffix(" in the spec") == tolerance
    assert bool(named) == bool(tolerance)
