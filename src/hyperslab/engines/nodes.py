"""Nodes: how an engine's cluster is started on hosts that are given: which command runs where, and
which one tells that all of it is there.

Whoever has the hosts runs the commands; the engine does not know how a host is entered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Nodes:
    """Hosts for a cluster."""

    scheduler: str
    "Name of the host for what hands out tasks."
    workers: Sequence[str]
    "Names of the hosts that run tasks."
    addresses: Mapping[str, str]
    "IP addresses by name."
    folder: str
    "Directory for what the processes of the cluster spill and log, which all hosts see."
    threads: int = 1
    "Tasks at a time of a worker."
    memory_nbytes: int = 0
    "Memory of a worker; 0: the cluster's own default."
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    "Words by name of a host that, before those of a command, have it run there."
    client: str = ""
    "Name of the host for the command that drives the cluster; '': that is not known."


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """A command that runs on a host as long as the cluster does."""

    node: str
    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    "Variables beside those of whoever starts it."


@dataclass(frozen=True, slots=True)
class NodeCluster:
    """How a cluster is started by commands."""

    commands: Sequence[NodeCommand]
    "Commands in the order in which they are started."
    check: Sequence[str]
    "Command that ends with 0 once all workers are there, from a host that reaches them."
    arguments: Sequence[str]
    "Words for the command that drives it, such as --connect and an address."
    environment: Mapping[str, str] = field(default_factory=dict)
    "Variables for that command."
    programs: Mapping[str, str] = field(default_factory=dict)
    "Texts of programs that are to lie in the folder before, by name."
