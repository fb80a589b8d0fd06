"""Vacancy: may a run begin in an output directory, by what lies there?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hyperslab import formats
from hyperslab.driver.directory import RunDirectory, load_status
from hyperslab.driver.replaced import all_made
from hyperslab.errors import OutputBusy, UsageError
from hyperslab.storage.location import is_remote
from hyperslab.storage.replacement import FOLDER
from hyperslab.storage.unfinished import leftovers

_DESCRIPTION = "dataset_description.json"
"What describes a dataset of derivatives, and is often there before them."


def require_empty(directory: RunDirectory, verb: str) -> None:
    """Raise OutputBusy for a file, and for a directory that holds what no run wrote; hidden files
    and a description, as a fresh dataset has them, are in the way of no dataset of derivatives.
    """
    flag = ""
    if verb == "run":
        flag = "-o "
    out = directory.out
    require_no_file(out, flag)
    if directory.file or not out.is_dir():
        return
    if any(path.name != FOLDER and not _is_beside(path, verb) for path in out.iterdir()):
        raise OutputBusy(
            f"{flag}{out} holds files that no run wrote: give a new or empty directory"
        )


def require_no_file(out: Path, flag: str = "") -> None:
    """Raise OutputBusy for a file in the place of an output directory."""
    if out.exists() and not out.is_dir():
        raise OutputBusy(f"{flag}{out} is a file: give a directory")


def _is_beside(path: Path, verb: str) -> bool:
    """Whether a file may be there before results are."""
    return verb == "bids" and (path.name.startswith(".") or path.name == _DESCRIPTION)


def holds_earlier(directory: RunDirectory, verb: str) -> OutputBusy:
    """The refusal of a directory or a file of earlier runs that are not meant to be resumed."""
    if directory.file:
        what = "belongs to a run that ended early"
        if (directory.out / directory.file).exists():
            what = "exists already"
        return OutputBusy(
            f"{directory.out / directory.file} {what}: give another name, --overwrite to start"
            " over, or --resume to continue the run that made it"
        )
    others = "--overwrite to start over and replace it at the end, or choose another output"
    if verb == "bids":
        others = "choose another output directory"
    return OutputBusy(
        f"{directory.out} holds an earlier run: add --resume to do only what is missing, or"
        f" {others}"
    )


def is_gone(directory: RunDirectory) -> bool:
    """Whether the one file of a run that has ended well was removed since, so that it can be made
    anew.
    """
    if not directory.file or os.path.lexists(directory.place):
        return False
    folders = directory.submissions()
    return bool(folders) and load_status(folders[-1]).get("state") == "done"


def require_replaceable(directory: RunDirectory, verb: str) -> None:
    """Raise OutputBusy for a directory that holds more than what runs have made."""
    if directory.file:
        return
    known = {FOLDER, *all_made(directory), *(path.name for path in leftovers(directory.out))}
    other = [
        path.name
        for path in _entries(directory.out)
        if path.name.partition(".parts-")[0] not in known
    ]
    if not other:
        return
    noun = "run"
    if verb == "convert":
        noun = "conversion"
    raise OutputBusy(
        f"{directory.out} holds files that no {noun} made, such as {min(other)}: --overwrite"
        f" replaces only what an earlier {noun} made; give a new or empty directory"
    )


def require_elsewhere(urls: Iterable[str], path: str) -> None:
    """Raise UsageError where an output would replace, or lie among, what it is made from, links
    followed.
    """
    dest = Path(path).resolve()
    for url in dict.fromkeys(urls):
        if is_remote(url) or not os.path.exists(url):
            continue
        origin = Path(url).resolve()
        if dest not in (origin, *origin.parents):
            continue
        if not formats.is_plain_directory(path):
            raise UsageError(
                f"{path} is the source itself: give another name, and rename it when it is done"
            )
        raise UsageError(
            f"{path} holds the source {url}, which could be replaced: name another directory"
        )


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return list(folder.iterdir())


def files(folder: Path) -> Iterator[Path]:
    """The files in a directory and below. Links to directories are not followed, nor are they when
    it is removed.
    """
    return (Path(top, name) for top, _, names in os.walk(folder) for name in names)
