"""Link: what one direction of a node's connection is asked to be like."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from hyperslab.errors import UsageError
from hyperslab.units import show_bits, show_seconds, show_share

Direction = Literal["up", "down"]
"What a node sends, and what it receives."
DIRECTIONS: tuple[Direction, ...] = ("up", "down")
Mode = Literal["gso", "exact"]
"How packets are handed on: dozens of them as one where they come so, or one by one."
Role = Literal["scheduler", "client", "storage", "worker"]
"What a node is for."
QUEUE_NS = 50_000_000
"Time that a packet waits at most for its turn; what comes when more are waiting is dropped."
LEAST_QUEUE = 100
"""Full packets for which every queue has room, also where they take longer. Ports hold hundreds or
thousands of them (Linux: 1,000): in a queue of ten, three connections that begin at once lose a
tenth to a third of what they send, and what is measured is their recovery, not the rate.
"""
PACKET_NBYTES = 1514
"Bytes of a full packet, as a link counts them."
COARSE_BITS = 20_000_000
"Rate up to which the largest packet that stands for several takes 26 ms or longer."
LEAST_RATE_BITS = 100_000
"Rate that can still be measured in some seconds."
LONGEST_NS = 10_000_000_000
"Longest delay: with it, a connection takes some tens of seconds to begin."
UNITS = {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
"Bits per second of each unit of a rate that may be written."


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link."""

    rate_bits: int | None = None
    "Bits per second; None: as many as the machine carries."
    delay_ns: int = 0
    "Time that every packet is under way."
    jitter_ns: int = 0
    "Time by which that differs from packet to packet, at most, whose order stays."
    loss: float = 0.0
    "Share of packets that are lost."
    reorder: float = 0.0
    "Share of packets that are not delayed, and so overtake others."
    queue_ns: int = QUEUE_NS

    @property
    def waiting_ns(self) -> int:
        """Time that a packet waits at most for its turn, whatever makes the link."""
        if self.rate_bits is None:
            return self.queue_ns
        least_ns = LEAST_QUEUE * PACKET_NBYTES * 8 * 1_000_000_000 // self.rate_bits
        return max(self.queue_ns, least_ns)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked of it."""
        return self == Link(queue_ns=self.queue_ns)

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Link of a record that `as_json` made."""
        return cls(**record)

    def words(self) -> str:
        """What is asked for, as people read it."""
        told = []
        if self.rate_bits is not None:
            told.append(show_bits(self.rate_bits))
        if self.delay_ns:
            told.append(f"delay {show_seconds(self.delay_ns / 1e9)}")
        if self.jitter_ns:
            told.append(f"jitter {show_seconds(self.jitter_ns / 1e9)}")
        if self.loss:
            told.append(f"loss {show_share(self.loss)}")
        if self.reorder:
            told.append(f"reorder {show_share(self.reorder)}")
        return ", ".join(told) or "not limited"

    def problem(self) -> str:
        """Why no link can be like that, as a clause; '' where one can."""
        if self.rate_bits is not None and self.rate_bits < LEAST_RATE_BITS:
            return f"rate: give {show_bits(LEAST_RATE_BITS)} or more"
        for name, value in (("delay", self.delay_ns), ("jitter", self.jitter_ns)):
            if not 0 <= value <= LONGEST_NS:
                return f"{name}: give {show_seconds(LONGEST_NS / 1e9)} or less"
        for name, share in (("loss", self.loss), ("reorder", self.reorder)):
            if not (math.isfinite(share) and 0 <= share < 1):
                return f"{name}: give a share from 0 to less than 1, such as 0.02"
        if self.jitter_ns > self.delay_ns:
            return "jitter: is more than the delay, and no packet arrives before it is sent"
        if self.reorder and not self.delay_ns:
            return "reorder: needs a delay, without which there is nobody to overtake"
        return ""


def mode_for(links: Iterable[Link], coarse_bits: int = COARSE_BITS) -> Mode:
    """How packets are handed on: one by one where chance is to meet each of them, or where dozens
    of them would hold a link for long, up to a rate.
    """
    for link in links:
        is_slow = link.rate_bits is not None and link.rate_bits <= coarse_bits
        if link.loss or link.reorder or is_slow:
            return "exact"
    return "gso"


def parse_rate(flag: str, text: str) -> int:
    """Bits per second from '100Mbit', '1.5 Gbit/s' or '1000000'. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([A-Za-z]*)(/s)?\s*", text)
    unit = "bit"
    if match is not None:
        unit = match[2].lower() or "bit"
    if match is None or unit not in UNITS:
        raise UsageError(f"{flag} {text}: give a rate such as 100Mbit or 1Gbit")
    return round(float(match[1]) * UNITS[unit])
