"""The Gantt chart of a trace: one lane per slot, used or not, one bar per span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.report.summary import Window, lanes, window
from hyperslab.trace import Span, Trace
from hyperslab.units import show_seconds

if TYPE_CHECKING:
    from bokeh.models.sources import ColumnDataSource
    from bokeh.models.tools import HoverTool
    from bokeh.plotting import figure

# The colour-blind safe palette of Okabe and Ito (2008), https://jfly.uni-koeln.de/color/
COLOURS = {
    "open": "#56b4e9",
    "read": "#0072b2",
    "compute": "#e69f00",
    "write": "#009e73",
    "merge": "#cc79a7",
    "transfer": "#8c6d46",
}
OTHER_COLOUR = COLOURS["merge"]
"Colour of all kinds but reading, computing and writing, together."
OTHER_COLOURS = ("#f0e442", "#7f7f7f")
LOST_COLOUR = "#d55e00"
_LOST_EDGE = {
    "line_color": LOST_COLOUR,
    "line_width": 1.5,
    "hatch_pattern": "/",
    "hatch_color": LOST_COLOUR,
    "hatch_scale": 9.0,
    "hatch_weight": 2.5,
}
STARTUP_COLOUR = "#e9ebee"
SHORT_COLOUR = "#c9ced6"
FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

MAX_BARS = 100_000
"Bars that a browser draws and a page holds (53 bytes each) without trouble."
LEGEND_COLUMNS = 5
"Names of kinds side by side: as many as a phone has room for."
MAX_SHADES = 20_000
MAX_LABEL_CHARACTERS = 1_000_000

_TASK_JS = """
if (value < 0) return "none: work of the engine for many"
const label = names.data.label[value]
return label === undefined ? String(value) : `${value}: ${label}`
"""
_BYTES_JS = """
let size = value, prefix = 0
while (size >= 999.5 && prefix < 6) { size /= 1000; prefix += 1 }
const unit = ["", "k", "M", "G", "T", "P", "E"][prefix] + "B"
return (prefix == 0 ? String(size) : size.toPrecision(3)) + " " + unit
"""
_SECONDS_JS = 'return `${String(Number(tick.toPrecision(9))).replace("-", "\u2212")} s`'
_MS_JS = (
    'return isNaN(value) ? "unknown" : `${value < 100 ? value.toPrecision(3) :'
    " Math.round(value)} ms`"
)


FADED = 0.15
"Opacity of the bars of all other blocks while one is picked."

# A click picks the nearest bar within 4 pixels of the pointer: at first sight most bars of a long
# run are thinner.
_PICK_JS = """
const lane = Math.round(cb_obj.y), x = cb_obj.x
const reach = 4 * Math.abs(chart.x_range.end - chart.x_range.start) / chart.inner_width
let task = null, nearest = reach
for (const bar of Math.abs(cb_obj.y - lane) <= 0.36 ? bars : []) {
  const {lane: lanes, left, right, task: tasks} = bar.data_source.data
  for (let i = 0; bar.visible && i < left.length; i++) {
    if (lanes[i] != lane) continue
    const distance = Math.max(left[i] - x, x - right[i], 0)
    if (distance < nearest || (distance == 0 && nearest == 0)) {
      task = tasks[i]
      nearest = distance
    }
  }
}
const label = names.data.label
const block = (task) => label[task] === undefined ? task : label[task]
const picked = task === null ? null : block(task)
const said = []
for (const bar of bars) {
  const {task: tasks, duration_ms} = bar.data_source.data
  const indices = []
  let total_ms = 0
  for (let i = 0; picked !== null && i < tasks.length; i++) {
    if (block(tasks[i]) === picked) { indices.push(i); total_ms += duration_ms[i] }
  }
  bar.muted = picked !== null && indices.length == 0
  bar.data_source.selected.indices = indices
  const total = total_ms < 100 ? total_ms.toPrecision(3) : Math.round(total_ms)
  if (indices.length) said.push(`${bar.name} ${total} ms`)
}
const line = document.getElementById("picked")
const name = typeof picked == "number" ? `task ${picked}` : picked
if (line) line.textContent = picked === null ? "" : `${name}: ${said.join(", ")}`
"""


def gantt(trace: Trace) -> figure:
    """Draw a trace as a Bokeh figure; seconds count from the moment the engine was ready.

    Start-up is the grey band before zero, bars of lost attempts are hatched. A click on a bar fades
    those of all other blocks and names its block in the page's element `picked`, where there is
    one; a click elsewhere ends that. Of `trace.meta` it reads what `window` reads and `labels`, the
    names of the tasks by their number. Of more than 100,000 spans the longest are drawn, the others
    shade the time they cover, and a line below the chart says so.
    """
    by_slot = lanes(trace)
    when = window(trace)
    labels = list(trace.meta.get("labels", []))
    labelled = sum(len(str(label)) for label in labels) <= MAX_LABEL_CHARACTERS
    chart = _empty_chart(list(by_slot), when, side_margin(trace))
    rows = [(lane, span) for lane, spans in enumerate(by_slot.values()) for span in spans]
    notes = []
    if not labelled:
        notes = ["Task names are left out: they would make the page too large."]
        labels = []
    if len(rows) > MAX_BARS:
        rows.sort(key=lambda row: row[1].start_ns - row[1].end_ns)
        notes.append(_shade_short(chart, by_slot, when, rows[MAX_BARS][1], len(rows)))
        rows = rows[:MAX_BARS]
    _draw_bars(chart, rows, when, labels)
    _add_notes(chart, notes)
    return chart


def side_margin(trace: Trace) -> int:
    """Pixels left of a chart that hold the longest name of a slot, so that charts below it line
    up.
    """
    return 34 + 7 * max((len(slot) for slot in lanes(trace)), default=0)


def _empty_chart(slots: Sequence[str], when: Window, left_margin: int) -> figure:
    from bokeh.core.validation import silence
    from bokeh.core.validation.warnings import MISSING_RENDERERS
    from bokeh.models.ranges import Range1d
    from bokeh.plotting import figure

    silence(MISSING_RENDERERS)  # a run in which nothing was left to do has no bars
    run_s = (when.end_ns - when.ready_ns) / 1e9
    startup_s = (when.ready_ns - when.start_ns) / 1e9
    margin = 0.01 * (run_s + startup_s) or 1.0
    left = -startup_s - margin
    right = run_s + margin
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
        min_border_left=left_margin,
        min_border_right=12,
    )
    add_startup(chart, when)
    _name_lanes(chart, slots)
    style(chart)
    return chart


def add_startup(chart: figure, when: Window) -> None:
    """The time before the engine was ready as a grey band."""
    from bokeh.models.annotations import BoxAnnotation

    startup_s = (when.ready_ns - when.start_ns) / 1e9
    if startup_s > 0:
        chart.add_layout(
            BoxAnnotation(
                left=-startup_s,
                right=0,
                fill_color=STARTUP_COLOUR,
                fill_alpha=1,
                line_color=None,
                level="underlay",
            )
        )


def _name_lanes(chart: figure, slots: Sequence[str]) -> None:
    """Label the lanes; every k-th of them where there is no room for all."""
    step = -(-len(slots) // 50) or 1
    ticks = list(range(0, len(slots), step))
    chart.yaxis.ticker = ticks
    chart.yaxis.major_label_overrides = {lane: slots[lane] for lane in ticks}


def style(chart: figure) -> None:
    """Quiet lines, the page's letters and seconds along the time axis, alike in every chart."""
    from bokeh.models.formatters import CustomJSTickFormatter

    chart.xaxis.formatter = CustomJSTickFormatter(code=_SECONDS_JS)
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


