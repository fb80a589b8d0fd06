"""Shown: what participants have left, as the container of a group level sees it: read-only.

- names are mounted one by one as long as that makes few words; what an earlier group level has made
  is not there
- many would be more than runtimes take, and some names they take apart. Then folders are made in
  the container's own, and each file in them is a link to the folder of all results, which is
  mounted once
- so it is where results are links of git-annex, as after `datalad save`: what they lead to is not
  below a folder that is mounted for itself. Then the whole dataset is mounted once. Links that lead
  out of it, or nowhere, are not there, and are told
- nothing that the app does reaches a result: what it puts in the place of a link is a file of its
  own, which gets no name that is taken

Held by tests/apps/bids/containers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.containers.runtimes import OUT, TAKEN_APART, Mount
from hyperslab.plan.placeholders import literal
from hyperslab.units import show_count, show_list

ALL = "/hyperslab-results"
"Folder in a container of all results, to which links lead."
_NAMED = 3
"Results that are not shown of which the names are told."
MOST_NBYTES = 100_000
"""Length up to which names are mounted one by one, of all words for mounts together. Apptainer and
Singularity hand them on in one variable (AddProcessEnv of SINGULARITY_BIND, in their launchers),
for which Linux has 128 KiB (MAX_ARG_STRLEN, execve(2)); all words of a command may have 2 MiB,
mostly.
"""


@dataclass(frozen=True, slots=True)
class Results:
    """Results in a folder, and the folder of a container in which they appear."""

    home: Path
    "Folder of all results, absolute."
    private: Path
    "Folder that the container writes to."
    unseen: frozenset[Path]
    "Files in there that are no results of participants."


@contextmanager
def shown(results: Results) -> Iterator[list[Mount]]:
    """What is mounted for a container that sees results, as long as the block lasts."""
    names = _names(results)
    annexed = _annexed(results.home)
    mounts = [_mount(str(results.home / name), f"{OUT}/{name}") for name in names]
    if _fit(mounts) and not (annexed and any(_links(results, names))):
        _make_places(results, names)
        yield mounts
        _remove_places(results, names)
        return
    top = annexed or results.home
    lost = _lost(results, names, top)
    _tell(lost)
    home = os.path.relpath(results.home.resolve(), top.resolve())
    all_of_them = os.path.normpath(os.path.join(ALL, home))
    linked = [name for name in _linked(results, names) if name not in lost]
    for name in linked:
        _link(results.private / name, f"{all_of_them}/{name}")
    yield [_mount(str(top), ALL)]
    _unlink(results.private, linked, all_of_them)


def _annexed(home: Path) -> Path | None:
    """The folder that holds results and the content of links of git-annex among them; None where
    they are in no dataset that has such.
    """
    for folder in (home, *home.resolve().parents):
        annex = folder / ".git" / "annex"
        if annex.is_dir():
            return _around(folder, annex.resolve())
    return None


def _around(folder: Path, annex: Path) -> Path:
    """A dataset, or what holds that and its annex, as the dataset does of which it is a part."""
    top = Path(os.path.commonpath([folder.resolve(), annex]))
    if top in (folder.resolve(), Path(os.sep)):
        return folder
    return top


def _links(results: Results, names: Sequence[str]) -> Iterator[str]:
    """Names of results that are links."""
    return (name for name in _linked(results, names) if (results.home / name).is_symlink())


def _lost(results: Results, names: Sequence[str], top: Path) -> set[str]:
    """Names of links that lead to nothing below a folder."""
    real = top.resolve()
    return {
        name
        for name in _links(results, names)
        if not (results.home / name).exists()
        or not (results.home / name).resolve().is_relative_to(real)
    }


def _tell(lost: Collection[str]) -> None:
    """Write to the log of the command what it does not see."""
    if lost:
        named = show_list(sorted(lost)[:_NAMED])
        count = show_count(len(lost), "result")
        line = f"hyperslab: {count} not shown, as links to what is not here: {named}"
        print(line, file=sys.stderr)


def _fit(mounts: Sequence[Mount]) -> bool:
    """Whether runtimes take words for all these mounts, and understand them."""
    if any(sign in one.there for one in mounts for sign in TAKEN_APART):
        return False
    return sum(len(os.fsencode(one.here + one.there)) for one in mounts) <= MOST_NBYTES


def _mount(here: str, there: str) -> Mount:
    return Mount(literal(here), literal(there))


def _names(results: Results) -> list[str]:
    """Names of what participants have left."""
    visible = [name for name in os.listdir(results.home) if not name.startswith(".")]
    return sorted(name for name in visible if _is_left(results.home / name, results.unseen))


def _is_left(path: Path, unseen: Collection[Path]) -> bool:
    """Whether something is not the work of an earlier group level alone."""
    if not path.is_dir():
        return path not in unseen
    return any(one not in unseen for one in path.rglob("*") if not one.is_dir())


def _make_places(results: Results, names: Sequence[str]) -> None:
    """Make what results are mounted on."""
    for name in names:
        here = results.private / name
        if (results.home / name).is_dir():
            here.mkdir()
        else:
            here.touch()


def _remove_places(results: Results, names: Sequence[str]) -> None:
    """Remove what results were mounted on."""
    for name in names:
        here = results.private / name
        if here.is_dir():
            here.rmdir()
        else:
            here.unlink()


def _linked(results: Results, names: Sequence[str]) -> Iterator[str]:
    """Names of all files that are to be seen, and of links to folders."""
    for name in names:
        path = results.home / name
        if path.is_symlink() or not path.is_dir():
            yield name
            continue
        for place, folders, files in os.walk(path):
            inner = [each for each in folders if os.path.islink(os.path.join(place, each))]
            for each in (*files, *inner):
                file = Path(place, each)
                if file not in results.unseen:
                    yield file.relative_to(results.home).as_posix()


def _link(here: Path, there: str) -> None:
    """Make a link to a result."""
    try:
        here.symlink_to(there)
    except FileNotFoundError:
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(there)


def _unlink(private: Path, names: Sequence[str], home: str) -> None:
    """Remove links to what is in a folder that are as they were made, and folders that hold nothing
    else.
    """
    for name in names:
        with suppress(OSError):  # it is gone, or a file by now
            if os.readlink(private / name) == f"{home}/{name}":
                (private / name).unlink()
    folders = {folder for name in names for folder in Path(name).parents if folder.name}
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):  # it is gone, or holds what the app has made
            (private / folder).rmdir()
