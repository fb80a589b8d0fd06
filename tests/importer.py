"""What Perfetto's importer of JSON traces makes of a file; a rule that the file breaks is an
assertion.

No importer runs here: its program comes as a download of its own. What it demands is written down
instead, after the trace event format and Perfetto's own importer: members and their types, times
that it multiplies and cuts off, a stack of slices per thread, threads found by their number alone.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

COLOUR_NAMES = {"terrible", "startup"}
"Of the names of colours that the format reserves, those in use."


class Slice(NamedTuple):
    """What the importer makes of a complete event."""

    name: str
    category: str
    start_ns: int
    end_ns: int
    args: dict[str, Any]


class Importer:
    """Reads a file as Perfetto does; a rule that is broken is an assertion."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        self.text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("ascii")
        assert not any((ord(c) < 32 and c != "\n") or ord(c) == 127 for c in self.text)
        page = json.loads(self.text, parse_float=Decimal, parse_constant=_refuse)
        assert self.text.startswith("{"), "else the importer looks for an array"
        assert page["displayTimeUnit"] == "ms", (
            "with ns, older importers take all times for nanoseconds"
        )
        self.processes: dict[int, str] = {}
        self.threads: dict[int, tuple[int, str]] = {}
        self.order: dict[tuple[str, int], int] = {}
        self.slices: dict[int, list[Slice]] = defaultdict(list)
        self.counters: dict[str, list[tuple[int, dict[str, float]]]] = defaultdict(list)
        self.about = page["otherData"]
        for event in page["traceEvents"]:
            self._take(event)
        for slices in self.slices.values():
            _require_nested(sorted(slices, key=lambda s: s.start_ns))

    def _take(self, event: dict[str, Any]) -> None:
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["ph"], str)
        assert all(type(event[key]) is int and 0 < event[key] < 2**32 for key in ("pid", "tid"))
        assert isinstance(event.get("args", {}), dict)
        assert all(not isinstance(value, dict | list) for value in event.get("args", {}).values())
        {"M": self._take_metadata, "X": self._take_complete, "C": self._take_counter}[event["ph"]](
            event
        )

    def _take_metadata(self, event: dict[str, Any]) -> None:
        what, _, member = event["name"].partition("_")
        number = event[{"process": "pid", "thread": "tid"}[what]]
        if member == "sort_index":
            assert type(event["args"]["sort_index"]) is int
            self.order[what, number] = event["args"]["sort_index"]
        else:
            assert member == "name"
            assert event["args"]["name"], "an empty name is passed over"
            names: dict[int, Any] = self.processes if what == "process" else self.threads
            assert number not in names, "the later of two names would win"
            names[number] = (
                (event["pid"], event["args"]["name"]) if what == "thread" else event["args"]["name"]
            )

    def _take_complete(self, event: dict[str, Any]) -> None:
        assert isinstance(event["cat"], str)
        assert self.threads[event["tid"]][0] == event["pid"], "a thread lives in one process"
        assert event.get("cname", "terrible") in COLOUR_NAMES
        start, duration = _nanoseconds(event["ts"]), _nanoseconds(event["dur"])
        found = Slice(event["name"], event["cat"], start, start + duration, event.get("args", {}))
        self.slices[event["tid"]].append(found)

    def _take_counter(self, event: dict[str, Any]) -> None:
        assert event["args"]
        values = {key: float(value) for key, value in event["args"].items()}
        assert all(math.isfinite(value) and value >= 0 for value in values.values())
        self.counters[event["name"]].append((_nanoseconds(event["ts"]), values))

    def slot(self, tid: int) -> str:
        pid, thread = self.threads[tid]
        return f"{self.processes[pid]}/{thread.partition(' (overlap')[0]}"


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def _nanoseconds(value: Any) -> int:
    """A time as importers read it: as a number of floating point or digit by digit, both cut off
    after nanoseconds.
    """
    assert isinstance(value, int | Decimal)
    assert not isinstance(value, bool)
    as_number, as_digits = int(float(value) * 1000), int(Decimal(value) * 1000)
    assert as_number == as_digits >= 0
    return as_digits


def _require_nested(slices: list[Slice]) -> None:
    """The importer's stack of open slices: one that begins in another and ends after it would be
    dropped.
    """
    stack: list[Slice] = []
    for each in slices:
        while stack and stack[-1].end_ns <= each.start_ns:
            stack.pop()
        assert not stack or each.end_ns <= stack[-1].end_ns, (each, stack[-1])
        stack.append(each)
