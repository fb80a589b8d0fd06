"""Links between the nodes of a cluster as a probe has measured them, and those that stand out.

A node is a process of the cluster. What a node sends is as fast as the fastest that anybody has
received from it, and it is as near as its nearest neighbour: so one slow node makes no others slow.
Rates are in bytes per second, times in seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

SLOW = 3.0
"Times slower than the median from which on a node, or a link, stands out."
DISTANT = 3.0
"Times farther likewise."
NOTICED_S = 0.001
"Time by which a round trip has to be longer, too: a processor that others use adds as much."
FEWEST_NODES = 3
"Nodes with several neighbours that a median needs to mean something."

Way = Literal["sends", "receives", "distance"]
Best = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a probe of links sends."""

    nbytes: int
    "Bytes in each direction between two nodes."
    limit_s: float
    "Time after which no more are waited for."
    least_s: float = 0.0
    "Time that the bytes are to take, or more are sent: TCP begins slowly."

    def longer(self, rate: float) -> Effort | None:
        """Effort that takes long enough over a link of that rate; None where this one does."""
        enough = min(round(rate * self.least_s), MOST_NBYTES)
        if enough <= self.nbytes:
            return None
        return Effort(enough, self.limit_s)


MOST_NBYTES = 64 << 20
"Bytes that are sent at most to make a measurement longer."
FULL = Effort(2 << 20, 1.0, 0.02)
QUICK = Effort(1 << 19, 0.25)


@dataclass(frozen=True, slots=True)
class Pair:
    """What was measured between two nodes, and again where they stood out."""

    one: str
    other: str
    round_trips_s: tuple[float, ...]
    there: tuple[float, ...]
    "Rates from the one to the other."
    back: tuple[float, ...]
    "Rates from the other to the one."

    @property
    def nodes(self) -> tuple[str, str]:
        """Both of them."""
        return self.one, self.other

    @property
    def round_trip_s(self) -> float:
        """The shortest: all else is what processors and other traffic add."""
        return min(self.round_trips_s)

    def again(self, later: Pair) -> Pair:
        """The same with what was measured later."""
        return Pair(
            self.one,
            self.other,
            self.round_trips_s + later.round_trips_s,
            self.there + later.there,
            self.back + later.back,
        )


@dataclass(frozen=True, slots=True)
class Serialising:
    """How fast a node makes messages of values, and values of messages again."""

    arrays_nbytes_per_s: float
    objects_nbytes_per_s: float
    "Rate of a list of Python's own objects, in bytes of their messages."


