"""Wiring: a bridge in a network of its own, a pair of devices for each node, and addresses.

Everything here runs in a laboratory's network, see `namespaces.within`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from hyperslab.network.lab.namespaces import LabFailed, network_file, within
from hyperslab.network.lab.registry import SWITCH, Lab, Node

DEVICE = "eth0"
"Name of the device of every node."
BRIDGE = "br0"
_OFFLOADS = ("tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation")
_NO_SIXTH = "/proc/sys/net/ipv6/conf/default/disable_ipv6"


@contextmanager
def refusals_told() -> Iterator[None]:
    """A block in which what the kernel refuses is told. Raises LabFailed."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        why = os.strerror(error.code)
        raise LabFailed(
            f"the kernel refuses a device, an address or a queue: {why}; it needs bridge and veth,"
            " and sch_tbf for rates, or /dev/net/tun for the emulator"
        ) from error


def port_of(node: Node) -> str:
    """Name of the switch's end of a node's link."""
    return f"p-{node.name}"


def still(lab: Lab) -> None:
    """Have devices that are to come send nothing that nobody has asked for, as that by which IPv6
    looks for neighbours.
    """
    for file in lab.networks:
        within(file, lambda: Path(_NO_SIXTH).write_text("1"))


def wire(lab: Lab) -> None:
    """Make the bridge, and a link to each node. The namespaces are there."""
    within(network_file(lab.place, SWITCH), lambda: _make_bridge(lab))
    for node in lab.nodes:
        _make_pair(lab, node)


def _make_bridge(lab: Lab) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.link("add", ifname=BRIDGE, kind="bridge", address=lab.switch_hardware_address)
        netlink.link("set", index=index_of(netlink, BRIDGE), state="up")


def _make_pair(lab: Lab, node: Node) -> None:
    from pyroute2 import IPRoute

    port = port_of(node)
    node_network = os.open(network_file(lab.place, node.name), os.O_RDONLY | os.O_CLOEXEC)

    def make() -> None:
        peer = {"ifname": DEVICE, "net_ns_fd": node_network, "address": node.hardware_address}
        with IPRoute() as netlink:
            netlink.link("add", ifname=port, kind="veth", peer=peer)
            bridge = index_of(netlink, BRIDGE)
            netlink.link("set", index=index_of(netlink, port), master=bridge, state="up")

    try:
        within(network_file(lab.place, SWITCH), make)
    finally:
        os.close(node_network)


def address(lab: Lab, switch_device: str) -> None:
    """Give every node and the switch its address and those of all others.

    No question for an address ever goes over a link, where it could be lost.
    """
    places = {lab.switch_address: lab.switch_hardware_address}
    places |= {node.address: node.hardware_address for node in lab.nodes}
    length = IPv4Network(lab.network).prefixlen

    def set_up(device: str, own: str) -> None:
        others = {place: hardware for place, hardware in places.items() if place != own}
        _set_up(device, f"{own}/{length}", others)

    within(network_file(lab.place, SWITCH), lambda: set_up(switch_device, lab.switch_address))
    for node in lab.nodes:
        file = network_file(lab.place, node.name)
        within(file, lambda own=node.address: set_up(DEVICE, own))  # type: ignore[misc]


def _set_up(device: str, own: str, others: Mapping[str, str]) -> None:
    from pyroute2 import IPRoute

    text, _, length = own.partition("/")
    with IPRoute() as netlink:
        netlink.link("set", index=index_of(netlink, "lo"), state="up")
        index = index_of(netlink, device)
        netlink.addr("add", index=index, address=text, prefixlen=int(length))
        netlink.link("set", index=index, state="up")
        for place, hardware in others.items():
            netlink.neigh("replace", dst=place, lladdr=hardware, ifindex=index, state="permanent")


def cut_packets(devices: Sequence[tuple[Path, str]]) -> None:
    """Have devices send packets as they go over a wire, and none that stand for dozens: of these,
    a loss would take all.
    """
    for file, device in devices:
        within(file, lambda name=device: _without_offloads(name))  # type: ignore[misc]


def _without_offloads(device: str) -> None:
    from pyroute2 import IPRoute
    from pyroute2.ethtool import Ethtool

    with IPRoute() as netlink:
        index_of(netlink, device)
    with Ethtool() as tool:
        features = tool.get_features(device)
        for name in _OFFLOADS:
            features.features[name].enable = False
        tool.set_features(device, features)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a device has done."""

    sent_packets: int
    sent_nbytes: int
    received_packets: int
    received_nbytes: int
    dropped: int
    "Packets that its queue has dropped."


def read(file: Path) -> dict[str, Counts]:
    """What the devices of a network have done, by their names."""
    from pyroute2 import IPRoute

    def ask() -> dict[str, Counts]:
        with IPRoute() as netlink:
            return counts(netlink)

    return within(file, ask)


def counts(netlink: Any) -> dict[str, Counts]:
    """What all devices have done, by their names: one question for all of them, and one for their
    queues.
    """
    dropped: dict[int, int] = {}
    for queue in netlink.get_qdiscs():
        dropped[queue["index"]] = dropped.get(queue["index"], 0) + _dropped(queue)
    found = {}
    for device in netlink.get_links():
        told = device.get_attr("IFLA_STATS64")
        found[device.get_attr("IFLA_IFNAME")] = Counts(
            told["tx_packets"],
            told["tx_bytes"],
            told["rx_packets"],
            told["rx_bytes"],
            dropped.get(device["index"], 0),
        )
    return found


def _dropped(queue: Any) -> int:
    """Packets that a queue has dropped; 0 of one that does not say."""
    told = queue.get_attr("TCA_STATS2")
    queued = told.get_attr("TCA_STATS_QUEUE") if told is not None else None
    return queued["drops"] if queued is not None else 0


def index_of(netlink: Any, device: str) -> int:
    """Number of a device. Raises LabFailed where there is none."""
    found = netlink.link_lookup(ifname=device)
    if not found:
        raise LabFailed(f"the device {device} of a node is gone")
    return int(found[0])
