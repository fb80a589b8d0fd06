"""Ways: how scratch can be made, the best one first."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hyperslab.machine.asking import asked
from hyperslab.storage.emulation.program import require_device, require_fuse
from hyperslab.storage.scratch import images, program, registry
from hyperslab.storage.scratch.program import ScratchFailed
from hyperslab.storage.scratch.registry import (
    DIRECTORY,
    FUSE,
    FUSE2FS,
    LOOP,
    NAMESPACE,
    TMPFS,
    Scratch,
    plain_name,
)

MEMORY = Path("/dev/shm")  # noqa: S108  # where memory is shown as files
_HIDDEN = 0o500
"Permissions of a directory below a mount that others do not see: nothing goes there by mistake."


@dataclass(frozen=True, slots=True)
class Way:
    """A way in which scratch can be made."""

    words: str
    make: Callable[[Scratch], Scratch]
    "Makes it, and says what it has become. Raises ScratchFailed and UsageError."
    is_asked_for: bool = False
    "Whether it is taken only where somebody asks for it."


def _fuse(scratch: Scratch) -> Scratch:
    require_fuse()
    Path(scratch.folder).mkdir(mode=0o700)
    return replace(scratch, pid=program.start(scratch))


def _namespace(scratch: Scratch) -> Scratch:
    require_device()
    if os.geteuid() == 0:
        raise ScratchFailed("root needs no user namespace")
    Path(scratch.folder).mkdir(mode=_HIDDEN)
    return replace(scratch, pid=program.start(scratch, _in_namespaces()))


def _in_namespaces() -> list[int]:
    """Programs in user namespaces of this user. What is made in one of theirs shares it: processes
    of two such namespaces may not look into one another's memory, as those of MPI do.
    """
    found = registry.recorded()
    among = program.running()
    inside = [one for one in found if one.way == NAMESPACE and not one.is_of_others]
    return [pid for one in inside for pid in program.processes_of(one, among) if pid == one.pid]


def _fuse2fs(scratch: Scratch) -> Scratch:
    require_fuse()
    Path(scratch.folder).mkdir(mode=0o700)
    return images.mount_by_fuse2fs(scratch)


def _loop(scratch: Scratch) -> Scratch:
    Path(scratch.folder).mkdir(mode=0o700)
    return images.mount_by_loop(scratch)


def _tmpfs(scratch: Scratch) -> Scratch:
    """Memory: with a ceiling where root mounts it, else a directory beside those of others."""
    alone = replace(scratch, on=str(MEMORY), fallback="", fallback_nbytes=0)
    if os.geteuid() != 0:
        return _directory(alone)
    Path(scratch.folder).mkdir(mode=0o700)
    options = f"size={scratch.nbytes},mode=0700"
    words = ["mount", "-t", "tmpfs", "-o", options, scratch.source, scratch.folder]
    done = asked(words)
    if done.returncode:
        raise ScratchFailed(f"no tmpfs could be mounted: {done.stderr.strip()}")
    return alone


def is_unlimited(scratch: Scratch) -> bool:
    """Whether scratch is a plain directory, where more may be taken than was asked for: memory is,
    too, unless root mounts it.
    """
    return Path(scratch.folder).parent == Path(scratch.on)


def _directory(scratch: Scratch) -> Scratch:
    """A directory like others, in which names cost what they cost there."""
    place = Path(scratch.on) / plain_name(scratch.name)
    try:
        place.mkdir(mode=0o700)
    except OSError as error:
        raise ScratchFailed(f"{place} cannot be made: {error.strerror}") from error
    return replace(scratch, folder=str(place), fallback="", fallback_nbytes=0)


WAYS = {
    FUSE: Way("one file, by a program of this project", _fuse),
    NAMESPACE: Way("the same in a user namespace, seen by commands that enter it", _namespace),
    FUSE2FS: Way("ext4 in one file, by fuse2fs", _fuse2fs),
    LOOP: Way("ext4 in one file, by a loop device", _loop, is_asked_for=True),
    TMPFS: Way("memory", _tmpfs, is_asked_for=True),
    DIRECTORY: Way("a plain directory, in which every file is one of the storage", _directory),
}
