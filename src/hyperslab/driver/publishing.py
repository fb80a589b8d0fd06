"""Publishing: what commands have made gets its names in the output directory.

The driver alone does that, behind the tasks, so that nobody has to lock names:

- a file appears under its name whole, by one rename, once it is on storage; one from a fast tier is
  read back before, in a copy beside the records unless it can be renamed from there
- a name belongs to the task that has made it; no other takes it, and nothing takes the place of
  what no run has written. Where tasks may share names, the first one has them, and what others
  make of them is left out, and told where it differs (`driver.unkept`)
- a file is of an attempt that was killed before it has said so only where it is as that has made it
- what they say of all that is there gets no name, and is kept as a statement
- what a task that is done again makes takes the place of all that it had made before

Whose names are is known from the journals, which say what a task has made before it is named. A
call, beside which others write, reads some of them only: a file that is there and is none of its
own belongs to another one, or to nobody. Held by tests/apps/commands and
tests/apps/bids/test_shared_names.py.
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
from hyperslab.driver import statements
from hyperslab.driver.resume import Inherited
from hyperslab.driver.unkept import Shared
from hyperslab.errors import OutputBusy
from hyperslab.plan.command import PRIVATE
from hyperslab.plan.delivery import Lost
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Job, Outcome, Task
from hyperslab.storage import fence, renaming
from hyperslab.storage.permitted import remove_tree
from hyperslab.trace import VERIFY, span

_PIECE_NBYTES = 8 * 1024**2


class Publishing:
    """The names in the output directory of one submission, and who they belong to."""

    def __init__(
        self, out: Path, folder: Path, inherited: Iterable[Inherited], is_call: bool = False
    ) -> None:
        """`folder` is that of the submission; `is_call` says that others write to `out`, too."""
        self._out = out
        self._private = folder / PRIVATE
        self._top = folder.parent
        self._is_call = is_call
        earlier = _earlier(inherited, is_call)
        self._owners = earlier.named
        self._doubted = earlier.doubted()
        "What attempts have made that were perhaps killed before they named it, by its names."
        self._unsure: dict[int, set[str]] = {}
        "Names that earlier attempts at a task may have given, and another call as well."
        if is_call:
            self._unsure = _names_of_tasks(earlier.staged)
        else:
            self._owners = earlier.staged | earlier.named
        self._names = _names_of_tasks(self._owners)
        self._firsts: set[str] = set()
        "Names to be given unless somebody else gives them first, as another call may."
        self._lock = threading.Lock()
        self.shared = Shared(out)
        "What tasks have made under names that several may give."

    def deliver(self, job: Job, task: Task, outcome: Outcome) -> tuple[Written, ...]:
        """Give what a task has made its names. Raises Lost where it is gone, OutputBusy for names
        of others, OSError.
        """
        assert outcome.ran is not None
        place = Path(outcome.ran.place)
        if not self.is_there(outcome):
            raise Lost(str(place))
        self._disown(task, outcome.outputs)
        made, earlier = self._claim(task, outcome.outputs)
        is_private = place.parent == self._private
        try:
            if is_private:
                _settle(place, made, outcome.ran.is_synced)
            for written in made:
                if is_private:
                    self._name(place / written.path, written)
                else:
                    self._fetch(place / written.path, written)
        finally:
            not_given = self._given_up(task)
        for name in not_given:
            if _owns(task, name):
                raise self._is_of_others(name)
        self._keep_statements(task, place)
        made = tuple(one for one in made if one.path not in not_given)
        self._see_shared(task, outcome.outputs, made)
        if not is_private:
            _settle_names(self._out, made)
        self._drop(task, earlier)
        return made

    def _see_shared(self, task: Task, written: Sequence[Written], named: Sequence[Written]) -> None:
        """Note what a task has made under names that others may give, too."""
        assert task.command is not None
        of_all = [one for one in written if not _owns(task, one.path)]
        given = {one.path for one in named}
        kept = [one for one in of_all if one.path in given]
        left_out = [one for one in of_all if one.path not in given]
        self.shared.see(task.command.label, kept, left_out)

    def _keep_statements(self, task: Task, place: Path) -> None:
        """Keep what a task says of all that is there. Raises Lost, OSError."""
        assert task.command is not None
        for name in task.command.statements:
            fence.require_open()
            with _on_tier(place):
                text = statements.text_of(place / name)
            statements.keep(self._top, name, text, task.command.speaker)

    def is_there(self, outcome: Outcome) -> bool:
        """Whether what an attempt has made is where it was staged."""
        assert outcome.ran is not None
        return os.path.isdir(outcome.ran.place)

    def forget(self, outcome: Outcome) -> None:
        """Remove the private folder of an attempt, and those of an earlier submission with the last
        of them.
        """
        if outcome.ran is None or not outcome.ran.place:
            return
        place = Path(outcome.ran.place)
        remove_tree(place)
        if place.parent.name == PRIVATE and place.parent != self._private:
            with suppress(OSError):  # it holds more
                place.parent.rmdir()

    def _disown(self, task: Task, written: Sequence[Written]) -> None:
        """See that no name which matters for a task passes for given because somebody was about to
        give it: a file that is there and is another one belongs to who has put it there. Raises
        OSError.
        """
        names = {one.path for one in written}
        with self._lock:
            names |= self._names.get(task.id, set()) | self._unsure.get(task.id, set())
            for name in sorted(names & self._doubted.keys()):
                is_own = _may_be_one_of(self._out / name, self._doubted[name])
                del self._doubted[name]
                if not is_own:
                    self._leave(name)

    def _leave(self, name: str) -> None:
        """Let a name be that of a file which no task has made."""
        self._owners.pop(name, None)
        for owned in (*self._names.values(), *self._unsure.values()):
            owned.discard(name)

    def _claim(
        self, task: Task, written: Sequence[Written]
    ) -> tuple[tuple[Written, ...], set[str]]:
        """Let the names be the task's, but for those that others may have as well, and have: what
        has a name now, and the names of what the task had made before, and now has not. These stay
        its own until they are dropped, as an attempt may fail before. Raises OutputBusy.
        """
        with self._lock:
            self._adopt(task)
            made = tuple(one for one in written if not self._is_there_already(task, one.path))
            names = {one.path for one in made}
            for name in sorted(names):
                self._require_free(task, name)
            before = self._names.get(task.id, set())
            earlier = (before | self._replaced(task)) - names
            new = names - before
            self._firsts |= {name for name in new if self._is_call or not _owns(task, name)}
            self._names[task.id] = names | earlier
            for name in names:
                self._owners[name] = task.id
        return made, earlier

    def _replaced(self, task: Task) -> set[str]:
        """Names of what a task may take the place of: of files that belong to nobody."""
        assert task.command is not None
        return {name for name in task.command.replaces if self._owners.get(name) is None}

    def _adopt(self, task: Task) -> None:
        """Let names be the task's that an earlier attempt may have given, but for those that others
        may have as well: these may have been first.
        """
        for name in self._unsure.pop(task.id, ()):
            if _owns(task, name) and name not in self._owners:
                self._owners[name] = task.id
                self._names.setdefault(task.id, set()).add(name)

    def _given_up(self, task: Task) -> set[str]:
        """New names that this task has not given: others were first, or it has failed before."""
        with self._lock:
            names = self._names[task.id]
            not_given = names & self._firsts
            names -= not_given
            self._firsts -= not_given
            for name in not_given:
                del self._owners[name]
        return not_given

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
        if name in self._replaced(task) or not os.path.lexists(self._out / name):
            return
        if self._is_call:
            raise self._is_of_others(name)
        raise OutputBusy(f"{self._out / name} is there, and no run has written it: move it away")

    def _is_of_others(self, name: str) -> OutputBusy:
        """What a call says of a file that it did not expect."""
        return OutputBusy(
            f"{self._out / name} is there, and this task has not made it: another one may have, so"
            " that each has to give its files names of their own; move it away only where nobody"
            " has"
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
        """Name a file where it can be renamed: not between two mounts, of one device even. Raises
        Lost, OSError.
        """
        with span(VERIFY), _on_tier(far):
            writing.settle(far)
            _require_whole(far, written)
        try:
            self._name(far, written)
        except FileNotFoundError as error:  # somebody has removed it meanwhile
            raise Lost(str(far)) from error
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
        if written.path not in self._firsts:
            ready.replace(final)  # which is no folder
            return
        try:
            renaming.rename(ready, final, overwrite=False)
        except FileExistsError:  # somebody else was first
            ready.unlink()
        else:
            self._firsts.discard(written.path)

    def _drop(self, task: Task, names: Iterable[str]) -> None:
        """Remove what a task had made that was done again, and does not make any more: the names
        are nobody's then.
        """
        for name in names:
            with suppress(FileNotFoundError):
                (self._out / name).unlink()
        with self._lock:
            self._names[task.id].difference_update(names)
            for name in names:
                self._owners.pop(name, None)


@contextmanager
def _on_tier(far: Path) -> Iterator[None]:
    """A block that reads a file on a fast tier: where that fails, as of a tier that is gone, it is
    Lost.
    """
    try:
        yield
    except OSError as error:
        raise Lost(f"{far}: {error.strerror}") from error


def _settle(place: Path, made: Iterable[Written], is_synced: bool) -> None:
    """Wait until all that was made beside the records is on storage, before any of it has its name:
    storage that is full, or fails, says so now. Raises OSError.
    """
    if not is_synced:
        for written in made:
            renaming.synchronise(place / written.path)


def _may_be_one_of(path: Path, attempts: Sequence[Written]) -> bool:
    """Whether nothing is there, or a file that one of these attempts has made. Raises OSError."""
    if not os.path.lexists(path):
        return True
    if not path.is_file():
        return False
    nbytes = path.stat().st_size
    sums = [one.checksum for one in attempts if one.nbytes == nbytes]
    return bool(sums) and ("" in sums or checksums.of_file(path) in sums)


def _owns(task: Task, name: str) -> bool:
    """Whether no other task may make a file of this name."""
    assert task.command is not None
    return task.command.owns(name)


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


class _Earlier:
    """Tasks that names belong to, by what earlier attempts have said; None: to nobody any more."""

    def __init__(self) -> None:
        self.named: dict[str, int | None] = {}
        "Owners of names that were given."
        self.staged: dict[str, int | None] = {}
        "Owners of names that may have been given."
        self._about_to: dict[str, list[Written]] = {}
        "What has been about to get a name."
        self._of_task: dict[int, set[str]] = {}

    def note(self, task: int | None, outcome: Outcome) -> None:
        """Add what an attempt has made. One that is done leaves nothing of what the task had made
        before.
        """
        names = {written.path for written in outcome.outputs}
        found = self.staged
        if outcome.status == "done":
            found = self.named
            self._forget(task, names)
        else:
            for written in outcome.outputs:
                self._about_to.setdefault(written.path, []).append(written)
        found |= dict.fromkeys(names, task)
        if task is not None:
            self._of_task.setdefault(task, set()).update(names)

    def doubted(self) -> dict[str, list[Written]]:
        """What attempts have made, by names of which nobody has said that they were given."""
        return {name: made for name, made in self._about_to.items() if name not in self.named}

    def _forget(self, task: int | None, made: set[str]) -> None:
        if task is None:
            return
        for name in self._of_task.pop(task, set()) - made:
            for found in (self.named, self.staged):
                if found.get(name) == task:
                    del found[name]


def _earlier(inherited: Iterable[Inherited], is_call: bool) -> _Earlier:
    """What all earlier attempts have made, also those of tasks that are to be done again. Names of
    tasks that are not here belong to nobody, as those of a later stage that is gone, but not in a
    call, where others have these tasks.
    """
    earlier = _Earlier()
    for submission in inherited:
        for outcome in that_may_have_named(Tail(submission.folder).poll()):
            task = _task_here(submission, outcome)
            if task is not None or not is_call:
                earlier.note(task, outcome)
    return earlier


def that_may_have_named(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Attempts that may have given names to what they have made, those that have said so last. One
    that was refused a name has given none.
    """
    refused = {
        (outcome.task, outcome.attempt)
        for outcome in outcomes
        if outcome.failure is not None and outcome.failure.error == OutputBusy.__name__
    }
    staged = [
        outcome
        for outcome in outcomes
        if outcome.status == "staged" and (outcome.task, outcome.attempt) not in refused
    ]
    return staged + [outcome for outcome in outcomes if outcome.status == "done"]


def _task_here(submission: Inherited, outcome: Outcome) -> int | None:
    """The task of an attempt, as it is numbered here; None where it is not here."""
    if submission.ids is None:
        return outcome.task
    task = submission.ids.get(outcome.task)
    if task is not None and task < 0:
        return ~task
    return task


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
