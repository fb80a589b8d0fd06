"""Making of scratch: in the best way that there is, with the room that was asked for."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path

from hyperslab.errors import UsageError, suggest
from hyperslab.machine.host import numbering
from hyperslab.storage.emulation.registry import started_of
from hyperslab.storage.scratch import registry, sizing
from hyperslab.storage.scratch.program import ScratchFailed
from hyperslab.storage.scratch.registry import TMPFS, Scratch
from hyperslab.storage.scratch.removing import sweep, why_left
from hyperslab.storage.scratch.ways import MEMORY, WAYS

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Wish:
    """Scratch that somebody wants."""

    on: Path
    "Directory on the storage that is to hold it."
    nbytes: int | None = None
    "Room; None: half of what is free."
    way: str = AUTO
    "A way, or the first one that works."
    fallback: Path | None = None
    "Directory in which files go on when there is no room left."
    is_kept: bool = False
    "Whether it outlives this process."
    flag: str = field(default="--on", compare=False)
    "What messages call the directory by."


def create(wish: Wish) -> Scratch:
    """Scratch as wished for, made in the first way that works. What dead processes have left is
    removed before. Raises UsageError, and ScratchFailed where no way works.
    """
    chosen = _chosen(wish.way)
    on = wish.on
    if wish.way == TMPFS:
        on = MEMORY
    place = sizing.require_directory(wish.flag, on)
    nbytes = wish.nbytes
    if nbytes is None:
        nbytes = sizing.usual_nbytes(place)
    sizing.require_room(place, nbytes)
    with registry.locked():
        sweep()
        return _first(chosen, _with_fallback(_blank(wish, place, nbytes), wish.fallback))


def _chosen(way: str) -> list[str]:
    """Ways that are tried. Raises UsageError for a word that is none."""
    if way == AUTO:
        return [name for name, each in WAYS.items() if not each.is_asked_for]
    if way not in WAYS:
        raise UsageError(
            f"--way {way}: there is no such way{suggest(way, list(WAYS))}; give one of"
            f" {', '.join(WAYS)}"
        )
    return [way]


def _blank(wish: Wish, place: str, nbytes: int) -> Scratch:
    """What is written down before anything is made: until then it is there for this process."""
    name = secrets.token_hex(4)
    return Scratch(
        name=name,
        way=wish.way,
        on=place,
        nbytes=nbytes,
        folder=str(registry.folder() / name),
        is_kept=wish.is_kept,
        owner=os.getpid(),
        owner_started=started_of(os.getpid()),
        numbering=numbering(),
        host=socket.gethostname(),
    )


def _named_anew(blank: Scratch) -> Scratch:
    """The same, of which nothing is there yet."""
    name = secrets.token_hex(4)
    return replace(blank, name=name, folder=str(registry.folder() / name))


def _with_fallback(blank: Scratch, fallback: Path | None) -> Scratch:
    """Scratch that has a fallback where there is room in it."""
    if fallback is None:
        return blank
    place = sizing.require_directory("--fallback", fallback)
    nbytes = sizing.usual_nbytes(place)
    if nbytes < sizing.BLOCK_NBYTES:
        return blank
    return replace(blank, fallback=place, fallback_nbytes=nbytes)


def _first(ways: list[str], blank: Scratch) -> Scratch:
    """Scratch in the first of these ways that works. Raises ScratchFailed."""
    passed_over: list[str] = []
    for way in ways:
        tried = replace(blank, way=way)
        registry.record(tried)
        try:
            made = WAYS[way].make(tried)
        except (ScratchFailed, UsageError) as why:
            passed_over.append(f"{way}: {why}")
            if why_left(tried):  # which whoever sweeps next removes
                blank = _named_anew(blank)
            continue
        except BaseException as reason:
            left = why_left(tried)
            if left:
                reason.add_note(f"scratch {tried.name} on {tried.on} remains: {left}")
            raise
        made = replace(made, passed_over=tuple(passed_over))
        if made.is_kept:
            made = replace(made, owner=None, owner_started=None)
        registry.record(made)
        return made
    raise ScratchFailed(f"no scratch can be made on {blank.on}: {'; '.join(passed_over)}")
