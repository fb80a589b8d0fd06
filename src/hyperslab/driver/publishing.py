"""Publishing: what commands have made gets its names in the output directory.

The driver alone does that, behind the tasks, so that nobody has to lock names:

- a file appears under its name whole, by one rename; one from a fast tier is synced and read back
  before, in a copy beside the records unless it can be renamed from there
- a name belongs to the task that has made it; no other takes it, and nothing takes the place of
  what no run has written. Where tasks may share names, the first one has them, and what others
  make of them is left out
- what a task that is done again makes takes the place of all that it had made before

Whose names are is known from the journals, which say what a task has made before it is named. Held
by tests/apps/commands.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.blocks import checksums, writing
from hyperslab.blocks.writing import Written
from hyperslab.driver.resume import Inherited
from hyperslab.errors import OutputBusy
from hyperslab.plan.command import PRIVATE
from hyperslab.plan.delivery import Lost
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Job, Outcome, Task
from hyperslab.storage import fence, renaming
from hyperslab.trace import VERIFY, span

_PIECE_NBYTES = 8 * 1024**2


class Publishing:
    """The names in the output directory of one submission, and who they belong to."""

    def __init__(self, out: Path, folder: Path, inherited: Iterable[Inherited]) -> None:
        """`folder` is that of the submission."""
        self._out = out
        self._private = folder / PRIVATE
        self._owners = _owners(inherited)
        self._names = _names_of_tasks(self._owners)
        self._firsts: set[str] = set()
        "Names that are given unless somebody else gives them first, as another call may."
        self._late: set[str] = set()
        "Names among them that somebody else has given."
        self._lock = threading.Lock()

    def deliver(self, job: Job, task: Task, outcome: Outcome) -> tuple[Written, ...]:
        """Give what a task has made its names. Raises Lost where it is gone, OutputBusy for names
        of others, OSError.
        """
        assert outcome.ran is not None
        place = Path(outcome.ran.place)
        if not os.path.isdir(place):
            raise Lost(str(place))
        made, earlier = self._claim(task, outcome.outputs)
        is_private = place.parent == self._private
        try:
            for written in made:
                if is_private:
                    self._name(place / written.path, written)
                else:
                    self._fetch(place / written.path, written)
        finally:
            late = self._given_up(task)
        made = tuple(one for one in made if one.path not in late)
        if not is_private:
            _settle_names(self._out, made)
        self._drop(earlier)
        return made

    def forget(self, outcome: Outcome) -> None:
        """Remove the private folder of an attempt."""
        if outcome.ran is not None and outcome.ran.place:
            shutil.rmtree(outcome.ran.place, ignore_errors=True)

    def _claim(
        self, task: Task, written: Sequence[Written]
    ) -> tuple[tuple[Written, ...], set[str]]:
        """Let the names be the task's, but for those that others may have as well, and have: what
        has a name now, and the names of what the task had made before, and now has not. Raises
        OutputBusy.
        """
        with self._lock:
            made = tuple(one for one in written if not self._is_there_already(task, one.path))
            names = {one.path for one in made}
            for name in sorted(names):
                self._require_free(task, name)
            before = self._names.get(task.id, set())
            earlier = before - names
            self._firsts |= {name for name in names - before if not _owns(task, name)}
            self._names[task.id] = names
            for name in names:
                self._owners[name] = task.id
            for name in earlier:
                del self._owners[name]
        return made, earlier

    def _given_up(self, task: Task) -> set[str]:
        """Names that others may have as well, and had before this task could give them."""
        with self._lock:
            names = self._names[task.id]
            late = names & self._late
            names -= late
            self._firsts -= names
            self._late -= late
            for name in late:
                del self._owners[name]
        return late

    def _is_there_already(self, task: Task, name: str) -> bool:
        """Whether a file that several tasks may make is there, of another one."""
        if _owns(task, name) or self._owners.get(name) == task.id:
            return False
        return name in self._owners or os.path.lexists(self._out / name)

    def _require_free(self, task: Task, name: str) -> None:
        is_known = name in self._owners
        owner = self._owners.get(name)
        if is_known and owner in (task.id, None):
            return
        if is_known:
            raise OutputBusy(
                f"another task has written {name} already: let each task give its files names of"
                " their own"
            )
        if os.path.lexists(self._out / name):
            raise OutputBusy(
                f"{self._out / name} is there, and no run has written it: move it away"
            )

    def _fetch(self, far: Path, written: Written) -> None:
        """Name a file from a fast tier once it is on storage and was read back. Raises Lost,
        OSError.
        """
        if self._is_near(far) and self._is_renamed(far, written):
            return
        self._name(self._brought(far, written), written)

    def _is_near(self, far: Path) -> bool:
        """Whether a file on a tier is on the device of the outputs, and may be renamed."""
        with _on_tier(far):
            device = os.stat(far).st_dev
        return device == os.stat(self._out).st_dev

    def _is_renamed(self, far: Path, written: Written) -> bool:
        """Name a file where it can be renamed: not between two mounts, of one device even."""
        with span(VERIFY), _on_tier(far):
            writing.settle(far)
            _require_whole(far, written)
        try:
            self._name(far, written)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        return True

    def _brought(self, far: Path, written: Written) -> Path:
        """A copy of a file from a fast tier beside the records, on storage and read back. Raises
        Lost, OSError.
        """
        self._private.mkdir(exist_ok=True)
        copy = self._private / secrets.token_hex(8)
        try:
            _pour(far, copy)
            with suppress(OSError):  # of a tier that is gone now, or storage without modes
                shutil.copymode(far, copy)
            with span(VERIFY):
                self._require_arrived(copy, far, written)
        except BaseException:
            with suppress(OSError):
                copy.unlink()
            raise
        return copy

    def _require_arrived(self, copy: Path, far: Path, written: Written) -> None:
        """Raise Lost for a file that is another one on its tier, OSError where the copy is."""
        writing.settle(copy)
        if checksums.of_file(copy) == written.checksum:
            return
        with _on_tier(far):
            _require_whole(far, written)
        message = "what was read back is not what had been written"
        raise OSError(errno.EIO, message, str(self._out / written.path))

    def _name(self, ready: Path, written: Written) -> None:
        final = self._out / written.path
        fence.require_open()
        final.parent.mkdir(parents=True, exist_ok=True)
        if written.path in self._firsts and _is_late(ready, final):
            self._late.add(written.path)
            return
        ready.replace(final)  # which is no folder

    def _drop(self, names: Iterable[str]) -> None:
        """Remove what a task had made that was done again, and does not make any more."""
        for name in names:
            with suppress(FileNotFoundError):
                (self._out / name).unlink()


@contextmanager
def _on_tier(far: Path) -> Iterator[None]:
    """A block that reads a file on a fast tier: where that fails, as of a tier that is gone, it is
    Lost.
    """
    try:
        yield
    except OSError as error:
        raise Lost(f"{far}: {error.strerror}") from error


def _owns(task: Task, name: str) -> bool:
    """Whether no other task may make a file of this name."""
    assert task.command is not None
    return task.command.owns(name)


def _is_late(ready: Path, final: Path) -> bool:
    """Whether somebody has given a name before; a second name of the file says so in one step."""
    try:
        os.link(ready, final)
    except FileExistsError:
        return True
    except OSError:  # of a file system without such names, where two may give one at a time
        return False
    return False


def _require_whole(far: Path, written: Written) -> None:
    if checksums.of_file(far) != written.checksum:
        raise Lost(f"{far} is not as it was written")


def _pour(far: Path, copy: Path) -> None:
    """Copy a file from a fast tier. Raises Lost, OSError."""
    with copy.open("xb") as file:
        for piece in _pieces(far):
            file.write(piece)


def _pieces(far: Path) -> Iterator[bytes]:
    """The content of a file on a fast tier. Raises Lost."""
    with _on_tier(far), far.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE_NBYTES):
            yield piece


def _owners(inherited: Iterable[Inherited]) -> dict[str, int | None]:
    """The tasks that names belong to, by all that earlier attempts have made, also those of tasks
    that are to be done again. Names of tasks of a later stage that is gone belong to nobody.
    """
    staged: dict[str, int | None] = {}
    named: dict[str, int | None] = {}
    for submission in inherited:
        for outcome in Tail(submission.folder).poll():
            task: int | None = outcome.task
            if submission.ids is not None:
                task = submission.ids.get(outcome.task)
            if outcome.status in ("staged", "done"):
                if task is not None and task < 0:
                    task = ~task
                found = named if outcome.status == "done" else staged
                found |= {written.path: task for written in outcome.outputs}
    return staged | named


def _names_of_tasks(owners: Mapping[str, int | None]) -> dict[int, set[str]]:
    """The names that belong to each task."""
    found: dict[int, set[str]] = {}
    for name, task in owners.items():
        if task is not None:
            found.setdefault(task, set()).add(name)
    return found


def _settle_names(out: Path, made: Iterable[Written]) -> None:
    folders = {(out / written.path).parent for written in made}
    for folder in sorted(folders):
        renaming.synchronise(folder, only_names=True)
