"""Records of a probe: what was measured, how often, and with which spread. Sizes are in bytes,
times in seconds, rates in either per second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

FIO_CLOCK = 0.01
"""Share that fio leaves unsaid: of a rate, as it counts milliseconds, of which a measurement takes
50; of a latency, as it counts how many lie in intervals of a 64th.
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What repetitions of one measurement gave, in the order in which they were made."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Value in the middle; the mean of the two in the middle."""
        return _quantile(self.values, 0.5)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Values between which the middle half lies."""
        return _quantile(self.values, 0.25), _quantile(self.values, 0.75)

    @property
    def spread(self) -> float:
        """Distance between the quartiles."""
        low, high = self.quartiles
        return high - low

    @property
    def relative_spread(self) -> float:
        """Half the distance between the quartiles as a share of the median."""
        if not self.median:
            return 0.0
        return self.spread / 2 / self.median


def _quantile(values: Sequence[float], share: float) -> float:
    """Value below which a share of the others lies, between neighbours where need be."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = math.ceil(place)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve."""

    clients: int
    "Number of processes at a time."
    request_nbytes: int
    "Size of one request, bytes; 0 where it has none, as for operations on names."
    rate: Measured
    "Rate of all clients together: bytes, or operations, per second."


@dataclass(frozen=True, slots=True)
class Curve:
    """Rates by the number of clients, and by the size of their requests."""

    points: tuple[Point, ...]

    @property
    def usual_nbytes(self) -> int:
        """Size of the requests with which the numbers of clients were measured."""
        sizes = [point.request_nbytes for point in self.points]
        return max(sizes, key=lambda nbytes: (sizes.count(nbytes), nbytes))

    @property
    def by_clients(self) -> list[Point]:
        """Points of the usual size of requests, by the number of clients."""
        usual = self.usual_nbytes
        points = [point for point in self.points if point.request_nbytes == usual]
        return sorted(points, key=lambda point: point.clients)

    @property
    def by_request(self) -> list[Point]:
        """Points of one client, by the size of its requests."""
        points = [point for point in self.points if point.clients == 1]
        return sorted(points, key=lambda point: point.request_nbytes)

    @property
    def single(self) -> Point:
        """Point of the fewest clients."""
        return self.by_clients[0]

    @property
    def knee(self) -> Point:
        """Point from which on more clients do not raise the rate by more than its spread."""
        points = self.by_clients
        knee = points[0]
        for point in points[1:]:
            spread = max(point.rate.spread, knee.rate.spread)
            if point.rate.median > knee.rate.median + spread:
                knee = point
        return knee

    @property
    def still_grows(self) -> bool:
        """Whether the rate grew up to the most clients that were tried."""
        return len(self.by_clients) > 1 and self.knee is self.by_clients[-1]

    def rate_at(self, clients: float) -> float:
        """Rate of so many clients together: along the logarithm of their number between points,
        and that of the nearest point beyond them.
        """
        points = self.by_clients
        if clients <= points[0].clients:
            return points[0].rate.median
        for low, high in pairwise(points):
            if clients <= high.clients:
                span = math.log(high.clients / low.clients)
                share = math.log(clients / low.clients) / span
                grown = high.rate.median - low.rate.median
                return low.rate.median + share * grown
        return points[-1].rate.median


@dataclass(frozen=True, slots=True)
class Latency:
    """Times of small reads at places where nothing was read before, one at a time."""

    request_nbytes: int
    median_s: Measured
    p95_s: Measured
    "Time that 95 % of the reads stay below."


@dataclass(frozen=True, slots=True)
class Opening:
    """What it costs to open a file for every read, by the size of the reads."""

    request_nbytes: int
    each_s: Measured
    "Time of a read that opens and closes the file."
    once_s: Measured
    "Time of a read of a file that stays open."

    @property
    def slowdown(self) -> float:
        """Time of a read with its open, over that of a read alone."""
        return self.each_s.median / self.once_s.median


