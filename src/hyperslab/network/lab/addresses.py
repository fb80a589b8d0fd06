"""Addresses: a network for the nodes of a laboratory that nobody here uses.

Nobody outside a laboratory can reach its nodes, nor they anybody. Addresses differ from those of
this host all the same, so that nothing that reads an address takes it for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network

from hyperslab.errors import UsageError

RANGES = (
    IPv4Network("198.18.0.0/15"),  # benchmarks of network devices (RFC 2544)
    IPv4Network("100.64.0.0/10"),  # networks of providers, behind their own translation (RFC 6598)
)
"Ranges that are looked through, neither of which is anybody's in the internet."
LENGTH = 24
_EVERYWHERE = 1
"Longest prefix of a route that leads everywhere: a default route, or the halves that replace it."


def choose(taken: Sequence[IPv4Network]) -> IPv4Network:
    """A network that overlaps with none that is taken. Raises UsageError where there is none."""
    for every in RANGES:
        for network in every.subnets(new_prefix=LENGTH):
            if not any(map(network.overlaps, taken)):
                return network
    told = " and ".join(map(str, RANGES))
    raise UsageError(
        f"all addresses of {told} are in use here: give the laboratory others with"
        ' network = "10.77.0.0/24" in its spec'
    )


def require_free(network: IPv4Network, taken: Iterable[IPv4Network]) -> None:
    """Raise UsageError for a network of which this host, or another laboratory, has addresses."""
    for other in taken:
        if network.overlaps(other):
            raise UsageError(
                f"network {network}: {other} is in use here: give another one, or leave it out, and"
                " a free one is taken"
            )


def of_host() -> list[IPv4Network]:
    """Networks that this host has addresses of or routes to."""
    from pyroute2 import IPRoute

    found = []
    with IPRoute() as netlink:
        for message in netlink.get_addr(family=2):
            text = f"{message.get_attr('IFA_ADDRESS')}/{message['prefixlen']}"
            found.append(IPv4Network(text, strict=False))
        found += [
            IPv4Network(f"{message.get_attr('RTA_DST')}/{message['dst_len']}")
            for message in netlink.get_routes(family=2)
            if message["dst_len"] > _EVERYWHERE
        ]
    return found


def numbered(network: IPv4Network, number: int) -> str:
    """The address of such a number in a network."""
    return str(IPv4Address(int(network.network_address) + number))
