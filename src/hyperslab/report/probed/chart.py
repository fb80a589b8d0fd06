"""Chart: curves on two logarithmic axes as SVG text, each point with its quartiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 540, 300
LEFT, RIGHT, TOP, BOTTOM = 78, 16, 12, 40
GRID, AXIS, TEXT = "#eceef1", "#c9ced6", "#4a5160"
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#1d2330", "#b8b03a")
"Colours of the curves in their order, colour-blind safe (Okabe and Ito 2008; the yellow darker)."
MOST_TICKS = 9


class Dot(NamedTuple):
    """A point of a curve with the range that is drawn through it."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says."""

    label: str
    show: Callable[[float], str]
    "Text of a value."
    base: int = 10
    "Number whose powers are marked."


class _Scale(NamedTuple):
    """Values as pixels, by their logarithm."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def chart_svg(
    curves: Mapping[str, Sequence[Dot]],
    across: Axis,
    up: Axis,
    title: str,
    dashed: Mapping[str, Sequence[Dot]] | None = None,
) -> str:
    """Draw curves by their names, all values greater than 0, and dashed lines that belong to some
    of them. '' where there is no point.
    """
    if not any(curves.values()):
        return ""
    lines = dashed or {}
    dots = [dot for own in (*curves.values(), *lines.values()) for dot in own]
    x = _scale([dot.x for dot in dots], across.base, (LEFT, WIDTH - RIGHT))
    values = [dot.low for dot in dots] + [dot.high for dot in dots]
    y = _scale(values, up.base, (HEIGHT - BOTTOM, TOP))
    parts = [_head(title)]
    for tick in _ticks(y, up.base):
        place = y(tick)
        parts.append(f'<path d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 8, place + 4, "end", up.show(tick)))
    for tick in _ticks(x, across.base):
        place = x(tick)
        parts.append(f'<path d="M{place:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{GRID}"/>')
        parts.append(_text(place, HEIGHT - BOTTOM + 16, "middle", across.show(tick)))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle", across.label))
    for number, (name, own) in enumerate(curves.items()):
        parts.append(_line(lines.get(name, ()), colour_of(number), x, y, "6 4"))
        parts.append(_curve(own, colour_of(number), x, y))
    return "".join([*parts, "</svg>"])


def legend_html(names: Sequence[str]) -> str:
    """Names of the curves of a chart, in their colours."""
    entries = "".join(
        f'<span><i style="background:{colour_of(number)}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<div class="key">{entries}</div>'


def colour_of(number: int) -> str:
    """Colour of a curve, by its place among all."""
    return PALETTE[number % len(PALETTE)]


def _scale(values: Sequence[float], base: int, pixels: tuple[float, float]) -> _Scale:
    """A scale from the power of the base below all values to the one above."""
    low = base ** math.floor(math.log(min(values), base) + 1e-9)
    high = base ** math.ceil(math.log(max(values), base) - 1e-9)
    if high <= low:
        high = low * base
    return _Scale(low, high, *pixels)


def _ticks(scale: _Scale, base: int) -> list[float]:
    """Powers of the base on a scale; every second, third ... where they would crowd."""
    first = round(math.log(scale.low, base))
    last = round(math.log(scale.high, base))
    step = -(-(last - first + 1) // MOST_TICKS)
    return [float(base) ** power for power in range(first, last + 1, step)]


def _head(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" role="img" font-size="12"><title>{escape(title)}</title>'
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="{AXIS}"/>'
    )


def _curve(dots: Sequence[Dot], colour: str, x: _Scale, y: _Scale) -> str:
    drawn = _line(dots, colour, x, y)
    for dot in dots:
        place = x(dot.x)
        drawn += (
            f'<path d="M{place:.1f} {y(dot.low):.1f}V{y(dot.high):.1f}" stroke="{colour}"/>'
            f'<circle cx="{place:.1f}" cy="{y(dot.y):.1f}" r="3" fill="{colour}"/>'
        )
    return drawn


def _line(dots: Sequence[Dot], colour: str, x: _Scale, y: _Scale, dashes: str = "") -> str:
    if not dots:
        return ""
    places = " ".join(f"{x(dot.x):.1f},{y(dot.y):.1f}" for dot in sorted(dots))
    style = f'fill="none" stroke="{colour}" stroke-width="2"'
    if dashes:
        style += f' stroke-dasharray="{dashes}"'
    return f'<polyline points="{places}" {style}/>'


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{TEXT}">{escape(text)}</text>'
    )
