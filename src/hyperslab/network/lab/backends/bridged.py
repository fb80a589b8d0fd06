"""Bridged: devices of the kernel's own, a bridge between them, and what both of its backends ask.

Limits are at both ends of each pair: that of the node, for what it sends, and that of the switch,
for what it receives. What a queue has dropped, the kernel forgets with the queue: it is kept in the
laboratory's folder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.network.lab import wiring
from hyperslab.network.lab.link import DIRECTIONS, Direction, Link
from hyperslab.network.lab.namespaces import network_file, within
from hyperslab.network.lab.registry import SWITCH, Lab, Node
from hyperslab.network.lab.wiring import BRIDGE, DEVICE, Counts, port_of
from hyperslab.units import show_bits

LARGEST_RATE_BITS = (2**32 - 1) * 8
"Rate that fits the field that the kernel has for it."
_LOCK = "queues.lock"
"File in a laboratory's folder whose lock is held while a queue is taken away, or all are read."


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
                _keep(lab, node, direction, wiring.counts(netlink)[device].dropped)
                netlink.tc("del", index=index, parent=TC_H_ROOT)

    with _locked(lab, fcntl.LOCK_EX):
        within(file, put)


@contextmanager
def _locked(lab: Lab, how: int) -> Iterator[None]:
    """A block in which no queue is taken away by somebody else; with LOCK_EX, none is read."""
    descriptor = os.open(lab.place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _keep(lab: Lab, node: Node, direction: Direction, dropped: int) -> None:
    """Remember what a queue has dropped that is about to go."""
    before = _kept(lab, node, direction)
    _kept_file(lab, node, direction).write_text(f"{before + dropped}\n")


def _kept(lab: Lab, node: Node, direction: Direction) -> int:
    """Packets that earlier queues have dropped."""
    file = _kept_file(lab, node, direction)
    if not file.exists():
        return 0
    return int(file.read_text())


def _kept_file(lab: Lab, node: Node, direction: Direction) -> Path:
    return lab.place / f"{node.name}.{direction}.dropped"


def _kind(netlink: Any, index: int) -> str:
    """The kind of a device's queue."""
    kinds = [one.get_attr("TCA_KIND") for one in netlink.get_qdiscs(index=index)]
    return str(next(iter(kinds), ""))


@dataclass(frozen=True, slots=True)
class Passed:
    """What one direction of a link has done since it was made."""

    packets: int
    nbytes: int
    dropped: int
    "Packets that its queues have dropped, as they were full or as these were to be lost."


def read(lab: Lab) -> Mapping[str, Mapping[Direction, Passed]]:
    """What all links have carried, by the node, and their queues have dropped."""
    with _locked(lab, fcntl.LOCK_SH):
        switch = wiring.read(network_file(lab.place, SWITCH))
        return {node.name: _passed(lab, node, switch) for node in lab.nodes}


def _passed(lab: Lab, node: Node, switch: Mapping[str, Counts]) -> dict[Direction, Passed]:
    own = wiring.read(network_file(lab.place, node.name))[DEVICE]
    port = switch[port_of(node)]
    sent = own.dropped + _kept(lab, node, "up")
    received = port.dropped + _kept(lab, node, "down")
    return {
        "up": Passed(own.sent_packets, own.sent_nbytes, sent),
        "down": Passed(own.received_packets, own.received_nbytes, received),
    }
