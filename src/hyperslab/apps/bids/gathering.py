"""Gathering: a group level in a call of its own, beside no run.

- it writes to a folder that nobody else sees
- what it has made gets its names when it has ended well, file by file; what an earlier group level
  has made goes then

Held by tests/apps/bids/test_gathering.py and tests/apps/bids/containers.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.apps.bids.dataset import SUBJECT, Participant
from hyperslab.apps.bids.earlier import outcomes_of, participant_of
from hyperslab.apps.bids.group import require_complete
from hyperslab.apps.bids.running import Selection, busy_with_participants
from hyperslab.apps.bids.unit import Unit
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import OutputBusy, RunStopped
from hyperslab.machine import shortage, spawner
from hyperslab.machine.spawner import Refused
from hyperslab.plan.collecting import collected
from hyperslab.plan.command import CommandTask
from hyperslab.plan.failing import CommandFailed, after, not_started
from hyperslab.plan.journal import Tail
from hyperslab.plan.placeholders import filled, uses
from hyperslab.storage import renaming
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.units import show_count

FOLDER = "group"
"Folder of the group level beside the records of runs: what it writes, and what it prints."
MADE = "made"
"Folder in there of what it writes."
RECORD = "group.json"
"Record of the files that it has made."
_ENDS = re.compile("[_.]")
"What ends the name of a participant in that of a file."
_REMEDY = "remove it, and the files of the group level"


def run_group_command(
    selection: Selection,
    out: Path,
    words: Sequence[str],
    allow_missing: bool = False,
    limit_s: float | None = None,
) -> list[str]:
    """Run a command that puts the results of participants together, with the placeholders of
    commands, for some seconds at most; names of the files that it has made, below the output
    directory.

    Raises UsageError where participants have no result, unless these may be missing, OutputBusy
    where some are being worked on, and RunStopped where the command has failed.
    """
    directory = RunDirectory(out.absolute())
    people = (*selection.units, *_tried(selection.without_images, out))
    with among_complete(people, directory, allow_missing) as place:
        there = place / MADE
        work = place / "work"
        for folder in (there, work):
            folder.mkdir()
        values = {"out": str(there), "work": str(work)}
        what = f"the group level over {out}"
        execute(words, values, directory, os.getcwd(), what, limit_s=limit_s)
        made = _names_in(there)
        _require_own(directory, made)
        if uses(words, "out") and not made:
            raise RunStopped(f"the group level has written nothing to {{out}}: {words[0]}")
        give_names(directory, place, made)
    return made


def _names_in(folder: Path) -> list[str]:
    """Names of the files that a command has left. Raises RunStopped for what is no file."""
    try:
        return [written.path for written in collected(folder)]
    except CommandFailed as error:
        raise RunStopped(f"the group level has failed: {error}") from error


@contextmanager
def among_complete(
    people: Sequence[Unit], directory: RunDirectory, allow_missing: bool
) -> Iterator[Path]:
    """An empty folder in a directory that nobody else uses, and that has the results of units.
    Raises UsageError for units without, unless they may be missing, and OutputBusy.
    """
    out = directory.out
    if not directory.root.is_dir():  # and so nobody works there
        _require_left(people, out, allow_missing)
    with owned(directory):
        _require_done(people, out, allow_missing)
        with private(directory) as place:
            yield place


def require_results(selection: Selection, out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants that have left nothing."""
    _require_left((*selection.units, *selection.without_images), out, allow_missing)


