"""Holding: scratch that is there as long as a command, whose temporary files go to it.

What becomes of it is told, a sentence each, however the command ends. That it could not be removed
is told, too, and is no reason for what is done to fail.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.foreground import run_in_foreground
from hyperslab.machine.within import within
from hyperslab.machine.words import unset_in
from hyperslab.storage.scratch import program, registry, sizing
from hyperslab.storage.scratch.making import AUTO, Wish, create
from hyperslab.storage.scratch.registry import DIRECTORY, TMPFS, Scratch
from hyperslab.storage.scratch.removing import why_left
from hyperslab.storage.scratch.ways import MEMORY

VARIABLES = ("TMPDIR", "SPARK_LOCAL_DIRS", "DASK_TEMPORARY_DIRECTORY")
"""Variables by which programs are told where temporary files go: POSIX's own; Spark's, which goes
before spark.local.dir; Dask's, for what workers spill.
"""
_FLAG = "--scratch"
IMAGE = "image:"
"What goes before a directory in which scratch is to be one file."
_FORMS = f"auto, tmpfs, {IMAGE}DIR, or a directory"
Tell = Callable[[str], None]
"Takes a sentence on what became of scratch."


def wish_for_run(text: str, nbytes: int | None) -> Wish:
    """What `--scratch` of a run asks for, whose temporary files may take so many bytes; None:
    nobody knows. Variables have the values that they have here. Raises UsageError.
    """
    text = _here(text)
    temporary = Path(tempfile.gettempdir())
    needed = None
    if nbytes is not None:
        needed = sizing.shuffled_nbytes(nbytes, 0, 0)
    if text == AUTO:
        text = _chosen_for(needed, temporary)
    if text == TMPFS:
        return Wish(MEMORY, _ceiling_in_memory(needed), TMPFS, flag=_FLAG)
    if text.startswith(IMAGE):
        return Wish(Path(_named_behind(text)), fallback=temporary, flag=_FLAG)
    if not _is_directory(Path(text)):
        raise UsageError(f"{_FLAG} {text}: {_why_none(text)}; give {_FORMS}")
    return Wish(Path(text), sizing.BLOCK_NBYTES, DIRECTORY, flag=_FLAG)


def _here(text: str) -> str:
    """A text with the values of its variables. Raises UsageError for one that has none."""
    unset = unset_in(text)
    if unset:
        raise UsageError(
            f"{_FLAG}: {text} is not known on {socket.gethostname()}, where {unset[0]} is not"
            " set; give a directory, or a variable that is set wherever scratch is made"
        )
    return os.path.expandvars(text)


def _why_none(text: str) -> str:
    """Why a text names no directory, as a clause."""
    if "," in text:
        return "engines take turns with several directories, so that the slowest sets the pace"
    return "there is no such directory"


def _is_directory(place: Path) -> bool:
    """Whether a directory is there. Raises UsageError for one that does not answer in time."""
    with sizing.answering(_FLAG, place):
        return within(sizing.ANSWER_S, place.is_dir)


def _named_behind(text: str) -> str:
    """The directory that `image:` names. Raises UsageError where it names none, as with a variable
    of a shell that is empty: that is not the working directory.
    """
    folder = text.removeprefix(IMAGE)
    if not folder:
        raise UsageError(f"{_FLAG} {text} names no directory; give {_FORMS}")
    return folder


def _ceiling_in_memory(needed: int | None) -> int | None:
    """Room in memory, where nothing goes on elsewhere: no less than is free to use, as functions
    may leave more there than engines are known to. None: half of what is free.
    """
    if needed is None or not MEMORY.is_dir():
        return needed
    return max(needed, sizing.usual_nbytes(str(MEMORY)))


def _chosen_for(needed: int | None, temporary: Path) -> str:
    """Memory, if half of what is available there is known to be enough."""
    otherwise = f"{IMAGE}{temporary}"
    if needed is None or not MEMORY.is_dir():
        return otherwise
    if needed > sizing.usual_nbytes(str(MEMORY)):
        return otherwise
    return TMPFS


def wherever(text: str) -> str:
    """What `--scratch` asks for, in words that mean the same in every folder. A variable at the
    beginning is that of the host on which scratch is made. Raises UsageError.
    """
    if text in (AUTO, TMPFS):
        return text
    if text.startswith(IMAGE):
        return f"{IMAGE}{_in_every_folder(_named_behind(text))}"
    return _in_every_folder(text)


def _in_every_folder(folder: str) -> str:
    if folder.startswith("$"):
        return folder
    return os.path.abspath(folder)


@contextmanager
def held(wish: Wish, tell: Tell) -> Iterator[Scratch]:
    """Scratch as wished for, as long as a block lasts; what has become of it is told then. Raises
    UsageError, and HyperslabError where it cannot be made.
    """
    made = create(wish)
    try:
        yield made
    finally:
        notes = [*notes_on(made), given_up(made)]
        for note in filter(None, notes):
            tell(note)


def given_up(made: Scratch) -> str:
    """Remove scratch that nobody needs any more. Returns a sentence on what could not be removed;
    '' where nothing remains.
    """
    why = why_left(made)
    if not why:
        return ""
    return (
        f"scratch {made.name} on {made.on} could not be removed: {why}; 'hyperslab scratch"
        f" remove {made.name}' on {socket.gethostname()} removes what remains, as does the next"
        " scratch that is made there"
    )


def excuses(made: Scratch) -> list[str]:
    """Why names cost what they cost on the storage, where nothing better could be made."""
    if made.way != DIRECTORY or not made.passed_over:
        return []
    return [f"temporary files went to a plain directory: {'; '.join(made.passed_over)}"]


def notes_on(made: Scratch) -> list[str]:
    """Sentences on what became of the files of scratch that is still there."""
    return [*excuses(made), *program.notes(made)]


def run_within(made: Scratch, words: Sequence[str]) -> int:
    """Run a command whose temporary files go to scratch; returns its exit status. Where this
    process is killed meanwhile, both go on until the command ends. Raises UsageError where it
    cannot be started.
    """
    environment = {**os.environ, **surroundings(made)}
    command = [*program.prefix(made), *words]
    with registry.in_use(made) as use:
        handed_on = [use, *program.lifelines(made)]
        return run_in_foreground(command, environment, words[0], handed_on)


def surroundings(made: Scratch) -> dict[str, str]:
    """Variables of a command whose temporary files go to scratch; it is to be run behind the words
    of `storage.scratch.program.prefix`.
    """
    return dict.fromkeys(VARIABLES, made.folder)