@dataclass(frozen=True, slots=True)
class Network:
    """The links of a cluster."""

    address: str
    "Address of its scheduler, as --connect takes it."
    at_s: float
    "Moment at which this was measured, seconds since 1970."
    took_s: float
    sent_nbytes: int
    "Bytes that were sent for it."
    nodes: tuple[str, ...]
    pairs: tuple[Pair, ...]
    serialising: Mapping[str, Serialising]
    "Nodes by name."
    notes: tuple[str, ...] = ()
    "What is missing, in sentences."

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `dataclasses.asdict` made, also after a way through JSON text."""
        told = dict(record)
        told["nodes"] = tuple(told["nodes"])
        told["notes"] = tuple(told["notes"])
        told["pairs"] = tuple(map(_pair, told["pairs"]))
        serialising = told.pop("serialising")
        return cls(
            **told, serialising={node: Serialising(**one) for node, one in serialising.items()}
        )


def _pair(record: Mapping[str, Any]) -> Pair:
    told = {name: tuple(value) for name, value in record.items() if name not in ("one", "other")}
    return Pair(record["one"], record["other"], **told)


@dataclass(frozen=True, slots=True)
class Odd:
    """A node, or the link between two, that is slower or farther than others."""

    nodes: tuple[str, ...]
    "The node; or sender and receiver of a link whose ends are as fast as others elsewhere."
    way: Way
    value: float
    "Rate, or time of a round trip."
    usual: float
    "Median of all nodes; of a link what its own ends reach elsewhere."

    @property
    def times(self) -> float:
        """How many times slower or farther."""
        low, high = sorted((self.value, self.usual))
        return high / low


def rates(pairs: Sequence[Pair]) -> dict[tuple[str, str], float]:
    """The best rate from each node to each other one."""
    found = {}
    for pair in pairs:
        found[pair.one, pair.other] = max(pair.there)
        found[pair.other, pair.one] = max(pair.back)
    return found


def distances(pairs: Sequence[Pair]) -> dict[tuple[str, str], float]:
    """The round trip between each node and each other one."""
    found = {}
    for pair in pairs:
        found[pair.one, pair.other] = pair.round_trip_s
        found[pair.other, pair.one] = pair.round_trip_s
    return found


def standing_out(pairs: Sequence[Pair]) -> list[Odd]:
    """Nodes that are distant or slow, then links between nodes that are neither; the worst first.

    A distant node is not called slow as well: the longer the way, the slower is one connection.
    """
    inner = _between_neighbours(pairs)
    if len({node for pair in inner for node in pair.nodes}) < FEWEST_NODES:
        return []
    far = _odd_distances(inner)
    distant = {odd.nodes[0] for odd in far}
    slow = [odd for odd in _odd_rates(inner) if odd.nodes[0] not in distant]
    named = distant | {odd.nodes[0] for odd in slow}
    others = [pair for pair in pairs if named.isdisjoint(pair.nodes)]
    found = [far, slow, _odd_links(others, inner)]
    return [odd for kind in found for odd in sorted(kind, key=lambda one: -one.times)]


def _between_neighbours(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs of nodes with several neighbours: of another it cannot be told whose the link is."""
    number: dict[str, int] = defaultdict(int)
    for pair in pairs:
        for node in pair.nodes:
            number[node] += 1
    return [pair for pair in pairs if all(number[node] > 1 for node in pair.nodes)]


def _bests(values: Mapping[tuple[str, str], float], end: int, best: Best) -> dict[str, float]:
    """The best of the values of each node, by the end of the link that it is."""
    by_node: dict[str, list[float]] = defaultdict(list)
    for nodes, value in values.items():
        by_node[nodes[end]].append(value)
    return {node: best(those) for node, those in by_node.items()}


def _ends(pairs: Sequence[Pair]) -> Iterator[tuple[Way, dict[str, float]]]:
    """What each node sends and receives at best."""
    yield "sends", _bests(rates(pairs), 0, max)
    yield "receives", _bests(rates(pairs), 1, max)


def _odd_rates(pairs: Sequence[Pair]) -> list[Odd]:
    found = []
    for way, each in _ends(pairs):
        usual = _median(each.values())
        found += [Odd((node,), way, one, usual) for node, one in each.items() if one * SLOW < usual]
    return found


def _odd_distances(pairs: Sequence[Pair]) -> list[Odd]:
    nearest = _bests(distances(pairs), 0, min)
    usual = _median(nearest.values())
    return [
        Odd((node,), "distance", one, usual) for node, one in nearest.items() if _is_far(one, usual)
    ]


def _is_far(value_s: float, usual_s: float) -> bool:
    return value_s > DISTANT * usual_s and value_s - usual_s > NOTICED_S


def _odd_links(pairs: Sequence[Pair], inner: Sequence[Pair]) -> list[Odd]:
    """Links that are worse than what both of their ends reach elsewhere."""
    nearest = _bests(distances(inner), 0, min)
    (_, sends), (_, receives) = _ends(inner)
    found = []
    for pair in pairs:
        known = [nearest[node] for node in pair.nodes if node in nearest]
        if _is_far(pair.round_trip_s, max(known)):
            found.append(Odd(pair.nodes, "distance", pair.round_trip_s, max(known)))
            continue
        for (source, target), value in rates([pair]).items():
            most = min(
                each[node] for node, each in ((source, sends), (target, receives)) if node in each
            )
            if value * SLOW < most:
                found.append(Odd((source, target), "sends", value, most))
    return found


def _median(values: Iterable[float]) -> float:
    from statistics import median  # which short commands do without

    return median(values)
