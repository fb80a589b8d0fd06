"""Area: a directory of one run on a fast tier, which is in use while somebody holds its lock.

- a run that ended holds no lock (flock), however it ended: what it left is removed by the next run
  that stages there, by the one that goes on with it, and by `clean`
- where the lock may be one that other hosts do not see, those of their areas that may live are left
  to who goes on with the run, or cleans it
- nothing else on the tier is touched: an area has a name of its own, and is a directory of ours
- a tier that does not answer any more is gone: nothing that ends a run raises for that

Held by tests/storage/test_staging.py.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.host import boot_id
from hyperslab.storage.tiers.file_systems import network_file_system

LOCK, INPUTS, OUTPUTS, OPEN, TRIAL = "lock", "in", "out", "open", "trial"
"""What an area holds: its lock, copies of inputs, blocks, a file while blocks may be added, and a
folder with tickets while it is not known whether that pays.
"""
DECLINED, REFUSED = "declined", "refused."
"""Word that something was not admitted, and of so many bytes that were, and had no room."""
TICKETS = 3
"Blocks that are added until that is known."
_NAME = re.compile(r"\.hyperslab-staging-[0-9a-f]{12}")
_ATTEMPTS = 5
_ABOUT_NBYTES = 1 << 16
_NO_ROOM = (errno.ENOSPC, errno.ENOENT)
"A tier that is full, or gone, which is told otherwise."


@dataclass(frozen=True, slots=True)
class Area:
    """An area that this process holds."""

    path: Path
    lock: int
    "Descriptor that holds the lock until it is closed."

    @property
    def inputs(self) -> Path:
        return self.path / INPUTS

    @property
    def outputs(self) -> Path:
        return self.path / OUTPUTS

    @property
    def is_there(self) -> bool:
        """Whether the tier is still where it was, and answers: whether a file is there, the kernel
        may say by itself for a while.
        """
        try:
            os.statvfs(self.path / LOCK)
        except OSError:
            return False
        return True

    def shut(self) -> None:
        """Let nobody add another block. Nothing happens where the tier is gone."""
        with suppress(OSError):
            (self.path / OPEN).unlink()

    def end_trial(self) -> None:
        """Let blocks be added as far as there is room."""
        _cleared(self.path / TRIAL)

    def remove(self) -> list[Path]:
        """Remove all of it but for what is mounted there, and let go of the lock. Returns where
        something is mounted.
        """
        return _remove(self.path, self.lock)


def refusal(area: str | os.PathLike[str]) -> str:
    """Why nothing more can be written to an area, though it has room: a quota, a tier that has
    become read-only, an image whose storage is gone; '' where that is not so.
    """
    path = Path(area, f"{LOCK}.tried")
    try:
        with path.open("wb", buffering=0) as file:
            file.write(b"?")
    except OSError as error:
        if error.errno in _NO_ROOM:
            return ""
        return error.strerror or str(error)
    finally:
        with suppress(OSError):
            path.unlink()
    return ""


def require_tier(flag: str, tier: str, is_elsewhere: bool) -> Path:
    """The absolute path of a tier. Raises UsageError for one that is not there, or cannot be
    written to, or where workers are elsewhere and would not see it.
    """
    if is_elsewhere:
        raise UsageError(
            f"{flag} is for workers of this host: leave it out, or take an engine that runs here,"
            " without --connect"
        )
    folder = Path(tier).absolute()
    if not _is_folder(flag, folder):
        raise UsageError(
            f"{flag} {tier}: there is no such directory; give one on a fast tier, such as /dev/shm"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{flag} {tier}: no permission to write there; give another directory")
    return folder


def _is_folder(flag: str, folder: Path) -> bool:
    """Whether a directory is there. Raises UsageError for a tier that does not answer."""
    try:
        return folder.is_dir()
    except OSError as error:
        raise UsageError(
            f"{flag} {folder} does not answer ({error.strerror}); give another directory"
        ) from error


def create(tier: Path, run: str = "") -> Area:
    """A new area on a tier, of a run that has this name. Raises OSError."""
    for _ in range(_ATTEMPTS):
        path = tier / f".hyperslab-staging-{secrets.token_hex(6)}"
        path.mkdir()
        lock = _taken(path)
        if lock is None:  # somebody who swept the tier took it for one that was left
            continue
        os.write(lock, json.dumps({"boot": boot_id(), "run": run}).encode())
        for name in (INPUTS, OUTPUTS, TRIAL):
            (path / name).mkdir()
        for ticket in range(TICKETS):
            (path / TRIAL / str(ticket)).touch()
        (path / OPEN).touch()
        return Area(path, lock)
    raise OSError(f"{tier}: other runs remove what is made there")


def sweep(tier: Path, run: str = "") -> list[Path]:
    """Remove the areas on a tier that no run holds any more, and those of a run that is known to
    have ended; returns them.
    """
    try:
        names = sorted(filter(_NAME.fullmatch, os.listdir(tier)))
    except OSError:
        return []
    return [tier / name for name in names if discard(tier / name, run)]


def discard(path: Path, run: str = "") -> bool:
    """Remove an area unless a run holds it, or may hold it on another host; one of `run` nobody
    holds. Whether it was there and is gone.
    """
    if not _NAME.fullmatch(path.name) or not os.path.isdir(path) or os.path.islink(path):
        return False
    lock = _taken(path)
    if lock is None and os.path.exists(path / LOCK):
        return False
    if lock is not None and _may_be_elsewhere(path, lock, run):
        let_go(lock)
        return False
    _remove(path, lock)
    return not os.path.exists(path)


def _may_be_elsewhere(path: Path, lock: int, run: str) -> bool:
    """Whether another host may hold an area, whose lock this one would not see: many file systems
    of networks keep locks on the host that has taken them.
    """
    about = _about(lock)
    if about.get("boot", boot_id()) == boot_id():
        return False
    if run and about.get("run") == run:
        return False
    return bool(network_file_system(str(path)))


def _about(lock: int) -> dict[str, str]:
    """What an area says of its run; nothing where that died before it could."""
    with suppress(OSError, ValueError):
        return dict(json.loads(os.pread(lock, _ABOUT_NBYTES, 0)))
    return {}


def _taken(path: Path) -> int | None:
    """The lock of an area, which is still that of its name; None where another process has it."""
    try:
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path / LOCK)):
            return fd
    except OSError:
        pass  # held, or removed in this moment
    let_go(fd)
    return None


def let_go(fd: int) -> None:
    """Close a file on a tier: one that is gone says so there, too."""
    with suppress(OSError):
        os.close(fd)


def _remove(path: Path, lock: int | None) -> list[Path]:
    """Remove a directory with all that somebody may still be adding, the lock last: NFS and sshfs
    keep a file that is open under another name in it. Returns where something is mounted.
    """
    with suppress(OSError):
        (path / OPEN).unlink()
    for name in (INPUTS, OUTPUTS):
        _cleared(path / name)
    mounted = _cleared(path)
    if lock is not None:
        let_go(lock)
        _cleared(path)
    return mounted


def _cleared(path: Path) -> list[Path]:
    from hyperslab.storage.permitted import remove_tree  # which runs without tiers do without

    return remove_tree(path)
