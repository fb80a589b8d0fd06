"""Captures made of messages: what Dask writes to a connection, in segments, packets and files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack

SYN, ACK, PUSH_ACK, SYN_ACK = 0x02, 0x10, 0x18, 0x12
CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 8786)
PICKLED = {"__Pickled__": 1}


def message(named: Any, *frames: bytes) -> bytes:
    """A message as `distributed.comm.tcp` writes it: all frames in one piece."""
    every = [msgpack.packb(named, use_bin_type=True), *frames]
    prelude = struct.pack(f"<{len(every) + 1}Q", len(every), *map(len, every))
    nosplit = len(prelude) + sum(map(len, every))
    return struct.pack("<Q", nosplit) + prelude + b"".join(every)


@dataclass(frozen=True)
class Sent:
    """One segment on its way."""

    time_s: float
    is_client: bool
    sequence: int
    acknowledged: int
    flags: int
    data: bytes
    identity: int


def talk(
    said: Sequence[tuple[bool, bytes]], segment_nbytes: int = 1400, start: int = 2**32 - 500
) -> list[Sent]:
    """The segments of a connection from its SYN on; `said` are messages, and who says each: True
    for the client. Sequence numbers run over.
    """
    at = {True: start, False: 7}
    sent = [
        Sent(0.0, True, at[True], 0, SYN, b"", 1),
        Sent(0.001, False, at[False], at[True] + 1, SYN_ACK, b"", 2),
    ]
    at = {who: place + 1 for who, place in at.items()}
    now = 0.01
    for who, content in said:
        for first in range(0, len(content), segment_nbytes):
            piece = content[first : first + segment_nbytes]
            numbers = (at[who] % 2**32, at[not who] % 2**32)
            sent.append(Sent(now, who, *numbers, PUSH_ACK, piece, len(sent) + 1))
            at[who] += len(piece)
            now += 0.001
        sent.append(
            Sent(now, not who, at[not who] % 2**32, at[who] % 2**32, ACK, b"", len(sent) + 1)
        )
    return sent


def again(segment: Sent, after_s: float) -> Sent:
    """The same segment, sent once more."""
    return replace(segment, time_s=segment.time_s + after_s, identity=segment.identity + 30000)


def ipv4(segment: Sent) -> bytes:
    """The packet of a segment."""
    ends = (CLIENT, SERVER)
    if not segment.is_client:
        ends = (SERVER, CLIENT)
    tcp = struct.pack(
        ">HHIIBBHHH",
        ends[0][1],
        ends[1][1],
        segment.sequence % 2**32,
        segment.acknowledged % 2**32,
        5 << 4,
        segment.flags,
        65535,
        0,
        0,
    )
    hosts = b"".join(bytes(map(int, host.split("."))) for host, _ in ends)
    nbytes = 40 + len(segment.data)
    head = struct.pack(">BBHHHBBH", 0x45, 0, nbytes, segment.identity % 2**16, 0x4000, 64, 6, 0)
    return head + hosts + tcp + segment.data


def ipv6(segment: Sent) -> bytes:
    """The same over IPv6, with a header of options before TCP's."""
    four = ipv4(segment)
    hosts = b"".join(bytes(10) + b"\xff\xff" + four[at : at + 4] for at in (12, 16))
    options = bytes([6, 0]) + bytes(6)
    head = struct.pack(">IHBB", 6 << 28, len(options) + len(four) - 20, 60, 64)
    return head + hosts + options + four[20:]


LINKS = {
    "ethernet": (1, bytes(12) + b"\x08\x00"),
    "vlan": (1, bytes(12) + b"\x81\x00\x00\x05\x08\x00"),
    "cooked": (113, bytes(14) + b"\x08\x00"),
    "cooked-2": (276, b"\x08\x00" + bytes(18)),
    "raw": (101, b""),
}
"Link type and header by name, of packets of IPv4."


def classic(
    packets: Iterable[tuple[float, bytes]], link: int, snap: int = 65535, order: str = "<"
) -> bytes:
    """A pcap file of packets by their time in seconds."""
    parts = [struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, link)]
    for time_s, data in packets:
        kept = data[:snap]
        micros = round(time_s * 1e6)
        head = (micros // 10**6, micros % 10**6, len(kept), len(data))
        parts.append(struct.pack(f"{order}IIII", *head) + kept)
    return b"".join(parts)


def blocks(packets: Iterable[tuple[float, bytes]], link: int, order: str = "<") -> bytes:
    """The same as pcapng, in nanoseconds, with a block between that nobody needs to know."""
    resolution = struct.pack(f"{order}HHBxxxHH", 9, 1, 9, 0, 0)
    parts = [
        _block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order),
        _block(1, struct.pack(f"{order}HHI", link, 0, 0) + resolution, order),
        _block(5, bytes(12), order),
    ]
    for time_s, data in packets:
        nanos = round(time_s * 1e9)
        head = (0, nanos >> 32, nanos & 0xFFFFFFFF, len(data), len(data))
        body = struct.pack(f"{order}IIIII", *head) + data + bytes(-len(data) % 4)
        parts.append(_block(6, body, order))
    return b"".join(parts)


def _block(kind: int, body: bytes, order: str) -> bytes:
    nbytes = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + nbytes + body + nbytes


def framed(segments: Iterable[Sent], link: str = "ethernet") -> Iterator[tuple[float, bytes]]:
    """Packets of segments on a link, by their times."""
    for segment in segments:
        yield segment.time_s, LINKS[link][1] + ipv4(segment)
