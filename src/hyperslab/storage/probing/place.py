"""Place: the medium that a path lies on, as far as its number and its mount tell."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from hyperslab.machine.host import file_system, network_file_system
from hyperslab.storage.location import is_remote
from hyperslab.storage.tiers.tier import Kind, Tier

_MEMORY = ("tmpfs", "ramfs")


def look(path: str | os.PathLike[str]) -> Tier:
    """What a path is on: host, file system and number of its device; nothing of a URL."""
    text = os.fspath(path)
    host = socket.gethostname()
    if is_remote(text):
        return Tier(text, host, "object")
    place = Path(text).absolute()
    place = next(one for one in (place, *place.parents) if one.exists())
    number = place.stat().st_dev
    kind: Kind = "unknown"
    if network_file_system(str(place)):
        kind = "network"
    elif file_system(str(place)) in _MEMORY:
        kind = "dram"
    device = f"{os.major(number)}:{os.minor(number)}"
    return Tier(text, host, kind, file_system=file_system(str(place)), device=device)
