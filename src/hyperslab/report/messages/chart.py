"""Charts of messages, as SVG: bytes per second of every node, and what workers have fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from hyperslab.report.messages.numbers import Node, Transfer
from hyperslab.report.picture import linear_ticks
from hyperslab.units import show_bytes, show_rate

WIDTH, LEFT = 1000, 170
LANE, GAP, BOTTOM = 34.0, 8.0, 22.0
MOST_STEPS = 400
"Bars of a lane; of a longer time each of them is the mean of several seconds."
SENT, RECEIVED = "#0072b2", "#e69f00"
GRID, TEXT = "#e6e9ed", "#4a5160"


def rates_svg(nodes: Sequence[Node], start_s: float, step_s: int) -> str:
    """Bytes that nodes sent (upwards) and received (downwards), a lane each, all on one scale.

    `start_s` is the time of the first step on the axis of the page, `step_s` their length.
    """
    steps = len(nodes[0].sent_by_step)
    step = -(-steps // MOST_STEPS) or 1
    peak = max(
        (max(_means(each, step), default=0) for node in nodes for each in _both(node)), default=0
    )
    body = [*_axis(start_s, start_s + steps * step_s, len(nodes))]
    for number, node in enumerate(nodes):
        top = number * (LANE + GAP)
        body.append(_name(node.name, top))
        for values, colour, is_up in ((_both(node)[0], SENT, 1), (_both(node)[1], RECEIVED, 0)):
            bars = _bars(_means(values, step), peak or 1, top, is_up=bool(is_up))
            body.append(f'<path d="{bars}" fill="{colour}"/>')
    caption = f"bytes per second and node; a full lane is {show_rate(peak / step_s)} each way"
    return _svg(body, len(nodes), caption)


def transfers_svg(transfers: Sequence[Transfer], start_ns: int, low_s: float, high_s: float) -> str:
    """When each worker fetched values, a lane each, on the axis of the page whose zero is
    `start_ns`.
    """
    targets = sorted({one.target for one in transfers})
    body = [*_axis(low_s, high_s, len(targets))]
    body += [_name(name, number * (LANE + GAP)) for number, name in enumerate(targets)]
    for one in transfers:
        begin, end = ((ns - start_ns) / 1e9 for ns in (one.start_ns, one.end_ns))
        x = _column(begin, low_s, high_s)
        width = max(_column(end, low_s, high_s) - x, 1.0)
        y = targets.index(one.target) * (LANE + GAP)
        told = f"{show_bytes(one.nbytes)} from {one.source}, {end - begin:.3f} s"
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{LANE}" fill="{SENT}"'
            f' fill-opacity="0.6"><title>{escape(told)}</title></rect>'
        )
    return _svg(body, len(targets), "when workers fetched values from each other")


def _both(node: Node) -> tuple[Sequence[int], Sequence[int]]:
    return node.sent_by_step, node.received_by_step


def _means(values: Sequence[int], step: int) -> list[float]:
    padded = np.zeros(-(-len(values) // step) * step)
    padded[: len(values)] = values
    means: list[float] = padded.reshape(-1, step).mean(axis=1).tolist()
    return means


def _bars(values: Sequence[float], peak: float, top: float, *, is_up: bool) -> str:
    width = (WIDTH - LEFT) / max(len(values), 1)
    middle = top + LANE / 2
    parts = []
    for number, value in enumerate(values):
        height = value / peak * LANE / 2
        if value:
            sign = "-" if is_up else ""
            x = LEFT + number * width
            parts.append(f"M{x:.1f} {middle:.1f}v{sign}{height:.2f}h{width:.2f}V{middle:.1f}z")
    return "".join(parts)


def _axis(low_s: float, high_s: float, lanes: int) -> Iterator[str]:
    floor = lanes * (LANE + GAP)
    for tick in linear_ticks(low_s, max(high_s, low_s + 1e-3)):
        x = LEFT + tick.at * (WIDTH - LEFT)
        yield f'<path d="M{x:.1f} 0V{floor:.1f}" stroke="{GRID}"/>'
        yield (
            f'<text x="{x:.1f}" y="{floor + 14:.1f}" text-anchor="end" fill="{TEXT}">'
            f"{tick.label} s</text>"
        )


def _name(name: str, top: float) -> str:
    shown = name
    if len(name) > 24:
        shown = f"{name[:10]}…{name[-13:]}"
    middle = top + LANE / 2
    return (
        f'<path d="M{LEFT} {middle:.1f}H{WIDTH}" stroke="{GRID}"/><text x="0"'
        f' y="{middle + 4:.1f}" fill="{TEXT}">{escape(shown)}<title>{escape(name)}</title></text>'
    )


def _column(seconds: float, low_s: float, high_s: float) -> float:
    share = (seconds - low_s) / max(high_s - low_s, 1e-9)
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT)


def _svg(body: Sequence[str], lanes: int, caption: str) -> str:
    height = lanes * (LANE + GAP) + BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="100%"'
        f' role="img" font-size="12"><title>{escape(caption)}</title>{"".join(body)}</svg>\n'
        f'<p class="hint">{escape(caption[0].upper() + caption[1:])}.</p>'
    )
