"""Plugins: entry points that other packages bring, and versions of packages, asked for without
`importlib.metadata` where that can be, since its import takes longer than reading what it reads.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_ENDS = (".dist-info", ".egg-info")
"How the folders end in which a distribution says what it brings."
_ABOUT = ("METADATA", "PKG-INFO")
"Files there that say of which version it is, a line each for a field, then its description."


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group, of every distribution that is installed."""
    path = _import_path()
    if _all_can_be_read(path) and f"[{group}]" not in _told(path):
        return []
    from importlib import metadata

    return list(metadata.entry_points(group=group))


def version(name: str) -> str | None:
    """Version of a distribution; None where it is not installed."""
    path = _import_path()
    if _all_can_be_read(path):
        found = _distributions(path).get(_alike(name))
        if found is None:
            return None
        if number := _version_in(found):
            return number
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _import_path() -> tuple[str, ...]:
    return tuple(folder or os.getcwd() for folder in sys.path)


@functools.cache
def _distributions(path: tuple[str, ...]) -> dict[str, Path]:
    """Where distributions say what they are, by their names; the first of a name counts."""
    found: dict[str, Path] = {}
    for place in (place for folder in path for place in _places(folder)):
        found.setdefault(_alike(place.stem.partition("-")[0]), place)
    return found


def _alike(name: str) -> str:
    """The name of a distribution as all ways to write it have it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version_in(place: Path) -> str:
    """The version that is said in such a folder; '' where none is."""
    for name in _ABOUT:
        with suppress(OSError), (place / name).open(encoding="utf-8", errors="replace") as lines:
            fields = (line.partition(":") for line in lines)
            return next((text.strip() for field, _, text in fields if field == "Version"), "")
    return ""


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
    for place in _places(folder):
        with suppress(OSError):  # most have none
            yield (place / "entry_points.txt").read_text(errors="replace")


def _places(folder: str) -> Iterator[Path]:
    """Where the distributions in a folder say what they are."""
    with suppress(OSError):
        yield from (Path(folder, name) for name in os.listdir(folder) if name.endswith(_ENDS))
