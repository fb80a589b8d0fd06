"""The group level of an app in a container: one container for each dataset.

- it sees what the participants have left read-only, and writes to a folder that nobody else sees
- what it has made gets its names when it has ended well, file by file; what an earlier group level
  has made goes then

Held by tests/apps/bids/containers.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.containers.participants import name_of
from hyperslab.apps.bids.containers.runtimes import (
    Container,
    Mount,
    app_words,
    folders,
    require_mountable,
)
from hyperslab.apps.bids.dataset import SUBJECT, Dataset
from hyperslab.apps.bids.group import require_complete
from hyperslab.apps.bids.running import Selection
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import RunStopped
from hyperslab.machine import shortage, spawner
from hyperslab.machine.spawner import Refused
from hyperslab.plan.command import CommandTask
from hyperslab.plan.failing import CommandFailed, after, not_started
from hyperslab.plan.placeholders import filled, literal
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


@dataclass(frozen=True, slots=True)
class Level:
    """The group level of one dataset."""

    dataset: Dataset
    home: Path
    "Folder of its derivatives."
    private: Path
    "Folder that the container writes to."
    work: Path
    "Scratch of the container."
    labels: tuple[str, ...]
    "Labels of the participants that are asked for; () for all."


def run_group_in_container(
    selection: Selection, out: Path, asked: Container, allow_missing: bool = False
) -> list[str]:
    """Run the group level of an app over every dataset; names of the files that it has made, below
    the output directory.

    Raises UsageError where participants have no result, unless these may be missing, and RunStopped
    where the app has failed.
    """
    require_mountable(selection.root, os.path.abspath(out))
    require_results(selection, out, allow_missing)
    directory = RunDirectory(out.absolute())
    with _owned(directory), _private(directory) as place:
        made = []
        for level in levels(selection, out, place / MADE, place):
            with among_results(level, asked, directory) as words:
                _execute(words, asked, level, directory)
            made += made_by(level, directory)
        _give_names(directory, place, made)
    return made


def require_results(selection: Selection, out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants that have left nothing."""
    units = (*selection.units, *selection.without_images)
    people = dict.fromkeys(unit.participant for unit in units)
    found = {site: _that_have_left(out / site) for site in {one.site for one in people}}
    missing = [one.name for one in people if SUBJECT + one.label not in found[one.site]]
    require_complete(len(missing) < len(people), missing, out, allow_missing)


def _that_have_left(home: Path) -> set[str]:
    """Participants that something in a folder is named for, as sub-01 of sub-01_T1w.html."""
    with suppress(FileNotFoundError):
        return {_ENDS.split(name, maxsplit=1)[0] for name in os.listdir(home)}
    return set()


@contextmanager
def _owned(directory: RunDirectory) -> Iterator[None]:
    lock = directory.own()
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def _private(directory: RunDirectory) -> Iterator[Path]:
    """An empty folder, which is removed however the block ends."""
    place = directory.root / FOLDER
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        spawner.end()
        shutil.rmtree(place, ignore_errors=True)


def levels(selection: Selection, out: Path, made: Path, scratch: Path) -> Iterator[Level]:
    """The group levels that are asked for; their folders are made below `made` and `scratch`."""
    labels = tuple(one.removeprefix(SUBJECT) for one in selection.asked.participant_labels)
    for number, dataset in enumerate(selection.datasets):
        home = out / dataset.site
        if not home.is_dir():
            continue
        private = made / dataset.site
        work = scratch / f"work-{number}"
        private.mkdir(parents=True, exist_ok=True)
        work.mkdir()
        yield Level(dataset, home.absolute(), private, work, labels)


@contextmanager
def among_results(
    level: Level, asked: Container, directory: RunDirectory
) -> Iterator[tuple[str, ...]]:
    """The command that runs the container of a level, with the placeholders of commands, and what
    results are mounted on as long as the block lasts.
    """
    there = _results(level.home, directory)
    for name in there:
        _make_place(level.home / name, level.private / name)
    words = app_words("group", level.labels)
    yield asked.run_words(_mounts(level, there), str(directory.out), words)
    for name in there:
        _remove_place(level.private / name)


