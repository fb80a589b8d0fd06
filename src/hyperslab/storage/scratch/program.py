"""Program: hyperslab-scratch, found and started; and the processes of scratch."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

from hyperslab.errors import HyperslabError
from hyperslab.machine.built import Built
from hyperslab.storage.emulation.program import NotReady, begun
from hyperslab.storage.scratch.registry import NAMESPACE, Scratch

PROGRAM = Built("hyperslab-scratch", "HYPERSLAB_SCRATCH_PROGRAM", "scratch", "scratch in one file")
OVERFLOW, LOST = "overflow: ", "lost: "
"How lines begin by which the program tells what becomes of files."
_OTHER = "fuse2fs"
"Program of the way of that name; it has no other name, as that of this project may have."
_lifelines: dict[str, IO[bytes]] = {}
"What a program ends with that is there for this process; held open until then."


class ScratchFailed(HyperslabError):
    """Scratch that could not be made."""


def command(scratch: Scratch) -> list[str]:
    """How the program is started for scratch."""
    words = [
        *(PROGRAM.find(), *_mounting(scratch)),
        *("--name", scratch.source),
        *("--namespace", _word(scratch.way == NAMESPACE)),
        *("--lifeline", _word(not scratch.is_kept)),
    ]
    if scratch.fallback:
        words += ["--fallback", scratch.fallback]
        words += ["--fallback-nbytes", str(scratch.fallback_nbytes)]
    return words


def _mounting(scratch: Scratch) -> tuple[str, ...]:
    """Words behind its name by which a program is told what it is to mount."""
    return ("mount", scratch.on, str(scratch.nbytes), scratch.folder)


def _word(is_so: bool) -> str:
    return "yes" if is_so else "no"


def start(scratch: Scratch) -> int:
    """Process that serves scratch, which is mounted by then. It ends with this process, where it is
    there for that. Raises ScratchFailed.
    """
    stdin = subprocess.PIPE
    if scratch.is_kept:
        stdin = subprocess.DEVNULL
    try:
        process = begun(command(scratch), scratch.log, stdin)
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


def prefix(scratch: Scratch) -> tuple[str, ...]:
    """Words before a command that is to see the directory under its own name."""
    if scratch.way != NAMESPACE:
        return ()
    return (PROGRAM.find(), "enter", str(scratch.pid))


def processes_of(scratch: Scratch) -> list[int]:
    """Processes that serve scratch, whoever has noted their numbers."""
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [int(entry.name) for entry in entries if _serves(entry, scratch)]


def _serves(entry: Path, scratch: Scratch) -> bool:
    told = ""
    with suppress(OSError):  # it has ended
        told = os.fsdecode((entry / "cmdline").read_bytes())
    words = told.split("\0")
    is_other = os.path.basename(words[0]) == _OTHER and scratch.folder in words
    return is_other or "\0".join((*_mounting(scratch), "")) in told


def notes(scratch: Scratch) -> list[str]:
    """Sentences of its program on what became of files."""
    try:
        lines = scratch.log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    told = [line for line in lines if line.startswith((OVERFLOW, LOST))]
    return [line.partition(": ")[2] for line in told]
