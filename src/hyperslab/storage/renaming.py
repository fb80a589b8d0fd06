"""Renaming: a finished file or directory gets its name in one step, and takes it from another only
where that may go.

The kernel does both at once (renameat2(2): RENAME_NOREPLACE, RENAME_EXCHANGE). File systems that
refuse it, as some of FUSE and of networks do, get the nearest that they have:

- a name that is taken is refused by link(2) for a file; a directory cannot take the name of
  anything but an empty one
- a directory that is replaced is put aside under a hidden name first; ended in between, `put_back`
  restores it

Held by tests/storage/test_renaming.py.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hyperslab.storage import unfinished
from hyperslab.storage.mounts import file_system, is_fuse, require_unmounted

_AT_CWD, _NOREPLACE, _EXCHANGE = -100, 1, 2
"""Arguments of renameat2(2): paths are relative to the working directory; the new name is free; the
two names change places.
"""
_UNABLE = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP))
_LINKLESS = frozenset((errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK))
_FEW = 16
"""Files that are waited for one by one. For more of them the whole file system takes less, although
what others have written there is waited for, too.
"""


def rename(ready: Path, final: Path, overwrite: bool) -> None:
    """Give a file or directory its name; what has it goes if `overwrite`. Raises FileExistsError,
    and other OSError.
    """
    if not overwrite:
        _to_free_name(ready, final)
    elif not (ready.is_dir() or final.is_dir()) or not os.path.lexists(final):
        ready.replace(final)
    else:
        _exchange(ready, final)


def put_back(aside: Path) -> bool:
    """Whether a hidden name was that of a directory put aside for one that never came; it has its
    own again then.
    """
    final = unfinished.put_aside_from(aside)
    if final is None or os.path.lexists(final):
        return False
    aside.rename(final)
    return True


def synchronise(path: Path, only_names: bool = False) -> None:
    """Wait until a file, the names in a directory, or a directory of chunks is on storage, with all
    else of its file system where that takes less.
    """
    is_whole = path.is_dir() and not only_names
    if is_whole and not _is_told_as_a_whole(path):
        synchronise_tree(path)
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if is_whole:
            _require(ctypes.CDLL(None, use_errno=True).syncfs(fd), path)
        else:
            os.fsync(fd)
    finally:
        os.close(fd)


def _is_told_as_a_whole(folder: Path) -> bool:
    """Whether syncfs(2) reaches who has the bytes of a file system. The kernel passes it on to no
    program behind FUSE (fs/fuse/inode.c: fuse_sync_fs).
    """
    return not is_fuse(file_system(str(folder)))


def synchronise_all(files: Collection[Path], folder: Path) -> None:
    """Wait until these files of a folder are on storage, with their names; not for those that are
    gone.
    """
    are_many = len(files) > _FEW or any(file.is_dir() for file in files)
    if are_many and _is_told_as_a_whole(folder):
        synchronise(folder)
        return
    for file in files:
        with suppress(FileNotFoundError):
            synchronise(file)
    synchronise(folder, only_names=True)


def synchronise_tree(folder: Path) -> None:
    """Wait until all files below a folder are on storage, with their names; not for those that are
    gone, nor for those that this user may not open.
    """
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            file = Path(place, name)
            with suppress(FileNotFoundError, PermissionError):
                if stat.S_ISREG(file.lstat().st_mode):
                    synchronise(file)
        synchronise(Path(place), only_names=True)


def forget(path: Path) -> None:
    """Have the page cache forget what is written of a file, or of all files below a folder; not of
    those that are gone.
    """
    files = path.rglob("*") if path.is_dir() else [path]
    for file in filter(Path.is_file, files):
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def remove(path: Path) -> None:
    """Remove a file or directory, if it is there. Raises OSError, also where something is mounted
    in it.
    """
    if path.is_dir() and not path.is_symlink():
        require_unmounted(path)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _to_free_name(ready: Path, final: Path) -> None:
    if _by_kernel(ready, final, _NOREPLACE):
        return
    try:
        if ready.is_dir():
            ready.rename(final)
        else:
            os.link(ready, final)
            ready.unlink()
    except OSError as error:
        if os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from error
        if error.errno not in _LINKLESS:
            raise
        ready.rename(final)  # nothing better is left: what appears in this moment is replaced


def _exchange(ready: Path, final: Path) -> None:
    if not _by_kernel(ready, final, _EXCHANGE):
        aside = unfinished.aside(final)
        final.rename(aside)
        ready.rename(final)
        ready = aside
    remove(ready)


def _by_kernel(ready: Path, final: Path, flag: int) -> bool:
    """Whether the file system could do it."""
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.renameat2(_AT_CWD, os.fsencode(ready), _AT_CWD, os.fsencode(final), flag)
    if failed and ctypes.get_errno() in _UNABLE:
        return False
    _require(failed, final)
    return True


def _require(failed: int, path: Path) -> None:
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
