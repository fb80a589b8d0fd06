"""Permitted: folders as programs leave them who take their owner's permissions away, as git-annex
does with those of its objects.

- who is not root can neither rename what is in such a folder nor remove it
- a folder that may not be listed looks empty: what is in it would be lost without a word

Held by tests/storage/test_permitted.py.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from hyperslab.storage.mounts import mounted_within
from hyperslab.storage.trees import remove_around

_ALL = os.R_OK | os.W_OK | os.X_OK


def open_folders(top: Path) -> None:
    """Let this user list and change a folder and those below it, but for those behind links, and
    what is mounted there. Raises OSError, as for one of somebody else.
    """
    mounted = set(mounted_within(top))
    if top in mounted:
        return
    _open(top)
    for place, names, _ in os.walk(top, onerror=_fail):
        names[:] = [name for name in names if Path(place, name) not in mounted]
        for name in names:
            folder = os.path.join(place, name)
            if not os.path.islink(folder):
                _open(folder)


def remove_tree(top: Path) -> list[Path]:
    """Remove a folder with all that is in it, as far as this user may, but for what is mounted
    there; nothing where it is not there, or what it is on does not answer. Returns where something
    is mounted.
    """
    mounted = remove_around(top)
    if not os.path.isdir(top) or os.path.islink(top):
        return mounted
    with suppress(OSError):  # of somebody else: the rest goes
        open_folders(top)
    return remove_around(top)


def _open(folder: str | os.PathLike[str]) -> None:
    if not os.access(folder, _ALL):
        os.chmod(folder, stat.S_IMODE(os.lstat(folder).st_mode) | stat.S_IRWXU)


def _fail(error: OSError) -> None:
    raise error
