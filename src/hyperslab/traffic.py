"""Message and Traffic: what the processes of a cluster have said to each other.

A message names an operation, or several where a stream sends them in a batch; an answer names none,
and is called after what was asked on its connection. Whoever sees a message, a recorder inside of a
process or a decoder of packets, takes from it what it names (`said_by`), and has a `Conversation`
name it, so that both count alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hyperslab.columns import number_column, places_of, word_column
from hyperslab.parquet import KEY, load_versioned

TRAFFIC_VERSION = 1
FILE = "messages.parquet"
"Name of the file that lies beside the trace of a run."

HANDSHAKE, ACK, UNDECODABLE = "handshake", "ack", "undecodable"
"Names of messages that are no operation: two ends agree; data have arrived; nobody could read it."
_UNASKED = "unknown"
"Name of a question that nobody has seen."
_DATA = "get_data"
_BATCHES = (list, tuple)
"What a stream sends its messages in."

Kind = Literal["sent", "received"]
Said = tuple[str, ...]
"Operations that a message names, in their order; or HANDSHAKE or ACK alone; () for an answer."
Operations = tuple[tuple[str, int], ...]
"Names of a message, each with how often it occurs in it."


class Message(NamedTuple):
    """One message, as one end of its connection has seen it."""

    time_ns: int
    "Wall clock of the host that saw it."
    source: str
    "Address of the end that sent it, as IP:PORT."
    target: str
    operations: Operations
    nbytes: int
    "Size with its frames' lengths, and without what TCP, IP and TLS add; 0 inside of a process."
    kind: Kind


def said_by(message: Any) -> Said:
    """What a message names, of what Dask's `comm.write` is given or `comm.read` returns."""
    if isinstance(message, dict):
        operation = message.get("op")
        if isinstance(operation, str):
            return (operation,)
        if "pickle-protocol" in message:
            return (HANDSHAKE,)
        return ()
    if isinstance(message, _BATCHES):
        return _said_in_batch(message)
    if isinstance(message, str) and message == "OK":
        return (ACK,)
    return ()


def _said_in_batch(parts: Iterable[Any]) -> Said:
    said: list[str] = []
    for part in parts:  # a generator takes twice as long
        if isinstance(part, dict):
            operation = part.get("op")
            if isinstance(operation, str):
                said.append(operation)
    return tuple(said)


