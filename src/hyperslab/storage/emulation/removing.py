"""Removal of emulated tiers, also of those whose program has died."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from hyperslab.errors import HyperslabError
from hyperslab.storage.emulation import network, program, registry
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.mounts import Mount, mount_of, mounts

_END_S = 5.0
"Time that a program has to end once its tier is unmounted."
_KILLED_S = 5.0
"Time that one has to end that was killed."
_POLL_S = 0.01


class TierInUse(HyperslabError):
    """A tier that cannot be removed while somebody is in it."""


def remove(emulation: Emulation, by_force: bool = False) -> int:
    """Remove a tier and all that was made for it but its files: how many names are left in its
    directory.

    Nothing is left mounted, and no process of it lives on. By force, whoever has a file of it open
    is cut off from it. Raises TierInUse.
    """
    _unmount(emulation, by_force)
    _end_program(emulation, 0.0 if by_force else _END_S)
    network.end(emulation)
    program.let_go(emulation)
    registry.forget(emulation)
    return _left(emulation)


def outlive(emulation: Emulation) -> None:
    """Take a tier away from its directory, and wait until nobody has a file of it open any more:
    its program ends then. Raises TierInUse where it cannot be taken away.
    """
    _unmount(emulation, by_force=True)
    while registry.is_alive(emulation):
        time.sleep(_POLL_S)


def _unmount(emulation: Emulation, by_force: bool) -> None:
    while (mount := registry.mount_here(emulation)) is not None:
        _require_on_top(emulation, mount)
        is_lazy = by_force or _is_dead(emulation)
        why = program.unmount(mount.mount_point, lazily=is_lazy)
        if why:
            raise TierInUse(
                f"{emulation.directory} is in use: leave it and close its files, or give --force"
                f" ({why})"
            )


def _require_on_top(emulation: Emulation, mount: Mount) -> None:
    """Raise TierInUse where the mount's path leads to another one, which would be unmounted."""
    found = mount_of(Path(mount.mount_point), mounts())
    if found is not None and found.source != emulation.source:
        raise TierInUse(
            f"{emulation.directory} cannot be removed: {found.source} ({found.file_system}) is"
            " mounted over it; unmount that first"
        )


def _is_dead(emulation: Emulation) -> bool:
    """Whether nobody answers any more. Raises TierInUse where somebody may, and does not."""
    state = registry.state_of(emulation)
    if state == "silent":
        raise TierInUse(f"{emulation.directory} does not answer: wait, or give --force")
    return state == "stale"


def _end_program(emulation: Emulation, patience_s: float) -> None:
    """See the program to its end: it ends by itself where it is unmounted, and unmounts itself
    elsewhere when it is told to; whoever does neither is killed. Raises TierInUse of one that even
    then waits for what is beneath it.
    """
    deadline = time.monotonic() + patience_s
    is_told = False
    while registry.is_alive(emulation):
        assert emulation.pid is not None
        now = time.monotonic()
        if now > deadline + _KILLED_S:
            raise TierInUse(
                f"{emulation.directory} is unmounted, but its program (process {emulation.pid})"
                f" does not end though it was killed: {emulation.backing} does not answer; remove"
                " the tier again when it does"
            )
        if now > deadline:
            _signal(emulation.pid, signal.SIGKILL)
        elif not is_told:
            _signal(emulation.pid, signal.SIGTERM)
            is_told = True
        time.sleep(_POLL_S)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _left(emulation: Emulation) -> int:
    """Names that are left in the directory, which goes if it was made for the tier and is empty."""
    place = Path(emulation.directory)
    try:
        left = len(os.listdir(place))
    except FileNotFoundError:
        return 0
    if left == 0 and emulation.made_directory:
        place.rmdir()
    return left
