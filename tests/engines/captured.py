"""Messages of recorders and of captures, to be compared."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator

from hyperslab.traffic import Traffic

Counts = dict[str, tuple[int, int]]
"Number and bytes of messages by operation."


def without_tcpdump() -> str:
    """Why nothing can be captured here; '' where it can."""
    if shutil.which("tcpdump") is None:
        return "there is no tcpdump here: install the Debian package tcpdump"
    if os.geteuid() != 0:
        return "captures are for root: run the tests as root"
    return ""


def directions_of(captured: Traffic) -> set[tuple[str, str]]:
    """Ends of connections, each way, that were captured whole."""
    return {
        (one["source"], one["target"])
        for one in captured.meta["directions"]
        if one["is_from_start"] and one["messages"] and not one["missing_nbytes"]
    }


def _rows(traffic: Traffic) -> Iterator[tuple[tuple[str, str], str, int, int]]:
    names = ("source", "target", "operation", "count", "nbytes")
    for source, target, operation, count, nbytes in zip(
        *(traffic.columns[name].tolist() for name in names), strict=True
    ):
        ends = (traffic.addresses[source], traffic.addresses[target])
        yield ends, traffic.operations[operation], count, nbytes


def ends_of(traffic: Traffic) -> set[tuple[str, str]]:
    """Sender and receiver of all messages."""
    return {ends for ends, *_ in _rows(traffic)}


def counts_of(traffic: Traffic, chosen: set[tuple[str, str]]) -> Counts:
    """Messages between these ends."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for ends, operation, count, nbytes in _rows(traffic):
        if ends in chosen:
            counts[operation] += count
            sizes[operation] += nbytes
    return {name: (counts[name], sizes[name]) for name in counts}
