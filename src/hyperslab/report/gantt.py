"""The Gantt chart of a trace: one lane per slot, used or not, one bar per span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.report.summary import Window, lanes, window
from hyperslab.span import Span, Trace
from hyperslab.units import show_seconds

if TYPE_CHECKING:
    from bokeh.models.tools import HoverTool
    from bokeh.plotting import figure

# The colour-blind safe palette of Okabe and Ito (2008), https://jfly.uni-koeln.de/color/
COLOURS = {"open": "#56b4e9", "read": "#0072b2", "compute": "#e69f00", "write": "#009e73", "transfer": "#cc79a7"}
OTHER_COLOURS = ("#f0e442", "#8c6d46", "#7f7f7f")
LOST_COLOUR = "#d55e00"
STARTUP_COLOUR = "#e9ebee"
SHORT_COLOUR = "#c9ced6"
FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

MAX_BARS = 100_000
"Bars that a browser draws and a page holds (53 bytes each) without trouble."
MAX_SHADES = 20_000
MAX_LABEL_CHARACTERS = 1_000_000

_TASK_JS = "return labels[value] === undefined ? String(value) : `${value}: ${labels[value]}`"
_BYTES_JS = """
let size = value, prefix = 0
while (size >= 999.5 && prefix < 6) { size /= 1000; prefix += 1 }
return (prefix == 0 ? String(size) : size.toPrecision(3)) + " " + ["", "k", "M", "G", "T", "P", "E"][prefix] + "B"
"""
_MS_JS = 'return isNaN(value) ? "unknown" : `${value < 100 ? value.toPrecision(3) : Math.round(value)} ms`'


def gantt(trace: Trace) -> figure:
    """Draw a trace as a Bokeh figure; seconds count from the moment the engine was ready.

    Start-up is the grey band before zero, bars of lost attempts are hatched. Of `trace.meta` it reads what `window`
    reads and `labels`, the names of the tasks by their number. Of more than 100,000 spans the longest are drawn, the
    others shade the time they cover, and a line below the chart says so.
    """
    by_slot, when = lanes(trace), window(trace)
    labels = list(trace.meta.get("labels", []))
    labelled = sum(len(str(label)) for label in labels) <= MAX_LABEL_CHARACTERS
    chart = _empty_chart(list(by_slot), when)
    rows = [(lane, span) for lane, spans in enumerate(by_slot.values()) for span in spans]
    notes = [] if labelled else ["Task names are left out: they would make the page too large."]
    if len(rows) > MAX_BARS:
        rows.sort(key=lambda row: row[1].start_ns - row[1].end_ns)
        notes.append(_shade_short(chart, by_slot, when, rows[MAX_BARS][1], len(rows)))
        rows = rows[:MAX_BARS]
    _draw_bars(chart, rows, when, labels if labelled else [])
    _add_notes(chart, notes)
    return chart


def _empty_chart(slots: Sequence[str], when: Window) -> figure:
    from bokeh.core.validation import silence
    from bokeh.core.validation.warnings import MISSING_RENDERERS
    from bokeh.models.annotations import BoxAnnotation
    from bokeh.models.ranges import Range1d
    from bokeh.plotting import figure

    silence(MISSING_RENDERERS)  # a run in which nothing was left to do has no bars
    run_s, startup_s = (when.end_ns - when.ready_ns) / 1e9, (when.ready_ns - when.start_ns) / 1e9
    margin = 0.01 * (run_s + startup_s) or 1.0
    left, right = -startup_s - margin, run_s + margin
    chart = figure(
        x_range=Range1d(start=left, end=right, bounds=(left, right)),
        y_range=Range1d(start=max(len(slots), 1) - 0.4, end=-0.6),
        height=int(np.clip(140 + 26 * len(slots), 190, 900)),
        sizing_mode="stretch_width",
        output_backend="webgl",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
        toolbar_location="below",
        active_scroll=None,
        active_drag="xbox_zoom",
        x_axis_label="seconds since the engine was ready",
    )
    if startup_s > 0:
        chart.add_layout(
            BoxAnnotation(left=-startup_s, right=0, fill_color=STARTUP_COLOUR, fill_alpha=1, level="underlay")
        )
    _name_lanes(chart, slots)
    _style(chart)
    return chart


def _name_lanes(chart: figure, slots: Sequence[str]) -> None:
    """Label the lanes; every k-th of them where there is no room for all."""
    step = -(-len(slots) // 50) or 1
    ticks = list(range(0, len(slots), step))
    chart.yaxis.ticker = ticks
    chart.yaxis.major_label_overrides = {lane: slots[lane] for lane in ticks}


def _style(chart: figure) -> None:
    chart.toolbar.logo = None
    chart.outline_line_color = None
    chart.ygrid.visible = False
    chart.xgrid.grid_line_color = "#eceef1"
    chart.axis.axis_line_color = "#c9ced6"
    chart.axis.major_tick_line_color = None
    chart.axis.minor_tick_line_color = None
    chart.axis.major_label_text_color = "#4a5160"
    chart.axis.major_label_text_font_size = "12px"
    chart.axis.axis_label_text_font_style = "normal"
    chart.axis.axis_label_text_color = "#4a5160"
    chart.axis.axis_label_text_font_size = "12px"
    chart.axis.axis_label_text_font = FONT
    chart.axis.major_label_text_font = FONT


def _draw_bars(chart: figure, rows: Sequence[tuple[int, Span]], when: Window, labels: Sequence[str]) -> None:
    """One renderer per kind, and a second one for its lost attempts, so that the legend can hide them."""
    from bokeh.models.sources import ColumnDataSource

    bars: list[Any] = []
    legend: dict[str, list[Any]] = {}
    for look in _looks(sorted({(span.kind, span.lost) for _, span in rows}, key=_reading_order)):
        chosen = [row for row in rows if (row[1].kind, row[1].lost) == (look.kind, look.lost)]
        edge = {"line_color": LOST_COLOUR, "hatch_pattern": "/", "hatch_color": LOST_COLOUR, "hatch_scale": 8.0}
        style = edge if look.lost else {"line_color": None}
        bar = chart.hbar(
            y="lane", left="left", right="right", height=0.72, fill_color=look.colour,
            source=ColumnDataSource(_columns(chosen, when)), name=look.name, hover_fill_alpha=0.75, **style,
        )  # fmt: skip
        bars.append(bar)
        legend.setdefault("lost attempt" if look.lost else look.kind, []).append(bar)
    if bars:
        chart.add_tools(_hover(bars, labels))
        _add_legend(chart, legend)


@dataclass(frozen=True, slots=True)
class Look:
    """How the bars of one kind are drawn."""

    kind: str
    lost: bool
    colour: str

    @property
    def name(self) -> str:
        return f"{self.kind} (lost attempt)" if self.lost else self.kind


def _reading_order(kind_lost: tuple[str, bool]) -> tuple[bool, int, str]:
    kind, lost = kind_lost
    known = list(COLOURS)
    return lost, known.index(kind) if kind in known else len(known), kind


def _looks(kinds: Sequence[tuple[str, bool]]) -> list[Look]:
    others = sorted({kind for kind, _ in kinds} - set(COLOURS))
    colours = COLOURS | {kind: OTHER_COLOURS[n % len(OTHER_COLOURS)] for n, kind in enumerate(others)}
    return [Look(kind, lost, colours[kind]) for kind, lost in kinds]


def _columns(rows: Sequence[tuple[int, Span]], when: Window) -> dict[str, Any]:
    """Columns as small as their use allows; positions keep 64 bits so that zooming in stays exact."""
    spans = [span for _, span in rows]
    start = np.array([s.start_ns - when.ready_ns for s in spans], np.int64)
    end = np.array([s.end_ns - when.ready_ns for s in spans], np.int64)
    runq = np.array([s.runq_ns for s in spans], np.float64)
    return {
        "lane": np.array([lane for lane, _ in rows], np.int32),
        "left": start / 1e9,
        "right": end / 1e9,
        "task": np.array([s.task for s in spans], np.int32),
        "attempt": np.array([s.attempt for s in spans], np.uint16),
        "nbytes": np.array([s.nbytes for s in spans], np.float32),
        "duration_ms": ((end - start) / 1e6).astype(np.float32),
        "cpu_ms": np.array([s.cpu_ns / 1e6 for s in spans], np.float32),
        "runq_ms": np.where(runq < 0, np.nan, runq / 1e6).astype(np.float32),
    }


def _hover(bars: Sequence[Any], labels: Sequence[str]) -> HoverTool:
    from bokeh.models.tools import CustomJSHover, HoverTool

    milliseconds = CustomJSHover(code=_MS_JS)
    return HoverTool(
        renderers=list(bars),
        point_policy="follow_mouse",
        tooltips=[
            ("task", "@task{custom}"),
            ("attempt", "@attempt"),
            ("phase", "$name"),
            ("bytes", "@nbytes{custom}"),
            ("duration", "@duration_ms{custom}"),
            ("CPU time", "@cpu_ms{custom}"),
            ("run-queue wait", "@runq_ms{custom}"),
        ],
        formatters={
            "@task": CustomJSHover(args={"labels": [str(label) for label in labels]}, code=_TASK_JS),
            "@nbytes": CustomJSHover(code=_BYTES_JS),
            "@duration_ms": milliseconds,
            "@cpu_ms": milliseconds,
            "@runq_ms": milliseconds,
        },
    )


def _add_legend(chart: figure, entries: dict[str, list[Any]]) -> None:
    from bokeh.models.annotations import Legend

    legend = Legend(
        items=list(entries.items()),
        orientation="horizontal",
        click_policy="hide",
        border_line_color=None,
        spacing=14,
        margin=8,
    )
    legend.label_text_font = FONT
    legend.label_text_font_size = "12px"
    legend.label_text_color = "#4a5160"
    legend.glyph_width = legend.glyph_height = 14
    chart.add_layout(legend, "above")


def _shade_short(chart: figure, by_slot: dict[str, list[Span]], when: Window, longest: Span, spans: int) -> str:
    """Shade where any span ran, below the bars, and return the sentence that explains it."""
    gap_ns = (when.end_ns - when.ready_ns) * len(by_slot) // MAX_SHADES
    shades = [(lane, *piece) for lane, each in enumerate(by_slot.values()) for piece in _merged(each, gap_ns)]
    columns = np.array(shades, np.int64).reshape(-1, 3)
    chart.hbar(
        y=columns[:, 0].astype(np.float64), left=(columns[:, 1] - when.ready_ns) / 1e9,
        right=(columns[:, 2] - when.ready_ns) / 1e9, height=0.72, fill_color=SHORT_COLOUR, line_color=None,
    )  # fmt: skip
    limit = show_seconds((longest.end_ns - longest.start_ns) / 1e9)
    return f"The {MAX_BARS:,} longest of {spans:,} spans are drawn; the others, at most {limit} each, show as grey."


def _merged(spans: Sequence[Span], gap_ns: int) -> list[tuple[int, int]]:
    """The time that spans (by their start) cover, joined across gaps of at most `gap_ns`."""
    pieces: list[tuple[int, int]] = []
    for span in spans:
        if pieces and span.start_ns <= pieces[-1][1] + gap_ns:
            pieces[-1] = (pieces[-1][0], max(pieces[-1][1], span.end_ns))
        else:
            pieces.append((span.start_ns, span.end_ns))
    return pieces


def _add_notes(chart: figure, notes: Sequence[str]) -> None:
    from bokeh.models.annotations import Title

    for note in notes:
        chart.add_layout(Title(text=note, text_font=FONT, text_font_size="12px", text_font_style="normal"), "below")
