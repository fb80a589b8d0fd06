"""Part folders, which lie beside the file that says where the parts are, and the removal of those
nobody needs.

Such a folder has a name that no other has, so that a file that is replaced keeps its parts until
then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from hyperslab.formats import facts_of_file_name, module
from hyperslab.formats.hooks import Divides
from hyperslab.storage import unfinished
from hyperslab.storage.renaming import put_back, remove


def folder_of(final: Path, partial: Path) -> Path:
    """The folder that an allocation of a file in parts becomes."""
    return _folder(final, _token(partial))


def _folder(final: Path, token: str) -> Path:
    return final.with_name(f"{final.name}.parts-{token}")


def index_of(final: Path, partial: Path) -> Path:
    """The file that says where the parts of an allocation are, before it has its name."""
    return unfinished.index(final, _token(partial))


def _token(partial: Path) -> str:
    return partial.stem.rpartition("-")[2]


def part_folders(final: Path) -> list[Path]:
    """The folder of parts that a file says it has, if that bears the file's name."""
    name = _said_by(final)
    own = re.fullmatch(re.escape(final.name) + r"\.parts-[0-9a-f]+", name)
    if own is None:
        return []
    folder = final.with_name(name)
    if not folder.is_dir():
        return []
    return [folder]


def _said_by(final: Path) -> str:
    """Name of the folder in which a file says that its parts are, '' for none."""
    facts = facts_of_file_name(final.name)
    if facts is None or not facts.has_parts or not final.is_file():
        return ""
    hooks = cast(Divides, module(facts.name))
    return hooks.parts_folder(str(final))


def discard(path: Path, final: Path) -> None:
    """Remove what the file `final` needs no longer, by way of a name that says so should this be
    interrupted.
    """
    gone = unfinished.gone(final)
    path.rename(gone)
    remove(gone)


def discard_all(paths: Iterable[Path], final: Path) -> None:
    """Discard what a file that has its name needs no longer."""
    for path in paths:
        discard(path, final)


def remove_output(path: Path) -> None:
    """Remove a file that was written here, with the folder of its parts."""
    for folder in part_folders(path):
        remove(folder)
    remove(path)


def remove_stale(path: Path) -> None:
    """Remove what an interrupted run left; with an index that has not become a file, also the parts
    that it is of.

    A directory that was put aside for one that never came gets its name back.
    """
    if put_back(path):
        return
    index = unfinished.indexed(path)
    if index is not None:
        remove(_folder(*index))
    remove(path)
