"""Markup: short HTML fragments with a table and a picture, as notebooks show them; no scripts, all
text escaped.

Colours are those of the page around, lightly tinted, so that fragments suit bright and dark
notebooks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

FONT = "system-ui,'Segoe UI','Helvetica Neue',Arial,sans-serif"
LONGEST, SHORTEST = 130.0, 16.0
"Pixels of the longest and of a very short side of an array's picture."
FLATTENING = 0.55
"Exponent by which extents become lengths, so that thin arrays still show their blocks."
SLANT = (0.45, 0.34)
"Right and up, in pixels, per pixel of depth."
MAX_LINES = 24
"Cuts drawn along one axis; of more, every second, third, ... is."
MARGIN_X, MARGIN_Y, RIGHT = 10.0, 14.0, 60.0
FACES = {"front": 0.22, "top": 0.12, "side": 0.32}


def fragment(title: str, rows: Mapping[str, str], picture: str = "", note: str = "") -> str:
    """A titled table of names and texts with a picture (markup) beside it and a paragraph below."""
    cell = (
        "padding:2px 14px 2px"
        " 0;text-align:left;vertical-align:top;border:0;background:none;white-space:pre-wrap"
    )
    head = f"{cell};font-weight:400;opacity:.7;white-space:nowrap"
    body = "".join(
        f'<tr style="background:none"><th style="{head}">{escape(name)}</th>'
        f'<td style="{cell};overflow-wrap:anywhere">{escape(text)}</td></tr>'
        for name, text in rows.items()
        if text
    )
    table = (
        "font:inherit;color:inherit;border-collapse:collapse;margin:4px 0;border:0;max-width:540px"
    )
    below = ""
    if note:
        below = f'<p style="margin:4px 0 0">{escape(note)}</p>'
    return (
        f'<div style="font:13px/1.45 {FONT};max-width:900px"><div'
        f' style="font-weight:600;font-size:14px;overflow-wrap:anywhere">{escape(title)}</div><div'
        ' style="display:flex;flex-wrap:wrap;gap:8px 28px;align-items:flex-start"><table'
        f' style="{table}">{body}</table>{picture}</div>{below}</div>'
    )


class Edge(NamedTuple):
    """One drawn axis of an array: its length in pixels, its cuts from 0 to 1, and what stands
    beside it.
    """

    length: float
    cuts: Sequence[float]
    label: str


def regular_cuts(extent: int, piece: int) -> tuple[int, ...]:
    """0, the multiples of `piece` below the extent, and the extent."""
    return (*range(0, extent, max(piece, 1)), extent)


def grid_svg(cuts: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """An array and the blocks it is cut into as SVG text; '' for an array without axes or elements.

    `cuts` are per axis 0, the inner cuts and the extent. Of more than three axes those with most
    elements are drawn.
    """
    if not cuts or any(axis[-1] == 0 for axis in cuts):
        return ""
    kept = sorted(sorted(range(len(cuts)), key=lambda axis: -cuts[axis][-1])[:3])
    longest = max(cuts[axis][-1] for axis in kept)
    edges = [_edge(cuts[axis], names[axis], longest) for axis in kept]
    none = Edge(0.0, (0.0, 1.0), "")
    if len(edges) == 1:
        return _box(none, Edge(SHORTEST, (0.0, 1.0), ""), edges[0])
    if len(edges) == 3:
        return _box(*edges)
    return _box(none, *edges)


def _edge(cuts: Sequence[int], name: str, longest: int) -> Edge:
    extent = cuts[-1]
    blocks = len(cuts) - 1
    step = -(-blocks // MAX_LINES) or 1
    drawn = [*cuts[:-1:step], extent]
    length = max(SHORTEST, LONGEST * (extent / longest) ** FLATTENING)
    return Edge(length, [cut / extent for cut in drawn], f"{name} {extent:,}".strip())


def _box(depth: Edge, down: Edge, across: Edge) -> str:
    """A box seen from the front, above and right; flat where the depth is 0."""
    slant = (depth.length * SLANT[0], -depth.length * SLANT[1])
    corner = (MARGIN_X + 8 * len(down.label), MARGIN_Y - slant[1])
    right = (across.length, 0.0)
    below = (0.0, down.length)
    faces = [_face("front", corner, (across, right), (down, below))]
    if depth.length:
        faces.append(_face("top", corner, (across, right), (depth, slant)))
        faces.append(
            _face("side", (corner[0] + across.length, corner[1]), (down, below), (depth, slant))
        )
    width = corner[0] + across.length + slant[0] + RIGHT
    height = corner[1] + down.length + 22
    texts = [
        _label(corner[0] - 6, corner[1] + down.length / 2 + 4, "end", down.label),
        _label(corner[0] + across.length / 2, corner[1] + down.length + 16, "middle", across.label),
        _label(
            corner[0] + across.length + slant[0] / 2 + 8,
            corner[1] + down.length + slant[1] / 2 + 8,
            "start",
            depth.label,
        ),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        ' role="img" style="font:11px'
        f' {FONT};color:inherit;flex:none">{"".join(faces)}{"".join(texts)}</svg>'
    )


Vector = tuple[float, float]


def _face(
    name: str, corner: Vector, first: tuple[Edge, Vector], second: tuple[Edge, Vector]
) -> str:
    """A parallelogram with the lines of both its axes' cuts."""
    (edge, along), (other, up) = first, second
    outline = f"M{_point(corner)}l{_point(along)}l{_point(up)}l{_point((-along[0], -along[1]))}z"
    lines = "".join(
        itertools.chain(_lines(corner, edge.cuts, along, up), _lines(corner, other.cuts, up, along))
    )
    stroke = 'stroke="currentColor" stroke-linejoin="round"'
    return (
        f'<path class="{name}" d="{outline}" fill="#0072b2" fill-opacity="{FACES[name]}" {stroke}'
        f' stroke-opacity=".8"/><path d="{lines}" fill="none" {stroke} stroke-opacity=".35"/>'
    )


def _lines(corner: Vector, cuts: Sequence[float], along: Vector, across: Vector) -> Iterator[str]:
    """Lines across a face at the inner cuts along one of its sides."""
    for cut in cuts[1:-1]:
        yield (
            f"M{_point((corner[0] + cut * along[0], corner[1] + cut * along[1]))}l{_point(across)}"
        )


def _point(vector: Vector) -> str:
    return f"{vector[0]:.1f} {vector[1]:.1f}"


def _label(x: float, y: float, anchor: str, text: str) -> str:
    if text:
        return (
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
            f' fill="currentColor">{escape(text)}</text>'
        )
    return ""
