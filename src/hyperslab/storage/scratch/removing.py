"""Removal of scratch, also of what the dead have left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from hyperslab.errors import HyperslabError
from hyperslab.storage.emulation.program import unmount
from hyperslab.storage.mounts import mounts
from hyperslab.storage.scratch import program, registry
from hyperslab.storage.scratch.registry import FUSE, FUSE2FS, NAMESPACE, Scratch, plain_name
from hyperslab.storage.scratch.ways import MEMORY

_END_S = 5.0
"Time that a program has to end once it is told to."
_POLL_S = 0.01


class ScratchInUse(HyperslabError):
    """Scratch that cannot be removed while somebody is in it."""


def remove(scratch: Scratch, by_force: bool = False) -> None:
    """Remove scratch with all files in it. By force, whoever has one open is cut off from it.
    Raises ScratchInUse.
    """
    _unmount(scratch, lazily=by_force)
    program.let_go(scratch)
    _end(scratch, by_force)
    _unmount(scratch, lazily=True)  # what a program mounted between these two, and was killed
    for place in _places(scratch):
        _discard(place)
    registry.forget(scratch)


def sweep() -> list[Scratch]:
    """Remove what nobody needs any more: its process is dead, or its program. Meanwhile nobody else
    may make any.
    """
    registry.tidy()
    left = [scratch for scratch in registry.recorded() if is_left(scratch)]
    for scratch in left:
        remove(scratch, by_force=True)
    return left


def is_left(scratch: Scratch) -> bool:
    """Whether scratch is there for nobody, or is of no use."""
    if scratch.is_of_others:
        return False
    if not scratch.is_owned:
        return True
    needs_program = scratch.way in (FUSE, NAMESPACE, FUSE2FS)
    return needs_program and not program.processes_of(scratch)


def _unmount(scratch: Scratch, lazily: bool) -> None:
    while _is_mounted(scratch):
        why = unmount(scratch.folder, lazily)
        if why and _is_mounted(scratch):  # a program that ends unmounts it itself
            raise ScratchInUse(
                f"{scratch.folder} is in use: leave it and close its files, or give --force ({why})"
            )


def _is_mounted(scratch: Scratch) -> bool:
    return any(mount.mount_point == scratch.folder for mount in mounts())


def _end(scratch: Scratch, by_force: bool) -> None:
    """See its programs to their end: they end when they are unmounted, and unmount themselves when
    they are told to.
    """
    deadline = time.monotonic() + _END_S
    is_told = False
    while processes := program.processes_of(scratch):
        if by_force:
            _signal(processes, signal.SIGKILL)
        elif not is_told:
            _signal(processes, signal.SIGTERM)
            is_told = True
        elif time.monotonic() > deadline:
            raise ScratchInUse(
                f"{scratch.path} is in use: leave it and close its files, or give --force"
            )
        time.sleep(_POLL_S)


def _signal(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _discard(place: Path) -> None:
    """Remove a directory, or an image that nobody has mounted."""
    if os.path.isfile(place):
        with suppress(OSError):
            place.unlink()
    elif not os.path.ismount(place):  # under a name that is not that of the record
        shutil.rmtree(place, ignore_errors=True)


def _places(scratch: Scratch) -> list[Path]:
    """Directories and images that may be there, however far its making came."""
    name = plain_name(scratch.name)
    return [registry.folder() / scratch.name, Path(scratch.on) / name, MEMORY / name]
