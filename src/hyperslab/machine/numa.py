"""NUMA: nodes of this machine, and their processors (sysfs, Documentation/ABI of Linux)."""

from __future__ import annotations

import os
from pathlib import Path

from hyperslab.machine.host import words_of

NODES = Path("/sys/devices/system/node")


def nodes(folder: Path = NODES) -> dict[str, list[int]]:
    """Processors of each node that this process may run on, by the name of the node; none of a
    kernel that does not tell.
    """
    usable = os.sched_getaffinity(0)
    found = {}
    for path in sorted(folder.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        own = [cpu for cpu in _cpus(path) if cpu in usable]
        if own:
            found[path.name] = own
    return found


def _cpus(node: Path) -> list[int]:
    """Processors of a node, from a list such as 0-3,8."""
    cpus: list[int] = []
    for words in words_of(node / "cpulist"):
        for part in words.split(","):
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    return cpus
