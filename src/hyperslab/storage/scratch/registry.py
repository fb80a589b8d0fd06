"""Registry: which scratch this user has on this host, in a folder that ends with the boot.

Scratch is written down before it is made, so that none is there that nobody knows of. What is
mounted lies in that folder, under a name of its own, which tells it from all else.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from hyperslab.machine.host import numbering
from hyperslab.storage import runtime
from hyperslab.storage.emulation.registry import started_of
from hyperslab.storage.whole import replace_text, sweep_folder

FUSE, NAMESPACE, FUSE2FS = "fuse", "namespace", "fuse2fs"
LOOP, TMPFS, DIRECTORY = "loop", "tmpfs", "directory"
SOURCE = "hyperslab-scratch-"
"Name of the source of every mount, before that of the scratch."
_FOLDER = "hyperslab-scratch"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A directory for temporary files."""

    name: str
    way: str
    "How it is made: a word of `ways`."
    on: str
    "Directory in which its contents lie, without links."
    nbytes: int
    "Bytes that it was asked to have room for."
    folder: str
    "Directory for the files, as whoever sees the mount sees it."
    fallback: str = ""
    "Directory in which contents lie when there is no room left in the other one; '': none."
    fallback_nbytes: int = 0
    "Bytes that may go there."
    is_kept: bool = False
    "Whether it is there until somebody removes it, and not for a process alone."
    owner: int | None = None
    "Process for which it is there, or that is making it; None: it is kept."
    owner_started: int | None = None
    "Time at which that process started, in clock ticks since the boot."
    pid: int | None = None
    "Process of its program; None: there is none, or it is being started."
    numbering: int | None = None
    "Namespace in which these numbers are those of processes: a container may have one of its own."
    host: str = ""
    "Host of these processes: several may share a folder of records; '': it is not known."
    passed_over: tuple[str, ...] = ()
    "Ways that would have been better, and why each was not taken."

    @property
    def source(self) -> str:
        """Source of its mount, as the kernel names it."""
        return SOURCE + self.name

    @property
    def path(self) -> str:
        """Directory for the files, as every process of this user reaches it."""
        if self.way != NAMESPACE:
            return self.folder
        return f"/proc/{self.pid}/root{self.folder}"

    @property
    def is_owned(self) -> bool:
        """Whether whoever it is for is still there: the same process, or anybody."""
        return self.owner is None or started_of(self.owner) == self.owner_started

    @property
    def is_of_others(self) -> bool:
        """Whether its processes cannot be seen from here, so that nobody can say who is dead."""
        is_elsewhere = self.host not in ("", socket.gethostname())
        return is_elsewhere or self.numbering not in (None, numbering())

    @property
    def log(self) -> Path:
        """File to which its program writes."""
        return folder() / f"{self.name}.log"

    @property
    def held(self) -> Path:
        """File whose lock a command has that uses it, with all that it has started: they may go on
        where who made it is dead.
        """
        return folder() / f"{self.name}.held"

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Scratch of such a record."""
        return cls(**{**record, "passed_over": tuple(record["passed_over"])})


def folder() -> Path:
    """The folder of this user's records, made if it is not there, without links. Raises UsageError
    where it is somebody else's.
    """
    return Path(os.path.realpath(runtime.folder(_FOLDER)))


def locked() -> AbstractContextManager[Path]:
    """The folder, in which nobody else makes or removes scratch meanwhile."""
    return runtime.locked(_FOLDER)


def plain_name(name: str) -> str:
    """Name of a directory or file on somebody's storage, by which its host can be told."""
    return f".{SOURCE}{socket.gethostname()}-{name}"


def record(scratch: Scratch) -> None:
    """Write scratch down, or what it has become."""
    replace_text(folder() / f"{scratch.name}.json", json.dumps(scratch.as_json(), indent=1) + "\n")


def forget(scratch: Scratch) -> None:
    """Remove all that is written down of scratch, last the record by which the rest is found."""
    for suffix in ("log", "held", "json"):
        (folder() / f"{scratch.name}.{suffix}").unlink(missing_ok=True)


@contextmanager
def in_use(scratch: Scratch) -> Iterator[int]:
    """A block in which scratch is in use, and longer by commands that are given the descriptor."""
    descriptor = os.open(scratch.held, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield descriptor
    finally:
        os.close(descriptor)


def is_in_use(scratch: Scratch) -> bool:
    """Whether a command uses scratch, be it of somebody who is dead."""
    try:
        descriptor = os.open(scratch.held, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def tidy() -> None:
    """Remove records that nobody has written to their end."""
    sweep_folder(folder())


def recorded() -> list[Scratch]:
    """All scratch that is written down, as far as this version reads that, in the order of its
    directories; `unread` names the rest.
    """
    found = [one for one in map(_read, _paths()) if isinstance(one, Scratch)]
    return sorted(found, key=lambda scratch: (scratch.on, scratch.name))


def unread() -> list[str]:
    """Sentences on records that are damaged, or of another version: what they are of, nobody here
    removes.
    """
    found = [(path, _read(path)) for path in _paths()]
    return [
        f"{path} is no record of scratch that this version of hyperslab reads ({why}): remove the"
        f" scratch with the version that made it, or run 'umount {path.with_suffix('')}' and remove"
        " the file"
        for path, why in found
        if isinstance(why, str)
    ]


def _paths() -> list[Path]:
    return sorted(folder().glob("*.json"))


def _read(path: Path) -> Scratch | str | None:
    """The scratch of a record, or why it cannot be read; None where it was removed meanwhile."""
    try:
        return Scratch.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
