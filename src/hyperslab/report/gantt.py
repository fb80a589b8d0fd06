"""The Gantt chart of a trace: one lane per slot, used or not, one bar per span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.report.levels import levels_of, named
from hyperslab.report.summary import Window, all_lanes, window
from hyperslab.trace import Span, Trace
from hyperslab.units import show_seconds

# The colour-blind safe palette of Okabe and Ito (2008), https://jfly.uni-koeln.de/color/
COLOURS = {
    "open": "#56b4e9",
    "read": "#0072b2",
    "compute": "#e69f00",
    "write": "#009e73",
    "merge": "#cc79a7",
    "transfer": "#8c6d46",
    "participant": "#e69f00",
    "group": "#56b4e9",
}
OTHER_COLOUR = COLOURS["merge"]
"Colour of all kinds but reading, computing and writing, together."
OTHER_COLOURS = ("#f0e442", "#7f7f7f")
LOST_COLOUR = "#d55e00"
STARTUP_COLOUR = "#e9ebee"
SHORT_COLOUR = "#c9ced6"
FONT = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

MAX_BARS = 100_000
"Bars that a browser draws and a page holds (51 bytes each) without trouble."
MAX_SHADES = 20_000
MAX_LABEL_CHARACTERS = 1_000_000


def gantt(trace: Trace) -> dict[str, Any]:
    """Say what the Gantt chart of a trace shows, for charts.js to draw; its columns are NumPy
    arrays.

    Seconds count from the moment the engine was ready; `start` and `end` are those of the axis, and
    `startup_s` is how long before zero the run began. Each kind of span has bars of its own, and so
    do its lost attempts; commands whose levels wait for one another are of the kinds of these. Of
    `trace.meta` it reads what `window` and `levels_of` read and `labels`, the names of the tasks by
    their number. Of more than 100,000 spans the longest are drawn, `shades` cover the
    time of all, and one of the `notes` below the chart says so.
    """
    by_slot = all_lanes(trace)
    when = window(trace)
    labels = [str(label) for label in trace.meta.get("labels", [])]
    levels = levels_of(trace)
    rows = [
        (lane, named(span, levels)) for lane, spans in enumerate(by_slot.values()) for span in spans
    ]
    notes = []
    shades = None
    if sum(map(len, labels)) > MAX_LABEL_CHARACTERS:
        notes.append("Task names are left out: they would make the page too large.")
        labels = []
    if len(rows) > MAX_BARS:
        rows.sort(key=lambda row: row[1].start_ns - row[1].end_ns)
        notes.append(_shading(rows[MAX_BARS][1], len(rows)))
        shades = _shades(list(by_slot.values()), when)
        rows = rows[:MAX_BARS]
    kinds = sorted({(span.kind, span.lost) for _, span in rows}, key=_reading_order)
    return {
        **_axis(when),
        "slots": list(by_slot),
        "labels": labels,
        "bars": [_bars(look, rows, when) for look in _looks(kinds)],
        "shades": shades,
        "notes": notes,
    }


def _axis(when: Window) -> dict[str, float]:
    """The run, its start-up, and a little room on both sides."""
    run_s = (when.end_ns - when.ready_ns) / 1e9
    startup_s = (when.ready_ns - when.start_ns) / 1e9
    margin = 0.01 * (run_s + startup_s) or 1.0
    return {"start": -startup_s - margin, "end": run_s + margin, "startup_s": startup_s}


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

    @property
    def legend(self) -> str:
        """Name in the legend, where lost attempts of all kinds are one."""
        if self.lost:
            return "lost attempt"
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


def _bars(look: Look, rows: Sequence[tuple[int, Span]], when: Window) -> dict[str, Any]:
    chosen = [row for row in rows if (row[1].kind, row[1].lost) == (look.kind, look.lost)]
    return {
        "name": look.name,
        "legend": look.legend,
        "colour": look.colour,
        "is_lost": look.lost,
        **_columns(chosen, when),
    }


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
        "cpu_ms": np.array([s.cpu_ns / 1e6 for s in spans], np.float32),
        "runq_ms": np.where(runq < 0, np.nan, runq / 1e6).astype(np.float32),
    }


def _shades(by_lane: Sequence[Sequence[Span]], when: Window) -> dict[str, Any]:
    """Where any span ran."""
    gap_ns = (when.end_ns - when.ready_ns) * len(by_lane) // MAX_SHADES
    shades = [
        (lane, *piece) for lane, each in enumerate(by_lane) for piece in _merged(each, gap_ns)
    ]
    columns = np.array(shades, np.int64).reshape(-1, 3)
    return {
        "lane": columns[:, 0].astype(np.int32),
        "left": (columns[:, 1] - when.ready_ns) / 1e9,
        "right": (columns[:, 2] - when.ready_ns) / 1e9,
    }


def _shading(longest: Span, spans: int) -> str:
    """The sentence that explains the shades, with the longest span that has no bar."""
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
