"""Netem: the kernel's own emulator of networks, where it has one."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from hyperslab.network.lab.backends import bridged
from hyperslab.network.lab.backends.bridged import Passed
from hyperslab.network.lab.link import DIRECTIONS, PACKET_NBYTES, Link, Mode
from hyperslab.network.lab.reading import Carried, Reading
from hyperslab.network.lab.registry import Lab, Node

ABOUT = "rate, delay, loss and reordering, by the kernel's netem"
_NEW_NETWORK = 0x40000000
"CLONE_NEWNET, for unshare(2)."
_LOOPBACK = 1
"Number of the first device of every network."
CUT_BITS = 1_000_000_000
"""Rate up to which packets are cut. Netem's queue counts packets, whatever their size: those that
stand for dozens would wait dozens of times as long.
"""
_NO_RATE_QUEUE = 100_000
"Packets that may be under way where there is no rate to tell how many are."


def missing() -> str:
    """What this host lacks for it, as a sentence; '' where it works."""
    found: list[str] = []

    def probe() -> None:
        found.append(_missing_here())

    thread = threading.Thread(target=probe)
    thread.start()
    thread.join()
    return found[0] if found else "the kernel could not be asked"


def _missing_here() -> str:
    """The same, by a thread that moves into a network of its own, which ends with it."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEW_NETWORK) != 0:
        return "no network namespace can be made: the system does not allow it"
    with IPRoute() as netlink:
        try:
            netlink.tc("add", "netem", _LOOPBACK, delay=1)
        except NetlinkError as error:
            return f"the kernel has no netem ({error.args[1] if error.args[1:] else error.code})"
    return ""


def refusal(link: Link, mode: Mode) -> str:
    """Why no link can be made like that, as a clause; '' where one can."""
    if link.jitter_ns:
        return "netem's jitter changes the order of packets"
    return bridged.refusal(link)


def start(lab: Lab) -> None:
    """Make the devices of a laboratory, without limits."""
    bridged.start(lab)


def cut_packets(lab: Lab) -> None:
    """Have all nodes send single packets."""
    bridged.cut_packets(lab)


def shape(lab: Lab, node: Node) -> None:
    """Make the link of a node what the laboratory says, also while something goes over it."""
    for direction in DIRECTIONS:
        bridged.queue(lab, node, direction, "netem", _settings(getattr(node, direction)))


def _settings(link: Link) -> dict[str, Any]:
    if link.is_plain:
        return {}
    limit = _NO_RATE_QUEUE
    settings: dict[str, Any] = {}
    if link.rate_bits is not None:
        rate = link.rate_bits / 8
        limit = round(rate * (link.delay_ns + link.waiting_ns) / 1e9 / PACKET_NBYTES)
        settings["rate"] = round(rate)
    settings["limit"] = limit
    settings["delay"] = round(link.delay_ns / 1e3)
    settings["loss"] = 100 * link.loss
    settings["prob_reorder"] = 100 * link.reorder
    return settings


def read(lab: Lab) -> Reading:
    """What all links have carried and dropped; netem does not tell a loss from a full queue."""
    links = {
        node: {way: _carried(one) for way, one in both.items()}
        for node, both in bridged.read(lab).items()
    }
    return Reading(links, strain=None)


def _carried(passed: Passed) -> Carried:
    return Carried(passed.packets, passed.nbytes, {"loss or queue": passed.dropped})


def trouble(lab: Lab) -> str:
    """What has become of the links since they were made, as a sentence; '' where nothing has."""
    return ""
