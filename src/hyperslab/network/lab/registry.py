"""Registry: which laboratories are on this host, in a folder of root's.

A laboratory is written down before anything of it is made, so that none is there that nobody knows
of, whoever is killed when. What belongs to it is in its folder, and in the networks that files
there hold; nothing else is ever removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Literal, Self

from hyperslab.errors import UsageError, suggest
from hyperslab.machine.host import boot_id
from hyperslab.network.lab import namespaces
from hyperslab.network.lab.link import Link, Mode, Role
from hyperslab.network.lab.measured import MeasuredLink
from hyperslab.storage import ownfolder
from hyperslab.storage.emulation.registry import started_of
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_list

VARIABLE = "HYPERSLAB_NETLAB"
"Variable that may name another folder of records."
FOLDER = "/run/hyperslab-netlab"
SWITCH = "switch"
"Place of the laboratory that all links lead to."
SOURCE = "hyperslab-netlab-"
"Name of the file system of every laboratory's folder, before its own."
State = Literal["making", "up", "half-made", "abandoned", "broken", "gone"]
"""States of a laboratory: being made; there; left by a process that died while it made it; left by
one that died while it used it; there, without a node; no more there, as after a boot.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with both directions of its link."""

    name: str
    role: Role
    address: str
    hardware_address: str
    up: Link
    "What the node sends."
    down: Link
    "What the node receives."

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Node of a record."""
        up = Link.from_json(record.pop("up"))
        down = Link.from_json(record.pop("down"))
        return cls(**record, up=up, down=down)


@dataclass(frozen=True, slots=True)
class Lab:
    """A laboratory of links."""

    name: str
    folder: str
    "Directory that holds its namespaces."
    backend: str
    "What makes the links slow."
    mode: Mode
    seed: int
    tolerance: float
    network: str
    switch_address: str
    switch_hardware_address: str
    nodes: tuple[Node, ...]
    made_ns: int
    "Time at which it was asked for, which tells it from another one of its name."
    boot: str
    "Start of the system in which it was made."
    mounts: int
    "Number of the mount namespace in which it was made, where alone its folder may be seen."
    owner: int | None
    "Process that makes it, or uses it alone; None where it stays when that ends."
    owner_started: int | None
    "Time at which that process started, in clock ticks since the boot."
    is_complete: bool = False
    is_cut: bool = False
    "Whether nodes send single packets, since it was made or since a link was changed."
    measured: tuple[MeasuredLink, ...] = ()

    def __getitem__(self, name: str) -> Node:
        """The node of that name. Raises UsageError where there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = [node.name for node in self.nodes]
        raise UsageError(
            f"{name}: the laboratory '{self.name}' has no such node{suggest(name, names)}; it has"
            f" {show_list(names)}"
        )

    @property
    def place(self) -> Path:
        """The directory that holds its namespaces."""
        return Path(self.folder)

    @property
    def networks(self) -> list[Path]:
        """Files that hold the networks of all nodes, and that of the switch."""
        names = [SWITCH, *(node.name for node in self.nodes)]
        return [namespaces.network_file(self.place, name) for name in names]

    @property
    def links(self) -> list[Link]:
        """Both directions of all links."""
        return [link for node in self.nodes for link in (node.up, node.down)]

    def prefix(self, node: str) -> list[str]:
        """Words that, before those of a command, have it run in a node. Raises UsageError."""
        return namespaces.prefix(self.place, self[node].name)

    def with_node(self, changed: Node) -> Lab:
        """The same laboratory, with another node of that name."""
        nodes = tuple(changed if one.name == changed.name else one for one in self.nodes)
        return replace(self, nodes=nodes)

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Laboratory of such a record."""
        fields = dict(record)
        nodes = tuple(map(Node.from_json, fields.pop("nodes")))
        measured = tuple(MeasuredLink(**one) for one in fields.pop("measured"))
        return cls(**fields, nodes=nodes, measured=measured)


def folder() -> Path:
    """The folder of all records, made if it is not there. Raises UsageError where it is somebody
    else's.
    """
    return ownfolder.own_folder(
        Path(os.environ.get(VARIABLE, FOLDER)), 0o755, f"name another folder in {VARIABLE}"
    )


@contextmanager
def locked() -> Iterator[Path]:
    """The folder, in which nobody else makes or removes a laboratory meanwhile."""
    place = folder()
    with ownfolder.locked(place):
        yield place


def record(lab: Lab) -> None:
    """Write a laboratory down, or what it has become."""
    replace_text(folder() / f"{lab.name}.json", json.dumps(lab.as_json(), indent=1) + "\n")


def forget(lab: Lab) -> None:
    """Remove all that is written down of a laboratory."""
    for suffix in ("log", "json"):
        (folder() / f"{lab.name}.{suffix}").unlink(missing_ok=True)


def recorded() -> list[Lab]:
    """All laboratories that are written down, in the order of their names."""
    found = []
    for path in folder().glob("*.json"):
        with suppress(FileNotFoundError):  # removed meanwhile
            found.append(_read(path))
    return sorted(found, key=lambda lab: lab.name)


def _read(path: Path) -> Lab:
    text = path.read_text()
    try:
        return Lab.from_json(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{path} is the record of a laboratory of another version of hyperslab: remove it with"
            f" that, or run 'umount {path.with_suffix('')}' and remove the file"
        ) from error


def find(name: str | None) -> Lab:
    """The laboratory of that name, or the only one. Raises UsageError."""
    known = {lab.name: lab for lab in recorded()}
    if name is None:
        if len(known) == 1:
            return next(iter(known.values()))
        if not known:
            raise UsageError("there is no laboratory here: 'hyperslab netlab up SPEC' makes one")
        raise UsageError(f"there are several laboratories, {show_list(list(known))}: name one")
    if name not in known:
        told = show_list(list(known)) or "none"
        raise UsageError(f"{name}: there is no such laboratory{suggest(name, known)}; here: {told}")
    return known[name]


def mounts_here() -> int:
    """Number of the mount namespace that this process is in."""
    return os.stat("/proc/self/ns/mnt").st_ino


def networks() -> list[IPv4Network]:
    """Networks of all laboratories."""
    return [IPv4Network(lab.network) for lab in recorded()]


def owned(lab: Lab) -> Lab:
    """The same laboratory, of this process."""
    return replace(lab, owner=os.getpid(), owner_started=started_of(os.getpid()))


def is_owner_alive(lab: Lab) -> bool:
    """Whether the process that makes or uses it still runs, and no later one of that number."""
    return lab.owner is not None and started_of(lab.owner) == lab.owner_started


def state_of(lab: Lab) -> State:
    """The state of a laboratory."""
    if lab.boot != boot_id() or (lab.is_complete and not namespaces.is_mounted(lab.place)):
        return "gone"
    if not lab.is_complete:
        return "making" if is_owner_alive(lab) else "half-made"
    if lab.owner is not None and not is_owner_alive(lab):
        return "abandoned"
    if missing(lab):
        return "broken"
    return "up"


def missing(lab: Lab) -> list[str]:
    """Names of nodes whose namespaces are not there."""
    names = [SWITCH, *(node.name for node in lab.nodes)]
    return [name for name in names if not namespaces.is_there(lab.place, name)]
