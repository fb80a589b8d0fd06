"""Program: hyperslab-scratch, found and started; and the processes of scratch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from hyperslab.errors import HyperslabError
from hyperslab.machine.built import Built
from hyperslab.storage.emulation.program import NotReady, begun
from hyperslab.storage.scratch.registry import NAMESPACE, Scratch

PROGRAM = Built("hyperslab-scratch", "HYPERSLAB_SCRATCH_PROGRAM", "scratch", "scratch in one file")
OVERFLOW, LOST, FULL = "overflow: ", "lost: ", "full: "
"How lines begin by which the program tells what becomes of files."
_OTHER = "fuse2fs"
"Program of the way of that name; it has no other name, as that of this project may have."
_READY_S = 30.0
"Time that a program has until it is ready: others wait for the lock meanwhile."
_lifelines: dict[str, IO[bytes]] = {}
"What a program ends with that is there for this process; held open until then."


class ScratchFailed(HyperslabError):
    """Scratch that could not be made."""


def command(scratch: Scratch, beside: Sequence[int] = ()) -> list[str]:
    """How the program is started for scratch, in the user namespace of one of the processes
    `beside` it where that can be entered.
    """
    words = [
        *(PROGRAM.find(), *_mounting(scratch)),
        *("--name", scratch.source),
        *("--namespace", _word(scratch.way == NAMESPACE)),
        *("--lifeline", _word(not scratch.is_kept)),
    ]
    for pid in beside:
        words += ["--beside", str(pid)]
    if scratch.fallback:
        words += ["--fallback", scratch.fallback]
        words += ["--fallback-nbytes", str(scratch.fallback_nbytes)]
    return words


def _mounting(scratch: Scratch) -> tuple[str, ...]:
    """Words behind its name by which a program is told what it is to mount."""
    return ("mount", scratch.on, str(scratch.nbytes), scratch.folder)


def _word(is_so: bool) -> str:
    return "yes" if is_so else "no"


def start(scratch: Scratch, beside: Sequence[int] = ()) -> int:
    """Process that serves scratch, which is mounted by then, `beside` others as `command` says. It
    ends with this process, where it is there for that. Raises ScratchFailed.
    """
    stdin = subprocess.PIPE
    if scratch.is_kept:
        stdin = subprocess.DEVNULL
    try:
        process = begun(command(scratch, beside), scratch.log, stdin, _READY_S)
    except NotReady as why:
        raise ScratchFailed(str(why)) from None
    if process.stdin is not None:
        _lifelines[scratch.name] = process.stdin
    return process.pid


def let_go(scratch: Scratch) -> None:
    """Let a program end that is there for this process."""
    lifeline = _lifelines.pop(scratch.name, None)
    if lifeline is not None:
        lifeline.close()


def lifelines(scratch: Scratch) -> list[int]:
    """Descriptors with which a program ends once nobody has them any more; [] where it ends with
    nobody.
    """
    return [lifeline.fileno() for name, lifeline in _lifelines.items() if name == scratch.name]


def prefix(scratch: Scratch) -> tuple[str, ...]:
    """Words before a command that is to see the directory under its own name."""
    if scratch.way != NAMESPACE:
        return ()
    return (PROGRAM.find(), "enter", str(scratch.pid))


def running() -> dict[int, str]:
    """The words that each process was called with, a zero behind each, by its number."""
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {int(entry.name): _told(entry) for entry in entries}


def _told(entry: Path) -> str:
    with suppress(OSError):  # it has ended
        return os.fsdecode((entry / "cmdline").read_bytes())
    return ""


def processes_of(scratch: Scratch, among: Mapping[int, str] | None = None) -> list[int]:
    """Processes that serve scratch, whoever has noted their numbers: `among` those that `running`
    has found, or those that run now.
    """
    if among is None:
        among = running()
    return [pid for pid, told in among.items() if _serves(told, scratch)]


def _serves(told: str, scratch: Scratch) -> bool:
    words = told.split("\0")
    is_other = os.path.basename(words[0]) == _OTHER and scratch.folder in words
    return is_other or "\0".join((*_mounting(scratch), "")) in told


def notes(scratch: Scratch) -> list[str]:
    """Sentences of its program on what became of files, as far as it has said them to their end."""
    try:
        lines = scratch.log.read_text(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    whole = [line.rstrip("\n") for line in lines if line.endswith("\n")]
    told = [line.partition(": ")[2] for line in whole if line.startswith((OVERFLOW, LOST))]
    if any(line.startswith(FULL) for line in whole):
        told.append(_full(scratch))
    return told


def _full(scratch: Scratch) -> str:
    places = " and ".join(place for place in (scratch.on, scratch.fallback) if place)
    return (
        f"no room was left in scratch on {places}, and programs were told 'No space left on"
        " device': use storage with more free space, or give 'hyperslab scratch' a larger"
        " --size or a --fallback"
    )