def _draw_bars(
    chart: figure, rows: Sequence[tuple[int, Span]], when: Window, labels: Sequence[str]
) -> None:
    """One renderer per kind, and a second one for its lost attempts, so that the legend can hide
    them.
    """
    from bokeh.models.sources import ColumnDataSource

    bars: list[Any] = []
    legend: dict[str, list[Any]] = {}
    for look in _looks(sorted({(span.kind, span.lost) for _, span in rows}, key=_reading_order)):
        chosen = [row for row in rows if (row[1].kind, row[1].lost) == (look.kind, look.lost)]
        edge: dict[str, Any] = {"line_color": None}
        legend_name = look.kind
        if look.lost:
            edge = _LOST_EDGE
            legend_name = "lost attempt"
        bar = chart.hbar(
            y="lane",
            left="left",
            right="right",
            height=0.72,
            fill_color=look.colour,
            source=ColumnDataSource(_columns(chosen, when)),
            name=look.name,
            hover_fill_alpha=0.75,
            nonselection_alpha=FADED,
            muted_alpha=FADED,
            **edge,
        )
        bars.append(bar)
        legend.setdefault(legend_name, []).append(bar)
    if bars:
        names = ColumnDataSource({"label": [str(label) for label in labels]}, name="names")
        chart.add_tools(_hover(bars, names))
        _pick_on_click(chart, bars, names)
        _add_legend(chart, legend)


