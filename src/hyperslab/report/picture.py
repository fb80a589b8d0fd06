"""A histogram as a small SVG picture, drawn by hand so that a run with only a histogram needs no
plotting library.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab.units import show_count

Floats: TypeAlias = npt.NDArray[np.float64]

MAX_STEPS = 512
WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 68, 20, 46, 62
PLOT_WIDTH = WIDTH - LEFT - RIGHT
PLOT_HEIGHT = HEIGHT - TOP - BOTTOM
FLOOR = HEIGHT - BOTTOM
FILL, LINE, GRID, TEXT = "#b9d7ea", "#0072b2", "#e6e9ed", "#4a5160"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
EMPTY = 0.5
"Where a logarithmic axis of counts begins, so that a count of 1 still has a height."


class Tick(NamedTuple):
    """A mark of an axis: where it stands (0 to 1) and what it says."""

    at: float
    label: str


def histogram_svg(edges: npt.ArrayLike, counts: npt.ArrayLike, title: str, log: bool = True) -> str:
    """Draw a histogram as SVG text.

    `edges` are n + 1 increasing values, `counts` n non-negative numbers; `log` makes the axis of
    the counts logarithmic. Empty bins at both ends are cut off, more than 512 bins are summed in
    groups, and the caption says either. Raises ValueError when the two lengths do not fit or the
    edges do not increase.
    """
    edge = np.asarray(edges, np.float64)
    count = np.asarray(counts, np.float64)
    if edge.ndim != 1 or edge.shape != (count.size + 1,) or count.size == 0:
        bins = show_count(count.size, "bin")
        needed = show_count(count.size + 1, "edge")
        raise ValueError(f"a histogram of {bins} needs {needed}, not {edge.size}")
    if not (np.diff(edge) > 0).all() or not np.isfinite(edge).all():
        raise ValueError("the edges of a histogram must be finite and increase")
    edge, count, caption = _for_display(edge, count)
    steps = _outline(edge, _heights(count, log))
    ticks = linear_ticks(0.0, _top(count))
    if log:
        ticks = _count_ticks(count)
    heading = (
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600"'
        f' fill="#1d2330">{escape(title)}</text>'
    )
    path = (
        f'<path d="{steps}" fill="{FILL}" stroke="{LINE}" stroke-width="1"'
        ' stroke-linejoin="round"/>'
    )
    lines = [_frame(title), heading]
    lines += [_horizontal(tick) for tick in ticks]
    lines += [_vertical(tick) for tick in linear_ticks(float(edge[0]), float(edge[-1]))]
    lines.append(path)
    lines.append(f'<text x="{LEFT}" y="{HEIGHT - 14}" fill="{TEXT}">{escape(caption)}</text>')
    lines.append("</svg>\n")
    return "\n".join(lines)


def _frame(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" role="img" font-family="system-ui, Arial, sans-serif"'
        f' font-size="12"><title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}"'
        ' fill="#ffffff"/>'
    )


def _for_display(edge: Floats, count: Floats) -> tuple[Floats, Floats, str]:
    """Cut empty ends, sum neighbours until few enough remain, and say what was done."""
    bins = count.size
    total = count.sum()
    filled = np.flatnonzero(count)
    if filled.size == 0:
        return edge[[0, -1]], np.zeros(1), f"no values in {show_count(bins, 'bin')}"
    first = int(filled[0])
    last = int(filled[-1])
    edge = edge[first : last + 2]
    count = count[first : last + 1]
    said = [f"{total:,.0f} values in {show_count(bins, 'bin')}"]
    if count.size < bins:
        said.append(f"all lie between {_number(edge[0])} and {_number(edge[-1])}")
    group = -(-count.size // MAX_STEPS)
    if group > 1:
        said.append(f"each step sums {group} bins")
        starts = np.arange(0, count.size, group)
        edge = np.append(edge[:-1][starts], edge[-1])
        count = np.add.reduceat(count, starts)
    return edge, count, "; ".join(said)


def _number(value: float) -> str:
    if abs(value) < 1e7:
        return f"{value + 0.0:,.10g}"
    return f"{value:g}"


def _heights(count: Floats, log: bool) -> Floats:
    """Counts as fractions of the axis."""
    if not log:
        return count / _top(count)
    return _log_share(np.maximum(count, EMPTY), _top(count))


def _top(count: Floats) -> float:
    return max(float(count.max()), 1.0) * 1.05


def _log_share(value: npt.ArrayLike, top: float) -> Floats:
    return np.asarray(np.log(np.asarray(value) / EMPTY) / np.log(top / EMPTY))


def _outline(edge: Floats, height: Floats) -> str:
    """The steps as one closed path."""
    share = (edge - edge[0]) / (edge[-1] - edge[0])
    x = LEFT + share * PLOT_WIDTH
    y = FLOOR - height * PLOT_HEIGHT
    steps = [f"V{y[i]:.1f}H{x[i + 1]:.1f}" for i in range(y.size)]
    return f"M{x[0]:.1f} {FLOOR}" + "".join(steps) + f"V{FLOOR}Z"


def linear_ticks(low: float, high: float) -> Sequence[Tick]:
    """Round numbers 1, 2 or 5 times a power of ten apart, at most eight of them."""
    rough = (high - low) / 8
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = np.ceil(low / step - 1e-9)
    last = np.floor(high / step + 1e-9)
    values = np.arange(first, last + 1) * step
    return [Tick((v - low) / (high - low), _number(v)) for v in values]


def _count_ticks(count: Floats) -> Sequence[Tick]:
    """Powers of ten; every second or third one where they would crowd."""
    top = _top(count)
    decades = int(np.floor(np.log10(top))) + 1
    powers = range(0, decades, -(-decades // 8))
    return [Tick(float(_log_share(10.0**p, top)), _show_power(p)) for p in powers]


def _show_power(power: int) -> str:
    """A power of ten: `100`, and from a thousand on `10³`."""
    if power < 3:
        return str(10**power)
    return "10" + str(power).translate(SUPERSCRIPTS)


def _horizontal(tick: Tick) -> str:
    y = FLOOR - tick.at * PLOT_HEIGHT
    return (
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{TEXT}">{tick.label}</text>'
    )


def _vertical(tick: Tick) -> str:
    x = LEFT + tick.at * PLOT_WIDTH
    y = FLOOR
    return (
        f'<path d="M{x:.1f} {y}v5" stroke="{TEXT}"/>'
        f'<text x="{x:.1f}" y="{y + 19}" text-anchor="middle" fill="{TEXT}">{tick.label}</text>'
    )