def made_by(level: Level, directory: RunDirectory) -> list[str]:
    """Names of what the container of a level has made, below the output directory."""
    top = level.private
    return [
        _below(directory, level.home / path.relative_to(top))
        for path in sorted(top.rglob("*"))
        if path.is_file() and not path.is_symlink()
    ]


def _results(home: Path, directory: RunDirectory) -> list[str]:
    """Names in a folder of what participants have left."""
    earlier = _earlier(directory)
    visible = [name for name in os.listdir(home) if not name.startswith(".")]
    return sorted(name for name in visible if _is_left(home / name, directory, earlier))


def _is_left(path: Path, directory: RunDirectory, earlier: Collection[str]) -> bool:
    """Whether something is not the work of an earlier group level alone."""
    if not path.is_dir():
        return _below(directory, path) not in earlier
    files = (one for one in path.rglob("*") if not one.is_dir())
    return any(_below(directory, one) not in earlier for one in files)


def _below(directory: RunDirectory, path: Path) -> str:
    return path.relative_to(directory.out).as_posix()


def _make_place(there: Path, here: Path) -> None:
    """Make what a result is mounted on."""
    if there.is_dir():
        here.mkdir()
    else:
        here.touch()


def _remove_place(here: Path) -> None:
    """Remove what a result was mounted on."""
    if here.is_dir():
        here.rmdir()
    else:
        here.unlink()


def _mounts(level: Level, there: Sequence[str]) -> list[Mount]:
    data = literal(level.dataset.folder)
    private = literal(str(level.private))
    work = literal(str(level.work))
    results = {literal(name): literal(str(level.home / name)) for name in there}
    return folders(data, private, work, in_out=results)


def _execute(words: Sequence[str], asked: Container, level: Level, directory: RunDirectory) -> None:
    """Run the command of a container. Raises RunStopped where it fails."""
    values = {"attempt": f"group.{secrets.token_hex(6)}", "work": str(level.work)}
    log = directory.root / f"{FOLDER}.log"
    before = shortage.killed()
    try:
        ended = spawner.run(
            filled(words, values, ()),
            values["work"],
            os.environ,
            str(log),
            None,
            lambda: None,
            filled(asked.remove_words(), values, ()),
        )
        if ended.status:
            raise after(CommandTask(FOLDER, tuple(words)), ended, None, shortage.killed() > before)
    except (Refused, CommandFailed) as error:
        reason = error
        if isinstance(error, Refused):
            reason = not_started(error)
        raise RunStopped(
            f"the group level of {name_of(asked.image)} over {level.dataset.folder} failed:"
            f" {reason}; what it printed is in {log}"
        ) from error


def _earlier(directory: RunDirectory) -> set[str]:
    """Names of what an earlier group level has made."""
    try:
        record = load_record(directory.root / RECORD, _REMEDY)
    except FileNotFoundError:
        return set()
    return set(record["files"])


def _give_names(directory: RunDirectory, place: Path, made: Sequence[str]) -> None:
    """Give files their names; the record of them is there before."""
    earlier = _earlier(directory)
    note_made(directory, made)
    for name in made:
        ready = place / MADE / name
        final = directory.out / name
        renaming.synchronise(ready)
        final.parent.mkdir(parents=True, exist_ok=True)
        ready.replace(final)
    for name in earlier.difference(made):
        (directory.out / name).unlink(missing_ok=True)
    for folder in sorted({(directory.out / name).parent for name in made}):
        renaming.synchronise(folder, only_names=True)
    save_record(directory.root / RECORD, {"files": sorted(made)})


def note_made(directory: RunDirectory, made: Sequence[str]) -> None:
    """Record what a group level is about to give names to, beside what earlier ones have made."""
    save_record(directory.root / RECORD, {"files": sorted({*_earlier(directory), *made})})


def told(made: Sequence[str], out: Path) -> str:
    """What people read of it."""
    return f"group      {show_count(len(made), 'file')} in {out}"
