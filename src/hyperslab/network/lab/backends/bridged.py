"""Bridged: devices of the kernel's own, a bridge between them, and what both of its backends ask.

Limits are at both ends of each pair: that of the node, for what it sends, and that of the switch,
for what it receives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hyperslab.network.lab import wiring
from hyperslab.network.lab.link import DIRECTIONS, Direction, Link
from hyperslab.network.lab.namespaces import network_file, within
from hyperslab.network.lab.registry import SWITCH, Lab, Node
from hyperslab.network.lab.wiring import BRIDGE, DEVICE, port_of
from hyperslab.units import show_bits

LARGEST_RATE_BITS = (2**32 - 1) * 8
"Rate that fits the field that the kernel has for it."


def refusal(link: Link) -> str:
    """Why neither backend can make a link, as a clause; '' where one of them may."""
    if link.rate_bits is not None and link.rate_bits > LARGEST_RATE_BITS:
        return f"its rates end at {show_bits(LARGEST_RATE_BITS)}"
    return ""


def start(lab: Lab) -> None:
    """Make the devices of a laboratory, with addresses, and nothing that limits them."""
    wiring.wire(lab)
    wiring.address(lab, BRIDGE)


def ends(lab: Lab, node: Node, direction: Direction) -> tuple[Path, str]:
    """The network and the device that send what goes in a direction."""
    if direction == "up":
        return network_file(lab.place, node.name), DEVICE
    return network_file(lab.place, SWITCH), port_of(node)


def cut_packets(lab: Lab) -> None:
    """Have all devices send single packets."""
    wiring.cut_packets(list(_devices(lab)))


def _devices(lab: Lab) -> Iterator[tuple[Path, str]]:
    yield network_file(lab.place, SWITCH), BRIDGE
    for node in lab.nodes:
        for direction in DIRECTIONS:
            yield ends(lab, node, direction)


def queue(lab: Lab, node: Node, direction: Direction, kind: str, settings: dict[str, Any]) -> None:
    """Have a queue of this kind send what goes in a direction; without settings, none."""
    file, device = ends(lab, node, direction)

    def put() -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.rtnl import TC_H_ROOT

        with IPRoute() as netlink:
            index = wiring.index_of(netlink, device)
            if settings:
                netlink.tc("replace", kind, index, **settings)
            elif _kind(netlink, index) == kind:
                netlink.tc("del", index=index, parent=TC_H_ROOT)

    within(file, put)


def _kind(netlink: Any, index: int) -> str:
    """The kind of a device's queue."""
    kinds = [one.get_attr("TCA_KIND") for one in netlink.get_qdiscs(index=index)]
    return str(next(iter(kinds), ""))


def dropped(lab: Lab, node: Node, direction: Direction) -> int:
    """Packets that a queue has dropped, as it was full or as they were to be lost."""
    file, device = ends(lab, node, direction)

    def ask() -> int:
        from pyroute2 import IPRoute

        with IPRoute() as netlink:
            index = wiring.index_of(netlink, device)
            found: Sequence[Any] = list(netlink.get_qdiscs(index=index))
        drops = 0
        for one in found:
            counts = one.get_attr("TCA_STATS2")
            queued = counts.get_attr("TCA_STATS_QUEUE") if counts is not None else None
            drops += queued["drops"] if queued is not None else 0
        return drops

    return within(file, ask)


def carried(lab: Lab, node: Node, direction: Direction) -> tuple[int, int]:
    """Packets and bytes that a node has sent or received."""
    counts = wiring.carried(network_file(lab.place, node.name), DEVICE)
    if direction == "up":
        return counts["tx_packets"], counts["tx_bytes"]
    return counts["rx_packets"], counts["rx_bytes"]