@dataclass(frozen=True, slots=True)
class Compared:
    """One point as this program and as fio measured it, in turns."""

    what: str
    "Name of the curve, or of the latency."
    clients: int
    request_nbytes: int
    ours: Measured
    "Rates in bytes per second, or latencies in seconds."
    fio: Measured

    @property
    def ratio(self) -> float:
        """Our median over that of fio."""
        return self.ours.median / self.fio.median

    @property
    def agrees(self) -> bool:
        """Whether our median lies within the values that fio gave, as far as its clock tells."""
        low = min(self.fio.values) * (1 - FIO_CLOCK)
        high = max(self.fio.values) * (1 + FIO_CLOCK)
        return low <= self.ours.median <= high


@dataclass(frozen=True, slots=True)
class Probed:
    """What was measured of one tier, from one host."""

    path: str
    "Path that was probed."
    host: str
    at_s: float
    "Moment at which the probe ended, seconds since 1970."
    took_s: float
    tier: Mapping[str, Any]
    "What the path is made of, as `Tier.as_json` says it."
    media: tuple[str, ...]
    "Names of the media that the path lies on, as `Tier.media` has them."
    size_nbytes: int
    "Bytes of the files that were read."
    repetitions: int
    how_cold: str
    "How reads were made to come from storage; empty: they could not be."
    curves: Mapping[str, Curve]
    "Rates of bytes: read-cold, read-cached, write, write-cached, write-direct."
    latency: Mapping[str, Latency]
    "Latencies: cold, by way of the page cache; direct, past it."
    names: Mapping[str, Curve]
    "Rates of create, stat, open, rename, unlink."
    opening: tuple[Opening, ...]
    nodes: Mapping[str, Mapping[str, Measured]]
    "Rates of one client on the processors of each NUMA node, where there are several."
    compared: tuple[Compared, ...] = ()
    notes: tuple[str, ...] = ()
    "What limits these numbers, as sentences."

    @property
    def key(self) -> str:
        """Name by which a later probe replaces this one: host and media."""
        return _key(self.host, self.media, self.path)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `dataclasses.asdict` made, also after a way through JSON text."""
        told = dict(record)
        told["media"] = tuple(told["media"])
        told["notes"] = tuple(told["notes"])
        told["curves"] = _curves(told["curves"])
        told["names"] = _curves(told["names"])
        told["latency"] = {name: _latency(one) for name, one in told["latency"].items()}
        told["opening"] = tuple(map(_opening, told["opening"]))
        told["nodes"] = {
            node: {what: _measured(rate) for what, rate in rates.items()}
            for node, rates in told["nodes"].items()
        }
        told["compared"] = tuple(map(_compared, told["compared"]))
        return cls(**told)


def _key(host: str, media: Iterable[str], path: str) -> str:
    known = "+".join(sorted(media))
    return f"{host} {known or path}"


def _measured(record: Mapping[str, Any]) -> Measured:
    return Measured(tuple(record["values"]))


def _curves(record: Mapping[str, Any]) -> dict[str, Curve]:
    return {name: Curve(tuple(map(_point, one["points"]))) for name, one in record.items()}


def _point(record: Mapping[str, Any]) -> Point:
    return Point(record["clients"], record["request_nbytes"], _measured(record["rate"]))


def _latency(record: Mapping[str, Any]) -> Latency:
    median = _measured(record["median_s"])
    return Latency(record["request_nbytes"], median, _measured(record["p95_s"]))


def _opening(record: Mapping[str, Any]) -> Opening:
    each = _measured(record["each_s"])
    return Opening(record["request_nbytes"], each, _measured(record["once_s"]))


def _compared(record: Mapping[str, Any]) -> Compared:
    rates = {name: _measured(record[name]) for name in ("ours", "fio")}
    return Compared(record["what"], record["clients"], record["request_nbytes"], **rates)
