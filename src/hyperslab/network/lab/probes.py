"""Probes: what a link does, asked of it by packets of our own.

Both ends are in this process: sockets stay in the network in which they were made. Threads that
wait for packets go before all others, where they may, so that a busy machine is not taken for a
slow link.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperslab.network.lab.link import PACKET_NBYTES
from hyperslab.network.lab.namespaces import LabFailed, within
from hyperslab.storage.emulation.measuring import go_first

PIECE_NBYTES = 1 << 18
_ANSWER_S = 15.0
"Time after which a probe is given up."
_BUFFER_NBYTES = 1 << 22
_FORCED_BUFFER = 33
"SO_RCVBUFFORCE: the size of what waits to be received, past the system's limit (root alone)."
PAYLOAD_NBYTES = 1448
"Bytes of a full packet of TCP as a program counts them."
SMALL_FRAME_NBYTES = 74
"Bytes of a packet of the probe of losses, as a link counts them."
_NUMBER = struct.Struct("!QQ")
"Number of a packet, and the time at which it was sent, in a packet of 32 bytes."
_PADDING = bytes(16)


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link."""

    network: Path
    "File that holds its network."
    address: str

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A socket there, of its address."""

        def make() -> socket.socket:
            made = socket.socket(socket.AF_INET, kind)
            made.settimeout(_ANSWER_S)
            made.bind((self.address, 0))
            return made

        return within(self.network, make)


def rate_bits(
    sender: End, receiver: End, warm_nbytes: int, nbytes: int, window_nbytes: int | None
) -> float:
    """Bits per second that a link carries, by one connection, counted as its packets are.

    The first `warm_nbytes` are not counted: those for which a link has saved up. No more than the
    window is under way: where the link's queue holds that, no packet is dropped and waited for.
    Raises LabFailed.
    """
    total = warm_nbytes + nbytes
    with _connected(sender, receiver, window_nbytes) as (sending, receiving):
        failures: list[OSError] = []
        thread = threading.Thread(target=_send, args=(sending, total, failures))
        thread.start()
        try:
            took = _received(receiving, warm_nbytes, total)
        except OSError as error:
            raise LabFailed(f"{receiver.address} does not get its packets: {error}") from error
        finally:
            sending.shutdown(socket.SHUT_RDWR)
            thread.join()
    return nbytes * 8 / took * PACKET_NBYTES / PAYLOAD_NBYTES


@contextmanager
def _connected(
    sender: End, receiver: End, window_nbytes: int | None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection, as its two ends."""
    with receiver.socket(socket.SOCK_STREAM) as listening, ExitStack() as opened:
        if window_nbytes is not None:
            listening.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, window_nbytes)
        listening.listen(1)
        sending = opened.enter_context(sender.socket(socket.SOCK_STREAM))
        try:
            sending.connect(listening.getsockname())
            receiving, _ = listening.accept()
        except OSError as error:
            raise LabFailed(
                f"{sender.address} does not reach {receiver.address}: {error}"
            ) from error
        opened.enter_context(receiving)
        receiving.settimeout(_ANSWER_S)
        yield sending, receiving


def _send(sending: socket.socket, total: int, failures: list[OSError]) -> None:
    go_first()
    piece = bytes(PIECE_NBYTES)
    try:
        for start in range(0, total, PIECE_NBYTES):
            sending.sendall(piece[: total - start])
    except OSError as error:
        failures.append(error)


def _received(receiving: socket.socket, warm_nbytes: int, total: int) -> float:
    """Seconds in which all came but what is not counted. Raises OSError."""
    times: list[float] = []

    def receive() -> None:
        buffer = bytearray(PIECE_NBYTES)
        seen = receiving.recv_into(buffer, min(PIECE_NBYTES, warm_nbytes))
        while seen < warm_nbytes:
            seen += _some(receiving, buffer, warm_nbytes - seen)
        times.append(time.perf_counter())
        while seen < total:
            seen += _some(receiving, buffer, total - seen)
        times.append(time.perf_counter())

    _run_first(receive)
    return times[1] - times[0]


def _some(receiving: socket.socket, buffer: bytearray, most: int) -> int:
    nbytes = receiving.recv_into(buffer, min(len(buffer), most))
    if nbytes == 0:
        raise ConnectionResetError("the connection has ended")
    return nbytes


def round_trips(asking: End, answering: End, number: int, patience_s: float) -> list[float]:
    """Seconds that packets are under way, there and back, of those that come back in time. Raises
    LabFailed where none does.
    """
    found: list[float] = []
    with asking.socket(socket.SOCK_DGRAM) as near, answering.socket(socket.SOCK_DGRAM) as far:
        echo = threading.Thread(target=_echo, args=(far,))
        echo.start()

        def ask() -> None:
            near.settimeout(patience_s)
            place = far.getsockname()
            for count in range(number):
                near.sendto(_packet(count), place)
                took = _answer(near, count)
                if took is not None:
                    found.append(took)

        try:
            _run_first(ask)
        finally:
            _stop(far)
            echo.join()
    if not found:
        raise LabFailed(f"{answering.address} does not answer {asking.address}")
    return found


def _packet(number: int) -> bytes:
    return _NUMBER.pack(number, time.perf_counter_ns()) + _PADDING


def _answer(near: socket.socket, wanted: int) -> float | None:
    """Seconds that the packet of that number was under way; None of one that does not come back."""
    deadline = time.perf_counter() + _ANSWER_S
    while time.perf_counter() < deadline:
        try:
            packet = near.recv(64)
        except TimeoutError:
            return None
        number, sent_ns = _NUMBER.unpack_from(packet)
        if number == wanted:
            return float(time.perf_counter_ns() - sent_ns) / 1e9
    return None


def _echo(far: socket.socket) -> None:
    """Send all packets back to where they came from, until an empty one comes."""
    go_first()
    while True:
        try:
            packet, place = far.recvfrom(64)
        except OSError:
            return
        if not packet:
            return
        far.sendto(packet, place)


def _stop(listening: socket.socket) -> None:
    """Send a socket the empty packet that ends whoever listens to it, in its own network."""
    listening.sendto(b"", listening.getsockname())


def one_way(
    sender: End, receiver: End, number: int, duration_s: float, patience_s: float
) -> list[float]:
    """Seconds that packets are under way, of those that arrive of so many, which are sent evenly in
    so many seconds.
    """
    arrived: dict[int, float] = {}
    with sender.socket(socket.SOCK_DGRAM) as near, receiver.socket(socket.SOCK_DGRAM) as far:
        far.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, _BUFFER_NBYTES)
        listener = threading.Thread(target=_listen, args=(far, arrived))
        listener.start()
        place = far.getsockname()

        def send() -> None:
            begun = time.perf_counter()
            for count in range(number):
                ahead = begun + count * duration_s / number - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
                near.sendto(_packet(count), place)

        try:
            _run_first(send)
            time.sleep(patience_s)
        finally:
            _stop(far)
            listener.join()
    return list(arrived.values())


def _listen(far: socket.socket, arrived: dict[int, float]) -> None:
    """Note the number of every packet and how long it was under way, until an empty one comes."""
    go_first()
    while True:
        try:
            packet = far.recv(64)
        except OSError:
            return
        if not packet:
            return
        number, sent_ns = _NUMBER.unpack_from(packet)
        arrived[number] = (time.perf_counter_ns() - sent_ns) / 1e9


def _run_first(act: Callable[[], None]) -> None:
    """Run a function in a thread that goes before all others, and raise what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        go_first()
        try:
            act()
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
