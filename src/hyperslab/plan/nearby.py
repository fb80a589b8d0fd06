"""Nearby: inputs of a command, copied to a fast tier with the files that belong to them.

Those have the name of the input but for the suffix, such as .img and .mat of a .hdr, .json of a
.nii.gz: programs look for them beside the file, and some take something else without a word where
they are not. Inputs that lie in one folder lie beside each other as copies, too.

Held by tests/apps/commands/test_command_staging.py.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hyperslab.storage import fence
from hyperslab.storage.staging import copies
from hyperslab.trace import span

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PERMISSIONS = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


def near(paths: Sequence[str], place: Path, refuse: Callable[[], None]) -> list[str]:
    """The copies of inputs, in folders below `place`; the inputs themselves where something of
    their folder could not be copied, and `refuse` is called where there was no room for it. Raises
    RunStopped where the run has ended meanwhile.
    """
    found = list(paths)
    folders = dict.fromkeys(map(os.path.dirname, paths))
    for number, folder in enumerate(folders):
        there = place / str(number)
        own = [n for n, path in enumerate(paths) if os.path.dirname(path) == folder]
        if _are_copied([paths[n] for n in own], there, refuse):
            for n in own:
                found[n] = str(there / os.path.basename(paths[n]))
    return found


def _are_copied(paths: Sequence[str], place: Path, refuse: Callable[[], None]) -> bool:
    """Whether inputs of one folder, and what belongs to them, are in another one now."""
    try:
        place.mkdir()
        with span("read") as mark:
            for path, copy in dict(_copies(paths, place)).items():
                mark.nbytes += _bring(path, copy)
    except (OSError, ValueError) as error:  # it is full, or gone; or an input was written to
        if isinstance(error, OSError) and error.errno in _FULL:
            refuse()
        return False
    return True


def _copies(paths: Sequence[str], place: Path) -> Iterator[tuple[str, Path]]:
    """Files, and where their copies go."""
    for path in paths:
        if os.path.isdir(path):
            yield from _below(path, place / os.path.basename(path))
        else:
            for file in (path, *_companions(path)):
                yield file, place / os.path.basename(file)


def _companions(path: str) -> Iterator[str]:
    """The files beside another one that have its name but for the suffix."""
    folder, own = os.path.split(path)
    stem = _stem(own)
    folder = folder or os.curdir
    for name in _names(folder, os.stat(folder).st_mtime_ns):
        other = os.path.join(folder, name)
        if name != own and _stem(name) == stem and os.path.isfile(other):
            yield other


def _stem(name: str) -> str:
    return Path(name.removesuffix(".gz")).stem


@functools.lru_cache(maxsize=4)
def _names(folder: str, changed_ns: int) -> Sequence[str]:
    """The names in a folder, which are asked for once as long as it does not change: each of many
    files in it is the input of some task.
    """
    return os.listdir(folder)


def _below(folder: str, copy: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder, and where their copies go."""

    def refuse(error: OSError) -> None:
        raise error

    for top, _, names in os.walk(folder, onerror=refuse, followlinks=True):
        there = copy / os.path.relpath(top, folder)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            yield os.path.join(top, name), there / name


def _bring(path: str, copy: Path) -> int:
    """Copy a file with its permissions, beside which its owner may read it: bytes."""
    about = os.stat(path)
    identity = (about.st_size, about.st_mtime_ns)
    took = copies.bring(path, identity, str(copy), fence.require_open)
    copy.chmod(about.st_mode & _PERMISSIONS | stat.S_IRUSR)
    return took.nbytes
