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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.containers.participants import name_of
from hyperslab.apps.bids.containers.runtimes import (
    DATA,
    OUT,
    WORK,
    Container,
    Mount,
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
RECORD = "group.json"
"Record of the files that it has made."
_REMEDY = "remove it, and the files of the group level"


@dataclass(frozen=True, slots=True)
class _Level:
    """The group level of one dataset."""

    dataset: Dataset
    home: Path
    "Folder of its derivatives."
    private: Path
    "Folder that the container writes to."
    work: Path
    labels: tuple[str, ...]
    "Labels of the participants that are asked for; () for all."

    @property
    def app_words(self) -> tuple[str, ...]:
        words = (DATA, OUT, "group")
        if not self.labels:
            return words
        return (*words, "--participant_label", *self.labels)


def run_group_in_container(
    selection: Selection, out: Path, asked: Container, allow_missing: bool = False
) -> list[str]:
    """Run the group level of an app over every dataset; names of the files that it has made, below
    the output directory.

    Raises UsageError where participants have no result, unless these may be missing, and RunStopped
    where the app has failed.
    """
    require_mountable(selection.root, os.path.abspath(out))
    _require_results(selection, out, allow_missing)
    directory = RunDirectory(out.absolute())
    with _owned(directory), _private(directory) as place:
        made = []
        for level in _levels(selection, out, place):
            made += _run(level, asked, directory)
        _give_names(directory, place, made)
    return made


def _require_results(selection: Selection, out: Path, allow_missing: bool) -> None:
    """Raise UsageError for participants that have left nothing."""
    units = (*selection.units, *selection.without_images)
    people = dict.fromkeys(unit.participant for unit in units)
    found = {one: _has_left(out / one.site, one.label) for one in people}
    missing = [one.name for one in people if not found[one]]
    require_complete(any(found.values()), missing, out, allow_missing)


def _has_left(home: Path, label: str) -> bool:
    own = re.compile(rf"{re.escape(SUBJECT + label)}([_.].*)?")
    with suppress(FileNotFoundError):
        return any(own.fullmatch(name) for name in os.listdir(home))
    return False


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


def _levels(selection: Selection, out: Path, place: Path) -> Iterator[_Level]:
    """The group levels that are asked for, with their folders."""
    labels = tuple(one.removeprefix(SUBJECT) for one in selection.asked.participant_labels)
    for number, dataset in enumerate(selection.datasets):
        home = out / dataset.site
        if not home.is_dir():
            continue
        private = place / "made" / dataset.site
        work = place / f"work-{number}"
        private.mkdir(parents=True)
        work.mkdir()
        yield _Level(dataset, home.absolute(), private, work, labels)


def _run(level: _Level, asked: Container, directory: RunDirectory) -> list[str]:
    """Run the container of a level: names of what it has made below the output directory."""
    there = _results(level.home, directory)
    for name in there:
        _make_place(level.home / name, level.private / name)
    words = asked.run_words(_mounts(level, there), str(directory.out), level.app_words)
    _execute(words, asked, level, directory)
    for name in there:
        _remove_place(level.private / name)
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
    return sorted(name for name in visible if _below(directory, home / name) not in earlier)


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


def _mounts(level: _Level, there: Sequence[str]) -> list[Mount]:
    results = [Mount(literal(str(level.home / name)), literal(f"{OUT}/{name}")) for name in there]
    return [
        Mount(literal(level.dataset.folder), DATA),
        Mount(literal(str(level.private)), OUT, is_writable=True),
        *results,
        Mount(literal(str(level.work)), WORK, is_writable=True),
    ]


def _execute(
    words: Sequence[str], asked: Container, level: _Level, directory: RunDirectory
) -> None:
    """Run the command of a container. Raises RunStopped where it fails."""
    values = {"attempt": f"group.{secrets.token_hex(6)}"}
    log = directory.root / f"{FOLDER}.log"
    before = shortage.killed()
    try:
        ended = spawner.run(
            filled(words, values, ()),
            os.getcwd(),
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
    save_record(directory.root / RECORD, {"files": sorted({*earlier, *made})})
    for name in made:
        ready = place / "made" / name
        final = directory.out / name
        renaming.synchronise(ready)
        final.parent.mkdir(parents=True, exist_ok=True)
        ready.replace(final)
    for name in earlier.difference(made):
        (directory.out / name).unlink(missing_ok=True)
    for folder in sorted({(directory.out / name).parent for name in made}):
        renaming.synchronise(folder, only_names=True)
    save_record(directory.root / RECORD, {"files": sorted(made)})


def told(made: Sequence[str], out: Path) -> str:
    """What people read of it."""
    return f"group      {show_count(len(made), 'file')} in {out}"
