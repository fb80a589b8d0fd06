"""Links between real namespaces are as slow, distant and lossy as they were asked to be.

Lower bounds of times are exact. Upper ones leave room for a machine that is busy with other things.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.network.links.namespaces import within
from tests.network.links.switched import (
    MS,
    Switched,
    round_trips_s,
)
from tests.network.links.traffic import datagrams, pumping

MBIT = 1_000_000
CAUSES = {"loss", "queue", "tap", "memory", "malformed"}


def drops(report: Any) -> dict[str, int]:
    """Packets that were not carried, by their cause, on all links together."""
    links = [link for port in report["ports"].values() for link in port.values()]
    return {cause: sum(link["drops"][cause] for link in links) for cause in CAUSES}


def test_delays_of_both_nodes_add_up(either: Switched) -> None:
    plain = min(round_trips_s(either, 20))
    either.set(0, up={"delay_ns": 5 * MS})
    either.set(1, up={"delay_ns": 3 * MS}, down={"delay_ns": 2 * MS})
    assert 0.010 <= min(round_trips_s(either, 20)) < 0.015 + plain


def test_a_rate_is_kept(either: Switched) -> None:
    either.set(0, up={"rate_bits": 50 * MBIT})
    before = either.get()
    with pumping(either) as pump:
        rate = pump.rate_bits(1.0)
    after = either.get()
    carried = after["ports"]["n0"]["up"]["bytes"] - before["ports"]["n0"]["up"]["bytes"]
    elapsed_s = (after["time_ns"] - before["time_ns"]) / 1e9
    assert carried * 8 <= 50 * MBIT * (elapsed_s + 0.06), "the queue is of 50 ms"
    assert 30 * MBIT < rate < 55 * MBIT


def test_the_link_down_of_a_node_is_one_of_its_own(exact: Switched) -> None:
    exact.set(1, down={"rate_bits": 5 * MBIT})
    with pumping(exact) as pump:
        assert pump.rate_bits(0.5) < 8 * MBIT
    with pumping(exact, source=1, target=0) as pump:
        assert pump.rate_bits(0.5) > 20 * MBIT


def test_a_link_changes_while_something_runs(either: Switched) -> None:
    either.set(0, up={"rate_bits": 5 * MBIT})
    with pumping(either) as pump:
        slow = pump.rate_bits(0.5)
        either.set(0, up={"rate_bits": 100 * MBIT})
        time.sleep(0.2)
        assert pump.rate_bits(0.5) > 3 * slow


def test_jitter_keeps_the_order(exact: Switched) -> None:
    exact.set(0, up={"delay_ns": 5 * MS, "jitter_ns": 4 * MS})
    before = exact.get()
    arrived = datagrams(exact, 1_000, gap_s=1e-4)
    assert arrived == list(range(1_000))
    overtakings = out_of_order(exact, 1)
    with pumping(exact, room=1 << 16) as pump:
        time.sleep(0.5)
    assert pump.arrived_nbytes > 1 << 18
    assert drops(exact.get()) == drops(before)
    assert out_of_order(exact, 1) == overtakings


def out_of_order(one: Switched, node: int) -> int:
    """Segments that a node has received before those in front of them."""
    shown = within(one.nodes[node], Path("/proc/thread-self/net/netstat").read_text)
    names, numbers = [line.split() for line in shown.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(names, numbers, strict=True))["TCPOFOQueue"])
