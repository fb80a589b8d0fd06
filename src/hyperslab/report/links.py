"""Links of the laboratory that a run was in: what they were like and have carried, beside its time.

Bytes are those of whole packets, while the tasks of the run lasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from hyperslab.units import show_bytes, show_list, show_rate, show_seconds, show_share

RECORD = "network.json"
"Record of a run in a laboratory, beside its trace: the laboratory, and what it has carried."
META = "network"
"Name of that record in the metadata of a trace."
Direction = Literal["sends", "receives"]


@dataclass(frozen=True, slots=True)
class NodeLink:
    """The link of a node."""

    node: str
    role: str
    rates: Mapping[Direction, float | None]
    "Bytes per second as asked for; None where they were not limited."
    round_trip_s: float
    "Time of a way to the switch and back, as asked for."
    nbytes: Mapping[Direction, int]
    dropped: int
    "Packets that did not arrive."

    def least_s(self, direction: Direction) -> float:
        """Time that its bytes take at least; 0 where the link is not limited."""
        rate = self.rates[direction]
        if not rate:
            return 0.0
        return self.nbytes[direction] / rate


class Fullest(NamedTuple):
    """The direction of a link that was busy for most of the time."""

    link: NodeLink
    direction: Direction
    share: float
    "Share of the time that its bytes take at least."


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a laboratory while a run had its tasks."""

    name: str
    backend: str
    seconds: float
    bound: str
    "Why processors and not links took the time; '' where they did not."
    nodes: tuple[NodeLink, ...]
    changed: tuple[str, ...] = ()
    "Nodes whose links were changed while the run went on, so that no rate is that of all of it."

    def fullest(self) -> Fullest:
        """What was busy for most of the time."""
        return max(self._directions(), key=lambda one: one.share)

    def _directions(self) -> Iterator[Fullest]:
        directions: tuple[Direction, ...] = ("sends", "receives")
        for link in self.nodes:
            for direction in directions:
                share = link.least_s(direction) / max(self.seconds, 1e-9)
                yield Fullest(link, direction, min(1.0, share))


def links_of(meta: Mapping[str, Any]) -> Links | None:
    """The links that the metadata of a trace tell of; None of a run that was in no laboratory."""
    record = meta.get(META)
    if not record:
        return None
    lab, usage = record["lab"], record["usage"]
    used = {one["node"]: one for one in usage["links"]}
    nodes = tuple(_link(node, used[node["name"]]) for node in lab["nodes"])
    changed = tuple(record.get("changed", ()))
    return Links(lab["name"], lab["backend"], usage["seconds"], usage["bound"], nodes, changed)


def sentence_of_changes(changed: Sequence[str]) -> str:
    """What to know of links that were changed during a run; '' where none was."""
    if not changed:
        return ""
    return (
        f"The link of {show_list(changed)} was changed meanwhile: rates are those before, and no"
        " link is judged by them."
    )


def _link(node: Mapping[str, Any], used: Mapping[str, Any]) -> NodeLink:
    up, down = node["up"], node["down"]
    return NodeLink(
        node["name"],
        node["role"],
        {"sends": _rate(up), "receives": _rate(down)},
        (up["delay_ns"] + down["delay_ns"]) / 1e9,
        {"sends": used["sent_nbytes"], "receives": used["received_nbytes"]},
        sum(used["dropped"].values()),
    )


def _rate(way: Mapping[str, Any]) -> float | None:
    if way["rate_bits"] is None:
        return None
    return float(way["rate_bits"] / 8)


def links_html(meta: Mapping[str, Any]) -> str:
    """The section of the page; '' of a run that was in no laboratory."""
    links = links_of(meta)
    if links is None:
        return ""
    rows = "".join(_row(links, link) for link in links.nodes)
    warnings = [why for why in (links.bound, sentence_of_changes(links.changed)) if why]
    told = "".join(f'<p class="warning">{escape(why)}</p>\n' for why in warnings)
    return (
        f"<section>\n<h2>Links</h2>\n{told}"
        f'<p class="hint">Laboratory {escape(links.name)}, backend {escape(links.backend)}; bytes'
        f" of whole packets, in {show_seconds(links.seconds)} around the tasks. Busy: the share of"
        " that time that the bytes take at least.</p>\n"
        '<div class="wide"><table><thead><tr><th></th><th>sent</th><th>of</th><th>busy</th>'
        "<th>received</th><th>of</th><th>busy</th><th>round trip</th><th>packets dropped</th></tr>"
        f"</thead>\n<tbody>{rows}</tbody></table></div>\n</section>"
    )


def _row(links: Links, link: NodeLink) -> str:
    cells = [
        *_way_cells(links, link, "sends"),
        *_way_cells(links, link, "receives"),
        show_seconds(link.round_trip_s) if link.round_trip_s else "",
        f"{link.dropped:,}",
    ]
    told = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f"<tr><th>{escape(link.node)}</th>{told}</tr>\n"


def _way_cells(links: Links, link: NodeLink, direction: Direction) -> list[str]:
    """Bytes of a direction, its rate, and how long it was busy."""
    rate = link.rates[direction]
    nbytes = show_bytes(link.nbytes[direction])
    if rate is None:
        return [nbytes, "no limit", ""]
    share = link.least_s(direction) / max(links.seconds, 1e-9)
    return [nbytes, show_rate(rate), show_share(min(1.0, share))]
