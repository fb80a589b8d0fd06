"""Decoding: from a capture file to messages, and to what was seen beside them."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.network.capture.framing import Messages
from hyperslab.network.capture.naming import require_msgpack
from hyperslab.network.capture.packets import Broken, NoCapture, Packet, packets
from hyperslab.network.capture.segments import ACK, SYN, Foreign, Segment, segment_of
from hyperslab.network.capture.streams import Stream
from hyperslab.traffic import (
    UNDECODABLE,
    Conversation,
    Message,
    Operations,
    Said,
    Traffic,
)


@dataclass(frozen=True, slots=True)
class Direction:
    """What one direction of a connection came to."""

    source: str
    target: str
    is_from_start: bool
    "Whether the connection began in the capture."
    packets: int
    nbytes: int
    "Payload of TCP, each byte once."
    messages: int
    retransmissions: int
    reordered: int
    copies: int
    "Packets that were captured more than once on their way."
    strays: int
    "Segments that no window of the connection holds."
    missing_nbytes: int
    "Bytes that no packet of the capture has."
    cut_nbytes: int
    "Bytes that the capture's snap length has cut off."
    undecoded_nbytes: int
    "Bytes that belong to no message that could be found."


class _Connection:
    """Both directions between two ends, from one SYN to the next."""

    def __init__(self, ends: tuple[str, str]) -> None:
        self.ends = ends
        self._heard: list[tuple[int, int, Said | None, int]] = []
        self.readers = tuple(Messages(functools.partial(self._hear, n)) for n in range(2))
        self.streams = tuple(map(Stream, self.readers))
        self._first: dict[int, int] = {}
        self._time_ns = 0

    def _hear(self, number: int, time_ns: int, said: Said | None, nbytes: int) -> None:
        self._heard.append((time_ns, number, said, nbytes))

    def messages(self) -> Iterator[Message]:
        """The messages, named in the order of their times: those behind a gap are heard late."""
        conversation = Conversation()
        for time_ns, number, said, nbytes in sorted(self._heard, key=operator.itemgetter(0)):
            operations: Operations = ((UNDECODABLE, 1),)
            if said is not None:
                operations = conversation.named(said, number == 0)
            ends = (self.ends[number], self.ends[1 - number])
            yield Message(time_ns, *ends, operations, nbytes, "sent")

    def is_another(self, segment: Segment) -> bool:
        """Whether a segment begins another connection between the same ends."""
        if not segment.flags & SYN or not any(stream.packets for stream in self.streams):
            return False
        number = self.ends.index(segment.source)
        return self._first.get(number, segment.sequence) != segment.sequence

    def take(self, segment: Segment) -> None:
        number = self.ends.index(segment.source)
        if segment.flags & SYN:
            self._first[number] = segment.sequence
            self.readers[number].begin()
        if segment.flags & ACK:
            self.streams[1 - number].acknowledge(segment.acknowledged, segment.time_ns)
        self.streams[number].take(segment)
        self._time_ns = segment.time_ns

    def end(self) -> Iterator[Direction]:
        """Read what is left; tells what each direction came to."""
        for number, (stream, reader) in enumerate(zip(self.streams, self.readers, strict=True)):
            stream.end(self._time_ns)
            reader.end()
            if stream.packets:
                yield _told(self.ends[number], self.ends[1 - number], stream, reader)


def decode(path: Path) -> Traffic:
    """Read the messages of a capture. Raises UsageError for a file that is no capture, MissingExtra
    without msgpack.

    `meta` says what was seen beside the messages: packets by kind, and every direction of every
    connection. A file that is cut or damaged is read up to there, which a note says.
    """
    require_msgpack()
    out: list[Message] = []
    seen: Counter[str] = Counter()
    notes: list[str] = []
    directions: list[Direction] = []
    connections: dict[tuple[str, str], _Connection] = {}
    every: list[_Connection] = []
    for segment in _segments(path, seen, notes):
        ends = (segment.source, segment.target)
        key = (min(ends), max(ends))
        known = connections.get(key)
        if known is None or known.is_another(segment):
            known = connections[key] = _Connection(ends)
            every.append(known)
        known.take(segment)
    for connection in every:
        directions += connection.end()
        out += connection.messages()
    out.sort(key=lambda message: message.time_ns)
    told = {"packets": dict(seen), "directions": list(map(asdict, directions)), "notes": notes}
    return Traffic.of(out, "captured", told)


def _segments(path: Path, seen: Counter[str], notes: list[str]) -> Iterator[Segment]:
    for packet in _packets(path, notes):
        seen["all"] += 1
        seen["cut by the snap length"] += len(packet.data) < packet.nbytes
        try:
            segment = segment_of(packet)
        except Foreign as what:
            seen[str(what)] += 1
            continue
        seen["TCP"] += 1
        if segment.source != segment.target:
            yield segment


def _packets(path: Path, notes: list[str]) -> Iterator[Packet]:
    try:
        with path.open("rb") as file:
            yield from packets(file)
    except NoCapture:
        raise UsageError(
            f"{path} is no capture: give a file that 'tcpdump -w FILE.pcap tcp' has written"
        ) from None
    except Broken as why:
        notes.append(f"the file is cut or damaged, {why}: it was read up to there")


def _told(source: str, target: str, stream: Stream, reader: Messages) -> Direction:
    return Direction(
        source,
        target,
        stream.is_from_start,
        stream.packets,
        stream.nbytes,
        reader.messages,
        stream.retransmissions,
        stream.reordered,
        stream.copies,
        stream.strays,
        stream.missing_nbytes,
        stream.cut_nbytes,
        reader.undecoded_nbytes,
    )
