"""Segments of TCP in packets of any link: Ethernet, Linux's cooked captures, or bare IP."""

from __future__ import annotations

import functools
import ipaddress
import struct
from typing import NamedTuple

from hyperslab.network.capture.packets import Packet

SYN, ACK = 0x02, 0x10
_ETHERNET = 1
_COOKED = 113
_COOKED_2 = 276
_BARE = frozenset({12, 14, 101, 228, 229})
"Link types of bare IP, and those above, are of https://www.tcpdump.org/linktypes.html."
_TYPE_4, _TYPE_6 = 0x0800, 0x86DD
_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_TCP, _FRAGMENT = 6, 44
_EXTENSIONS = frozenset({0, 43, 60})
"Headers of IPv6 that may stand before TCP's: hop by hop, routing, destination."
_PLACES = {_ETHERNET: (12, 14), _COOKED: (14, 16), _COOKED_2: (0, 20)}
"Place at which a link's header says what follows it, and place where that begins."


class Segment(NamedTuple):
    """One segment of TCP."""

    time_ns: int
    source: str
    "Address of the end that sent it, as IP:PORT."
    target: str
    sequence: int
    acknowledged: int
    flags: int
    nbytes: int
    "Size of the payload that it had."
    data: bytes
    "Bytes from the beginning of the payload, as many as were kept."
    identity: int
    "Identification of the packet, 0 where it has none: equal in copies of one packet."


class Foreign(Exception):
    """A packet without a segment that can be read; its text says what it is, in one or two
    words.
    """


def segment_of(packet: Packet) -> Segment:
    """The segment of a packet. Raises Foreign."""
    place = _network_place(packet)
    if place >= len(packet.data):
        raise Foreign("cut short")
    version = packet.data[place] >> 4
    if version == 4:
        return _in_ipv4(packet, place)
    if version == 6:
        return _in_ipv6(packet, place)
    raise Foreign("other protocols")


def _network_place(packet: Packet) -> int:
    """Where the header of IP begins."""
    if packet.link in _BARE:
        return 0
    if packet.link not in _PLACES:
        raise Foreign(f"link type {packet.link}")
    at, place = _PLACES[packet.link]
    kind = _short(packet.data, at)
    while kind in _TAGS and packet.link == _ETHERNET:
        kind = _short(packet.data, place + 2)
        place += 4
    if kind not in (_TYPE_4, _TYPE_6):
        raise Foreign("other protocols")
    return place


def _in_ipv4(packet: Packet, place: int) -> Segment:
    data = packet.data
    if len(data) < place + 20:
        raise Foreign("cut short")
    nbytes, identity, fragment = struct.unpack_from(">HHH", data, place + 2)
    if data[place + 9] != _TCP:
        raise Foreign("other protocols")
    if fragment & 0x3FFF:
        raise Foreign("fragments")
    length = 4 * (data[place] & 0x0F)
    if length < 20:
        raise Foreign("damaged")
    end = place + nbytes
    if nbytes == 0:  # more than a length of IP can say, of a link that cuts packets later
        end = packet.nbytes
    hosts = (data[place + 12 : place + 16], data[place + 16 : place + 20])
    return _segment(packet, hosts, place + length, end, identity)


def _in_ipv6(packet: Packet, place: int) -> Segment:
    data = packet.data
    if len(data) < place + 40:
        raise Foreign("cut short")
    nbytes = _short(data, place + 4)
    hosts = (data[place + 8 : place + 24], data[place + 24 : place + 40])
    kind = data[place + 6]
    end = place + 40 + nbytes
    if nbytes == 0:
        end = packet.nbytes
    at = place + 40
    while kind in _EXTENSIONS:
        if at + 2 > len(data):
            raise Foreign("cut short")
        kind = data[at]
        at += 8 * (data[at + 1] + 1)
    if kind == _FRAGMENT:
        raise Foreign("fragments")
    if kind != _TCP:
        raise Foreign("other protocols")
    return _segment(packet, hosts, at, end, 0)


def _segment(
    packet: Packet, hosts: tuple[bytes, bytes], place: int, end: int, identity: int
) -> Segment:
    data = packet.data
    if len(data) < place + 20:
        raise Foreign("cut short")
    ports = struct.unpack_from(">HH", data, place)
    sequence, acknowledged = struct.unpack_from(">II", data, place + 4)
    start = place + 4 * (data[place + 12] >> 4)
    if start < place + 20 or start > end:
        raise Foreign("damaged")
    source, target = (_address(host, port) for host, port in zip(hosts, ports, strict=True))
    return Segment(
        packet.time_ns,
        source,
        target,
        sequence,
        acknowledged,
        data[place + 13],
        end - start,
        data[start:end],
        identity,
    )


@functools.lru_cache(maxsize=2**16)
def _address(host: bytes, port: int) -> str:
    if len(host) == 4:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}:{port}"
    return f"[{ipaddress.IPv6Address(host)}]:{port}"


def _short(data: bytes, place: int) -> int:
    if len(data) < place + 2:
        raise Foreign("cut short")
    return data[place] << 8 | data[place + 1]
