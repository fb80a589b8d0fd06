"""Which nodes and links of a cluster stand out, by what was measured between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations

import pytest

from hyperslab.machine.links import Network, Odd, Pair, Serialising, standing_out

MB = 1e6
NODES = ("client", "scheduler", "worker a", "worker b", "worker c")


def pairs(
    sends: Mapping[str, float] = {},
    receives: Mapping[str, float] = {},
    far_s: Mapping[str, float] = {},
    nodes: tuple[str, ...] = NODES,
) -> list[Pair]:
    """A star: a link is as fast as the slower of its ends, and as long as both together."""

    def rate(source: str, target: str) -> float:
        return min(sends.get(source, 100 * MB), receives.get(target, 100 * MB))

    def trip_s(one: str, other: str) -> float:
        return 0.0002 + far_s.get(one, 0.0) + far_s.get(other, 0.0)

    return [
        Pair(one, other, (trip_s(one, other),), (rate(one, other),), (rate(other, one),))
        for one, other in combinations(nodes, 2)
        if "client" not in (one, other) or "scheduler" in (one, other)
    ]


def test_nothing_stands_out_of_links_that_are_even() -> None:
    assert standing_out(pairs()) == []
    uneven = {"worker a": 40 * MB, "worker b": 70 * MB, "scheduler": 250 * MB}
    assert standing_out(pairs(uneven)) == []


@pytest.mark.parametrize("node", ["scheduler", "worker a", "worker c", "client"])
def test_a_slow_node_is_named_in_its_direction(node: str) -> None:
    (odd,) = standing_out(pairs(sends={node: 5 * MB}))
    assert (odd.nodes[0], odd.way, odd.value) == (node, "sends", 5 * MB)
    assert odd.times == pytest.approx(20)
    both = standing_out(pairs({node: 5 * MB}, {node: 10 * MB}))
    assert {node for odd in both for node in odd.nodes} <= {node, "scheduler"}
    assert [odd.value for odd in both] == [5 * MB, 10 * MB], "the worst first"


def test_two_workers_are_enough() -> None:
    few = NODES[:-1]
    (odd,) = standing_out(pairs(receives={"worker b": 5 * MB}, nodes=few))
    assert (odd.nodes, odd.way) == (("worker b",), "receives")
    assert standing_out(pairs(sends={"worker a": 5 * MB}, nodes=NODES[:3])) == []


def test_a_distant_node_is_named_and_is_not_called_slow_as_well() -> None:
    (odd,) = standing_out(pairs({"worker b": 8 * MB}, far_s={"worker b": 0.02}))
    assert (odd.nodes, odd.way) == (("worker b",), "distance")
    assert (odd.value, odd.usual) == pytest.approx((0.0202, 0.0002))
    assert standing_out(pairs(far_s={"worker b": 0.0008})) == [], "less than a processor adds"
    everyone = dict.fromkeys(NODES, 0.05)
    assert standing_out(pairs(far_s=everyone)) == [], "all are as far"


def test_a_link_that_is_worse_than_its_ends_is_named_alone() -> None:
    known = {pair.nodes: pair for pair in pairs()}
    slow = Pair("worker a", "worker c", (0.0002,), (4 * MB,), (100 * MB,))
    (odd,) = standing_out([*({**known, slow.nodes: slow}).values()])
    assert odd == Odd(("worker a", "worker c"), "sends", 4 * MB, 100 * MB)
    far = Pair("worker a", "worker c", (0.03,), (100 * MB,), (100 * MB,))
    (odd,) = standing_out([*({**known, far.nodes: far}).values()])
    assert (odd.nodes, odd.way) == (("worker a", "worker c"), "distance")


def test_the_best_of_several_measurements_counts() -> None:
    slow = Pair("worker a", "worker b", (0.1, 0.0003), (2 * MB,), (3 * MB,))
    again = slow.again(Pair("worker a", "worker b", (0.0002,), (90 * MB,), (2 * MB, 95 * MB)))
    others = [pair for pair in pairs() if pair.nodes != slow.nodes]
    assert again.round_trip_s == 0.0002
    assert standing_out([*others, slow])
    assert standing_out([*others, again]) == []


def test_a_record_comes_back_from_json() -> None:
    network = Network(
        "tcp://10.0.0.1:8786", 1.0, 2.0, 3, NODES, (*pairs(),), {"client": Serialising(1.0, 2.0)}
    )
    assert Network.from_json(json.loads(json.dumps(asdict(network)))) == network
