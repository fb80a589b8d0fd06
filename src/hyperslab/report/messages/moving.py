"""Moving: when values went from worker to worker, and how fast between which, in few numbers that
are kept with a trace for its verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hyperslab.trace import Trace
from hyperslab.traffic import Traffic

META = "transfers"
"Name of these numbers in the metadata of a trace."
JOINED_NS = 1_000_000
"Time between two transfers that is not worth an interval of its own."


def moving(traffic: Traffic, trace: Trace) -> dict[str, Any]:
    """Intervals of the trace's clock in which transfers were under way, and bytes and seconds of
    each pair of workers; nothing where there were none, or no clock to compare.
    """
    told: Sequence[dict[str, Any]] = traffic.meta.get("transfers", ())
    anchor = trace.meta.get("wall_anchor")
    if not told or anchor is None:
        return {}
    shift_ns = anchor["monotonic_ns"] - anchor["time_ns"]
    intervals: list[list[int]] = []
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for one in sorted(told, key=lambda one: int(one["start_ns"])):
        start_ns = one["start_ns"] + shift_ns
        end_ns = one["end_ns"] + shift_ns
        if intervals and start_ns <= intervals[-1][1] + JOINED_NS:
            intervals[-1][1] = max(intervals[-1][1], end_ns)
        else:
            intervals.append([start_ns, end_ns])
        pair = sums[traffic.node_of(one["source"]), traffic.node_of(one["target"])]
        pair[0] += one["nbytes"]
        pair[1] += (end_ns - start_ns) / 1e9
    return {
        "intervals": intervals,
        "pairs": [[*nodes, nbytes, seconds] for nodes, (nbytes, seconds) in sums.items()],
    }
