"""What Spark's event log says of bytes that went between its processes.

It names the executor that read or wrote, and not whom it read from: what it fetched for a shuffle
is from 'other executors', and pieces of a broadcast are from 'driver or peers'. It has no single
messages; each entry here is what a task, or a piece, has moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hyperslab.traffic import Message, Traffic

OTHERS, DRIVER_OR_PEERS, DRIVER = "other executors", "driver or peers", "driver"
SETTINGS = {"spark.eventLog.logBlockUpdates.enabled": "true"}
"Settings with which the log also tells of pieces of broadcasts."
_TASK_END = '{"Event":"SparkListenerTaskEnd"'
_BLOCK = '{"Event":"SparkListenerBlockUpdated"'
_PIECE = "broadcast_"


def logged(folder: Path) -> Traffic:
    """Read the event logs of a run."""
    found = [message for path in sorted(folder.iterdir()) for message in _messages(path)]
    names = {name for message in found for name in (message.source, message.target)}
    return Traffic.of(found, "logged", {"nodes": {name: name for name in sorted(names)}})


def _messages(path: Path) -> Iterator[Message]:
    time_ns = 0
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("}\n"):  # Java may be killed
                return
            if line.startswith(_TASK_END):
                event = json.loads(line)
                time_ns = event["Task Info"]["Finish Time"] * 10**6
                yield from _of_task(event, time_ns)
            elif line.startswith(_BLOCK):
                yield from _of_block(json.loads(line)["Block Updated Info"], time_ns)


def _of_task(event: Mapping[str, Any], time_ns: int) -> Iterator[Message]:
    own = _name(event["Task Info"]["Executor ID"])
    metrics = event.get("Task Metrics") or {}  # a task that was lost has none
    read = metrics.get("Shuffle Read Metrics") or {}
    written = metrics.get("Shuffle Write Metrics") or {}
    moved = (
        (OTHERS, own, "shuffle-read", read.get("Remote Bytes Read", 0)),
        (own, own, "shuffle-read-local", read.get("Local Bytes Read", 0)),
        (own, own, "shuffle-write", written.get("Shuffle Bytes Written", 0)),
        (own, DRIVER, "result", metrics.get("Result Size", 0)),
    )
    for source, target, operation, nbytes in moved:
        if nbytes:
            yield Message(time_ns, source, target, ((operation, 1),), nbytes, "sent")


def _of_block(told: Mapping[str, Any], time_ns: int) -> Iterator[Message]:
    """A piece of a broadcast that has come to an executor; times are those of the task before it,
    as such an entry has none.
    """
    own = _name(told["Block Manager ID"]["Executor ID"])
    nbytes = told["Memory Size"] + told["Disk Size"]
    is_piece = told["Block ID"].startswith(_PIECE) and "_piece" in told["Block ID"]
    if is_piece and nbytes and own != DRIVER:
        operations = (("broadcast", 1),)
        yield Message(time_ns, DRIVER_OR_PEERS, own, operations, nbytes, "sent")


def _name(executor: str) -> str:
    if executor == DRIVER:
        return DRIVER
    return f"executor {executor}"
