"""Trees: folders that are removed with all that is in them, but never with what is mounted there.

A command may have mounted its user's data in its folder, which is nobody's to remove: all around it
goes, and the folders that lead to it stay.

Held by tests/storage/test_trees.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from hyperslab.storage.mounts import mounted_within


def remove_around(top: Path) -> list[Path]:
    """Remove a folder as far as that can be, but for what is mounted in it. Returns where something
    is.
    """
    mounted = mounted_within(top)
    _remove(top, mounted)
    return mounted


def still_mounted(places: Sequence[Path]) -> str:
    """A sentence on folders that stay, as something is mounted there; '' where none is."""
    if not places:
        return ""
    shown = ", ".join(map(str, places))
    return (
        f"something is mounted at {shown}, and stays: unmount it ('umount', or 'fusermount3 -u'),"
        " then remove the folder"
    )


def _remove(top: Path, mounted: Collection[Path]) -> None:
    if top in mounted:
        return
    if not any(place.is_relative_to(top) for place in mounted):
        shutil.rmtree(top, ignore_errors=True)
        return
    with suppress(OSError):  # as of a folder that may not be listed
        for entry in os.scandir(top):
            _remove_entry(entry, mounted)


def _remove_entry(entry: os.DirEntry[str], mounted: Collection[Path]) -> None:
    path = Path(entry.path)
    if entry.is_dir(follow_symlinks=False):
        _remove(path, mounted)
    elif path not in mounted:  # a file may be mounted, too
        with suppress(OSError):
            path.unlink()
