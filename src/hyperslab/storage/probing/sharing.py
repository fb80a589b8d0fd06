"""Sharing: what several hosts reach one at a time and all at once, and so whether they share what
they are measured at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hyperslab.storage.probing.records import Measured

WAYS = ("read", "write", "create")
"What is compared: bytes read, bytes written until fsync has returned, files made."


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of one way by host, per second: bytes, or files."""

    alone: Mapping[str, Measured]
    at_once: Mapping[str, Measured]

    @property
    def sum_alone(self) -> float:
        """Rates of the hosts one at a time, added up."""
        return sum(rate.median for rate in self.alone.values())

    @property
    def sum_at_once(self) -> float:
        """Rate of all hosts at once."""
        return sum(rate.median for rate in self.at_once.values())

    @property
    def ratio(self) -> float:
        """Rate of all hosts at once over the sum of their rates alone: 1 where they do not meet;
        1/n for n equal hosts that share what is slowest.
        """
        return self.sum_at_once / self.sum_alone

    @property
    def is_shared(self) -> bool:
        """Whether the ratio is nearer to that of hosts that share all than to 1."""
        largest = max(rate.median for rate in self.alone.values())
        return self.ratio < (1 + largest / self.sum_alone) / 2


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the hosts of a cluster reach in one path, alone and at once."""

    path: str
    at_s: float
    "Moment at which this was measured, seconds since 1970."
    clients: Mapping[str, int]
    "Number of processes at a time, by host."
    media: Mapping[str, tuple[str, ...]]
    "Names of the media that the path lies on, by host."
    rates: Mapping[str, Rates]
    "Rates by their way, of WAYS."

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts that were measured."""
        return sorted(self.media)

    @property
    def shared_ways(self) -> list[str]:
        """Ways in which the hosts slow each other down."""
        return [way for way, rates in self.rates.items() if rates.is_shared]

    @property
    def key(self) -> str:
        """Name by which a later measurement replaces this one."""
        return f"{' '.join(self.hosts)} {self.path}"

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `dataclasses.asdict` made, also after a way through JSON text."""
        told = dict(record)
        told["media"] = {host: tuple(names) for host, names in told["media"].items()}
        told["rates"] = {
            way: Rates(_by_host(rates["alone"]), _by_host(rates["at_once"]))
            for way, rates in told["rates"].items()
        }
        return cls(**told)


def _by_host(rates: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Measured]:
    return {host: Measured(tuple(rate["values"])) for host, rate in rates.items()}
