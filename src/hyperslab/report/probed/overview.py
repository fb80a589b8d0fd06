"""Overview: all tiers that were probed of a machine in one picture, beside what emulated ones were
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from hyperslab.report.probed.chart import HEIGHT, TEXT, WIDTH, Axis, Dot, chart_svg, colour_of
from hyperslab.report.probed.lines import show_slowdown
from hyperslab.storage.probing.records import Curve, Measured, Point, Probed
from hyperslab.units import show_bytes, show_rate, show_seconds

PER_ROW = 2
HEAD, LINE, TITLE = 56, 20, 26
"Heights of the heading, of an entry of the legend, and of the title of a chart, pixels."
CLIENTS = Axis("processes at a time", lambda value: f"{value:.0f}", 2)
TARGETS = Axis("targets that a file lies on", lambda value: f"{value:.0f}", 2)
REQUEST = Axis("size of one read", show_bytes, 4)
BYTES = Axis("bytes per second", show_rate)
TIME = Axis("seconds", show_seconds)
SLOWDOWN = Axis("slowdown", show_slowdown, 2)
Dots = dict[str, list[Dot]]


def overview_svg(title: str, tiers: Sequence[Probed]) -> str:
    """Draw curves of all tiers, dashed what an emulated one was asked for."""
    named: dict[str, Probed] = {}
    for one in tiers:
        name = _name(one)
        if name in named:
            name += f", {one.path} of {one.host}"
        named[name] = one
    shown = {name: one for name, one in named.items() if _lies_on_all(one)}
    top = HEAD + LINE * len(shown)
    charts = [chart for chart in _charts(shown, tiers) if chart]
    rows = -(-len(charts) // PER_ROW)
    width = PER_ROW * WIDTH
    height = top + rows * (TITLE + HEIGHT)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" font-family="system-ui, Arial, sans-serif" font-size="13">'
        f'<title>{escape(title)}</title><rect width="{width}" height="{height}" fill="#ffffff"/>'
        f'<text x="14" y="28" font-size="16" font-weight="600">{escape(title)}</text>'
    )
    parts = [head, *_legend(list(shown))]
    for number, chart in enumerate(charts):
        row, column = divmod(number, PER_ROW)
        place = f"translate({column * WIDTH} {top + row * (TITLE + HEIGHT)})"
        parts.append(f'<g transform="{place}">{chart}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        y = HEAD + LINE * number
        yield (
            f'<rect x="14" y="{y - 10}" width="12" height="12" fill="{colour_of(number)}"/>'
            f'<text x="32" y="{y}" fill="{TEXT}">{escape(name)}</text>'
        )


def _name(probed: Probed) -> str:
    """What a tier is, in a line: kind and settings of one that is emulated."""
    made = _made(probed)
    if made:
        return f"{made['kind']}, emulated: {made['words']}"
    tier = probed.tier
    return f"{tier.get('file_system') or 'an unknown file system'} ({tier.get('kind', 'unknown')})"


def _made(probed: Probed) -> Mapping[str, Any]:
    """What an emulated tier was made to be; nothing of any other."""
    made: Mapping[str, Any] | None = probed.tier.get("emulated")
    return made or {}


def _settings(probed: Probed) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = _made(probed).get("settings", {})
    return settings


def _targets_of_a_file(settings: Mapping[str, Any]) -> int:
    return int(settings.get("stripe_count") or settings.get("targets", 1))


def _lies_on_all(probed: Probed) -> bool:
    """Whether a tier stands for its store: files lie on all of its targets."""
    settings = _settings(probed)
    return _targets_of_a_file(settings) == int(settings.get("targets", 1))


def _charts(shown: Mapping[str, Probed], tiers: Sequence[Probed]) -> Iterator[str]:
    """Each chart with its title above it; '' where there is nothing to be drawn."""
    for title, names in (
        ("Reading from storage", ("read-cold", "read-cached")),
        ("Writing, until it is on storage", ("write",)),
        ("Writing, until the last write has returned", ("write-cached",)),
    ):
        curves = {name: _rates(one, names) for name, one in shown.items()}
        yield _chart(title, curves, {}, CLIENTS, BYTES)
    opens = {name: _times(one.names["open"]) for name, one in shown.items()}
    asked = {name: _asked_times(one) for name, one in shown.items()}
    yield _chart("Opening a file takes", opens, asked, CLIENTS, TIME)
    yield _striped([one for one in tiers if _settings(one).get("targets", 1) > 1])
    slowdowns = {
        name: [_dot(each.request_nbytes, each.slowdown) for each in one.opening]
        for name, one in shown.items()
    }
    yield _chart("An open for every read, against one", slowdowns, {}, REQUEST, SLOWDOWN)


def _rates(probed: Probed, names: Sequence[str]) -> list[Dot]:
    """Rates by processes, of the first of these curves that there is."""
    found = [probed.curves[name] for name in names if name in probed.curves]
    return [_of(point.clients, point.rate) for point in found[0].by_clients] if found else []


def _times(curve: Curve) -> list[Dot]:
    """Time of one operation to each of so many clients, by their number."""

    def time(point: Point) -> Dot:
        low, high = point.rate.quartiles
        clients = point.clients
        return Dot(clients, clients / point.rate.median, clients / high, clients / low)

    return [time(point) for point in curve.by_clients]


def _asked_times(probed: Probed) -> list[Dot]:
    """The same as a metadata server was asked for: one operation after the other."""
    cost_s = _settings(probed).get("metadata_s")
    if not cost_s:
        return []
    points = probed.names["open"].by_clients
    return [_dot(point.clients, point.clients * cost_s) for point in points]


def _striped(stores: Sequence[Probed]) -> str:
    """Rates of one process by the number of targets that its file lies on."""

    def by_targets(rate: Callable[[Probed], Dot]) -> list[Dot]:
        return sorted(map(rate, stores))

    def measured(name: str) -> Callable[[Probed], Dot]:
        return lambda one: _of(_targets_of_a_file(_settings(one)), one.curves[name].single.rate)

    def asked(one: Probed) -> Dot:
        settings = _settings(one)
        count = _targets_of_a_file(settings)
        return _dot(count, count * settings["bandwidth"])

    names = [name for name in ("read-cold", "write") if all(name in one.curves for one in stores)]
    titles = {"read-cold": "reading", "write": "writing, with fsync"}
    curves = {titles[name]: by_targets(measured(name)) for name in names if stores}
    lines = {name: by_targets(asked) for name in list(curves)[:1]}
    words = "A striped file, read (blue) and written"
    return _chart(words, curves, lines, TARGETS, BYTES)


def _chart(
    title: str,
    curves: Mapping[str, Sequence[Dot]],
    asked: Mapping[str, Sequence[Dot]],
    across: Axis,
    up: Axis,
) -> str:
    if any(asked.values()):
        title = f"{title} (dashed: asked for)"
    drawn = chart_svg(curves, across, up, title, asked)
    if not drawn:
        return ""
    heading = f'<text x="14" y="18" font-weight="600">{escape(title)}</text>'
    return f'{heading}<g transform="translate(0 {TITLE})">{drawn}</g>'


def _of(x: float, rate: Measured) -> Dot:
    return Dot(x, rate.median, *rate.quartiles)


def _dot(x: float, y: float) -> Dot:
    return Dot(x, y, y, y)
