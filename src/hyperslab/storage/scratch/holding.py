"""Holding: scratch that is there as long as a command, whose temporary files go to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.storage.scratch import program, sizing
from hyperslab.storage.scratch.making import AUTO, Wish, create
from hyperslab.storage.scratch.registry import DIRECTORY, TMPFS, Scratch
from hyperslab.storage.scratch.removing import remove
from hyperslab.storage.scratch.ways import MEMORY

VARIABLES = ("TMPDIR", "SPARK_LOCAL_DIRS", "DASK_TEMPORARY_DIRECTORY")
"""Variables by which programs are told where temporary files go: POSIX's own; Spark's, which goes
before spark.local.dir; Dask's, for what workers spill.
"""
IMAGE = "image:"
"What goes before a directory in which scratch is to be one file."
_FORMS = f"auto, tmpfs, {IMAGE}DIR, or a directory"


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has run with scratch."""

    status: int
    made: Scratch
    notes: tuple[str, ...]
    "Sentences on what became of its files."


def wish_for_run(text: str, nbytes: int | None) -> Wish:
    """What `--scratch` of a run asks for, whose temporary files may take so many bytes; None:
    nobody knows. Raises UsageError.
    """
    temporary = Path(tempfile.gettempdir())
    needed = None
    if nbytes is not None:
        needed = sizing.shuffled_nbytes(nbytes, 0, 0)
    if text == AUTO:
        text = _chosen_for(needed, temporary)
    if text == TMPFS:
        return Wish(MEMORY, needed, TMPFS)
    if text.startswith(IMAGE):
        return Wish(Path(text.removeprefix(IMAGE)), fallback=temporary)
    if not Path(text).is_dir():
        raise UsageError(f"--scratch {text}: {_why_none(text)}; give {_FORMS}")
    return Wish(Path(text), sizing.BLOCK_NBYTES, DIRECTORY)


def _why_none(text: str) -> str:
    """Why a text names no directory, as a clause."""
    if "," in text:
        return "engines take turns with several directories, so that the slowest sets the pace"
    return "there is no such directory"


def _chosen_for(needed: int | None, temporary: Path) -> str:
    """Memory, if half of what is available there is known to be enough."""
    otherwise = f"{IMAGE}{temporary}"
    if needed is None or not MEMORY.is_dir():
        return otherwise
    if needed > sizing.usual_nbytes(str(MEMORY)):
        return otherwise
    return TMPFS


def wherever(text: str) -> str:
    """What `--scratch` asks for, in words that mean the same in every folder."""
    if text in (AUTO, TMPFS):
        return text
    folder = os.path.abspath(text.removeprefix(IMAGE))
    if text.startswith(IMAGE):
        return f"{IMAGE}{folder}"
    return folder


@contextmanager
def held(wish: Wish) -> Iterator[Scratch]:
    """Scratch as wished for, as long as a block lasts. Raises UsageError, and HyperslabError where
    it cannot be made.
    """
    made = create(wish)
    try:
        yield made
    finally:
        remove(made, by_force=True)


def excuses(made: Scratch) -> list[str]:
    """Why names cost what they cost on the storage, where nothing better could be made."""
    if made.way != DIRECTORY or not made.passed_over:
        return []
    return [f"temporary files went to a plain directory: {'; '.join(made.passed_over)}"]


def notes_on(made: Scratch) -> tuple[str, ...]:
    """Sentences on what became of the files of scratch that is still there."""
    return (*excuses(made), *program.notes(made))


def run_within(made: Scratch, words: Sequence[str]) -> Ended:
    """Run a command whose temporary files go to scratch. Raises UsageError where it cannot be
    started.
    """
    environment = {**os.environ, **surroundings(made)}
    status = run_in_foreground([*program.prefix(made), *words], environment, words[0])
    return Ended(status, made, notes_on(made))


def surroundings(made: Scratch) -> dict[str, str]:
    """Variables of a command whose temporary files go to scratch; it is to be run behind the words
    of `storage.scratch.program.prefix`.
    """
    return dict.fromkeys(VARIABLES, made.folder)
