"""Removal of scratch, also of what the dead have left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from hyperslab.errors import HyperslabError
from hyperslab.machine.within import within
from hyperslab.storage.emulation.program import unmount
from hyperslab.storage.mounts import mounts
from hyperslab.storage.scratch import program, registry
from hyperslab.storage.scratch.registry import FUSE, FUSE2FS, LOOP, NAMESPACE, Scratch, plain_name
from hyperslab.storage.scratch.sizing import ANSWER_S
from hyperslab.storage.scratch.ways import MEMORY
from hyperslab.storage.trees import remove_around, still_mounted

_END_S = 5.0
"""Time that a program has to end once it is told to; that all programs and storages have together
of what is swept at once.
"""
_LEAST_END_S = 0.1
"Time that each of these has, however long others have taken."
_POLL_S = 0.01
_LOOP_DEVICE = "/dev/loop"
"How sources of mounts begin that are loop devices."


class ScratchInUse(HyperslabError):
    """Scratch that cannot be removed while somebody is in it."""


class ScratchLeft(HyperslabError):
    """Scratch of which something could not be removed. It stays written down."""


def remove(scratch: Scratch, by_force: bool = False, within_s: float | None = None) -> None:
    """Remove scratch with all files in it. By force, whoever has one open is cut off from it.
    Its program has to end within some seconds, or the usual ones, and its storage to answer. Raises
    ScratchInUse, and ScratchLeft where something stays.
    """
    if not by_force and registry.is_in_use(scratch):
        raise _in_use(scratch, "a command runs in it")
    _unmount(scratch, lazily=by_force)
    program.let_go(scratch)
    _end(scratch, by_force, _END_S if within_s is None else within_s)
    _unmount(scratch, lazily=True)  # what a program mounted between these two, and was killed
    answer_s = ANSWER_S if within_s is None else min(ANSWER_S, within_s)
    for place in _places(scratch):
        _discard_in_time(place, answer_s)
    registry.forget(scratch)


def why_left(scratch: Scratch) -> str:
    """Remove scratch that nobody needs any more. Returns what could not be removed, as a clause; ''
    where nothing remains.
    """
    try:
        remove(scratch, by_force=True)
    except (HyperslabError, OSError) as why:
        return str(why)
    return ""


def sweep() -> list[Scratch]:
    """Remove what nobody needs any more: its process is dead, or its program. Meanwhile nobody else
    may make any. Returns what is gone; what could not be removed keeps nobody from going on.
    """
    registry.tidy()
    deadline = time.monotonic() + _END_S
    return [scratch for scratch in left() if _is_swept(scratch, deadline)]


def left() -> list[Scratch]:
    """Scratch of this host that nobody needs any more."""
    found = registry.recorded()
    among = program.running()  # looked at once: there may be as many as ranks on this host
    return [scratch for scratch in found if is_left(scratch, among)]


def _is_swept(scratch: Scratch, deadline: float) -> bool:
    within_s = max(_LEAST_END_S, deadline - time.monotonic())
    try:
        remove(scratch, by_force=True, within_s=within_s)
    except (ScratchLeft, OSError):  # which `remove` of its name tells
        return False
    return True


def is_left(scratch: Scratch, among: Mapping[int, str]) -> bool:
    """Whether scratch is there for nobody, or is of no use; `among` are the processes that run."""
    if scratch.is_of_others:
        return False
    if not scratch.is_owned and not registry.is_in_use(scratch):
        return True
    needs_program = scratch.way in (FUSE, NAMESPACE, FUSE2FS)
    return needs_program and not program.processes_of(scratch, among)


def _unmount(scratch: Scratch, lazily: bool) -> None:
    while _is_mounted(scratch):
        why = unmount(scratch.folder, lazily)
        if why and _is_mounted(scratch):  # a program that ends unmounts it itself
            if lazily:
                raise ScratchLeft(f"{scratch.folder} could not be unmounted ({why})")
            raise _in_use(scratch, why)


def _in_use(scratch: Scratch, why: str) -> ScratchInUse:
    return ScratchInUse(
        f"{scratch.path} is in use: leave it and close its files, or give --force ({why})"
    )


def _is_mounted(scratch: Scratch) -> bool:
    """Whether scratch is mounted. Raises ScratchLeft where somebody has mounted something over it,
    which would be unmounted in its place.
    """
    sources = [mount.source for mount in mounts() if mount.mount_point == scratch.folder]
    if sources and not _is_of(scratch, sources[-1]):
        raise ScratchLeft(f"{scratch.folder} remains: {still_mounted([Path(scratch.folder)])}")
    return bool(sources)


def _is_of(scratch: Scratch, source: str) -> bool:
    """Whether the source of a mount is what scratch is made of: its name, a loop device, or the
    image that fuse2fs has been given.
    """
    if scratch.way == LOOP:
        return source.startswith(_LOOP_DEVICE)
    return source in (scratch.source, str(Path(scratch.on, plain_name(scratch.name))))


def _end(scratch: Scratch, by_force: bool, within_s: float) -> None:
    """See its programs to their end: they end when they are unmounted, and unmount themselves when
    they are told to.
    """
    number = signal.SIGTERM
    if by_force:
        number = signal.SIGKILL
    deadline = time.monotonic() + within_s
    is_told = False
    while processes := program.processes_of(scratch):
        if time.monotonic() > deadline:
            raise _still_there(scratch, processes, by_force)
        if by_force or not is_told:
            _signal(processes, number)
            is_told = True
        time.sleep(_POLL_S)


def _still_there(scratch: Scratch, processes: list[int], by_force: bool) -> HyperslabError:
    """What to say of programs that do not end. One in a namespace alone can unmount what it serves,
    and does not while a file is open; of all others it is unmounted by then.
    """
    numbers = ", ".join(map(str, processes))
    if by_force:
        return ScratchLeft(
            f"its program (process {numbers}) does not end though it is killed, as one that waits"
            f" for {scratch.on}, which does not answer"
        )
    if scratch.way == NAMESPACE:
        return _in_use(scratch, f"its program, process {numbers}, does not end")
    return ScratchInUse(
        f"{scratch.folder} is unmounted, but its program (process {numbers}) does not end:"
        f" somebody sees it in a mount namespace of his own, as in a container, or {scratch.on}"
        " does not answer; end that, or give --force"
    )


def _signal(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _discard_in_time(place: Path, answer_s: float) -> None:
    """Remove what may lie on a storage that does not answer, for which nobody is to wait: whoever
    makes scratch meanwhile waits for the lock. Raises ScratchLeft.
    """
    try:
        within(answer_s, partial(_ask, place.parent))
    except TimeoutError:
        raise ScratchLeft(f"{place.parent} does not answer, where {place.name} may be") from None
    _discard(place)


def _ask(storage: Path) -> None:
    """Return when a storage has answered, be it that it is gone."""
    with suppress(OSError):
        os.statvfs(storage)


def _discard(place: Path) -> None:
    """Remove a directory, or an image that nobody has mounted, but for what is mounted there.
    Raises ScratchLeft.
    """
    mounted = remove_around(place)  # as much as can be; a file stays
    if mounted:
        raise ScratchLeft(f"{place} remains: {still_mounted(mounted)}")
    try:
        if os.path.isdir(place):
            shutil.rmtree(place)
        elif os.path.lexists(place):
            place.unlink()
    except FileNotFoundError:  # somebody else has removed it meanwhile
        return
    except OSError as error:
        what = error.filename or place
        raise ScratchLeft(f"{place} remains ({error.strerror}: {what})") from error


def _places(scratch: Scratch) -> list[Path]:
    """Directories and images that may be there, however far its making came. Where a storage has no
    files without a name, the program has given its own one for a moment.
    """
    name = plain_name(scratch.name)
    storages = [Path(place) for place in (scratch.on, scratch.fallback) if place]
    named = [place / f".{scratch.source}" for place in storages]
    return [registry.folder() / scratch.name, Path(scratch.on) / name, MEMORY / name, *named]