class Conversation:
    """The messages of one connection, each named by itself or by what it answers."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = {True: "", False: ""}

    def named(self, said: Said, by_first: bool) -> Operations:
        """Names of a message that an end has sent: the first of the two, or the other one."""
        if len(said) > 1:
            self._last[by_first] = said[-1]
            return _counted(said)
        if not said or said[0] == ACK:
            return self._answer(said, by_first)
        if said[0] == HANDSHAKE:
            return ((HANDSHAKE, 1),)
        self._last[by_first] = said[0]
        return ((said[0], 1),)

    def _answer(self, said: Said, by_first: bool) -> Operations:
        if said and self._last[by_first] == _DATA:
            return ((ACK, 1),)
        asked = self._last[not by_first] or self._last[by_first] or _UNASKED
        return ((f"reply:{asked}", 1),)


def _counted(said: Said) -> Operations:
    counts: dict[str, int] = {}  # a Counter takes three times as long for a few
    for name in said:
        counts[name] = counts.get(name, 0) + 1
    return tuple(counts.items())


@dataclass(slots=True, eq=False)
class Traffic:
    """Messages as columns: a row for every operation of every message."""

    columns: dict[str, Any]
    """Arrays of NumPy by name: time_ns; message, a number; source and target, places in
    `addresses`; operation, a place in `operations`; count, how often it occurs in the message;
    nbytes, its portion of the message; is_sent, whether the end that sent it says so.
    """
    addresses: list[str]
    operations: list[str]
    origin: str = "recorded"
    "recorded, inside of processes; captured, from packets; or logged, by an engine."
    meta: dict[str, Any] = field(default_factory=dict)
    "nodes: names of processes by address; what was lost; what a capture holds beside messages."

    def __repr__(self) -> str:
        return f"<hyperslab.Traffic: {len(self):,} messages, {self.origin}>"

    def __len__(self) -> int:
        import numpy as np

        return len(np.unique(self.columns["message"]))

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        origin: str = "recorded",
        meta: dict[str, Any] | None = None,
    ) -> Traffic:
        """Put messages into columns."""
        import numpy as np

        listed = list(messages)
        addresses: dict[str, int] = {}
        operations: dict[str, int] = {}
        message, part = _parts([one.operations for one in listed], operations)
        source = _placed([one.source for one in listed], addresses)
        target = _placed([one.target for one in listed], addresses)
        nbytes = np.array([one.nbytes for one in listed], np.int64)
        found = {
            "time_ns": np.array([one.time_ns for one in listed], np.int64)[message],
            "message": message,
            "source": source[message],
            "target": target[message],
            "operation": part["operation"],
            "count": part["count"],
            "nbytes": _portion(nbytes[message], part),
            "is_sent": np.array([one.kind == "sent" for one in listed], bool)[message],
        }
        columns = {name: found[name].astype(dtype) for name, dtype in _COLUMNS.items()}
        return cls(columns, list(addresses), list(operations), origin, meta or {})

    def seen_once(self) -> Traffic:
        """The same without what both ends of a connection have seen: of each direction, what the
        end says that could name more of it, or else that has seen more of it. A recorder that
        begins while its process waits for a question can only call the answer unknown.
        """
        import numpy as np

        each = self.columns
        first = np.unique(each["message"], return_index=True)[1]
        direction = each["source"].astype(np.int64) * len(self.addresses) + each["target"]
        places, numbers = np.unique(direction, return_inverse=True)
        of_first = numbers[first]
        is_sent = each["is_sent"][first]
        is_named = ~np.isin(each["operation"][first], self._unnamed())

        def seen(by_one_end: Any) -> Any:
            return np.bincount(of_first, weights=by_one_end, minlength=len(places))

        named_more = seen(is_sent & is_named) - seen(~is_sent & is_named)
        seen_more = seen(is_sent) - seen(~is_sent)
        takes_sent = np.where(named_more != 0, named_more > 0, seen_more >= 0)
        return self.where(each["is_sent"] == takes_sent[numbers])

    def _unnamed(self) -> list[int]:
        """Places of the operations that say that nothing is known of a message."""
        known = enumerate(self.operations)
        return [place for place, name in known if name in (UNDECODABLE, f"reply:{_UNASKED}")]

    def where(self, chosen: Any) -> Traffic:
        """The rows for which an array is true."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return replace(self, columns=columns)

    def node_of(self, address: str) -> str:
        """Name of the process at an address, or the host of one that nobody has named."""
        nodes: dict[str, str] = self.meta.get("nodes", {})
        if address in nodes:
            return nodes[address]
        return address.rpartition(":")[0] or address

    def save(self, path: Path) -> None:
        """Write the rows as Parquet (zstd), everything else as JSON in the file's metadata."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        about = {"version": TRAFFIC_VERSION, "origin": self.origin, "meta": self.meta}
        each = self.columns
        table = pa.table(
            {
                "time_ns": number_column(each["time_ns"], pa.int64()),
                "message": number_column(each["message"], pa.int64()),
                "source": word_column(each["source"], self.addresses),
                "target": word_column(each["target"], self.addresses),
                "operation": word_column(each["operation"], self.operations),
                "count": number_column(each["count"], pa.int32()),
                "nbytes": number_column(each["nbytes"], pa.int64()),
                "kind": word_column(each["is_sent"].astype("i4"), ["received", "sent"]),
            }
        )
        told = table.replace_schema_metadata({KEY: json.dumps(about)})
        with path.open("wb") as file:  # Arrow takes no path that is not UTF-8
            pq.write_table(told, file, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> Traffic:
        """Read back what `save` wrote. Raises ValueError for messages of a newer version."""
        table, about = load_versioned(path, "traffic", TRAFFIC_VERSION)
        columns = {name: table[name].to_numpy() for name in _PLAIN}
        addresses: dict[str, int] = {}
        operations: dict[str, int] = {}
        columns["source"] = places_of(table["source"], addresses)
        columns["target"] = places_of(table["target"], addresses)
        columns["operation"] = places_of(table["operation"], operations)
        kinds = {"received": 0, "sent": 1}
        columns["is_sent"] = places_of(table["kind"], kinds).astype(bool)
        origin, meta = about["origin"], about["meta"]
        return cls(columns, list(addresses), list(operations), origin, meta)


def _placed(values: Iterable[Any], known: dict[Any, int]) -> Any:
    """Places of values among those that are known, to which new ones are added."""
    import numpy as np

    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _parts(named: Iterable[Operations], operations: dict[str, int]) -> tuple[Any, Any]:
    """A row for each operation of each message: which message it is, and its operation, count, the
    count of those before it in the message, and that of all.
    """
    import numpy as np

    known: dict[Operations, int] = {}
    place = _placed(named, known)
    different: list[tuple[int, ...]] = []
    for one in known:
        total = sum(count for _, count in one)
        before = 0
        for name, count in one:
            operation = operations.setdefault(name, len(operations))
            different.append((operation, count, before, total))
            before += count
    lengths = np.array([len(one) for one in known], np.int64)
    begins = np.cumsum(lengths) - lengths
    rows = lengths[place]
    message = np.repeat(np.arange(len(place)), rows)
    within = np.arange(len(message)) - np.repeat(np.cumsum(rows) - rows, rows)
    return message, np.array(different, _PART)[begins[place][message] + within]


def _portion(nbytes: Any, part: Any) -> Any:
    """The bytes of messages, shared out evenly among their operations, for each name of these."""
    whole = nbytes // part["total"]  # no product is larger than the bytes
    rest = nbytes % part["total"]

    def upto(done: Any) -> Any:
        return whole * done + rest * done // part["total"]

    return upto(part["before"] + part["count"]) - upto(part["before"])


_PART = [("operation", "i8"), ("count", "i8"), ("before", "i8"), ("total", "i8")]
_COLUMNS = {
    "time_ns": "i8",
    "message": "i8",
    "source": "i4",
    "target": "i4",
    "operation": "i4",
    "count": "i4",
    "nbytes": "i8",
    "is_sent": "?",
}
_PLAIN = ("time_ns", "message", "count", "nbytes")
