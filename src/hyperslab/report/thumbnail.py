"""Small Gantt pictures of several runs on one time axis, as SVG: what took most of each column of
each lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab.report.gantt import LOST_COLOUR, STARTUP_COLOUR
from hyperslab.report.html import PART_COLOURS
from hyperslab.report.picture import linear_ticks
from hyperslab.report.summary import PHASE_OF_KIND, Window, lanes, own_pieces, window
from hyperslab.trace import Span, Trace
from hyperslab.units import show_count

Rows: TypeAlias = npt.NDArray[np.float64]

WIDTH, RIGHT, BOTTOM = 1000, 14, 22
COLUMNS = 986
LANE, GAP, TALLEST = 13.0, 3.0, 200.0
LANES = 64
"Lanes of one picture; of more slots every second, third, ... is drawn."
LOST = "lost attempt"
FILLS = {phase: PART_COLOURS[phase] for phase in ("read", "compute", "write", "other")} | {
    LOST: LOST_COLOUR
}
GRID, TEXT = "#e6e9ed", "#4a5160"


class Axis:
    """The time that all pictures share, in seconds since their engine was ready."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        whens = [window(trace) for trace in traces]
        self.low = min((when.start_ns - when.ready_ns) / 1e9 for when in whens)
        self.high = max((when.end_ns - when.ready_ns) / 1e9 for when in whens)
        if self.high <= self.low:
            self.high = self.low + 1.0

    def column(self, seconds: float) -> float:
        """Where a moment is drawn."""
        return (seconds - self.low) / (self.high - self.low) * COLUMNS


def thumbnail(trace: Trace, axis: Axis, name: str) -> str:
    """Draw a trace on an axis as SVG text: one lane per slot, grey before the engine was ready."""
    by_slot = lanes(trace)
    when = window(trace)
    step = -(-len(by_slot) // LANES) or 1
    shown = list(by_slot)[::step]
    pitch = min(LANE + GAP, TALLEST / max(len(shown), 1))
    height = pitch * max(len(shown), 1)
    body = [
        f"<title>{escape(_caption(name, len(by_slot), step))}</title>",
        *_frame(axis, when, height),
        *(
            piece
            for n, slot in enumerate(shown)
            for piece in _lane(by_slot[slot], axis, when, n * pitch, pitch)
        ),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + BOTTOM:.1f}"'
        f' width="100%" role="img" font-size="12">{"".join(body)}</svg>'
    )


def _caption(name: str, slots: int, step: int) -> str:
    left_out = ""
    if step > 1:
        left_out = f", one in {step} drawn"
    return f"{name}: phases over time in {show_count(slots, 'slot')}{left_out}"


def _frame(axis: Axis, when: Window, height: float) -> Iterator[str]:
    """Start-up in grey, the time of the run in white, what lies after its end left as the page is,
    and the ticks.
    """
    start, end = ((ns - when.ready_ns) / 1e9 for ns in (when.start_ns, when.end_ns))
    for left, right, fill in ((start, 0.0, STARTUP_COLOUR), (0.0, end, "#f6f7f9")):
        x = axis.column(left)
        width = axis.column(right) - axis.column(left)
        yield f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'
    for tick in linear_ticks(axis.low, axis.high):
        x = tick.at * COLUMNS
        yield f'<path d="M{x:.1f} 0V{height + 4:.1f}" stroke="{GRID}"/>'
        anchor = "middle"
        if x < 20:
            anchor = "start"
        yield (
            f'<text x="{x:.1f}" y="{height + 18:.1f}" text-anchor="{anchor}"'
            f' fill="{TEXT}">{tick.label} s</text>'
        )


def _lane(
    spans: Sequence[Span], axis: Axis, when: Window, top: float, pitch: float
) -> Iterator[str]:
    """Two paths per phase through the columns that it has most of: those mostly busy, and, paler,
    those mostly free.
    """
    covered = _covered(spans, axis, when)
    busy = covered.sum(axis=0)
    winner = covered.argmax(axis=0)
    style = f'stroke-width="{pitch * LANE / (LANE + GAP):.1f}"'
    for n, (phase, colour) in enumerate(FILLS.items()):
        for opacity, level in (("1", busy >= 0.5), ("0.35", (busy > 0) & (busy < 0.5))):
            drawn = "".join(
                f"M{x} {top + pitch / 2:.1f}h{length}"
                for x, length in _stretches(level & (winner == n))
            )
            if drawn:
                kind = phase.partition(" ")[0]
                yield (
                    f'<path class="{kind}" d="{drawn}" stroke="{colour}" stroke-opacity="{opacity}"'
                    f" {style}/>"
                )


def _stretches(flags: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """(first, length) of every stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    for first, end in edges.reshape(-1, 2).tolist():
        yield first, end - first


def _covered(spans: Sequence[Span], axis: Axis, when: Window) -> Rows:
    """(phases, columns): the share of every column's time that each phase has."""
    covered = np.zeros((len(FILLS), COLUMNS))
    names = list(FILLS)
    for span, start_ns, end_ns in own_pieces(spans):
        phase = PHASE_OF_KIND.get(span.kind, "other")
        if span.lost:
            phase = LOST
        row = covered[names.index(phase)]
        left, right = (axis.column((ns - when.ready_ns) / 1e9) for ns in (start_ns, end_ns))
        first = min(int(left), COLUMNS - 1)
        last = min(int(right), COLUMNS - 1)
        if first == last:
            row[first] += right - left
            continue
        row[first] += first + 1 - left
        row[first + 1 : last] += 1
        row[last] += right - last
    return covered