def _require_left(units: Sequence[Unit], out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants that no file is named for."""
    people = dict.fromkeys(unit.participant for unit in units)
    left = _that_have_left(people, out)
    missing = [one.name for one in people if one.name not in left]
    require_complete(len(missing) < len(people), missing, out, allow_missing)


def _require_done(units: Sequence[Unit], out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants of whom something was tried and is not done; where nothing
    is recorded of somebody, for those that no file is named for.
    """
    outcomes = outcomes_of(out)
    failed = {participant_of(label) for label, is_done in outcomes.items() if not is_done}
    done = {participant_of(label) for label, is_done in outcomes.items() if is_done}
    people = dict.fromkeys(unit.participant for unit in units)
    unrecorded = [one for one in people if one.name not in failed | done]
    there = done | _that_have_left(unrecorded, out)
    missing = [_lacking(one.name, there) for one in people if one.name not in there - failed]
    require_complete(any(one.name in there for one in people), missing, out, allow_missing)


def _lacking(name: str, there: Collection[str]) -> str:
    """A participant in the list of those without a result."""
    if name in there:
        return f"{name} (of some sessions)"
    return name


def _tried(units: Sequence[Unit], out: Path) -> list[Unit]:
    """Units without images that an app has been run over all the same."""
    names = {participant_of(label) for label in outcomes_of(out)}
    return [unit for unit in units if unit.participant.name in names]


def _that_have_left(people: Iterable[Participant], out: Path) -> set[str]:
    """Names of participants that something in their folder is named for, as sub-01 of
    sub-01_T1w.html.
    """
    people = list(people)
    stems = {site: _stems(out / site) for site in {one.site for one in people}}
    return {one.name for one in people if SUBJECT + one.label in stems[one.site]}


def _stems(home: Path) -> set[str]:
    """What the names in a folder begin with."""
    with suppress(FileNotFoundError):
        return {_ENDS.split(name, maxsplit=1)[0] for name in os.listdir(home)}
    return set()


@contextmanager
def owned(directory: RunDirectory) -> Iterator[None]:
    """A block in which nobody else uses the directory. Raises OutputBusy."""
    try:
        lock = directory.own()
    except OutputBusy:
        raise busy_with_participants(directory.out) from None
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def private(directory: RunDirectory) -> Iterator[Path]:
    """An empty folder, which is removed however the block ends."""
    place = directory.root / FOLDER
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        spawner.end()
        shutil.rmtree(place, ignore_errors=True)


def execute(
    words: Sequence[str],
    values: Mapping[str, str],
    directory: RunDirectory,
    cwd: str,
    what: str,
    remove: Sequence[str] = (),
    limit_s: float | None = None,
) -> None:
    """Run a command with values for its placeholders, for some seconds at most, and `remove` where
    it has failed. Raises RunStopped, which says what has failed.
    """
    known = {"attempt": f"group.{secrets.token_hex(6)}", "name": FOLDER, **values}
    log = directory.root / f"{FOLDER}.log"
    before = shortage.killed()
    try:
        ended = spawner.run(
            filled(words, known, ()),
            cwd,
            {**os.environ, "TMPDIR": values["work"]},
            str(log),
            limit_s,
            lambda: None,
            filled(remove, known, ()),
        )
        if ended.status:
            raise after(
                CommandTask(FOLDER, tuple(words)), ended, limit_s, shortage.killed() > before
            )
    except (Refused, CommandFailed) as error:
        reason = error
        if isinstance(error, Refused):
            reason = not_started(error)
        raise RunStopped(f"{what} failed: {reason}; what it printed is in {log}") from error


def files_below(folder: Path) -> Iterator[Path]:
    """Files in a folder and those below, without links."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def earlier(directory: RunDirectory) -> set[str]:
    """Names of what an earlier group level has made."""
    try:
        record = load_record(directory.root / RECORD, _REMEDY)
    except FileNotFoundError:
        return set()
    return set(record["files"])


def give_names(directory: RunDirectory, place: Path, made: Sequence[str]) -> None:
    """Give files their names; the record of them is there before."""
    before = earlier(directory)
    note_made(directory, made)
    for name in made:
        ready = place / MADE / name
        final = directory.out / name
        renaming.synchronise(ready)
        final.parent.mkdir(parents=True, exist_ok=True)
        ready.replace(final)
    for name in before.difference(made):
        (directory.out / name).unlink(missing_ok=True)
    for folder in sorted({(directory.out / name).parent for name in made}):
        renaming.synchronise(folder, only_names=True)
    save_record(directory.root / RECORD, {"files": sorted(made)})


def note_made(directory: RunDirectory, made: Sequence[str]) -> None:
    """Record what a group level is about to give names to, beside what earlier ones have made."""
    save_record(directory.root / RECORD, {"files": sorted({*earlier(directory), *made})})


def _require_own(directory: RunDirectory, names: Iterable[str]) -> None:
    """Raise RunStopped for files that are there and that no group level has made."""
    own = {*earlier(directory), *_made_by_runs(directory)}
    for name in names:
        if name not in own and os.path.lexists(directory.out / name):
            raise RunStopped(
                f"the group level has made {name}, which is in {directory.out} already: let it"
                " write another name, or move that file away"
            )


def _made_by_runs(directory: RunDirectory) -> Iterator[str]:
    """Names of what the group level of runs has made."""
    for folder, plan in directory.plans():
        for outcome in Tail(folder).poll():
            if outcome.task >= plan["tasks"] and outcome.status == "done":
                yield from (written.path for written in outcome.outputs)


def told(made: Sequence[str], out: Path) -> str:
    """What people read of it."""
    return f"group      {show_count(len(made), 'file')} in {out}"
