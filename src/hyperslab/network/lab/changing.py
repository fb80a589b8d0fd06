"""Changing of links while something goes over them."""

from __future__ import annotations

from dataclasses import replace

from hyperslab.errors import UsageError
from hyperslab.network.lab import registry, wiring
from hyperslab.network.lab.backends.choosing import BACKENDS, require_possible
from hyperslab.network.lab.cutting import with_cut
from hyperslab.network.lab.link import Direction, Link
from hyperslab.network.lab.namespaces import LabFailed
from hyperslab.network.lab.registry import Lab, Node
from hyperslab.network.lab.spec import OneWay


def change(lab: Lab, node: str, said: OneWay, direction: Direction | None = None) -> Lab:
    """The same laboratory, with another link of a node from now on: what is not said stays, and
    what is under way arrives as it would have. What was measured of the node is dropped.

    Without a direction, a rate is that of both, and all else is of what the node sends. Raises
    UsageError for what no link, or none of this backend, can be like.
    """
    with registry.locked():
        lab = registry.find(lab.name)
        changed = _changed(lab[node], said, direction)
        for link in (changed.up, changed.down):
            if problem := link.problem():
                raise UsageError(f"{node}: {problem}")
            _require_possible(lab, link)
        require_up(lab)
        measured = tuple(one for one in lab.measured if one.node != node)
        lab = replace(lab, measured=measured)
        registry.record(lab)
        with wiring.refusals_told():
            lab = with_cut(lab, lab.with_node(changed).links).with_node(changed)
            BACKENDS[lab.backend].shape(lab, changed)
        registry.record(lab)
    return lab


def _require_possible(lab: Lab, link: Link) -> None:
    """Raise UsageError where the backend cannot make a link, and name those that can."""
    try:
        require_possible(lab, link)
    except UsageError as error:
        able = [f'"{name}"' for name, one in BACKENDS.items() if not one.refusal(link, "exact")]
        if not able:
            raise
        backends = " or ".join(able)
        raise UsageError(f"{error}; make it anew with backend = {backends}") from error


def _changed(node: Node, said: OneWay, direction: Direction | None) -> Node:
    match direction:
        case "up":
            return replace(node, up=said.over(node.up))
        case "down":
            return replace(node, down=said.over(node.down))
        case None:
            rate = OneWay(rate=said.rate)
            return replace(node, up=said.over(node.up), down=rate.over(node.down))


def require_up(lab: Lab) -> None:
    """Raise LabFailed where a laboratory is not there, or not as it was made."""
    state = registry.state_of(lab)
    remedy = f"'hyperslab netlab down {lab.name}' takes away what is left"
    if state == "making":
        raise LabFailed(f"'{lab.name}' is being made: wait until it is measured")
    if state == "broken":
        nodes = ", ".join(registry.missing(lab))
        raise LabFailed(f"'{lab.name}' has lost {nodes}: {remedy}")
    if state in ("half-made", "gone"):
        raise LabFailed(f"'{lab.name}' is {state}: {remedy}")
    if trouble := BACKENDS[lab.backend].trouble(lab):
        raise LabFailed(f"the links of '{lab.name}' do not work: {trouble}; {remedy}")
