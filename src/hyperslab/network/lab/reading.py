"""Reading: what the links of a laboratory have carried and dropped, and whether it kept up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hyperslab.network.lab.link import Direction
from hyperslab.units import show_count, show_share

Links = Mapping[str, Mapping[Direction, "Carried"]]
"What both directions of every node's link have carried, by the node's name."
_LATE_POWER = 11
"Power of two of a microsecond from half of which on packets count as late: 1.02 ms."
LATE_SHARE = 0.01
"Share of packets that may be that late."
_STARVED = frozenset(("tap", "memory"))
"Causes of drops that no link has asked for: whoever hands packets on was late."


@dataclass(frozen=True, slots=True)
class Carried:
    """What one direction of a link has done since it was made."""

    packets: int
    nbytes: int
    "Bytes of these packets, from the address of the device on."
    drops: Mapping[str, int]
    """Packets that did not arrive, by cause: `loss` and `queue`, as asked for, and what no link has
    asked for.
    """

    def since(self, before: Carried) -> Carried:
        """What it has done since an earlier reading."""
        drops = {cause: number - before.drops.get(cause, 0) for cause, number in self.drops.items()}
        return Carried(self.packets - before.packets, self.nbytes - before.nbytes, drops)


@dataclass(frozen=True, slots=True)
class Strain:
    """What it took a program to hand packets on, which else the kernel does."""

    scheduling: str
    "Class of its thread: rr and fifo go before all other programs, other does not."
    cpu_ns: int
    "Time on a processor."
    waited_ns: int
    "Time of waiting for one."
    late: tuple[int, ...]
    """Frames by how late they were: number `i` has those that were late by less than `2**i` µs, and
    by no less than half of that.
    """

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> Self:
        """Strain of what the program reports."""
        return cls(
            scheduling=report["scheduling"],
            cpu_ns=report["cpu_ns"] or 0,
            waited_ns=report["waited_ns"] or 0,
            late=tuple(report["late"]["powers_us"]),
        )

    def since(self, before: Strain) -> Strain:
        """Strain since an earlier reading."""
        late = tuple(now - then for now, then in zip(self.late, before.late, strict=True))
        return Strain(
            self.scheduling,
            self.cpu_ns - before.cpu_ns,
            self.waited_ns - before.waited_ns,
            late,
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What all links have done since they were made, or since an earlier reading."""

    links: Links
    strain: Strain | None
    "None where the kernel itself hands packets on."

    def since(self, before: Reading) -> Reading:
        """What has been done since an earlier reading of the same laboratory."""
        links: Links = {
            node: {way: carried.since(before.links[node][way]) for way, carried in both.items()}
            for node, both in self.links.items()
        }
        strain = None
        if self.strain is not None and before.strain is not None:
            strain = self.strain.since(before.strain)
        return Reading(links, strain)

    def is_put_off(self) -> bool:
        """Whether a program hands packets on that may not go before all others."""
        return self.strain is not None and self.strain.scheduling == "other"

    def starved(self) -> str:
        """Why what was measured meanwhile tells nothing of such links, as a sentence; '' where it
        does.
        """
        for node, both in self.links.items():
            for way, carried in both.items():
                number = sum(carried.drops.get(cause, 0) for cause in _STARVED)
                if number:
                    dropped = show_count(number, "packet")
                    return f"{node}, {way}: {dropped} dropped because the emulator was late"
        if self.strain is None:
            return ""
        late = sum(self.strain.late[_LATE_POWER:])
        share = late / max(1, sum(self.strain.late))
        if share > LATE_SHARE:
            return f"{show_share(share)} of the packets were handed on 1 ms late or later"
        return ""
