"""What the file system of a folder means for those who write to it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from hyperslab.storage import renaming
from hyperslab.storage.mounts import file_system
from hyperslab.storage.tiers.file_systems import LOCAL_FILE_SYSTEMS, network_file_system


@lru_cache(maxsize=16)
def is_local(folder: str) -> bool:
    """Whether one machine is sure to have all pages of the files in a folder."""
    return file_system(folder) in LOCAL_FILE_SYSTEMS


def hand_over(path: Path) -> None:
    """Wait until a network has what this machine has written: nobody else can have that flushed
    later.
    """
    if _is_on_network(str(path.parent)):
        renaming.synchronise(path)


@lru_cache(maxsize=16)
def _is_on_network(folder: str) -> bool:
    return bool(network_file_system(folder))
