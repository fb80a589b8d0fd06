"""Making of laboratories: none is used whose links are not what was asked for."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Network

from hyperslab.errors import UsageError
from hyperslab.machine.host import boot_id
from hyperslab.network.lab import addresses, namespaces, registry, wiring
from hyperslab.network.lab.addresses import numbered
from hyperslab.network.lab.backends.choosing import BACKENDS, choose, require_means
from hyperslab.network.lab.calibration import calibrate
from hyperslab.network.lab.cutting import with_cut
from hyperslab.network.lab.link import mode_for
from hyperslab.network.lab.registry import SOURCE, SWITCH, Lab, Node
from hyperslab.network.lab.removing import remove
from hyperslab.network.lab.spec import LabSpec

_SWITCH_NUMBER = 1
"Number of the switch's address in the laboratory's network; those of the nodes follow."


def make(spec: LabSpec) -> Lab:
    """Make a laboratory that stays until it is removed. Raises UsageError where there can be none,
    and LabFailed where a link is not what was asked for: all is removed again.
    """
    lab = _made(spec)
    finished = replace(lab, owner=None, owner_started=None)
    registry.record(finished)
    return finished


@contextmanager
def laboratory(spec: LabSpec) -> Iterator[Lab]:
    """A laboratory, as long as the block lasts. Raises UsageError and LabFailed as `make` does."""
    lab = _made(spec)
    try:
        yield lab
    finally:
        remove(lab)


def _made(spec: LabSpec) -> Lab:
    """A laboratory of this process, measured."""
    require_means()
    with registry.locked():
        lab = _planned(spec)
        registry.record(lab)
    try:
        _build(lab)
        with wiring.refusals_told():
            lab = with_cut(lab, lab.links)
            measured = calibrate(lab)
        lab = replace(lab, measured=measured, is_complete=True)
        registry.record(lab)
    except BaseException:
        remove(lab)
        raise
    return lab


def _planned(spec: LabSpec) -> Lab:
    """A laboratory of which there is nothing yet. Raises UsageError."""
    name = spec.name or f"lab-{secrets.token_hex(3)}"
    _require_new(name)
    links = [link for one in spec.nodes.values() for link in (one.up_link(), one.down_link())]
    mode = spec.mode or mode_for(links)
    backend = choose(spec.backend, links, mode)
    network = _network(spec)
    nodes = []
    for number, (node_name, one) in enumerate(spec.nodes.items(), start=_SWITCH_NUMBER + 1):
        address = numbered(network, number)
        node = Node(
            name=node_name,
            role=spec.role(node_name),
            address=address,
            hardware_address=_hardware_address(address),
            up=one.up_link(),
            down=one.down_link(),
        )
        nodes.append(node)
    switch_address = numbered(network, _SWITCH_NUMBER)
    planned = Lab(
        name=name,
        folder=str(registry.folder() / name),
        backend=backend,
        mode=mode,
        seed=spec.seed,
        tolerance=spec.tolerance,
        network=str(network),
        switch_address=switch_address,
        switch_hardware_address=_hardware_address(switch_address),
        nodes=tuple(nodes),
        made_ns=time.time_ns(),
        boot=boot_id(),
        mounts=registry.mounts_here(),
        owner=None,
        owner_started=None,
    )
    return registry.owned(planned)


def _require_new(name: str) -> None:
    """Raise UsageError where there is a laboratory of that name, or something left of one."""
    for lab in registry.recorded():
        if lab.name != name:
            continue
        state = registry.state_of(lab)
        told = {"up": "is up", "making": "is being made"}.get(state, f"was left here, {state}")
        raise UsageError(
            f"a laboratory '{name}' {told}: 'hyperslab netlab down {name}' takes it away, or give"
            " the new one another name"
        )


def _network(spec: LabSpec) -> IPv4Network:
    taken = [*addresses.of_host(), *registry.networks()]
    if spec.network is None:
        return addresses.choose(taken)
    network = IPv4Network(spec.network)
    addresses.require_free(network, taken)
    return network


def _hardware_address(address: str) -> str:
    """An address of a device that is administered locally, and holds that of the node."""
    numbers = "".join(f":{int(part):02x}" for part in address.split("."))
    return f"02:00{numbers}"


def _build(lab: Lab) -> None:
    """Make all parts of a laboratory, with links that nobody limits yet."""
    namespaces.mount(lab.place, SOURCE + lab.name)
    (lab.place / namespaces.HOSTS).write_text(_hosts(lab))
    for name in (SWITCH, *(node.name for node in lab.nodes)):
        namespaces.make(lab.place, name)
    wiring.still(lab)
    with wiring.refusals_told():
        BACKENDS[lab.backend].start(lab)


def _hosts(lab: Lab) -> str:
    """The file of names that nodes read."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{node.address} {node.name}" for node in lab.nodes]
    return "".join(f"{line}\n" for line in lines)
