"""Naming: files that are complete get their names, a batch of them at a time.

- the bytes of a batch are on storage before a line says which files they are, that line before the
  first of them has its name, and the names before what they replace goes: the storage is waited for
  by several threads at once, and three times a batch rather than three times a file
- what keeps one file from its name does not keep others of its batch from theirs
- a process that is killed leaves files with names and files without, each whole

Held by tests/system/faults/test_naming.py and tests/system/faults/test_commit.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from hyperslab.blocks.writing import Written
from hyperslab.blocks.writing.forms import form_of
from hyperslab.blocks.writing.forms.form import Form, Ready
from hyperslab.blocks.writing.part_folders import discard_all
from hyperslab.driver import allocations
from hyperslab.driver.committed import Committed, describe, note
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import HyperslabError, RunStopped
from hyperslab.plan.task import Volume
from hyperslab.storage import renaming
from hyperslab.storage.frame import Frame
from hyperslab.storage.full import why
from hyperslab.units import show_count

AT_ONCE = 16
"Files whose bytes are waited for at the same time."
BATCH = 64
"Files that get their names together: few enough for progress to be seen, and for a kill to matter."

Told = Callable[[int, int], None]
"Function that is told how many files have been looked after, and of how many."
T = TypeVar("T")
S = TypeVar("S")


class Complete(NamedTuple):
    """A file all of whose regions are there, while it has not got its name."""

    volume: Volume
    outputs: Sequence[Written]
    "What was written of each region."
    may_replace: bool = False
    "Whether what has its name goes."

    @property
    def final(self) -> Path:
        return Path(self.volume.sink.path)

    @property
    def form(self) -> Form:
        return form_of(self.volume.sink)


Step = tuple[Complete, T]
"A file, and what has come of it so far."
Described = tuple[Ready, Committed]
"What is to get a name, and what there is to note of it."


def name_all(
    directory: RunDirectory, files: Sequence[Complete], told: Told
) -> Iterator[RunStopped]:
    """Let files appear under their names; yields what keeps some of them from it, after each
    batch.
    """
    if files:
        told(0, len(files))
    for first in range(0, len(files), BATCH):
        batch = _Batch(directory)
        batch.name(files[first : first + BATCH])
        told(min(first + BATCH, len(files)), len(files))
        yield from batch.problems()


class _Batch:
    """Files that get their names together, and what went wrong with some."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._failed: list[tuple[Complete, Exception]] = []

    def name(self, files: Iterable[Complete]) -> None:
        """Let files appear under their names, as far as nothing prevents it."""
        ready = self._each(((file, file) for file in files), _completed)
        described = self._secured(ready)
        try:
            note(self._directory, [done for _, (_, done) in described])
        except OSError as error:
            self._failed += [(file, error) for file, _ in described]
            return
        outdated = self._each(described, _named)
        try:
            for folder in {file.final.parent for file, _ in outdated}:
                renaming.synchronise(folder, only_names=True)
        except OSError as error:
            self._failed += [(file, error) for file, _ in outdated]
            return
        self._each(outdated, _tidied)

    def _secured(self, ready: Sequence[Step[Ready]]) -> list[Step[Described]]:
        """Wait for the bytes of files, several at a time; returns the files that are on storage."""
        with ThreadPoolExecutor(AT_ONCE) as beside:
            waiting = [(file, (each, beside.submit(each.secure))) for file, each in ready]
        secured = self._each(waiting, _awaited)
        kept = {file.final for file, _ in secured}
        if lost := [file for file, _ in ready if file.final not in kept]:
            self._directory.doubt(Path(file.volume.partial) for file in lost)
        return secured

    def _each(self, files: Iterable[Step[T]], step: Callable[[Complete, T], S]) -> list[Step[S]]:
        """What a step makes of those files with which it does not fail."""
        found = []
        for file, so_far in files:
            try:
                found.append((file, step(file, so_far)))
            except Exception as error:  # noqa: BLE001  # formats' libraries raise what they like
                self._failed.append((file, error))
        return found

    def problems(self) -> Iterator[RunStopped]:
        """What keeps files from their names, once for all that have the same reason."""
        alike: dict[str, list[tuple[Complete, Exception]]] = {}
        for file, error in self._failed:
            alike.setdefault(_kind(file, error), []).append((file, error))
        for group in alike.values():
            yield _stopped([file for file, _ in group], group[0][1], self._directory)


def _completed(file: Complete, _: Complete) -> Ready:
    outputs = allocations.require_complete(file.volume, file.outputs)
    return file.form.complete(*file.volume, outputs)


def _awaited(file: Complete, begun: tuple[Ready, Future[Frame]]) -> Described:
    """What there is to note of a file, once its bytes are on storage."""
    ready, securing = begun
    frame = securing.result()
    return ready, describe(file.final, Path(file.volume.partial), ready.path, frame)


def _named(file: Complete, described: Described) -> list[Path]:
    ready, _ = described
    return file.form.name_file(*file.volume, ready, file.may_replace)


def _tidied(file: Complete, outdated: Sequence[Path]) -> None:
    discard_all(outdated, file.final)


def _kind(file: Complete, error: Exception) -> str:
    """What is the same of failures that are told together: those of the system, by what it says."""
    if isinstance(error, OSError) and not isinstance(error, FileExistsError):
        return f"system {error.errno}"
    return f"file {file.final}"


def _stopped(files: Sequence[Complete], error: Exception, directory: RunDirectory) -> RunStopped:
    """What is told of files that have the same reason not to get their names."""
    first = files[0]
    partial = first.volume.partial
    if isinstance(error, FileExistsError):
        stopped = RunStopped(
            f"{first.final} was created by somebody else during the run, and is kept; the results"
            f" are in {partial}",
            "move the existing file away and use --resume",
        )
    elif isinstance(error, HyperslabError):
        stopped = RunStopped(error.sentence, error.resuming)
    else:
        reason = _reason(error, directory.root)
        place = partial if len(files) == 1 else directory.out
        stopped = RunStopped(
            f"{_listed(files)} cannot be finished: {reason}; what was written stays in {place}",
            "fix that, then use --resume",
        )
    stopped.__cause__ = error
    return stopped


def _listed(files: Sequence[Complete]) -> str:
    if len(files) == 1:
        return str(files[0].final)
    return f"{files[0].final} and {show_count(len(files) - 1, 'other file')}"


def _reason(error: Exception, place: Path) -> str:
    """What an exception says, in few words."""
    if isinstance(error, OSError) and error.strerror:
        return why(error, place)
    return str(error) or type(error).__name__
