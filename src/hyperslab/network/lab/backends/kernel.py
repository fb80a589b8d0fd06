"""Kernel: rates by the kernel's token buckets (tbf), losses by its packet filter (nft).

A rule drops packets where they enter a device, at the far end of the link: neither end of a
connection hears of it. There is no delay.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from hyperslab.network.lab import namespaces
from hyperslab.network.lab.backends import bridged
from hyperslab.network.lab.backends.bridged import Passed
from hyperslab.network.lab.link import (
    COARSE_BITS,
    DIRECTIONS,
    PACKET_NBYTES,
    Direction,
    Link,
    Mode,
)
from hyperslab.network.lab.namespaces import network_file
from hyperslab.network.lab.reading import Carried, Reading
from hyperslab.network.lab.registry import SWITCH, Lab, Node
from hyperslab.network.lab.wiring import DEVICE, port_of

ABOUT = "rate and loss, by tbf and nft"
CUT_BITS = COARSE_BITS
_BURST_S = 0.001
"Time for which a bucket may send at once what it could not send before."
LARGEST_NBYTES = 66_000
"Size of the largest packet that stands for several, with its headers: a bucket holds one."
_LEAST_BURST_NBYTES = 3 * PACKET_NBYTES
"Bytes that a bucket holds at least where packets are cut."
_LOST = "lost"
"Name of the chain of a direction that loses packets, and of what counts them."
_OF = 1_000_000
"Losses are so many packets of that many."


def missing() -> str:
    """What this host lacks for it, as a sentence; '' where it works."""
    if shutil.which("nft", path=namespaces.PATH) is None:
        return "the program nft is missing: install the Debian package nftables"
    return ""


def refusal(link: Link, mode: Mode) -> str:
    """Why no link can be made like that, as a clause; '' where one can."""
    if link.delay_ns or link.jitter_ns or link.reorder:
        return "the kernel's queues here do not delay packets (no netem)"
    return bridged.refusal(link)


def start(lab: Lab) -> None:
    """Make the devices of a laboratory, without limits."""
    bridged.start(lab)


def cut_packets(lab: Lab) -> None:
    """Have all nodes send single packets."""
    bridged.cut_packets(lab)


def shape(lab: Lab, node: Node) -> None:
    """Make the link of a node what the laboratory says, also while something goes over it."""
    least_burst_nbytes = LARGEST_NBYTES
    if lab.is_cut:
        least_burst_nbytes = _LEAST_BURST_NBYTES
    for direction in DIRECTIONS:
        link: Link = getattr(node, direction)
        bridged.queue(lab, node, direction, "tbf", _bucket(link, least_burst_nbytes))
        _lose(lab, node, direction, link.loss)


def _bucket(link: Link, least_burst_nbytes: int) -> dict[str, int]:
    if link.rate_bits is None:
        return {}
    rate = link.rate_bits / 8
    return {
        "rate": round(rate),
        "burst": max(round(rate * _BURST_S), least_burst_nbytes),
        "limit": round(rate * link.waiting_ns / 1e9),
    }


def _lose(lab: Lab, node: Node, direction: Direction, loss: float) -> None:
    """Have the far end of a link drop a share of the packets that enter there. What counts them
    stays when that changes.
    """
    if not (loss or _has_lost(lab, node, direction)):
        return
    place, device = _far_end(node, direction)
    chain = f"netdev {_table(node, direction)} {_LOST}"
    hook = f'type filter hook ingress device "{device}" priority 0; policy accept;'
    rules = [
        f"add table netdev {_table(node, direction)}",
        f"add counter {chain}",
        f"add chain {chain} {{ {hook} }}",
        f"flush chain {chain}",
    ]
    if loss:
        share = f"numgen random mod {_OF} < {round(loss * _OF)}"
        rules.append(f'add rule {chain} {share} counter name "{_LOST}" drop')
    else:
        rules.append(f"delete chain {chain}")
    _mark(lab, node, direction).touch()
    text = "".join(f"{rule}\n" for rule in rules)
    namespaces.run([*_in_network(lab, place), "nft", "-f", "-"], text)


def _has_lost(lab: Lab, node: Node, direction: Direction) -> bool:
    """Whether a link was ever to lose packets: only then is there something to be counted."""
    return _mark(lab, node, direction).exists()


def _mark(lab: Lab, node: Node, direction: Direction) -> Path:
    return lab.place / f"{node.name}.{direction}.lossy"


def _far_end(node: Node, direction: Direction) -> tuple[str, str]:
    """Place and device that receive what goes in a direction."""
    if direction == "up":
        return SWITCH, port_of(node)
    return node.name, DEVICE


def _table(node: Node, direction: Direction) -> str:
    return f"{direction}_{node.name.replace('-', '_')}"


def _in_network(lab: Lab, place: str) -> list[str]:
    return ["nsenter", f"--net={network_file(lab.place, place)}", "--"]


def read(lab: Lab) -> Reading:
    """What all links have carried and dropped."""
    passed = bridged.read(lab)
    lost = _lost(lab)
    links = {node.name: _carried(node, passed[node.name], lost) for node in lab.nodes}
    return Reading(links, strain=None)


def _carried(
    node: Node, passed: Mapping[Direction, Passed], lost: Mapping[str, int]
) -> dict[Direction, Carried]:
    found: dict[Direction, Carried] = {}
    for way, one in passed.items():
        drops = {"queue": one.dropped, "loss": lost.get(_table(node, way), 0)}
        found[way] = Carried(one.packets, one.nbytes, drops)
    return found


def _lost(lab: Lab) -> dict[str, int]:
    """Packets that were dropped as they were to be lost, by the table of a direction. One program
    is started for each network in which some are lost, and for no other.
    """
    lossy = [(node, way) for node in lab.nodes for way in DIRECTIONS if _has_lost(lab, node, way)]
    found: dict[str, int] = {}
    for place in {_far_end(node, way)[0] for node, way in lossy}:
        listing = ["nft", "--json", "list", "counters"]
        told = json.loads(namespaces.run([*_in_network(lab, place), *listing]))
        counters = [entry["counter"] for entry in told["nftables"] if "counter" in entry]
        found |= {one["table"]: one["packets"] for one in counters}
    return found


def trouble(lab: Lab) -> str:
    """What has become of the links since they were made, as a sentence; '' where nothing has."""
    return ""
