"""The page of a machine that was probed: the links of its clusters; for every tier the answer, its
curves, all numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from hyperslab.report.html import document
from hyperslab.report.probed.chart import Axis, Dot, chart_svg, legend_html
from hyperslab.report.probed.lines import TITLES, details, headline, show_operations, show_slowdown
from hyperslab.report.probed.links import network_section
from hyperslab.report.probed.together import sharing_section
from hyperslab.storage.probing.description import Machine
from hyperslab.storage.probing.records import Measured, Point, Probed
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds

TITLE = "Storage and links, as they were measured"
STYLE = """
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 22px }
.charts svg { max-width: 100%; height: auto }
.charts h3 { margin: 0 0 4px; font-size: 14px; font-weight: 600 }
.lines { margin: 0 0 18px; padding: 0; list-style: none; overflow-wrap: anywhere }
pre { overflow-x: auto; font-size: 12px; line-height: 1.45 }
summary { cursor: pointer }
"""
CLIENTS = Axis("processes at a time", lambda value: f"{value:.0f}", 2)
REQUEST = Axis("size of one request", show_bytes, 4)
PART = Axis("size of one read", show_bytes, 4)
BYTES = Axis("bytes per second", show_rate)
OPERATIONS = Axis("operations per second", show_operations)
SLOWDOWN = Axis("slowdown", show_slowdown, 2)


def write_probe_page(path: Path, machine: Machine) -> None:
    """Write the page of all tiers of a description as one file that needs no network."""
    tiers = sorted(machine.tiers.values(), key=lambda one: (one.host, one.path))
    hosts = show_count(len({one.host for one in tiers}), "host")
    count = show_count(len(tiers), "tier")
    sections = [
        f"<h1>{TITLE}</h1>",
        f'<p class="about">{count} of {hosts}; medians, with the quartiles as bars</p>',
        *map(network_section, machine.networks.values()),
        *map(sharing_section, machine.sharing.values()),
        *map(_section, tiers),
    ]
    replace_text(path, document(TITLE, sections, STYLE))


def _section(probed: Probed) -> str:
    title, *lines = headline(probed)
    rows = "".join(_row(line) for line in lines)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(probed.at_s))
    numbers = escape("\n".join(details(probed)))
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<p class="hint">probed {when}, in'
        f" {show_seconds(probed.took_s)}</p>\n<table>{rows}</table>\n"
        f'<div class="charts">\n{"".join(_charts(probed))}</div>\n'
        f"<details><summary>All numbers</summary><pre>{numbers}</pre></details>\n</section>"
    )


def _row(line: str) -> str:
    label, _, text = line.strip().partition(" ")
    return f'<tr><th>{escape(label)}</th><td class="text">{escape(text.strip())}</td></tr>\n'


def _charts(probed: Probed) -> Iterable[str]:
    curves = probed.curves
    by_clients = {TITLES[what]: _dots(one.by_clients) for what, one in curves.items()}
    yield _chart("Rate by processes", by_clients, CLIENTS, BYTES)
    by_request = {
        TITLES[what]: _dots(one.by_request, by_request=True) for what, one in curves.items()
    }
    yield _chart("Rate of one process by size of requests", by_request, REQUEST, BYTES)
    names = {operation: _dots(one.by_clients) for operation, one in probed.names.items()}
    yield _chart("Operations on names by processes", names, CLIENTS, OPERATIONS)
    slowdowns = [
        Dot(one.request_nbytes, one.slowdown, *_bounds(one.each_s, one.once_s))
        for one in probed.opening
    ]
    yield _chart("An open for every read, against one", {"slowdown": slowdowns}, PART, SLOWDOWN)


def _chart(title: str, curves: Mapping[str, Sequence[Dot]], across: Axis, up: Axis) -> str:
    drawn = {name: dots for name, dots in curves.items() if dots}
    return (
        f"<div><h3>{escape(title)}</h3>{chart_svg(drawn, across, up, title)}"
        f"{legend_html(list(drawn))}</div>\n"
    )


def _dots(points: Sequence[Point], *, by_request: bool = False) -> list[Dot]:
    dots = []
    for point in points:
        at = point.clients
        if by_request:
            at = point.request_nbytes
        rate = point.rate
        dots.append(Dot(at, rate.median, *rate.quartiles))
    return dots


def _bounds(each: Measured, once: Measured) -> tuple[float, float]:
    """Quartiles of a ratio, at the worst."""
    low, high = each.quartiles
    least, most = once.quartiles
    return low / most, high / least
