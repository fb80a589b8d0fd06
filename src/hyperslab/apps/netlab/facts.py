"""Facts: what the provenance of a run says of the laboratory that it ran in."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hyperslab.driver.submission import SURROUNDINGS
from hyperslab.network.lab.link import LEAST_QUEUE, QUEUE_NS
from hyperslab.network.lab.registry import Lab, Node
from hyperslab.units import show_seconds

QUEUES = (
    f"what would wait longer than {show_seconds(QUEUE_NS / 1e9)} for its turn, and for more than"
    f" {LEAST_QUEUE} full packets, is dropped"
)
"Rule of the queues of all links that have a rate."


def facts_of(lab: Lab) -> dict[str, str]:
    """Laboratory, backend and links, asked for and measured, in words."""
    return {
        "network": f"laboratory '{lab.name}' on this host, backend {lab.backend}, {lab.mode}",
        "queues": QUEUES,
        "links": "; ".join(_words(lab, node) for node in lab.nodes),
    }


def _words(lab: Lab, node: Node) -> str:
    own = [f"{one.what} {one.show_value()}" for one in lab.measured if one.node == node.name]
    measured = f" (measured: {', '.join(own)})" if own else ""
    return f"{node.name} sends {node.up.words()}, receives {node.down.words()}{measured}"


def variables(lab: Lab) -> Mapping[str, str]:
    """Variables by which a run hears of its laboratory."""
    return {SURROUNDINGS: json.dumps(facts_of(lab))}
