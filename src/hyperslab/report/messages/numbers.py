"""Numbers of messages: by operation, by pair of nodes, by node and second, by size; heartbeats.

A message that both of its ends have recorded counts once. The bytes of a message with several
operations are shared out evenly among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab.traffic import Traffic

Ints: TypeAlias = npt.NDArray[np.int64]

HEARTBEATS = ("heartbeat_worker", "heartbeat-client")
SECOND_NS = 10**9
MOST_STEPS = 100_000
"Steps of time; more than a day has seconds."


@dataclass(frozen=True, slots=True)
class Operation:
    """What one operation came to."""

    name: str
    count: int
    nbytes: int
    count_share: float
    nbytes_share: float


@dataclass(frozen=True, slots=True)
class Pair:
    """What one node has sent to another."""

    source: str
    target: str
    messages: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Node:
    """What one node has sent and received."""

    name: str
    sent_messages: int
    sent_nbytes: int
    received_messages: int
    received_nbytes: int
    sent_by_step: tuple[int, ...]
    "Bytes sent in every step of time from the first message on; steps are seconds, see Numbers."
    received_by_step: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """How many messages there are of a size."""

    below_nbytes: int
    "Size that they stay below, a power of 2; it is at most twice theirs."
    messages: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Where some values lie."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How a node says that it lives."""

    node: str
    operation: str
    count: int
    interval_s: Spread | None
    "Time from one to the next; None for a single one."
    request_nbytes: Spread
    reply_nbytes: Spread | None
    "Sizes of the answers; None where none was seen."


