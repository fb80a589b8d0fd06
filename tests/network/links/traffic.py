"""Traffic between two nodes: a pump of TCP, numbered datagrams, frames as they should not be."""

from __future__ import annotations

import itertools
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.network.links.namespaces import within
from tests.network.links.switched import Switched, address, connected, mac

_PIECE = bytes(1 << 16)
_ROOM_NBYTES = 1 << 24
_SILENCE_S = 0.5
_SO_RCVBUFFORCE = 33
_SOL_PACKET = 263
_PACKET_VNET_HDR = 15


@dataclass
class Pump:
    """Bytes that one node sends to another one as fast as it can, for as long as a test is here."""

    arrived_nbytes: int = 0
    is_over: bool = field(default=False, repr=False)

    def rate_bits(self, seconds: float) -> float:
        """Bits that arrive in a second, from now on."""
        before, begun = self.arrived_nbytes, time.perf_counter()
        time.sleep(seconds)
        return (self.arrived_nbytes - before) * 8 / (time.perf_counter() - begun)


@contextmanager
def pumping(
    one: Switched, source: int = 0, target: int = 1, room: int | None = None
) -> Iterator[Pump]:
    """Pump from a node to another one, with so many bytes under way at most."""
    sender, receiver = connected(one, source, target)
    if room is not None:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
    pump = Pump()

    def send() -> None:
        while not pump.is_over:
            sender.sendall(_PIECE)
        sender.shutdown(socket.SHUT_WR)

    def receive() -> None:
        while part := receiver.recv(len(_PIECE)):
            pump.arrived_nbytes += len(part)

    threads = [threading.Thread(target=send), threading.Thread(target=receive)]
    for thread in threads:
        thread.start()
    try:
        yield pump
    finally:
        pump.is_over = True
        for thread in threads:
            thread.join()
        sender.close()
        receiver.close()


def datagrams(one: Switched, count: int, gap_s: float = 0.0) -> list[int]:
    """Numbers of the datagrams that have arrived at node 1, in their order, of so many that node 0
    has sent.
    """
    receiver = within(one.nodes[1], lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sender = within(one.nodes[0], lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM_NBYTES)
        receiver.settimeout(_SILENCE_S)
        receiver.bind((address(1), 0))
        place = receiver.getsockname()
        for number in range(count):
            sender.sendto(struct.pack("I", number), place)
            if gap_s:
                time.sleep(gap_s)
        return list(itertools.islice(_numbers(receiver), count))


def _numbers(receiver: socket.socket) -> Iterator[int]:
    """Numbers that arrive, until none have come for a while."""
    try:
        while True:
            (number,) = struct.unpack("I", receiver.recv(4))
            yield number
    except TimeoutError:
        return


def malformed_frames(one: Switched, count: int, with_header: bool) -> None:
    """Have node 0 send frames of random bytes, most of them to node 1."""
    chance = random.Random(4)
    sender = within(one.nodes[0], lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    with sender:
        if with_header:
            sender.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        sender.bind(("eth0", 0))
        for _ in range(count):
            _send(sender, chance, with_header)


def _send(sender: socket.socket, chance: random.Random, with_header: bool) -> None:
    to = bytes.fromhex(mac(1).replace(":", ""))
    start = chance.choice([to, to, to, chance.randbytes(6)])
    frame = start + chance.randbytes(6) + chance.choice([b"\x08\x00", b"\x86\xdd", b"\xff\xff"])
    frame += chance.choice([b"", b"\x45\x00"]) + chance.randbytes(chance.randrange(1_400))
    try:
        sender.send(_header(chance, len(frame)) + frame if with_header else frame)
    except OSError:
        return  # the kernel itself has refused it: others come


def _header(chance: random.Random, nbytes: int) -> bytes:
    """A header that says of a frame what may be wrong, in ways that the kernel partly lets pass."""
    flags = chance.choice([0, 1])
    kind = chance.choice([0, 0, 1, 4])
    return struct.pack(
        "BBHHHH",
        flags,
        kind,
        chance.randrange(nbytes + 1),
        chance.choice([0, 1, 7, 1_448, 65_535]),
        chance.randrange(nbytes + 1),
        chance.randrange(20),
    )
