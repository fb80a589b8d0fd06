"""Horizontal stacked bars as a small SVG picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from hyperslab.report.picture import GRID, TEXT, linear_ticks

WIDTH, LEFT, RIGHT, TOP, PITCH, BAR, FOOT = 760, 210, 24, 66, 22, 15, 30


@dataclass(frozen=True, slots=True)
class Bar:
    """A row; one without parts is a heading."""

    label: str
    parts: Sequence[float] = ()


def draw(title: str, unit: str, colours: Mapping[str, str], bars: Sequence[Bar]) -> str:
    """SVG text; `colours` names the parts in their order."""
    high = max((sum(bar.parts) for bar in bars), default=0.0) or 1.0
    bottom = TOP + PITCH * len(bars)
    body = [
        (
            '<text x="14" y="24" font-size="15" font-weight="600"'
            f' fill="#1d2330">{escape(title)}</text>'
        ),
        *_legend(colours),
        *_axis(high, unit, bottom),
        *(
            piece
            for n, bar in enumerate(bars)
            for piece in _row(bar, TOP + n * PITCH, high, list(colours.values()))
        ),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + FOOT}"'
        f' width="{WIDTH}" height="{bottom + FOOT}" role="img" font-family="system-ui, Arial,'
        f' sans-serif" font-size="12"><title>{escape(title)}</title><rect width="{WIDTH}"'
        f' height="{bottom + FOOT}" fill="#ffffff"/>' + "\n".join(body) + "</svg>\n"
    )


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = 14.0
    for name, colour in colours.items():
        yield f'<rect x="{x:.0f}" y="36" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 17:.0f}" y="46" fill="{TEXT}">{escape(name)}</text>'
        x += 34 + 6.6 * len(name)


def _axis(high: float, unit: str, bottom: float) -> Iterator[str]:
    for tick in linear_ticks(0.0, high):
        x = LEFT + tick.at * (WIDTH - LEFT - RIGHT)
        yield f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="{GRID}"/>'
        yield (
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="{TEXT}">{tick.label}'
            f" {unit}</text>"
        )


def _row(bar: Bar, y: float, high: float, colours: Sequence[str]) -> Iterator[str]:
    place = f'x="{LEFT - 10}" text-anchor="end"' if bar.parts else 'x="14" font-weight="600"'
    yield f'<text {place} y="{y + 12}" fill="{TEXT}">{escape(bar.label)}</text>'
    x = float(LEFT)
    for part, colour in zip(bar.parts, colours, strict=bool(bar.parts)):
        width = max(0.0, part) / high * (WIDTH - LEFT - RIGHT)
        yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
        x += width
