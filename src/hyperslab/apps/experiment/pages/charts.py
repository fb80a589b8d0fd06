"""Charts of an experiment as SVG: makespans, where the slots' time went, expected and measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.answers.expectation import Expected
from hyperslab.apps.experiment.statistics.intervals import Interval
from hyperslab.report.gantt import FONT
from hyperslab.report.html import PART_COLOURS
from hyperslab.units import show_seconds

PARTS = ("read", "compute", "write", "other", "overhead", "idle")
"Parts of the slots' time, as fields of the summary without _s."
PLOT = 480
"Width of what is plotted."
RIGHT = 50
ROW = 26
FOOT = 30
KEY = 26
LEAST_LABELS = 160
CHARACTER = 6.6
"Width of a character of a label, about."
COLOUR, OTHER, DOT, GRID = "#0072b2", "#d55e00", "#8a93a3", "#eceef1"


def makespans_svg(results: Sequence[CellResult]) -> str:
    """Mean makespans with their intervals, and every replicate as a dot. Each result has a
    makespan.
    """
    values = [value for result in results for value in result.by_replicate().values()]
    highs = [high for result in results if (high := _bounds(result)[1]) is not None]
    labels = labels_width([result.cell.name for result in results])
    most = 1.05 * max([*values, *highs])
    height = ROW * len(results) + FOOT
    parts = list(_grid(most, height, labels))
    for n, result in enumerate(results):
        y = ROW * n + ROW / 2
        parts += _label(result.cell.name, y, labels)
        parts += _interval(result, y, most, labels)
    return _svg("Makespans", labels + PLOT + RIGHT, height, parts)


def _interval(result: CellResult, y: float, most: float, labels: float) -> Iterator[str]:
    assert result.makespan_s is not None
    for value in result.by_replicate().values():
        x = _x(value, most, labels)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{DOT}"/>'
    low, high = _bounds(result)
    if low is not None and high is not None:
        start = _x(max(0.0, low), most, labels)
        end = _x(high, most, labels)
        yield f'<path d="M{start:.1f} {y:.1f}H{end:.1f}" stroke="{COLOUR}" stroke-width="2"/>'
    mean = _x(result.makespan_s.mean, most, labels)
    yield f'<circle cx="{mean:.1f}" cy="{y:.1f}" r="4.5" fill="{COLOUR}"/>'


def _bounds(result: CellResult) -> tuple[float | None, float | None]:
    if result.makespan_s is None:
        return None, None
    return result.makespan_s.low, result.makespan_s.high


def totals_svg(results: Sequence[CellResult]) -> str:
    """The slots' time of every cell as a stacked bar, means over replicates, on one scale; '' where
    there is none.
    """
    totals = [sum(result.mean(f"{part}_s") for part in PARTS) for result in results]
    most = 1.05 * max(totals, default=0.0)
    if not most:
        return ""
    labels = labels_width([result.cell.name for result in results])
    height = ROW * len(results) + FOOT
    parts = list(_grid(most, height, labels))
    for n, result in enumerate(results):
        parts += _label(result.cell.name, ROW * n + ROW / 2, labels)
        parts += _stack(result, ROW * n + 5, most, labels)
    keys = [(part, PART_COLOURS[part]) for part in PARTS]
    parts += _key(keys, height, labels)
    title = "Where the slots' time went"
    return _svg(title, labels + PLOT + RIGHT, height + KEY, parts)


def _stack(result: CellResult, top: float, most: float, labels: float) -> Iterator[str]:
    before_s = 0.0
    for part in PARTS:
        seconds = result.mean(f"{part}_s")
        x = _x(before_s, most, labels)
        width = seconds / most * PLOT
        before_s += seconds
        if width:
            title = f"<title>{part} {show_seconds(seconds)}</title>"
            yield f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{ROW - 10}"'
            yield f' fill="{PART_COLOURS[part]}">{title}</rect>'


def ratios_svg(expected: Sequence[Expected]) -> str:
    """Measured / expected of both models for every cell, with the intervals that trials and rates
    have together, on a logarithmic scale; '' where none is known.
    """
    known = [
        ratios
        for one in expected
        for ratios in (one.ratios(one.model.law), one.ratios(one.model.bound))
        if ratios is not None
    ]
    if not known:
        return ""
    ratios = [interval.mean for interval in known]
    ends = (min(0.5, *ratios), max(2.0, *ratios))
    labels = labels_width([one.result.cell.name for one in expected])
    height = ROW * len(expected) + FOOT
    parts = list(_log_grid(ends, height, labels))
    for n, one in enumerate(expected):
        y = ROW * n + ROW / 2
        parts += _label(one.result.cell.name, y, labels)
        parts += _ratio(one.ratios(one.model.law), y - 3, OTHER, ends, labels)
        parts += _ratio(one.ratios(one.model.bound), y + 3, COLOUR, ends, labels)
    keys = [("measured / equation 1", OTHER), ("measured / bound", COLOUR)]
    parts += _key(keys, height, labels)
    return _svg("Measured over expected", labels + PLOT + RIGHT, height + KEY, parts)


def _ratio(
    ratios: Interval | None, y: float, colour: str, ends: tuple[float, float], labels: float
) -> Iterator[str]:
    """A ratio as a dot, with its interval as a line, as far as the plot goes."""
    if ratios is None:
        return
    if ratios.low is not None and ratios.high is not None:
        start = _log_x(max(ratios.low, ends[0]), ends, labels)
        end = _log_x(min(ratios.high, ends[1]), ends, labels)
        yield f'<path d="M{start:.1f} {y:.1f}H{end:.1f}" stroke="{colour}" stroke-width="2"/>'
    x = _log_x(ratios.mean, ends, labels)
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'


def standing_alone(svg: str) -> str:
    """A chart as a file of its own, which says what it is."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def labels_width(names: Sequence[str]) -> float:
    """Width of the labels of rows."""
    return max(LEAST_LABELS, CHARACTER * max(map(len, names), default=0) + 16)


