"""Packets of a capture file: classic pcap, or pcapng, read one after the other.

The formats are those of https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-06.html and
https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-04.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

LARGEST_NBYTES = 2**26
"Bytes of a packet, or of a block, beyond which a file is taken for damaged."
LATEST_NS = 2**62
"Time that no clock has, in the year 2116."
_CLASSIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"Byte order, and nanoseconds in the unit of a fraction of a second, by the first bytes of a file."
_SECTION = b"\x0a\x0d\x0d\x0a"
_ORDERS: dict[bytes, Literal["<", ">"]] = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_RESOLUTION, _OFFSET = 9, 14
"Options of an interface: the unit of its times, and seconds to be added to them."
_BINARY = 0x80


class Packet(NamedTuple):
    """One packet as it was captured."""

    time_ns: int
    link: int
    "Link type, of https://www.tcpdump.org/linktypes.html."
    nbytes: int
    "Size that it had."
    data: bytes
    "Bytes from its beginning, as many as were kept."


class NoCapture(Exception):
    """A file that is no capture."""


class Broken(Exception):
    """A capture that cannot be read on; its text says why, as a clause."""


class _Interface(NamedTuple):
    link: int
    snap: int
    ticks_per_s: int
    offset_s: int


def packets(file: BinaryIO) -> Iterator[Packet]:
    """Read the packets of a file. Raises NoCapture, and Broken behind the last packet that could be
    read.
    """
    magic = file.read(4)
    if magic in _CLASSIC:
        return _classic(file, *_CLASSIC[magic])
    if magic == _SECTION:
        return _blocks(file)
    raise NoCapture


def _classic(file: BinaryIO, order: str, unit_ns: int) -> Iterator[Packet]:
    head = _read(file, 20, "its header")
    link = struct.unpack(f"{order}HHiIII", head)[5] & 0xFFFF
    record = struct.Struct(f"{order}IIII")
    while True:
        start = file.read(record.size)
        if not start:
            return
        if len(start) < record.size:
            raise Broken("it ends in the middle of a packet's header")
        seconds, fraction, kept, nbytes = record.unpack(start)
        if kept > LARGEST_NBYTES:
            raise Broken(f"a packet of {kept:,} bytes cannot be")
        data = _read(file, kept, "a packet")
        yield Packet(seconds * 10**9 + fraction * unit_ns, link, max(nbytes, kept), data)


def _blocks(file: BinaryIO) -> Iterator[Packet]:
    order: Literal["<", ">"] | None = None
    interfaces: list[_Interface] = []
    kind = _SECTION
    while kind:
        if len(kind) < 4:
            raise Broken("it ends in the middle of a block's header")
        if kind == _SECTION:
            order = _section(file)
            interfaces = []
        else:
            assert order is not None
            body = _body(file, order)
            number = struct.unpack(f"{order}I", kind)[0]
            if number == _INTERFACE:
                interfaces.append(_interface(body, order))
            packet = _packet(number, body, order, interfaces)
            if packet is not None:
                yield packet
        kind = file.read(4)


def _section(file: BinaryIO) -> Literal["<", ">"]:
    """Read the rest of the block that begins a section; returns the byte order of what follows."""
    start = _read(file, 8, "the header of a section")
    order = _ORDERS.get(start[4:])
    if order is None:
        raise Broken("a section has no byte order")
    nbytes = struct.unpack(f"{order}I", start[:4])[0]
    _rest(file, nbytes, 12, order)
    return order


def _body(file: BinaryIO, order: str) -> bytes:
    nbytes = struct.unpack(f"{order}I", _read(file, 4, "a block's header"))[0]
    return _rest(file, nbytes, 8, order)


def _rest(file: BinaryIO, nbytes: int, done: int, order: str) -> bytes:
    """The body of a block of a length, of which so many bytes have been read."""
    if nbytes < done + 4 or nbytes % 4 or nbytes > LARGEST_NBYTES:
        raise Broken(f"a block of {nbytes:,} bytes cannot be")
    body = _read(file, nbytes - done, "a block")
    if body[-4:] != struct.pack(f"{order}I", nbytes):
        raise Broken("a block does not end as it says")
    return body[:-4]


def _interface(body: bytes, order: str) -> _Interface:
    if len(body) < 8:
        raise Broken("an interface does not say its link type")
    link, _, snap = struct.unpack_from(f"{order}HHI", body)
    ticks_per_s = 10**6
    offset_s = 0
    place = 8
    while place + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, place)
        value = body[place + 4 : place + 4 + length]
        if code == 0:
            break
        if code == _RESOLUTION and value:
            ticks_per_s = 10 ** min(value[0], 18)
            if value[0] & _BINARY:
                ticks_per_s = 2 ** min(value[0] & ~_BINARY, 60)
        if code == _OFFSET and len(value) == 8:
            offset_s = struct.unpack(f"{order}q", value)[0]
        place += 4 + length + -length % 4
    return _Interface(link, snap, ticks_per_s, offset_s)


def _packet(kind: int, body: bytes, order: str, interfaces: list[_Interface]) -> Packet | None:
    """The packet of a block; None for a block of another kind."""
    if kind == _PACKET and len(body) >= 20:
        number, high, low, kept, nbytes = struct.unpack_from(f"{order}IIIII", body)
    elif kind == _OLD_PACKET and len(body) >= 20:
        number, _, high, low, kept, nbytes = struct.unpack_from(f"{order}HHIIII", body)
    elif kind == _SIMPLE_PACKET and len(body) >= 4:
        nbytes = struct.unpack_from(f"{order}I", body)[0]
        number = high = low = 0
        kept = len(body) - 4
    else:
        return None
    if number >= len(interfaces):
        raise Broken(f"a packet is from interface {number}, which nothing describes")
    interface = interfaces[number]
    start = 20
    if kind == _SIMPLE_PACKET:
        start = 4
        kept = min(kept, nbytes, interface.snap or nbytes)
    if kept > len(body) - start:
        raise Broken(f"a packet of {kept:,} bytes is longer than its block")
    ticks = (high << 32) + low
    time_ns = interface.offset_s * 10**9 + ticks * 10**9 // interface.ticks_per_s
    if abs(time_ns) > LATEST_NS:
        raise Broken("the time of a packet cannot be")
    data = body[start : start + kept]
    return Packet(time_ns, interface.link, max(nbytes, kept), data)


def _read(file: BinaryIO, nbytes: int, what: str) -> bytes:
    data = file.read(nbytes)
    if len(data) < nbytes:
        raise Broken(f"it ends in the middle of {what}")
    return data