@dataclass(frozen=True, slots=True)
class Transfer:
    """Values that a worker has fetched from another one for its tasks, by its own log."""

    source: str
    target: str
    start_ns: int
    "Wall clock of the scheduler."
    end_ns: int
    nbytes: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The messages of a run or of a capture, as numbers."""

    origin: str
    "recorded, captured or logged."
    messages: int
    nbytes: int
    start_ns: int
    "Wall clock of the first message; 0 where there is none."
    seconds: float
    "Time from the first to the last message."
    step_s: int
    "Length of a step, seconds: 1, or more where there would be too many."
    operations: tuple[Operation, ...]
    "Most bytes first."
    pairs: tuple[Pair, ...]
    nodes: tuple[Node, ...]
    sizes: tuple[Size, ...]
    heartbeats: tuple[Heartbeat, ...]
    transfers: tuple[Transfer, ...]
    notes: tuple[str, ...]
    "What is missing, in sentences."


def numbers_of(traffic: Traffic) -> Numbers:
    """Count messages once, and add up their bytes."""
    once = traffic.seen_once()
    table = _Table(once)
    each = once.columns
    span_ns = (0, 0)
    if len(each["time_ns"]):
        span_ns = (int(each["time_ns"].min()), int(each["time_ns"].max()))
    return Numbers(
        origin=once.origin,
        messages=len(table.size),
        nbytes=int(each["nbytes"].sum()),
        start_ns=span_ns[0],
        seconds=(span_ns[1] - span_ns[0]) / SECOND_NS,
        step_s=table.step_s,
        operations=tuple(_operations(once)),
        pairs=tuple(_pairs(table)),
        nodes=tuple(_nodes(table)),
        sizes=tuple(_sizes(table.size)),
        heartbeats=tuple(_heartbeats(once, table)),
        transfers=tuple(_transfers(once)),
        notes=tuple(once.meta.get("notes", ())),
    )


class _Table:
    """The messages of a traffic, one row each, with nodes for addresses."""

    def __init__(self, traffic: Traffic) -> None:
        each = traffic.columns
        found = [traffic.node_of(address) for address in traffic.addresses]
        self.names = sorted(set(found), key=_order)
        numbers = {name: number for number, name in enumerate(self.names)}
        self.node = np.array([numbers[name] for name in found], np.int64)
        first, rows = np.unique(each["message"], return_index=True, return_inverse=True)[1:]
        self.size = np.bincount(rows, weights=each["nbytes"]).astype(np.int64)
        self.source = self.node[each["source"][first]]
        self.target = self.node[each["target"][first]]
        time_ns = each["time_ns"][first]
        self.step_s = 1
        self.step = np.zeros(0, np.int64)
        if len(time_ns):
            seconds = (time_ns - time_ns.min()) // SECOND_NS
            self.step_s = 1 + int(seconds.max()) // MOST_STEPS
            self.step = seconds // self.step_s


def _order(name: str) -> tuple[int, str, int, str]:
    """Schedulers and drivers first, then clients, then the others by their numbers."""
    word, _, rest = name.partition(" ")
    first = {"scheduler": 0, "driver": 0, "client": 1}.get(word, 2)
    number = 0
    if rest.isdecimal():
        number = int(rest)
    return first, word, number, rest


def _operations(traffic: Traffic) -> Iterator[Operation]:
    each = traffic.columns
    kinds = len(traffic.operations)
    counts = np.bincount(each["operation"], weights=each["count"], minlength=kinds)
    nbytes = np.bincount(each["operation"], weights=each["nbytes"], minlength=kinds)
    for number in np.lexsort((-counts, -nbytes)).tolist():
        if counts[number]:
            yield Operation(
                traffic.operations[number],
                int(counts[number]),
                int(nbytes[number]),
                float(counts[number] / counts.sum()),
                float(nbytes[number] / max(nbytes.sum(), 1)),
            )


def _pairs(table: _Table) -> Iterator[Pair]:
    nodes = len(table.names)
    pair = table.source * nodes + table.target
    counts = np.bincount(pair, minlength=nodes**2)
    nbytes = np.bincount(pair, weights=table.size, minlength=nodes**2)
    for number in np.flatnonzero(counts).tolist():
        source, target = divmod(number, nodes)
        names = table.names[source], table.names[target]
        yield Pair(*names, int(counts[number]), int(nbytes[number]))


def _nodes(table: _Table) -> Iterator[Node]:
    steps = int(table.step.max(initial=-1)) + 1
    for number, name in enumerate(table.names):
        sends = table.source == number
        receives = table.target == number
        if not sends.any() and not receives.any():
            continue
        yield Node(
            name,
            int(sends.sum()),
            int(table.size[sends].sum()),
            int(receives.sum()),
            int(table.size[receives].sum()),
            _by_step(table, sends, steps),
            _by_step(table, receives, steps),
        )


def _by_step(table: _Table, chosen: npt.NDArray[np.bool_], steps: int) -> tuple[int, ...]:
    sums = np.bincount(table.step[chosen], weights=table.size[chosen], minlength=steps)
    return tuple(sums.astype(np.int64).tolist())


def _sizes(size: Ints) -> Iterator[Size]:
    powers = np.ceil(np.log2(size + 1.0)).astype(np.int64)
    for power in np.unique(powers).tolist():
        chosen = powers == power
        yield Size(2**power, int(chosen.sum()), int(size[chosen].sum()))


def _heartbeats(traffic: Traffic, table: _Table) -> Iterator[Heartbeat]:
    for name in HEARTBEATS:
        if name not in traffic.operations:
            continue
        requests = _rows(traffic, name)
        replies = _rows(traffic, f"reply:{name}")
        senders = table.node[traffic.columns["source"][requests]]
        receivers = table.node[traffic.columns["target"][replies]]
        for number in np.unique(senders).tolist():
            own = requests[senders == number]
            answers = replies[receivers == number]
            times_s = np.sort(traffic.columns["time_ns"][own]) / SECOND_NS
            request_nbytes = _spread(traffic.columns["nbytes"][own])
            assert request_nbytes is not None
            yield Heartbeat(
                table.names[number],
                name,
                int(traffic.columns["count"][own].sum()),
                _spread(np.diff(times_s)),
                request_nbytes,
                _spread(traffic.columns["nbytes"][answers]),
            )


def _rows(traffic: Traffic, operation: str) -> Ints:
    if operation not in traffic.operations:
        return np.zeros(0, np.int64)
    return np.flatnonzero(traffic.columns["operation"] == traffic.operations.index(operation))


def _spread(values: npt.NDArray[Any]) -> Spread | None:
    if not len(values):
        return None
    return Spread(float(np.median(values)), float(values.min()), float(values.max()))


def _transfers(traffic: Traffic) -> Iterator[Transfer]:
    told: Sequence[dict[str, Any]] = traffic.meta.get("transfers", ())
    for one in sorted(told, key=lambda one: int(one["start_ns"])):
        yield Transfer(
            traffic.node_of(one["source"]),
            traffic.node_of(one["target"]),
            one["start_ns"],
            one["end_ns"],
            one["nbytes"],
            tuple(one["keys"]),
        )
