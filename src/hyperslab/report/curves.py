"""Curves over the time of a run: how many slots are busy and with what, and how fast data are read
and written.

Both are means over equal steps of time, so that a run of a hundred thousand tasks makes as small a
curve as one of ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab.report.gantt import COLOURS, OTHER_COLOUR
from hyperslab.report.summary import PHASE_OF_KIND, lanes, own_pieces, window
from hyperslab.trace import Trace
from hyperslab.units import PREFIXES, show_rate

Floats: TypeAlias = npt.NDArray[np.float64]

STEPS = 240
PHASES = {"read": "reading", "compute": "computing", "write": "writing", "other": "other phases"}
DEVICE_COLOUR = "#4a5160"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Means over steps of time."""

    edges: Floats
    "Edges of the steps, in seconds since the engine was ready: one more than steps."
    values: Mapping[str, Floats]
    "Values of each phase, one per step."


def running(trace: Trace) -> Curve:
    """How many slots were busy in each phase, whose sum over time is the busy time of the
    summary.
    """
    pieces: dict[str, list[tuple[int, int]]] = {phase: [] for phase in PHASES}
    for spans in lanes(trace).values():
        for span, start, end in own_pieces(spans):
            pieces[PHASE_OF_KIND.get(span.kind, "other")].append((start, end))
    edges = _edges(trace)
    ready = window(trace).ready_ns
    values = {
        phase: _mean(each, np.ones(len(each)), edges, ready) for phase, each in pieces.items()
    }
    return Curve(edges, values)


def throughput(trace: Trace) -> Curve:
    """Bytes per second read and written by all slots together, those of a span spread evenly over
    its time.
    """
    edges = _edges(trace)
    ready = window(trace).ready_ns
    values = {}
    for phase in ("read", "write"):
        spans = [s for s in trace.spans if PHASE_OF_KIND.get(s.kind) == phase and s.nbytes > 0]
        times = [(s.start_ns, max(s.end_ns, s.start_ns + 1)) for s in spans]
        rates = (
            np.array(
                [s.nbytes / (end - start) for s, (start, end) in zip(spans, times, strict=True)]
            )
            * 1e9
        )
        values[phase] = _mean(times, rates, edges, ready)
    return Curve(edges, values)


def _edges(trace: Trace) -> Floats:
    when = window(trace)
    return np.linspace(0.0, max((when.end_ns - when.ready_ns) / 1e9, 1e-9), STEPS + 1)


def _mean(
    times: Sequence[tuple[int, int]], weights: Floats, edges: Floats, ready_ns: int
) -> Floats:
    """Mean in each step of the summed weights of the intervals that cover it, from their integral
    up to each edge.
    """
    bounds = (np.array(times, np.int64).reshape(-1, 2) - ready_ns) / 1e9
    integral = _ramps(bounds[:, 0], weights, edges) - _ramps(bounds[:, 1], weights, edges)
    mean = np.diff(integral) / np.diff(edges)
    return np.where(
        mean > 1e-9 * max(mean.max(initial=0.0), 1e-300), mean, 0.0
    )  # what rounding leaves is no time


def _ramps(points: Floats, weights: Floats, edges: Floats) -> Floats:
    """Sum over all points of weight x (edge - point), for the points before each edge."""
    order = np.argsort(points)
    point = points[order]
    weight = weights[order]
    before = np.searchsorted(point, edges)
    slope, offset = (
        np.concatenate([[0.0], np.cumsum(each)])[before] for each in (weight, weight * point)
    )
    return np.asarray(slope * edges - offset)


def running_chart(trace: Trace) -> dict[str, Any]:
    """Say what the curve of running tasks shows, stacked by phase, for charts.js to draw."""
    slots = len(lanes(trace))
    return {
        **_drawn(running(trace)),
        "label": "slots busy",
        "top": 1.06 * max(slots, 1),
        "levels": [{"value": slots, "colour": DEVICE_COLOUR}],
        "is_stacked": True,
        "digits": 2,
        "unit": "",
    }


def throughput_chart(trace: Trace) -> dict[str, Any]:
    """Say what the throughput over time shows, with lines for what the device can do where
    `trace.meta["probe"]` tells.
    """
    curve = throughput(trace)
    device = device_rates(trace)
    highest = max(
        [1.0, *(float(values.max()) for values in curve.values.values()), *device.values()]
    )
    power = min(int(np.log10(highest)) // 3, len(PREFIXES) - 1)
    unit = 1000.0**power
    scaled = {phase: values / unit for phase, values in curve.values.items()}
    own_colours = len(set(device.values())) > 1
    levels = [
        {"value": rate / unit, "colour": COLOURS[phase] if own_colours else DEVICE_COLOUR}
        for phase, rate in device.items()
    ]
    return {
        **_drawn(Curve(curve.edges, scaled)),
        "label": f"{PREFIXES[power]}B/s",
        "top": 1.06 * highest / unit,
        "levels": levels,
        "is_stacked": False,
        "digits": 1,
        "unit": f" {PREFIXES[power]}B/s",
    }


def _drawn(curve: Curve) -> dict[str, Any]:
    """Edges of the steps, and the phases that have a value, each with its means."""
    phases = [
        {
            "name": phase,
            "title": PHASES[phase],
            "colour": COLOURS.get(phase, OTHER_COLOUR),
            "values": values,
        }
        for phase, values in curve.values.items()
        if values.any()
    ]
    return {"edges": curve.edges, "phases": phases}


def device_rates(trace: Trace) -> dict[str, float]:
    """Bytes per second that the device was measured or said to read and write; empty when nobody
    did.
    """
    probe = trace.meta.get("probe") or {}
    given = {phase: probe.get(f"{phase}_nbytes_per_s") for phase in ("read", "write")}
    return {phase: float(rate) for phase, rate in given.items() if rate}


def device_words(trace: Trace) -> str:
    """The same as a phrase, with where it is from; '' when nobody measured it."""
    rates = device_rates(trace)
    if len(set(rates.values())) == 1 and len(rates) > 1:
        text = show_rate(next(iter(rates.values())))
    else:
        text = " and ".join(f"{show_rate(rate)} ({PHASES[phase]})" for phase, rate in rates.items())
    origin = (trace.meta.get("probe") or {}).get("from")
    if text and origin:
        return f"{text}, by the {origin}"
    return text