def _svg(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img" font-size="12"'
        f' font-family="{FONT}"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _grid(most: float, height: float, labels: float) -> Iterator[str]:
    for step in range(5):
        seconds = step / 4 * most
        yield from _mark(_x(seconds, most, labels), show_seconds(seconds), height)


def _log_grid(ends: tuple[float, float], height: float, labels: float) -> Iterator[str]:
    """Marks at 1, where what was expected was measured, and at both ends."""
    for ratio in (ends[0], 1.0, ends[1]):
        yield from _mark(_log_x(ratio, ends, labels), f"{ratio:.3g} x", height)


def _mark(x: float, text: str, height: float) -> Iterator[str]:
    yield f'<path d="M{x:.1f} 0V{height - 24:.1f}" stroke="{GRID}"/>'
    yield f'<text x="{x:.1f}" y="{height - 8:.1f}" text-anchor="middle">{text}</text>'


def _label(name: str, y: float, labels: float) -> Iterator[str]:
    yield f'<text x="{labels - 12:.1f}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'


def _key(entries: Sequence[tuple[str, str]], top: float, labels: float) -> Iterator[str]:
    x = labels
    for words, colour in entries:
        yield f'<rect x="{x:.1f}" y="{top:.1f}" width="11" height="11" fill="{colour}"/>'
        yield f'<text x="{x + 16:.1f}" y="{top + 10:.1f}">{escape(words)}</text>'
        x += CHARACTER * len(words) + 36


def _x(seconds: float, most: float, labels: float) -> float:
    return labels + seconds / most * PLOT


def _log_x(ratio: float, ends: tuple[float, float], labels: float) -> float:
    """Where a ratio stands between two others on a logarithmic axis."""
    low, high = ends
    return labels + PLOT * math.log(ratio / low) / math.log(high / low)
