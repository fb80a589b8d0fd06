"""Several hosts at once, against each alone: lines for the terminal, a table for the page."""

from __future__ import annotations

from html import escape

from hyperslab.report.probed.lines import show_operations
from hyperslab.storage.probing.records import Measured
from hyperslab.storage.probing.sharing import Rates, Sharing
from hyperslab.units import show_count, show_list, show_rate, show_share

DOING = {"read": "reading", "write": "writing", "create": "making files"}


def sharing_sentence(sharing: Sharing) -> str:
    """Whether the hosts share what they were measured at, without a full stop."""
    shared = sharing.shared_ways
    if not shared:
        return (
            "the hosts do not slow each other down: each has a device of its own, or one that"
            " serves all of them"
        )
    if len(shared) == len(sharing.rates):
        return "the hosts share this device"
    apart = [DOING[way] for way in sharing.rates if way not in shared]
    doing = show_list([DOING[way] for way in shared])
    return f"the hosts share this device in {doing}, not in {show_list(apart)}"


def sharing_lines(sharing: Sharing) -> list[str]:
    """The answer about one path on several hosts."""
    hosts = show_count(len(sharing.hosts), "host")
    lines = [f"{sharing.path} from {hosts} at once: {sharing_sentence(sharing)}"]
    for way, rates in sharing.rates.items():
        at_once, alone = (_show(way, rate) for rate in (rates.sum_at_once, rates.sum_alone))
        lines.append(
            f"  {way:<9} {at_once} at once, {alone} one at a time added up: {rates.ratio:.2f}"
        )
    return lines


def sharing_section(sharing: Sharing) -> str:
    """The same with every host, as a section of a page."""
    clients = sorted(set(sharing.clients.values()))
    each = show_list([str(number) for number in clients])
    title = f"{sharing.path}, from {show_list(sharing.hosts)} at once"
    rows = "".join(_rows(way, rates) for way, rates in sharing.rates.items())
    return (
        f"<section>\n<h2>{escape(title)}</h2>\n<p>{escape(sharing_sentence(sharing))}</p>\n"
        f'<p class="hint">{each} processes at a time on each host; medians, with half the distance'
        " of the quartiles</p>\n<table><tr><th></th><th>host</th><th>one at a time</th>"
        f"<th>all at once</th></tr>\n{rows}</table>\n</section>"
    )


def _rows(way: str, rates: Rates) -> str:
    """All hosts of a way, then their sum."""
    rows = [
        (way, host, _measured(way, rates.alone[host]), _measured(way, rates.at_once[host]))
        for host in sorted(rates.alone)
    ]
    sums = [_show(way, rate) for rate in (rates.sum_alone, rates.sum_at_once)]
    rows.append((way, "together", sums[0], f"{sums[1]}, {rates.ratio:.2f} of it"))
    return "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )


def _measured(way: str, rate: Measured) -> str:
    return f"{_show(way, rate.median)} ± {show_share(rate.relative_spread)}"


def _show(way: str, rate: float) -> str:
    if way == "create":
        return show_operations(rate)
    return show_rate(rate)
