"""Plugins: entry points that other packages bring, asked for without `importlib.metadata` where
there are none, since its import takes longer than reading what it reads.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_ENDS = (".dist-info", ".egg-info")
"How the folders end in which a distribution says what it brings."


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group, of every distribution that is installed."""
    path = tuple(folder or os.getcwd() for folder in sys.path)
    if _all_can_be_read(path) and f"[{group}]" not in _told(path):
        return []
    from importlib import metadata

    return list(metadata.entry_points(group=group))


def _all_can_be_read(path: tuple[str, ...]) -> bool:
    """Whether distributions are nowhere but in folders: neither in archives nor with a finder of
    somebody else's.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if finders != [PathFinder]:
        return False
    return not any(folder.endswith(".egg") or os.path.isfile(folder) for folder in path)


@functools.cache
def _told(path: tuple[str, ...]) -> str:
    """What all distributions in these folders say of their entry points."""
    return "\n".join(text for folder in path for text in _texts(folder))


def _texts(folder: str) -> Iterator[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.endswith(_ENDS):
            try:
                yield Path(folder, name, "entry_points.txt").read_text(errors="replace")
            except OSError:  # most have none
                continue
