"""Curves over the time of a run: how many slots are busy and with what, and how fast data are read
and written.

Both are means over equal steps of time, so that a run of a hundred thousand tasks makes as small a
curve as one of ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab.report.gantt import COLOURS, OTHER_COLOUR, add_startup, side_margin, style
from hyperslab.report.summary import PHASE_OF_KIND, lanes, own_pieces, window
from hyperslab.trace import Trace
from hyperslab.units import PREFIXES, show_rate

if TYPE_CHECKING:
    from bokeh.plotting import figure

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


def running_chart(trace: Trace, beside: figure) -> figure:
    """The curve of running tasks, stacked by phase, on the time axis of `beside`."""
    curve = running(trace)
    slots = len(lanes(trace))
    top = 1.06 * max(slots, 1)
    chart = _chart(trace, beside, "slots busy", top)
    below = np.zeros(STEPS)
    for phase, values in curve.values.items():
        if values.any():
            colour = COLOURS.get(phase, OTHER_COLOUR)
            above = below + values
            chart.varea_step(
                x=curve.edges,
                y1=_closed(below),
                y2=_closed(above),
                step_mode="after",
                fill_color=colour,
                name=phase,
            )
            below = above
    _add_level(chart, slots, DEVICE_COLOUR)
    _add_hover(chart, curve, top, {phase: ("{0.00}", name) for phase, name in PHASES.items()})
    return chart


def throughput_chart(trace: Trace, beside: figure) -> figure:
    """Throughput over time, with lines for what the device can do where `trace.meta["probe"]`
    tells.
    """
    curve = throughput(trace)
    device = device_rates(trace)
    highest = max(
        [1.0, *(float(values.max()) for values in curve.values.values()), *device.values()]
    )
    power = min(int(np.log10(highest)) // 3, len(PREFIXES) - 1)
    scaled = Curve(
        curve.edges, {phase: values / 1000.0**power for phase, values in curve.values.items()}
    )
    top = 1.06 * highest / 1000.0**power
    chart = _chart(trace, beside, f"{PREFIXES[power]}B/s", top)
    for phase, values in scaled.values.items():
        if values.any():
            x = scaled.edges
            y = _closed(values)
            colour = COLOURS[phase]
            chart.varea_step(
                x=x, y1=0 * y, y2=y, step_mode="after", fill_color=colour, fill_alpha=0.12
            )
            chart.step(x=x, y=y, mode="after", line_color=colour, line_width=1.6, name=phase)
    for phase, rate in device.items():
        colour = DEVICE_COLOUR
        if len(set(device.values())) > 1:
            colour = COLOURS[phase]
        _add_level(chart, rate / 1000.0**power, colour)
    _add_hover(
        chart,
        scaled,
        top,
        {p: (f"{{0,0.0}} {PREFIXES[power]}B/s", PHASES[p]) for p in scaled.values},
    )
    return chart


def device_rates(trace: Trace) -> dict[str, float]:
    """Bytes per second that the device was measured or said to read and write; empty when nobody
    did.
    """
    probe = trace.meta.get("probe") or {}
    given = {phase: probe.get(f"{phase}_nbytes_per_s") for phase in ("read", "write")}
    return {phase: float(rate) for phase, rate in given.items() if rate}


def device_words(trace: Trace) -> str:
    """The same as a phrase; '' when nobody measured it."""
    rates = device_rates(trace)
    if len(set(rates.values())) == 1 and len(rates) > 1:
        return show_rate(next(iter(rates.values())))
    return " and ".join(f"{show_rate(rate)} ({PHASES[phase]})" for phase, rate in rates.items())


def _closed(values: Floats) -> Floats:
    """The last step's value once more, at the end of the step."""
    return np.append(values, values[-1])


def _chart(trace: Trace, beside: figure, label: str, top: float) -> figure:
    from bokeh.models.ranges import Range1d
    from bokeh.plotting import figure

    chart = figure(
        x_range=beside.x_range,
        y_range=Range1d(start=0, end=top),
        height=175,
        sizing_mode="stretch_width",
        tools="xpan,xwheel_zoom,xbox_zoom,reset",
        toolbar_location=None,
        active_scroll=None,
        active_drag="xbox_zoom",
        y_axis_label=label,
        min_border_left=side_margin(trace),
        min_border_right=beside.min_border_right,
    )
    add_startup(chart, window(trace))
    style(chart)
    chart.ygrid.grid_line_color = "#eceef1"
    return chart


def _add_level(chart: figure, value: float, colour: str) -> None:
    from bokeh.models.annotations import Span as Line

    chart.add_layout(
        Line(
            location=value,
            dimension="width",
            line_color=colour,
            line_dash="dashed",
            line_width=1.4,
            name="level",
        )
    )


def _add_hover(
    chart: figure, curve: Curve, top: float, shown: Mapping[str, tuple[str, str]]
) -> None:
    """Numbers of the step below the pointer, from bars that nobody sees."""
    from bokeh.models.sources import ColumnDataSource
    from bokeh.models.tools import HoverTool

    present = {
        phase: values.astype(np.float32) for phase, values in curve.values.items() if values.any()
    }
    if not present:
        return
    columns: dict[str, Any] = {"left": curve.edges[:-1], "right": curve.edges[1:], **present}
    bars = chart.quad(
        left="left",
        right="right",
        bottom=0,
        top=top,
        source=ColumnDataSource(columns),
        fill_alpha=0,
        line_alpha=0,
        hover_fill_alpha=0.08,
        hover_fill_color="#1d2330",
        name="steps",
    )
    rows = [
        ("time", "@left{0,0.000} s"),
        *((shown[phase][1], f"@{phase}{shown[phase][0]}") for phase in present),
    ]
    chart.add_tools(
        HoverTool(renderers=[bars], mode="vline", tooltips=rows, point_policy="follow_mouse")
    )
