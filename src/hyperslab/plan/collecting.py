"""Collecting: what a command has left in its private folder.

- results are files; a link to one of them is a file of its own, with the same content
- links to folders, and empty folders, are left out, and the command's log says so; so are absolute
  links of a command that sees other files than tasks do, as in a container
- any other link, and what is no file, makes the task fail
- folders that may not be listed or changed are opened first, as nothing in them could be named

Held by tests/apps/commands/test_command_links.py.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from hyperslab.blocks import checksums
from hyperslab.blocks.writing import Written
from hyperslab.machine.spawner import Ended
from hyperslab.plan.failing import CommandFailed
from hyperslab.storage import renaming
from hyperslab.storage.mounts import mounted_within
from hyperslab.storage.permitted import open_folders
from hyperslab.storage.replacement import FOLDER
from hyperslab.trace import span

_MOST_LINKS = 40
"Links that lead from one to the next, as many as Linux follows."
_NAMED = 10
"Names that a log lists."


def collected(
    out: Path, mounted: tuple[str, str] = ("", ""), is_synced: bool = True
) -> tuple[Written, ...]:
    """What a command has left in its private folder, on storage if `is_synced`; named from there
    on. `mounted` is that of CommandTask. Raises CommandFailed for what is no file.
    """
    with span("write") as mark:
        _require_unmounted(out)
        _open(out)
        found = []
        for top, folders, names in os.walk(out):
            folders.sort()
            for name in sorted(names):
                path = Path(top, name)
                _follow(out, path, mounted)
                if mounted[0] and _is_absolute_link(path):
                    continue
                found.append(_file(out, path))
                if is_synced:
                    renaming.synchronise(path)
                mark.nbytes += found[-1].nbytes
    return tuple(found)


def _require_unmounted(out: Path) -> None:
    """Raise CommandFailed where something is mounted in the folder: files are to lie in it."""
    for place in mounted_within(out):
        name = os.path.relpath(place, os.path.realpath(out))
        raise CommandFailed(
            "Mounted",
            f"it has left something mounted in {{out}}, at {name}: let it unmount that, and write"
            " its results to {out}",
            "",
            permanent=True,
        )


def _open(out: Path) -> None:
    """Open all folders. Raises CommandFailed for one of somebody else."""
    try:
        open_folders(out)
    except OSError as error:
        raise CommandFailed(
            "NoFolder",
            f"it has left a folder in {{out}} that cannot be opened ({error.strerror}:"
            f" {error.filename}): let it write as this user",
            "",
            permanent=True,
        ) from error


def tell_left_out(out: Path, ended: Ended) -> int:
    """Write to the command's log what of its private folder becomes no result; bytes written."""
    found = list(_left_out(out))
    if not found:
        return 0
    listed = ", ".join(found[:_NAMED])
    if len(found) > _NAMED:
        listed += f" and {len(found) - _NAMED} more"
    text = f"\nhyperslab: is no file, and left out: {listed}\n".encode(errors="replace")
    with Path(ended.log).open("ab") as log:
        return log.write(text)


def _follow(out: Path, path: Path, mounted: tuple[str, str]) -> None:
    """Put a file in the place of a link to it."""
    if not path.is_symlink():
        return
    target = Path(os.path.realpath(_end_of(out, path, mounted)))
    if not target.is_relative_to(os.path.realpath(out)) or not target.is_file():
        return
    path.unlink()
    try:
        os.link(target, path)
    except OSError:  # as of a file system without links
        shutil.copy2(target, path)


def _end_of(out: Path, path: Path, mounted: tuple[str, str]) -> Path:
    """Where links lead that name the private folder as the command knows it."""
    there, folder = mounted
    for _ in range(_MOST_LINKS):
        if not there or not _is_absolute_link(path):
            break
        target = os.readlink(path)
        if os.path.commonpath([target, there]) != there:
            break
        path = out / folder / os.path.relpath(target, there)
    return path


def _is_absolute_link(path: Path) -> bool:
    return path.is_symlink() and os.path.isabs(os.readlink(path))


def _file(out: Path, path: Path) -> Written:
    """What is known of a file. Raises CommandFailed for what is none."""
    name = path.relative_to(out).as_posix()
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise CommandFailed(
            "NoFile",
            f"it has left {name} in {{out}}, a link to what is no file of {{out}}: let it write"
            " files",
            "",
            permanent=True,
        )
    if not stat.S_ISREG(about.st_mode):
        raise CommandFailed(
            "NoFile", f"it has left {name} in {{out}}, which is no file: let it write files", ""
        )
    if name.partition("/")[0] == FOLDER:
        raise CommandFailed("ReservedName", f"{name}: the records of runs have this name", "")
    return Written(name, about.st_size, checksums.of_file(path))


def _left_out(out: Path) -> Iterator[str]:
    for top, folders, names in os.walk(out):
        folders.sort()
        for path in (Path(top, name) for name in sorted(names)):
            if path.is_symlink():
                yield f"{path.relative_to(out).as_posix()} (a link to what is not here)"
        for path in (Path(top, folder) for folder in folders):
            name = path.relative_to(out).as_posix()
            if path.is_symlink():
                yield f"{name} (a link to a folder)"
            elif not any(path.iterdir()):
                yield f"{name} (an empty folder)"