@dataclass(frozen=True, slots=True)
class Look:
    """How the bars of one kind are drawn."""

    kind: str
    lost: bool
    colour: str

    @property
    def name(self) -> str:
        if self.lost:
            return f"{self.kind} (lost attempt)"
        return self.kind


def _reading_order(kind_lost: tuple[str, bool]) -> tuple[bool, int, str]:
    kind, lost = kind_lost
    known = list(COLOURS)
    place = len(known)
    if kind in known:
        place = known.index(kind)
    return lost, place, kind


def _looks(kinds: Sequence[tuple[str, bool]]) -> list[Look]:
    others = sorted({kind for kind, _ in kinds} - set(COLOURS))
    colours = COLOURS | {
        kind: OTHER_COLOURS[n % len(OTHER_COLOURS)] for n, kind in enumerate(others)
    }
    return [Look(kind, lost, colours[kind]) for kind, lost in kinds]


def _columns(rows: Sequence[tuple[int, Span]], when: Window) -> dict[str, Any]:
    """Columns as small as their use allows; positions keep 64 bits so that zooming in stays
    exact.
    """
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


def _hover(bars: Sequence[Any], names: ColumnDataSource) -> HoverTool:
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
            "@task": CustomJSHover(args={"names": names}, code=_TASK_JS),
            "@nbytes": CustomJSHover(code=_BYTES_JS),
            "@duration_ms": milliseconds,
            "@cpu_ms": milliseconds,
            "@runq_ms": milliseconds,
        },
    )


def _pick_on_click(chart: figure, bars: Sequence[Any], names: ColumnDataSource) -> None:
    from bokeh.models.callbacks import CustomJS

    chart.js_on_event(
        "tap", CustomJS(args={"chart": chart, "bars": list(bars), "names": names}, code=_PICK_JS)
    )


def _add_legend(chart: figure, entries: dict[str, list[Any]]) -> None:
    from bokeh.models.annotations import Legend

    legend = Legend(
        items=list(entries.items()),
        orientation="horizontal",
        ncols=min(len(entries), LEGEND_COLUMNS),
        click_policy="hide",
        border_line_color=None,
        label_standoff=4,
        spacing=10,
        margin=0,
    )
    legend.label_text_font = FONT
    legend.label_text_font_size = "12px"
    legend.label_text_color = "#4a5160"
    legend.glyph_width = legend.glyph_height = 14
    chart.add_layout(legend, "above")


def _shade_short(
    chart: figure, by_slot: dict[str, list[Span]], when: Window, longest: Span, spans: int
) -> str:
    """Shade where any span ran, below the bars, and return the sentence that explains it."""
    gap_ns = (when.end_ns - when.ready_ns) * len(by_slot) // MAX_SHADES
    shades = [
        (lane, *piece)
        for lane, each in enumerate(by_slot.values())
        for piece in _merged(each, gap_ns)
    ]
    columns = np.array(shades, np.int64).reshape(-1, 3)
    chart.hbar(
        y=columns[:, 0].astype(np.float64),
        left=(columns[:, 1] - when.ready_ns) / 1e9,
        right=(columns[:, 2] - when.ready_ns) / 1e9,
        height=0.72,
        fill_color=SHORT_COLOUR,
        line_color=None,
    )
    limit = show_seconds((longest.end_ns - longest.start_ns) / 1e9)
    return (
        f"The {MAX_BARS:,} longest of {spans:,} spans are drawn; the others, at most {limit} each,"
        " show as grey."
    )


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
        chart.add_layout(
            Title(text=note, text_font=FONT, text_font_size="12px", text_font_style="normal"),
            "below",
        )
