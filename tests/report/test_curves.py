"""Curves over time: they hold what the summary holds, and stand where the spans stand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from hyperslab.report.curves import (
    STEPS,
    device_rates,
    device_words,
    running,
    running_chart,
    throughput,
    throughput_chart,
)
from hyperslab.report.summary import summarise
from hyperslab.trace import Span, Trace

S = 10**9


def _trace() -> Trace:
    """Ten seconds on two slots: a reads 1 GB in 5 s, then computes for 2; b writes 0.5 GB from
    second 2 to 4.
    """
    spans = [
        Span(0, 0, "a", "read", 0, 5 * S, 10**9, 0, 0),
        Span(0, 0, "a", "compute", 5 * S, 7 * S, 0, 0, 0),
        Span(1, 0, "b", "write", 2 * S, 4 * S, 5 * 10**8, 0, 0),
    ]
    return Trace(spans, ["a", "b"], meta={"start_ns": -S, "ready_ns": 0, "end_ns": 10 * S})


def _random(seed: int) -> Trace:
    """Spans that nest and overlap in their slots."""
    draw = random.Random(seed)
    spans = []
    for task in range(300):
        start = draw.randrange(100 * S)
        kind, length = (
            draw.choice(["open", "read", "compute", "write", "merge"]),
            draw.randrange(2 * S),
        )
        spans.append(
            Span(
                task,
                0,
                f"s{draw.randrange(4)}",
                kind,
                start,
                start + length,
                draw.randrange(10**9),
                0,
                0,
            )
        )
    return Trace(spans, [f"s{i}" for i in range(5)], meta={"ready_ns": 0, "end_ns": 110 * S})


def test_the_curves_stand_where_the_spans_stand() -> None:
    curve = running(_trace())
    middle = (curve.edges[:-1] + curve.edges[1:]) / 2
    inside = np.all(
        [abs(middle - edge) > 0.1 for edge in (0, 2, 4, 5, 7)], axis=0
    )  # steps that no span begins in
    np.testing.assert_allclose(curve.values["read"][inside], (middle < 5)[inside])
    np.testing.assert_allclose(
        curve.values["compute"][inside], ((middle > 5) & (middle < 7))[inside]
    )
    rates = throughput(_trace()).values
    np.testing.assert_allclose(rates["read"][inside], 2e8 * (middle < 5)[inside])
    np.testing.assert_allclose(
        rates["write"][inside], 2.5e8 * ((middle > 2) & (middle < 4))[inside]
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_curves_hold_what_the_summary_holds(seed: int) -> None:
    trace = _random(seed)
    summary, busy, moved = summarise(trace), running(trace), throughput(trace)
    width = np.diff(busy.edges)
    for phase, values in busy.values.items():
        assert (values * width).sum() == pytest.approx(getattr(summary, f"{phase}_s"))
    assert np.sum(list(busy.values.values()), axis=0).max() <= 4 + 1e-9, (
        "no more than slots that ran something"
    )
    assert (moved.values["read"] * width).sum() == pytest.approx(summary.read_nbytes)
    assert (moved.values["write"] * width).sum() == pytest.approx(summary.written_nbytes)


def test_a_span_of_no_length_still_moves_its_bytes() -> None:
    curve = throughput(
        Trace(
            [Span(0, 0, "a", "read", S, S, 4096, 0, 0)],
            ["a"],
            meta={"ready_ns": 0, "end_ns": 2 * S},
        )
    )
    assert (curve.values["read"] * np.diff(curve.edges)).sum() == pytest.approx(4096)


def test_a_run_of_nothing_has_flat_curves() -> None:
    for curve in (running(Trace([], [])), throughput(Trace([], []))):
        assert all(
            values.shape == (STEPS,) and not values.any() for values in curve.values.values()
        )


def _levels(chart: dict[str, Any]) -> list[float]:
    return sorted(line["value"] for line in chart["levels"])


def test_the_charts_show_slots_and_device() -> None:
    trace = _trace()
    assert _levels(running_chart(trace)) == [2]
    assert _levels(throughput_chart(trace)) == []
    trace.meta["probe"] = {"read_nbytes_per_s": 3e8, "write_nbytes_per_s": 1e8}
    chart = throughput_chart(trace)
    assert (chart["label"], _levels(chart)) == ("MB/s", [100, 300])
    reading = next(phase for phase in chart["phases"] if phase["name"] == "read")
    assert max(reading["values"]) == pytest.approx(200)
    assert chart["top"] > 300, "the device's line is in sight"


def test_only_phases_that_a_run_had_are_drawn() -> None:
    chart = running_chart(_trace())
    assert [phase["title"] for phase in chart["phases"]] == ["reading", "computing", "writing"]
    assert all(phase["values"].size == chart["edges"].size - 1 for phase in chart["phases"])
    assert running_chart(Trace([], []))["phases"] == []


def test_the_device_in_words() -> None:
    trace = Trace([], [], meta={"probe": {"read_nbytes_per_s": 3e8, "write_nbytes_per_s": 1e8}})
    assert device_words(trace) == "300 MB/s (reading) and 100 MB/s (writing)"
    trace.meta["probe"]["write_nbytes_per_s"] = 3e8
    assert device_words(trace) == "300 MB/s"
    assert (device_rates(Trace([], [])), device_words(Trace([], []))) == ({}, "")
